"""What the tests of several rooms share: waiting, a clock to set, and an oracle for directory trees.

Nothing here imports the product: an oracle that shared its code would share its mistakes.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

POLL_S = 0.002
FEW = 4

T = TypeVar("T")


def effort(number: int) -> int:
    """How many examples or points a test tries: ``number`` with OXIDE_THOROUGH in the environment, as in CI; half of it
    otherwise, but not less than a few.
    """
    return number if os.environ.get("OXIDE_THOROUGH") else min(number, max(FEW, number // 2))


def wait_until(predicate: Callable[[], T], deadline_s: float) -> T:
    """The first true answer of ``predicate``; AssertionError if there is none by the deadline.

    For what another process does. Inside one process wait on the event itself: ``Event.wait``, ``Condition.wait_for``.
    """
    ends = time.monotonic() + deadline_s
    never = threading.Event()
    while True:
        # The clock is read first: a predicate that was slow, or a machine that was, gets one more look.
        late = time.monotonic() >= ends
        if answer := predicate():
            return answer
        if late:
            raise AssertionError(f"not within {deadline_s:g} s: {_described(predicate)}")
        never.wait(POLL_S)


def _described(predicate: Callable[[], object]) -> str:
    code = getattr(predicate, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{getattr(predicate, '__qualname__', predicate)}{where}"


class FakeClock:
    """A clock (``openoxide.clock.Clock``) that stands still until the test moves it."""

    def __init__(self, now_ms: int = 1_800_000_000_000, boot_ms: int = 1_000_000, boot_id: str = "boot-1") -> None:
        self.wall = now_ms
        self.up = boot_ms
        self.asleep = 0
        self.boot = boot_id
        self.kept = False

    def now_ms(self) -> int:
        return self.wall

    def boot_ms(self) -> int:
        return self.up

    def awake_ms(self) -> int:
        return self.up - self.asleep

    def boot_id(self) -> str:
        return self.boot

    def synchronised(self) -> bool:
        return self.kept

    def sleep(self, ms: int) -> None:
        """The machine is suspended for so long."""
        self.advance(ms)
        self.asleep += ms

    def advance(self, ms: int) -> None:
        """Time passes. A clock that is set or a machine that boots again is an assignment to ``wall``, ``up``, ``boot``."""
        self.wall += ms
        self.up += ms


Description = tuple[object, ...]


def tree_of(root: Path | bytes, skip: Collection[bytes] = ()) -> dict[bytes, Description]:
    """What stands below ``root``, by relative path; ``root`` itself is not described.

    ``("file", mode, mtime_ns, content)``, content None where it may not be read; ``("dir", mode)``;
    ``("link", target)``; ``("fifo" | "socket" | "char" | "block", mode)``. Modes have twelve bits. Links are not
    followed. Entries with a name in ``skip`` are left out, wherever they are.
    """
    found: dict[bytes, Description] = {}
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _describe(folder, b"", skip, found)
    finally:
        os.close(folder)
    return found


# Relative to descriptors: a tree may be deeper than a path can be long.
def _describe(folder: int, prefix: bytes, skip: Collection[bytes], found: dict[bytes, Description]) -> None:
    for name in sorted(os.fsencode(entry) for entry in os.listdir(folder)):
        if name in skip:
            continue
        path = prefix + name
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        found[path] = _description(folder, name, info)
        if stat.S_ISDIR(info.st_mode):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                _describe(inner, path + b"/", skip, found)
            finally:
                os.close(inner)


def _description(folder: int, name: bytes, info: os.stat_result) -> Description:
    mode = stat.S_IMODE(info.st_mode)
    match stat.S_IFMT(info.st_mode):
        case stat.S_IFREG:
            return "file", mode, info.st_mtime_ns, _content(folder, name)
        case stat.S_IFDIR:
            return "dir", mode
        case stat.S_IFLNK:
            return "link", os.readlink(name, dir_fd=folder)
        case special:
            kinds = {stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "char", stat.S_IFBLK: "block"}
            return kinds[special], mode


def _content(folder: int, name: bytes) -> bytes | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    except PermissionError:
        return None
    with open(descriptor, "rb") as file:
        return file.read()


def diff_trees(a: dict[bytes, Description], b: dict[bytes, Description]) -> list[str]:
    """How ``b`` differs from ``a``, a line for each path, for an assertion's message; empty if it does not."""
    return [_difference(path, a.get(path), b.get(path)) for path in sorted(a | b) if a.get(path) != b.get(path)]


def _difference(path: bytes, a: Description | None, b: Description | None) -> str:
    shown = repr(path)[2:-1]
    if a is None or b is None:
        return f"{shown}: {'gone' if b is None else 'new'}: {(a or b or ('',))[0]}"
    if a[0] != b[0] or a[0] == "link":
        return f"{shown}: {_brief(a)} became {_brief(b)}"
    return f"{shown}: " + ", ".join(_parts(a, b))


def _brief(what: Description) -> str:
    return f"{what[0]} to {what[1]!r}" if what[0] == "link" else str(what[0])


def _parts(a: Description, b: Description) -> list[str]:
    parts = [f"mode {a[1]:#o} became {b[1]:#o}"] if a[1] != b[1] else []
    if a[0] == "file" and a[2] != b[2]:
        parts.append(f"mtime {a[2]} became {b[2]}")
    if a[0] == "file" and a[3] != b[3]:
        parts.append(_contents(a[3], b[3]))
    return parts


def _contents(a: object, b: object) -> str:
    if not isinstance(a, bytes) or not isinstance(b, bytes):
        return "content can no longer be read" if b is None else "content can be read now"
    same = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    here = slice(same, same + 20)
    return f"content differs from byte {same} on ({len(a)} bytes, then {len(b)}): {a[here]!r} became {b[here]!r}"
