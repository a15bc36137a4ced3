"""States, writers and whole trees of them, for tests of what decides about states."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import ABSENT, Certainty, FileState, Kind, SkipReason, Version, Writer, skipped

States = dict[bytes, FileState]

MINE, OTHER = 1, 2
LIKELY = Writer(certainty=Certainty.LIKELY, windows=frozenset({MINE}))
SURE = Writer(certainty=Certainty.SURE, windows=frozenset({MINE}))
SOMEONE = Writer(certainty=Certainty.LIKELY, windows=frozenset({OTHER}))
SHARED = Writer(certainty=Certainty.SHARED, windows=frozenset({MINE, OTHER}))
UNKNOWN = Writer(certainty=Certainty.UNKNOWN)
OPERATION = Writer(certainty=Certainty.OPERATION, operation=9)


def file(content: bytes = b"", mode: int = 0o644, mtime_ns: int = 1, **more: bool) -> FileState:
    return FileState(kind=Kind.FILE, mode=mode, size=len(content), mtime_ns=mtime_ns, blob=blob_hash(content), **more)


def folder(mode: int = 0o755) -> FileState:
    return FileState(kind=Kind.DIRECTORY, mode=mode)


def link(target: bytes = b"a") -> FileState:
    return FileState(kind=Kind.SYMLINK, size=len(target), target=target)


def special(what: bytes = b"fifo", mode: int = 0o600) -> FileState:
    return FileState(kind=Kind.SPECIAL, mode=mode, target=what)


TOO_LARGE = skipped(SkipReason.TOO_LARGE, 5)
DEPENDENCIES = skipped(SkipReason.DEPENDENCIES)


def versions(*rows: tuple[FileState, Writer], path: bytes = b"f") -> tuple[Version, ...]:
    return tuple(
        Version(path=path, seq=seq, state=state, writer=writer) for seq, (state, writer) in enumerate(rows, start=1)
    )


leaves = st.sampled_from(
    [file(b"1"), file(b"1", 0o755), file(b"22"), file(b"1", 0o644, 2), link(b"a"), link(b"b"), special(), TOO_LARGE]
)
folders = st.sampled_from([folder(), folder(0o700), folder(0o500)])
names = st.sampled_from([b"a", b"b", b"c"])
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)


@st.composite
def trees(draw: st.DrawFn) -> States:
    """A tree that could stand on a disk: what is above an entry is a directory. Few names, so that two trees meet."""
    tree: States = {}
    for path in draw(st.lists(paths, max_size=8)):
        above = parents(path)
        if all(tree.get(parent, folder()).kind is Kind.DIRECTORY for parent in above) and path not in tree:
            tree.update({parent: draw(folders) for parent in above if parent not in tree})
            tree[path] = draw(st.one_of(leaves, leaves, folders))
    return tree


def parents(path: bytes) -> list[bytes]:
    """The directories above ``path``, topmost first."""
    return [path[:at] for at, char in enumerate(path) if char == ord("/")]


def at(tree: Mapping[bytes, FileState], path: bytes) -> FileState:
    return tree.get(path, ABSENT)
