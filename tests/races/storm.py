"""Does the same to a tree over and over: ``storm.py KIND FOLDER ARCHIVE``.

A dot for each round. A round is never left half done; the last one ends after the end of its standard input.
"""

from __future__ import annotations

import os
import select
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing

WRITES = 200


def checkout(folder: str, archive: str, number: int) -> None:
    branch = ("two", "one")[number % 2]
    subprocess.run(["git", "checkout", "-q", branch], cwd=folder, check=True)


def untar(folder: str, archive: str, number: int) -> None:
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)


def remove(folder: str, archive: str, number: int) -> None:
    untar(folder, archive, number)
    subprocess.run(["rm", "-rf", *(entry.path for entry in os.scandir(folder) if entry.is_dir())], check=True)


def database(folder: str, archive: str, number: int) -> None:
    with closing(sqlite3.connect(f"{folder}/app.db", isolation_level=None)) as db:
        db.execute("create table if not exists t(number)")
        for write in range(WRITES // 10):
            db.execute("insert into t values (?)", (number * WRITES + write,))


def rewrite(folder: str, archive: str, number: int) -> None:
    with open(f"{folder}/hot", "wb", buffering=0) as file:
        for write in range(WRITES):
            file.seek(0)
            file.write(b"%d" % (number * WRITES + write) * 100)


STORMS: dict[str, Callable[[str, str, int], None]] = {
    act.__name__: act for act in (checkout, untar, remove, database, rewrite)
}


def main(kind: str, folder: str, archive: str) -> None:
    print("ready", flush=True)
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        STORMS[kind](folder, archive, number)
        number += 1
        print(".", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
