"""A pack written anew, for the fault lab: ``python -m tests.faults.repack_worker FOLDER``.

The store holds edits of a text, what cannot be compressed, and as much that no row names any more. Then it is written anew,
and what is stored before and after that is acknowledged by its number.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.repack import repack
from openoxide.errors import OpenOxideError
from tests.checkpoints.stores import Store
from tests.faults.crashkit import ack, arm

FIRST, GONE, LATER = range(9), range(9, 14), range(14, 16)


def content(number: int) -> bytes:
    drawn = random.Random(0)
    if number % 3 == 0:  # edits of one text
        lines = [b"%x\n" % drawn.randrange(1 << 60) for _ in range(900)]
        lines[number] = b"edited\n"
        return b"".join(lines)
    return random.Random(number).randbytes(3_000)


def keep(store: Store, number: int) -> None:
    store.keep(content(number))
    store.sql(
        "insert into version(path, seq, worktree, kind, mode, size, mtime_ns, blob, flags)"
        " select ?, ?, 1, 1, 0, size, 0, id, 0 from blob where hash = ?",
        1 if number % 3 == 0 else number + 10,
        number + 1,
        blob_hash(content(number)),
    )


def main(folder: Path) -> None:
    store = Store(folder)
    for number in (*FIRST, *GONE):
        keep(store, number)
    for number in GONE:
        store.sql("delete from version where seq = ?", number + 1)
        store.sql("delete from blob where hash = ?", blob_hash(content(number)))
    arm()
    keep(store, LATER[0])
    ack(str(LATER[0]))
    packs = [int(name.removesuffix(".pack")) for name in store.packs()]
    repack(store.database, store.blobs, packs)
    ack("repacked")
    keep(store, LATER[1])
    ack(str(LATER[1]))
    store.close()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
