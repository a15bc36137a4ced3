"""``config.toml`` as people change it: one key, or in their editor; for all, or (``root``) for the project with that root.

What would be written is read as settings first, so an invalid text never takes the place of a file, and the file is at
each moment the old one or the new one.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from openoxide.errors import ConflictError, FailedError, OpenOxideError, RefusedError, UsageError
from openoxide.fileio import read_regular, replace_file, write_errors
from openoxide.knobs import KNOBS, UNITS, allowed
from openoxide.ownership import require_ours
from openoxide.paths import Home
from openoxide.settings import (
    NOT_BUILT,
    PROJECT,
    Given,
    Settings,
    Value,
    Values,
    fits,
    flat,
    is_root,
    parse_given,
    parse_settings,
    read_text,
)

# more digits than any bound lets through; int() itself refuses thousands of them (sys.set_int_max_str_digits)
_QUANTITY = re.compile(r"([0-9]{1,16})\s*([A-Za-z]*)")
# one of no bytes is what a full disk leaves, and is not believed (openoxide.taken)
_NOTHING = b"\n"

DEFAULT, FILE, OWN = "default", "file", "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One setting as it holds. ``source``: DEFAULT, FILE (it stands there for all) or OWN (for this project)."""

    key: str
    value: Value
    default: Value
    source: str

    @property
    def given(self) -> bool:
        """Whether it stands in the file."""
        return self.source != DEFAULT


def entries(home: Home, root: str | None = None) -> list[Entry]:
    """Every setting that is known. Raises UsageError where the file is wrong."""
    return _entries(_given(home), root)


def _entries(given: Given, root: str | None) -> list[Entry]:
    own = given.projects.get(root, {}) if root is not None else {}
    return [_entry(key, default, given.values, own) for key, default in flat(Settings()).items()]


def _entry(key: str, default: Value, values: Values, own: Values) -> Entry:
    source = OWN if key in own else FILE if key in values else DEFAULT
    return Entry(key=key, value=own.get(key, values.get(key, default)), default=default, source=source)


def overrides(home: Home) -> dict[str, list[Entry]]:
    """What projects have of their own, by root. Raises UsageError where the file is wrong."""
    given = _given(home)
    return {root: [entry for entry in _entries(given, root) if entry.source == OWN] for root in sorted(given.projects)}


def entry(home: Home, key: str, root: str | None = None) -> Entry:
    """One setting. Raises UsageError for a key that is not known."""
    require_known(key)
    return next(found for found in entries(home, root) if found.key == key)


def _given(home: Home) -> Given:
    return parse_given(read_text(home.config) or "", home.config)


def require_known(key: str) -> None:
    """Raises UsageError for a key that is not known, FailedError for one that nothing honours yet."""
    known = flat(Settings())
    # before the known keys, which it is not among: it would be called a mistake in spelling
    if key in NOT_BUILT:
        raise FailedError(f"{key} is not built yet", hint="`oxide-ctl config list` shows what can be set")
    if key not in known:
        similar = _similar(key, known)
        hint = f"did you mean {' or '.join(similar)}?" if similar else "`oxide-ctl config list` shows what can be set"
        raise UsageError(f"there is no setting {key!r}", hint=hint)


def _similar(key: str, known: Iterable[str]) -> list[str]:
    """The known keys that ``key`` is a slip of the pen for, by their last words: sections alone make nothing alike."""
    last = {name: name.rpartition(".")[2] for name in known}
    word = key.rpartition(".")[2]
    close = [word] if word in last.values() else get_close_matches(word, last.values(), cutoff=0.75)
    return [name for name in last if last[name] in close or (word and last[name].startswith(word))]


