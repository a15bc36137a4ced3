"""``restore``: copies a past state out into another directory; only reads the store, so it also serves one that cannot be
written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from openoxide.checkpoints import rows
from openoxide.checkpoints.doubt import doubtful, require_told
from openoxide.checkpoints.materialise import materialise, prepare_target
from openoxide.checkpoints.model import ABSENT, DAMAGED, Checkpoint, FileState, database_members
from openoxide.checkpoints.plan import Left, within_paths
from openoxide.checkpoints.tree import go_on_here, way_back
from openoxide.daemon.answers import left_entries
from openoxide.daemon.operations.looking import View, named_checkpoint, require_known, unrecorded
from openoxide.daemon.protocol import path_entry
from openoxide.daemon.protocol.checkpoints import RestoreAnswer
from openoxide.daemon.requests import Request, flag, path, paths, text
from openoxide.errors import NotFoundError, RefusedError, StoreDamagedError


def restore(view: View, request: Request) -> RestoreAnswer:
    """``restore CKPT --to DIR``: copy a past state out; also to where the worktree was, if nothing stands there."""
    checkpoint, note = named_checkpoint(view, text(request, "checkpoint"))
    chosen = paths(request, view.worktree.root)
    target = path(request, "to")
    anew = _refuse_inside(view.worktree.root, target)
    home = os.path.realpath(os.fsencode(view.timeline.database.path.parent))
    if _overlaps(os.path.realpath(target), home):
        # a file of the project may be called timeline.db
        raise RefusedError(
            f"{os.fsdecode(target)} is in the home of OpenOxide, or holds it", hint="copy to another place"
        )
    in_part = flag(request, "partial")
    states, doubted = _trusted_states(view, checkpoint, chosen, in_part=in_part)
    if chosen and not doubted and not any(state.exists for state in states.values()):
        with view.timeline.database.reading() as db:
            for wanted in chosen:
                if error := unrecorded(db, view, wanted, checkpoint):
                    raise error
        named = ", ".join(os.fsdecode(wanted) for wanted in chosen)
        raise NotFoundError(f"nothing existed at checkpoint {checkpoint.number} of {named}")
    require_known(view, chosen)
    absent = [wanted for wanted in chosen if wanted and wanted not in states]
    if not in_part:
        _require_contents(_damaged(view, states), "nothing was copied; --partial goes on without them")
    prepare_target(target, force=flag(request, "force"))
    copied = materialise(view.timeline.blobs, target, states)
    if not in_part:
        # damaged since it was looked at
        _require_contents(copied.damaged, "all others were copied; --partial takes that for done")
    left = [Left(path=path, reason=DAMAGED) for path in sorted({*copied.damaged, *doubted})]
    return {
        "ok": True,
        "to": os.fsdecode(target),
        "written": [path_entry(p) for p in copied.written],
        "skipped": left_entries([*copied.skipped, *left]),
        "notes": [
            *filter(None, [note, go_on_here(os.fsdecode(view.worktree.root)) if anew else ""]),
            *(f"{os.fsdecode(wanted)} is not in checkpoint #{checkpoint.number}" for wanted in absent),
        ],
    }


def _trusted_states(
    view: View, checkpoint: Checkpoint, chosen: tuple[bytes, ...], *, in_part: bool
) -> tuple[Mapping[bytes, FileState], list[bytes]]:
    """What is to be copied, and what is left out because nobody can tell what it was. Raises StoreDamagedError that names it,
    unless ``in_part``.
    """
    states = _chosen_states(view, checkpoint, chosen)
    with view.timeline.database.reading() as db:
        if not in_part:
            require_told(db, checkpoint, chosen)
        doubt = doubtful(db, checkpoint)
    affected = sorted(path for path in doubt if within_paths(path, chosen) and not path.endswith(b"/"))
    return {path: state for path, state in states.items() if path not in doubt}, affected


def _damaged(view: View, states: Mapping[bytes, FileState]) -> list[bytes]:
    """The files among ``states`` that the store cannot give back; each is read, in path order, as captures store them."""
    named = [(path, state.blob) for path, state in sorted(states.items()) if state.blob is not None and not state.torn]
    damaged = {*view.timeline.blobs.damaged([*dict.fromkeys(blob for _, blob in named)])}
    return [path for path, blob in named if blob in damaged]


def _require_contents(damaged: Sequence[bytes], what_was_done: str) -> None:
    if damaged:
        raise StoreDamagedError(
            f"the store cannot give back {len(damaged)} of the files, first {os.fsdecode(damaged[0])!r}",
            hint=f"{what_was_done}, `oxide-ctl repair` may bring them back",
            details={"paths": [os.fsdecode(path) for path in damaged]},
        )


def _refuse_inside(root: bytes, target: bytes) -> bool:
    """Raises RefusedError for a copy into the worktree or around it. True where it is to be the root, which is gone."""
    real, gone = os.path.realpath(target), not os.path.lexists(root)
    if gone and real == root:
        return True
    if _overlaps(real, root):
        raise RefusedError(
            f"{os.fsdecode(target)} is in the worktree, or holds it",
            hint=way_back(os.fsdecode(root)) if gone else "use `oxide-ctl rewind`, or copy to another place",
        )
    return False


def _overlaps(target: bytes, root: bytes) -> bool:
    return target == root or target.startswith(root + b"/") or root.startswith(target.rstrip(b"/") + b"/")


def _chosen_states(view: View, checkpoint: Checkpoint, chosen: tuple[bytes, ...]) -> Mapping[bytes, FileState]:
    with view.timeline.database.reading() as db:
        if not chosen:
            states = rows.state_at(db, view.id, checkpoint.seq)
        else:
            named = rows.states_at(db, view.id, checkpoint.seq, chosen)
            # the file of a database without its log is another database, or none
            members = {member for path, state in named.items() if state.sqlite for member in database_members(path)}
            named |= rows.states_at(db, view.id, checkpoint.seq, members)
            states = {p: s for p, s in named.items() if s != ABSENT}
            for directory in chosen:
                states |= rows.states_below(db, view.id, checkpoint.seq, directory)
    return {p: state for p, state in states.items() if not p.endswith(b"/")}
