"""Which symbols that notes name still stand in the files of a project, for ``memory lint``."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from openoxide.checkpoints import rows
from openoxide.checkpoints.model import Kind, Worktree
from openoxide.fileio import read_regular

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

# larger ones are data; and a project that takes longer to read than somebody waits for a lint is not judged
MOST_FILE_BYTES, MOST_BYTES = 1 << 20, 64 << 20


def unnamed(service: Service, tree: Worktree, symbols: Collection[str]) -> set[str]:
    """Those of ``symbols`` that are a word in no recorded file of ``tree``; none where not all of it could be looked at."""
    with service.timeline.database.reading() as db:
        known = rows.state_at(db, tree.id, service.timeline.head(tree.id).seq)
    left = {symbol.encode() for symbol in symbols}
    room = MOST_BYTES
    for path, state in known.items():
        if state.kind is not Kind.FILE or state.size > MOST_FILE_BYTES:
            continue
        room -= state.size
        if room < 0:
            return set()
        with suppress(OSError):  # deleted since, or not to be read by us
            data = read_regular(Path(os.fsdecode(os.path.join(tree.root, path))), follow=False)
            left -= {word for word in left if re.search(rb"(?<![\w])" + re.escape(word) + rb"(?![\w])", data)}
        if not left:
            break
    return {symbol.decode() for symbol in left}