def parse_value(key: str, words: Sequence[str]) -> Value:
    """What ``words`` are as the value of a known ``key``, in its unit: ``30d`` is 30 for one in days, ``20MB`` 20,000,000
    for one in bytes. Of a list each word is an item, and a single empty one means none. Raises UsageError.
    """
    # a list first: its items are the user's own words, whatever unit they look like
    if isinstance(flat(Settings())[key], tuple):
        # the command line needs a way to say "no items", and takes no option for it
        items = () if list(words) == [""] else tuple(words)
        if not fits(key, items):
            raise UsageError(f"{' '.join(words)!r} is not a value of {key}", hint=allowed(key))
        return items
    if KNOBS[key].words:
        if len(words) != 1 or not fits(key, words[0]):
            raise UsageError(f"{' '.join(words)!r} is not a value of {key}", hint=f"it takes {allowed(key)}")
        return words[0]
    unit = key.rpartition("_")[2]
    units = UNITS.get(unit, {})
    found = _QUANTITY.fullmatch(words[0]) if len(words) == 1 else None
    if found is None or (found[2] and found[2].lower() not in units):
        hint = f"it takes {allowed(key)}" + (f", or one with a unit: {', '.join(units)}" if units else "")
        raise UsageError(f"{' '.join(words)!r} is not a value of {key}", hint=hint)
    value = int(found[1]) * (units[found[2].lower()] if found[2] else 1)
    if not fits(key, value):
        raise UsageError(f"{words[0]!r} is too {_which(key, value)} for {key}", hint=f"it takes {allowed(key)}")
    return value


def _which(key: str, value: int) -> str:
    return "much" if value > KNOBS[key].most else "little"


def change(home: Home, key: str, words: Sequence[str], root: str | None = None) -> tuple[Entry, Entry]:
    """Set a key, keeping everything else in the file; the setting before and after. Raises UsageError, also where the
    file was wrong already: then nothing is written.
    """
    _require_settable(key, root)
    value = parse_value(key, words)
    return _changed(home, key, root, value)


def unset(home: Home, key: str, root: str | None = None) -> tuple[Entry, Entry]:
    """Take a key out of the file, so that the default (of a project: what holds for all) counts again; the setting before
    and after. Nothing happens where it is not there.
    """
    _require_settable(key, root)
    return _changed(home, key, root, None)


def _require_settable(key: str, root: str | None) -> None:
    require_known(key)
    if root is None:
        return
    if KNOBS[key].whole:
        raise UsageError(f"{key} is one for all projects", hint="leave --project out")
    if not is_root(root) or not root.isprintable():
        raise FailedError(f"{root!r} cannot be named in config.toml", hint="give the project a path of printable text")


def _changed(home: Home, key: str, root: str | None, value: Value | None) -> tuple[Entry, Entry]:
    # before the lock, which makes the home where there is none
    require_ours(home)
    _refuse_link(home)
    with _locked(home):
        # under the lock: of two at a time neither takes the other's key out (tests/openoxide/test_config.py)
        before = entry(home, key, root)
        text = (_read(home) or b"").decode()
        changed = _with(text, key, root, value)
        # the reader of the settings has the last word before anything is replaced
        # (docs/design/003-everyday-commands.md)
        given = parse_given(changed, home.config)
        if (given.values if root is None else given.projects.get(root, {})).get(key) != value:
            raise FailedError(f"{key} cannot be set in this file", hint="use `oxide-ctl config edit`")
        if changed != text:
            with write_errors("config.toml"):
                replace_file(home.config, changed.encode() or _NOTHING)
        return before, entry(home, key, root)


def edit(home: Home, run_editor: Callable[[Path], None]) -> bool:
    """Let ``run_editor`` change a copy and take that over if it is valid; whether anything changed. The last text that was
    not taken over is kept in the home, and the error says so. ``run_editor`` raises OpenOxideError where it fails.
    """
    require_ours(home)
    _refuse_link(home)
    before = _read(home)
    start = _template().encode() if before is None else before
    with write_errors("a copy of config.toml"):
        folder = Path(tempfile.mkdtemp(prefix="oxide-config-"))  # not in the home, where a killed run's would pile up
        copy = folder / home.config.name
        replace_file(copy, start)
    try:
        run_editor(copy)
        after = _edited(copy)
        if after != start:
            _take_over(home, before, after)
    # Ctrl-C in the editor too: what was typed is never thrown away (tests/faults/test_everyday.py)
    except BaseException as error:
        kept = _keep(home, copy, start)
        if kept is not None and isinstance(error, OpenOxideError):
            error.hint = f"config.toml is as it was; what you wrote is in {kept}"
        # else the home could not take it, and the copy is the only one there is
        if kept != copy:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return after != start


