"""``config.toml`` as people change it: one key, or in their editor. What would be written is read as settings first, so an
invalid text never takes the place of a file, and the file is at each moment the old one or the new one.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from openoxide.errors import ConflictError, FailedError, OpenOxideError, RefusedError, UsageError
from openoxide.fileio import read_regular, replace_file, write_errors
from openoxide.ownership import require_ours
from openoxide.paths import Home
from openoxide.settings import NOT_BUILT, Settings, Value, flat, load_settings, most, parse_settings

_UNITS: Mapping[str, Mapping[str, int]] = {
    "ms": {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000},
    "days": {"d": 1, "w": 7},
    "bytes": {
        "b": 1,
        **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
        **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
    },
}
# more digits than any bound lets through; int() itself refuses thousands of them (sys.set_int_max_str_digits)
_QUANTITY = re.compile(r"([0-9]{1,15})\s*([A-Za-z]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One setting. ``given``: it stands in the file."""

    key: str
    value: Value
    default: Value
    given: bool


def entries(home: Home) -> list[Entry]:
    """Every setting that is known. Raises UsageError where the file is wrong."""
    values = flat(load_settings(home.config))
    given = _given((_read(home) or b"").decode())
    return [
        Entry(key=key, value=values[key], default=default, given=key in given)
        for key, default in flat(Settings()).items()
    ]


def entry(home: Home, key: str) -> Entry:
    """One setting. Raises UsageError for a key that is not known."""
    require_known(key)
    return next(found for found in entries(home) if found.key == key)


def require_known(key: str) -> None:
    """Raises UsageError for a key that is not known, FailedError for one that nothing honours yet."""
    known = flat(Settings())
    # before the known keys, which it is not among: it would be called a mistake in spelling
    if key in NOT_BUILT:
        raise FailedError(f"{key} is not built yet", hint="`oxide-ctl config list` shows what can be set")
    if key not in known:
        similar = get_close_matches(key, known)
        hint = f"did you mean {' or '.join(similar)}?" if similar else "`oxide-ctl config list` shows what can be set"
        raise UsageError(f"there is no setting {key!r}", hint=hint)


def parse_value(key: str, words: Sequence[str]) -> Value:
    """What ``words`` are as the value of a known ``key``, in its unit: ``30d`` is 30 for one in days, ``20MB`` 20,000,000
    for one in bytes. Of a list each word is an item, and a single empty one means none. Raises UsageError.
    """
    # a list first: its items are the user's own words, whatever unit they look like
    if isinstance(flat(Settings())[key], tuple):
        # the command line needs a way to say "no items", and takes no option for it
        return () if list(words) == [""] else tuple(words)
    unit = key.rpartition("_")[2]
    units = _UNITS.get(unit, {})
    found = _QUANTITY.fullmatch(words[0]) if len(words) == 1 else None
    if found is None or (found[2] and found[2].lower() not in units):
        hint = f"a whole number of {unit}" + (f", or one with a unit: {', '.join(units)}" if units else "")
        raise UsageError(f"{' '.join(words)!r} is not a value of {key}", hint=hint)
    value = int(found[1]) * (units[found[2].lower()] if found[2] else 1)
    if value > most(key):
        raise UsageError(f"{words[0]!r} is too much for {key}", hint=f"at most {most(key)} {unit}")
    return value


def spelled(key: str, value: Value) -> str:
    """``value`` in the largest unit that holds it exactly, as :func:`parse_value` takes it: ``100MiB``, ``2s``, ``30d``. Of
    a list its items. Pure.
    """
    if isinstance(value, tuple):
        return " ".join(value)
    units = {name: factor for name, factor in _UNITS.get(key.rpartition("_")[2], {}).items() if name != "w"}
    fitting = [name for name, factor in units.items() if value and value % factor == 0]
    if not fitting:
        return str(value)
    unit = max(fitting, key=units.__getitem__)
    return f"{value // units[unit]}{unit.upper().replace('IB', 'iB') if unit.endswith('b') else unit}"


def change(home: Home, key: str, words: Sequence[str]) -> tuple[Entry, Entry]:
    """Set a key, keeping everything else in the file; the setting before and after. Raises UsageError, also where the
    file was wrong already: then nothing is written.
    """
    require_known(key)
    value = parse_value(key, words)
    # before the lock, which makes the home where there is none
    require_ours(home)
    _refuse_link(home)
    with _locked(home):
        # under the lock: of two at a time neither takes the other's key out (tests/openoxide/test_config.py)
        before = entry(home, key)
        text = (_read(home) or b"").decode()
        changed = _with(text, key, value)
        # the reader of the settings has the last word before anything is replaced
        # (docs/design/003-everyday-commands.md)
        if flat(parse_settings(changed, home.config))[key] != value:
            raise FailedError(f"{key} cannot be set in this file", hint="use `oxide-ctl config edit`")
        if changed != text:
            with write_errors("config.toml"):
                replace_file(home.config, changed.encode())
        return before, entry(home, key)


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
            replace_file(home.config, after)


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


def _given(text: str) -> set[str]:
    return _keys("", tomllib.loads(text))


def _keys(prefix: str, table: Mapping[str, object]) -> set[str]:
    found: set[str] = set()
    for name, value in table.items():
        found |= _keys(f"{prefix}{name}.", value) if isinstance(value, dict) else {prefix + name}
    return found


def _with(text: str, key: str, value: Value) -> str:
    import tomlkit  # noqa: PLC0415 only a change needs it, and reading is what is done often
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    *sections, name = key.split(".")
    try:
        document = tomlkit.parse(text)
        table: MutableMapping[str, Any] = document
        for section in sections:
            if section not in table:
                table[section] = tomlkit.table()
            table = table[section]
            assert isinstance(table, dict), "the settings were read from this text"
        table[name] = list(value) if isinstance(value, tuple) else value
        return tomlkit.dumps(document)
    except TOMLKitError as error:
        raise FailedError(f"{key} cannot be set in this file: {error}", hint="use `oxide-ctl config edit`") from error


def _template() -> str:
    """What somebody gets to edit who has no file yet: every key with its default, as a comment."""
    lines = ["# Settings of OpenOxide. A key that is left out has its default, as shown here."]
    section = ""
    for key, value in flat(Settings()).items():
        head, _, name = key.rpartition(".")
        if head != section:
            section = head
            lines += ["", f"[{section}]"]
        lines.append(f"# {name} = {list(value) if isinstance(value, tuple) else value}")
    return "\n".join(lines) + "\n"
