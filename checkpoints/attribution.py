"""Who made a change, and whose a path's last state is. Pure.

The set of open windows is constant between two recordings, since every boundary of a window records. docs/design.md,
"Who wrote it", has the rule in words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from openoxide.checkpoints.model import (
    UNKNOWN_WRITER,
    BlobHash,
    Certainty,
    FileState,
    Observed,
    Version,
    Window,
    WindowKind,
    Writer,
    split,
)


def candidates(windows: Collection[Window]) -> frozenset[int]:
    """The windows that may have made a change while exactly ``windows`` were open: open tool calls if there are any,
    else open turns; and always the turns of agents that do not declare their tool calls.
    """
    tools = [w for w in windows if w.kind is WindowKind.TOOL]
    if not tools:
        return frozenset(w.id for w in windows)
    silent = [w for w in windows if w.kind is WindowKind.TURN and not w.declares_tools]
    return frozenset(w.id for w in [*tools, *silent])


def writer_between(windows: Collection[Window]) -> Writer:
    """The writer of changes recorded while ``windows`` were open."""
    found = candidates(windows)
    if not found:
        return UNKNOWN_WRITER
    sessions = {w.session for w in windows if w.id in found}
    return Writer(certainty=Certainty.LIKELY if len(sessions) == 1 else Certainty.SHARED, windows=found)


def surely(tool: int) -> Writer:
    """The writer of what the tool call named."""
    return Writer(certainty=Certainty.SURE, windows=frozenset({tool}))


def sure_writer(observed: Observed, tool: int, writes: Mapping[bytes, BlobHash]) -> Writer | None:
    """The tool call that named this path and these very bytes."""
    named = writes.get(observed.path)
    # the path alone proves nothing: somebody else may have saved there as well
    if named is None or observed.state.blob != named:
        return None
    return surely(tool)


def claimed(versions: Iterable[Version], writes: Mapping[bytes, BlobHash]) -> list[Version]:
    """Those of the ``versions`` recorded in a tool call's window that it names at its end, path and bytes. What is surely
    another's, or of an operation, is so for good.
    """
    settled = (Certainty.SURE, Certainty.OPERATION)
    return [
        version
        for version in versions
        # b"" and not None, which a removal has as its blob: a tool that named a file did not remove it
        if version.writer.certainty not in settled and version.state.blob == writes.get(version.path, b"")
    ]


def is_told(path: bytes, dirty: Mapping[bytes, bool]) -> bool:
    """Whether ``dirty`` (path -> with all below it) names ``path``. The whole tree named at once tells of no path: that
    comes when the watcher has lost sight of it.
    """
    if path in dirty:
        return True
    directory = split(path)[0]
    while directory and not dirty.get(directory, False):
        directory = split(directory)[0]
    return bool(directory)


def owners(base: FileState, versions: Sequence[Version]) -> list[Writer | None]:
    """The writer of each version's state, oldest first: a version made by an operation has the writer of the earlier
    state that it brought back, None where that state is ``base``, the one before them all.
    """
    found: list[Writer | None] = []
    for index, version in enumerate(versions):
        earlier = _brought_back(base, versions, index)
        if earlier is None:
            found.append(version.writer)
        else:
            found.append(found[earlier] if earlier >= 0 else None)
    return found


def made_of(base: FileState, versions: Sequence[Version]) -> tuple[tuple[FileState, Version], ...]:
    """The changes that the newest state is made of, oldest first, each with the state before it: what an operation took
    back is not among them, what it brought back is again.
    """
    found: list[tuple[tuple[FileState, Version], ...]] = []
    for index, version in enumerate(versions):
        earlier = _brought_back(base, versions, index)
        if earlier is None:
            before = (found[-1], versions[index - 1].state) if index else ((), base)
            found.append((*before[0], (before[1], version)))
        else:
            found.append(found[earlier] if earlier >= 0 else ())
    return found[-1] if found else ()


def _brought_back(base: FileState, versions: Sequence[Version], index: int) -> int | None:
    """Which earlier version's state the one at ``index`` is, made by an operation; -1 for ``base``, None for neither."""
    state, writer = versions[index].state, versions[index].writer
    if writer.operation is None:
        return None
    # the newest that fits: a path may have had the same state before
    earlier = [(i, versions[i].state) for i in range(index - 1, -1, -1)] + [(-1, base)]
    found = [i for i, was in earlier if was == state]
    # the operation gave the state that it brought back another time
    if not found and writer.touched:
        found = [i for i, was in earlier if was.same_but_time(state)]
    return found[0] if found else None


def within(writer: Writer, windows: Collection[int]) -> bool:
    """Whether ``writer`` is one of ``windows`` and nobody else."""
    return (
        bool(writer.windows)
        and writer.certainty in (Certainty.SURE, Certainty.LIKELY)
        and writer.windows <= set(windows)
    )


def touches(writer: Writer, windows: Collection[int]) -> bool:
    """Whether one of ``windows`` may have made the change."""
    return not writer.windows.isdisjoint(windows)
