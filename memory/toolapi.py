"""The six commands of Anthropic's memory tool, with its answers, on a project's memory. ``/memories`` is the memory's folder.

A model has learned these sentences, so they are kept to the letter; what they know no sentence for (a secret, a name that is
none) is said in the same form. Writes go the way of all our writes: nothing of anybody else's is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from openoxide.errors import ConflictError, NotFoundError, OpenOxideError
from openoxide.memory.directory import Listing
from openoxide.memory.editing import ABSENT, Insert, Replace, lines_of, occurrences, to_bytes
from openoxide.memory.naming import parts_of
from openoxide.memory.topics import Memory

ROOT = "/memories"
MOST_VIEW, MOST_LINES = 16_000, 999_999
NUMBER_WIDTH, AROUND = 6, 2
LEVELS = 2


class Answer(NamedTuple):
    """What the tool result holds."""

    text: str
    is_error: bool = False


class _RefusedCommandError(Exception):
    """The message is the answer."""


class MemoryTool:
    """Answers the commands of one agent's memory tool."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._commands: dict[str, Callable[[Mapping[str, Any]], str]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }

    def run(self, command: Mapping[str, Any]) -> Answer:
        """The answer to a tool call's input. Raises nothing that a user could mend: that is an answer too."""
        name = command.get("command")
        act = self._commands.get(name) if isinstance(name, str) else None
        if act is None:
            return Answer(f"Error: Unknown command: {name}. It is one of {', '.join(self._commands)}", is_error=True)
        try:
            return Answer(act(command))
        except _RefusedCommandError as error:
            return Answer(str(error), is_error=True)
        except OpenOxideError as error:
            return Answer(f"Error: {error.message}" + (f" ({error.hint})" if error.hint else ""), is_error=True)

    def _view(self, command: Mapping[str, Any]) -> str:
        path = _text(command, "path")
        name = _name(path)
        if name and self._is_file(name):
            return self._view_file(path, name, command.get("view_range"))
        listing = self._memory.listing()
        if name and name not in listing.folders:
            raise _missing(path, "Please provide a valid path.")
        if command.get("view_range") is not None:
            raise _RefusedCommandError(
                "Error: The `view_range` parameter is not allowed when `path` points to a directory."
            )
        lines = _listed(listing, name)
        head = f"Here're the files and directories up to {LEVELS} levels deep in {path}, excluding hidden items and node_modules:"
        return "\n".join([head, *lines])

    def _view_file(self, path: str, name: str, wanted: Any) -> str:
        lines = self._shown(name).split("\n")
        if len(lines) > MOST_LINES:
            raise _RefusedCommandError(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = _range(wanted, len(lines))
        text = "\n".join(_numbered(lines[first - 1 : last], first))
        if len(text) > MOST_VIEW:
            text = text[:MOST_VIEW] + f"\n... cut at {MOST_VIEW} characters; use `view_range` to see the rest"
        return f"Here's the content of {path} with line numbers:\n{text}"

    def _shown(self, name: str) -> str:
        """A file as a model may see it: a secret that somebody else wrote is not repeated, bytes that are no text are U+FFFD."""
        return self._memory.clean(to_bytes(self._memory.read(name).text).decode("utf-8", "replace"))

    def _create(self, command: Mapping[str, Any]) -> str:
        path, text = _text(command, "path"), _text(command, "file_text")
        name = _name(path)
        if not name:
            raise _RefusedCommandError(f"Error: {path} is a directory")
        try:
            self._memory.write(name, text, expect=ABSENT)
        except ConflictError as error:
            raise _RefusedCommandError(f"Error: File {path} already exists") from error
        return f"File created successfully at: {path}"

    def _str_replace(self, command: Mapping[str, Any]) -> str:
        path, old, new = _text(command, "path"), _text(command, "old_str"), str(command.get("new_str") or "")
        name = self._existing(path, "Please provide a valid path.")
        text = self._memory.read(name).text
        places = occurrences(text, old)
        if not places:
            raise _RefusedCommandError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if len(places) > 1:
            lines = ", ".join(map(str, places))
            raise _RefusedCommandError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        self._memory.edit(name, Replace(old=old, new=new))
        edited = self._shown(name).split("\n")
        first = max(1, places[0] - AROUND)
        snippet = "\n".join(_numbered(edited[first - 1 : places[0] + new.count("\n") + AROUND], first))
        return (
            f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        )

    def _insert(self, command: Mapping[str, Any]) -> str:
        path, text, line = _text(command, "path"), _text(command, "insert_text"), command.get("insert_line")
        name = self._existing(path)
        count = len(lines_of(self._memory.read(name).text))
        if isinstance(line, bool) or not isinstance(line, int) or not 0 <= line <= count:
            raise _RefusedCommandError(
                f"Error: Invalid `insert_line` parameter: {line}. "
                f"It should be within the range of lines of the file: [0, {count}]"
            )
        self._memory.edit(name, Insert(line=line, text=text))
        return f"The file {path} has been edited."

    def _delete(self, command: Mapping[str, Any]) -> str:
        path = _text(command, "path")
        name = _name(path)
        if not name:
            raise _RefusedCommandError(f"Error: Cannot delete the {ROOT} directory itself")
        try:
            if self._is_file(name):
                self._memory.delete(name, expect=self._memory.read(name).sha256)
            else:
                self._memory.delete_folder(name)
        except NotFoundError as error:
            raise _missing(path) from error
        return f"Successfully deleted {path}"

    def _rename(self, command: Mapping[str, Any]) -> str:
        old, new = _text(command, "old_path"), _text(command, "new_path")
        from_name, to_name = _name(old), _name(new)
        if not from_name or not to_name:
            raise _RefusedCommandError(f"Error: Cannot rename the {ROOT} directory itself")
        try:
            self._memory.rename(from_name, to_name)
        except NotFoundError as error:
            raise _missing(old) from error
        except ConflictError as error:
            raise _RefusedCommandError(f"Error: The destination {new} already exists") from error
        return f"Successfully renamed {old} to {new}"

    def _is_file(self, name: str) -> bool:
        parts_of(name)
        return name in self._memory.listing().names

    def _existing(self, path: str, more: str = "") -> str:
        name = _name(path)
        if not name or not self._is_file(name):
            raise _missing(path, more)
        return name


def _missing(path: str, more: str = "") -> _RefusedCommandError:
    # the two forms are the tool's own
    if more:
        return _RefusedCommandError(f"The path {path} does not exist. {more}")
    return _RefusedCommandError(f"Error: The path {path} does not exist")


def _text(command: Mapping[str, Any], key: str) -> str:
    value = command.get(key)
    if not isinstance(value, str):
        raise _RefusedCommandError(f"Error: The `{key}` parameter is required and is a text")
    return value


def _name(path: str) -> str:
    """The name of a file or folder below the memory, empty for the memory itself."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise _RefusedCommandError(f"Error: Path must start with {ROOT}, got: {path}")
    name = path[len(ROOT) + 1 :].removesuffix("/")
    return "/".join(parts_of(name)) if name else ""


def _range(wanted: Any, count: int) -> tuple[int, int]:
    if wanted is None:
        return 1, count
    # to Python `true` is the number 1
    is_pair = isinstance(wanted, list) and len(wanted) == 2 and all(type(one) is int for one in wanted)
    first, last = wanted if is_pair else (0, 0)
    last = count if last == -1 else last
    if not 1 <= first <= last or first > count:
        raise _RefusedCommandError(
            f"Error: Invalid `view_range` parameter: {wanted}. It should be within the range of lines of the file: [1, {count}]"
        )
    return first, min(last, count)


def _numbered(lines: list[str], first: int) -> list[str]:
    return [f"{at:>{NUMBER_WIDTH}}\t{line}" for at, line in enumerate(lines, first)]


def _listed(listing: Listing, below: str) -> list[str]:
    """The folder itself, then what is in it, two levels deep; a folder is as large as what is in it."""
    sizes = {file.name: file.size for file in listing.files}
    for folder in ("", *listing.folders):
        sizes[folder] = sum(file.size for file in listing.files if not folder or file.name.startswith(f"{folder}/"))
    prefix = f"{below}/" if below else ""
    inside = [
        name
        for name in sizes
        if name.startswith(prefix)
        and name not in ("", below)
        and name.removeprefix(prefix).count("/") < LEVELS
        and "node_modules" not in name.split("/")
    ]
    folders = set(listing.folders)
    return [
        f"{_size(sizes[below])}\t{ROOT}{'/' + below if below else ''}",
        *(f"{_size(sizes[name])}\t{ROOT}/{name}{'/' if name in folders else ''}" for name in sorted(inside)),
    ]


def _size(count: int) -> str:
    """``0B``, ``512B``, ``1.5K``, ``4K``."""
    size, unit = float(count), 0
    while size >= 1024 and unit < 3:
        size, unit = size / 1024, unit + 1
    return f"{int(size) if size == int(size) else f'{size:.1f}'}{'BKMG'[unit]}"
