"""The commands that an answer proposes, spelled so that they can be typed where the request came from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator

from openoxide.checkpoints import rows
from openoxide.checkpoints.history import Position, last_holding
from openoxide.checkpoints.model import ABSENT, Checkpoint
from openoxide.daemon.operations.looking import View, unrecorded
from openoxide.daemon.requests import Request, path

FEW_PATHS = 3


def bring_back(request: Request, root: bytes, position: Position, wanted: bytes) -> str:
    """The rewind that takes one path from the checkpoint at ``position``, whoever changed the path since."""
    scope = " --scope all" if position.session else ""
    return f"`oxide-ctl rewind {position.number}{scope} -- {typed(request, root, [wanted])}`"


def absences(
    view: View, request: Request, target: Checkpoint, now_seq: int, chosen: Collection[bytes]
) -> Iterator[str]:
    """A note for each path that was named and stands neither at ``target`` nor now: where it can be had from."""
    with view.timeline.database.reading() as db:
        then, now = (rows.states_at(db, view.id, seq, chosen) for seq in (target.seq, now_seq))
        for wanted in filter(None, chosen):
            if then[wanted] == ABSENT and now[wanted] == ABSENT:
                if error := unrecorded(db, view, wanted, target):
                    yield error.message
                    continue
                at = last_holding(db, view.id, wanted)
                command = bring_back(request, view.worktree.root, at, wanted) if at else ""
                has_it = f"; #{at.number} has it: {command}" if at else ", nor in another"
                yield f"{os.fsdecode(wanted)} is not in checkpoint #{target.number}{has_it}"


def typed(request: Request, root: bytes, wanted: Collection[bytes]) -> str:
    """Paths below ``root`` as words of a shell line; where they are many, what stands for them in a usage line."""
    if len(wanted) > FEW_PATHS:
        return "PATH..."
    here = os.path.realpath(path(request))
    here = os.path.dirname(here) if os.path.isfile(here) else here  # as the command line takes it: it may be gone
    return " ".join(_word(os.path.relpath(os.path.join(root, each), here)) for each in wanted)


def _word(name: bytes) -> str:
    """``name`` as a word that a shell reads back, whatever bytes it has. Pure."""
    text = os.fsdecode(name)
    if text.isprintable():
        return shlex.quote(text)
    # dollar-single-quotes: what bash, zsh and POSIX.1-2024 shells have for bytes that cannot be shown
    plain = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}" for byte in name)
    return f"$'{''.join(plain)}'"
