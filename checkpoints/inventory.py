"""What the rows say of the content store's files, held against what lies in ``blobs/``. A look at names and sizes alone:
whether the bytes are what their names say, only reading them tells.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from openoxide.checkpoints import stored
from openoxide.checkpoints.packs import BIG, pack_name
from openoxide.db import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Names below ``blobs/``: files that are ``missing``, or ``short`` of what rows name in them, or may not be read
    (``shut``); the rest of what no daemon makes there, or makes as something else, is ``foreign``.
    """

    missing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    shut: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def take_inventory(db: Transaction, blobs: Path, foreign: Iterable[str]) -> Inventory:
    """Look at every file that a row names; ``foreign``: what else is known to be there and not ours."""
    needed = {pack_name(number): size for number, size in stored.pack_sizes(db).items()}
    needed |= {f"{BIG}/{name.hex()}": size for name, size in stored.big_sizes(db).items()}
    missing, short, shut = [], [], []
    for name, size in needed.items():
        try:
            there = _size(blobs / name)
        except PermissionError:
            shut.append(name)
            continue
        if there is None:
            missing.append(name)
        elif there < size:
            short.append(name)
    return Inventory(
        missing=tuple(sorted(missing)),
        short=tuple(sorted(short)),
        shut=tuple(sorted(shut)),
        foreign=tuple(sorted(foreign)),
    )


def _size(path: Path) -> int | None:
    """How large the file is; None where there is none. Raises PermissionError for one that may not be read."""
    try:
        # a link is followed: a pack may have been moved to another disk
        found = os.stat(path)
    except PermissionError:
        raise
    except OSError:
        return None
    if not os.access(path, os.R_OK):
        raise PermissionError
    return found.st_size if stat.S_ISREG(found.st_mode) else None