def _edited(copy: Path) -> bytes:
    try:
        return read_regular(copy, follow=False)
    except OSError as error:
        raise FailedError("the editor left no regular file behind", hint="config.toml is as it was") from error


def _keep(home: Home, copy: Path, start: bytes) -> Path | None:
    """Where the text is that was not taken over, None where nothing was written: in the home, in place of the one
    before; where that cannot be written, in ``copy`` as it is.
    """
    try:
        written = _edited(copy)
    except FailedError:
        return None
    if written == start:
        return None
    try:
        with _locked(home):
            replace_file(home.rejected_config, written)
    except (OSError, OpenOxideError):
        return copy
    return home.rejected_config


def _take_over(home: Home, before: bytes | None, after: bytes) -> None:
    try:
        # before the lock: nobody has to wait for a text that is not taken over
        parse_settings(after.decode(), home.config)
    except UnicodeDecodeError as error:
        raise UsageError(f"{home.config} is not valid TOML: {error}") from error
    with _locked(home):
        # the editor was open for minutes without the lock: another `config set` may have come in between
        if _read(home) != before:
            raise ConflictError("config.toml was changed by somebody else meanwhile")
        with write_errors("config.toml"):
            replace_file(home.config, after or _NOTHING)


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    """Nobody else changes the file meanwhile. The lock is on the folder: the file itself is replaced."""
    with write_errors("config.toml"):
        home.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # closing the descriptor gives the lock back, whatever ends us (flock(2))
    fd = os.open(home.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _read(home: Home) -> bytes | None:
    try:
        return read_regular(home.config)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FailedError(f"{home.config} cannot be read: {error.strerror}", hint="check what it is") from error


def _refuse_link(home: Home) -> None:
    # a rename would put a file in the link's place, and what it leads to would stay as it was (rename(2))
    if home.config.is_symlink():
        hint = "change the file that it leads to"
        raise RefusedError(f"{home.config} is a link, and nothing is written through one", hint=hint)


def _with(text: str, key: str, root: str | None, value: Value | None) -> str:
    """``text`` with ``value`` for ``key``, or without the key."""
    import tomlkit  # noqa: PLC0415 only a change needs it, and reading is what is done often
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    *sections, name = key.split(".")
    names = sections if root is None else [PROJECT, root, *sections]
    try:
        document = tomlkit.parse(text)
        table: MutableMapping[str, Any] = document
        above: list[tuple[MutableMapping[str, Any], str]] = []
        for number, section in enumerate(names, 1):
            if section not in table:
                if value is None:
                    return text
                # a table of tables alone needs no line of its own
                table[section] = tomlkit.table(is_super_table=number < len(names))
            above.append((table, section))
            table = table[section]
            assert isinstance(table, dict), "the settings were read from this text"
        if value is not None:
            table[name] = list(value) if isinstance(value, tuple) else value
        elif name in table:
            del table[name]
            _drop_empty(above)
        else:
            return text
        return tomlkit.dumps(document)
    except TOMLKitError as error:
        raise FailedError(f"{key} cannot be set in this file: {error}", hint="use `oxide-ctl config edit`") from error


def _drop_empty(above: list[tuple[MutableMapping[str, Any], str]]) -> None:
    """Take out the tables that hold nothing any more, the innermost first; a comment is something."""
    for holder, section in reversed(above):
        table = holder[section]
        if table.as_string().strip() or table.trivia.comment:
            return
        del holder[section]


def _template() -> str:
    """What somebody gets to edit who has no file yet: every key with its default, as a comment, and why one would turn it."""
    lines = ["# Settings of OpenOxide. A key that is left out has its default, as shown here.", *_OWN_HELP]
    section = ""
    for key, value in flat(Settings()).items():
        head, _, name = key.rpartition(".")
        if head != section:
            section = head
            lines += ["", f"[{section}]"]
        lines += textwrap.wrap(KNOBS[key].why, 110, initial_indent="## ", subsequent_indent="## ")
        lines.append(f"# {name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(list(value) if isinstance(value, tuple) else value)


_OWN_HELP = ['## A project may have its own: [project."/path/of/its/root".retention], and below it ttl_days = 90.']
