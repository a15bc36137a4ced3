"""The commands that an answer proposes, spelled so that they can be typed where the request came from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection

from openoxide.checkpoints.history import Position
from openoxide.daemon.requests import Request, path

FEW_PATHS = 3


def bring_back(request: Request, root: bytes, position: Position, wanted: bytes) -> str:
    """The rewind that takes one path from the checkpoint at ``position``, whoever changed the path since."""
    scope = " --scope all" if position.session else ""
    return f"`oxide-ctl rewind {position.number}{scope} -- {typed(request, root, [wanted])}`"


def typed(request: Request, root: bytes, wanted: Collection[bytes]) -> str:
    """Paths below ``root`` as words of a shell line; where they are many, what stands for them in a usage line."""
    if len(wanted) > FEW_PATHS:
        return "PATH..."
    here = os.path.realpath(path(request))
    here = here if os.path.isdir(here) else os.path.dirname(here)
    return " ".join(shlex.quote(os.fsdecode(os.path.relpath(os.path.join(root, each), here))) for each in wanted)
