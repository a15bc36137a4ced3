"""Changes files below a folder: for each line of its standard input a burst of changes, picked by chance.

``churn.py FOLDER SEED``. A line for each round of a test keeps both sides at work without a clock.
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import suppress

BURST = 15
FOLDERS, FILES = 8, 10


def change(root: str, chosen: random.Random) -> None:
    folder = f"{root}/c{chosen.randrange(FOLDERS)}"
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/f{chosen.randrange(FILES)}"
    match chosen.randrange(10):
        case 0 | 1 | 2 | 3:
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                file.write("x" * chosen.randrange(4000))
            os.rename(path + ".tmp", path)
        case 4 | 5 | 6:
            with open(path, "a", encoding="utf-8") as file:
                file.write("y")
        case 7 | 8:
            os.unlink(path)
        case 9:
            os.rename(folder, f"{root}/c{chosen.randrange(FOLDERS)}")


def main(root: str, seed: str) -> None:
    chosen = random.Random(int(seed))
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(BURST):
            with suppress(OSError):  # no such file, a folder that is not empty
                change(root, chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])
