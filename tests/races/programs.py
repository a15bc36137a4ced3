"""Helper processes of the race tests, and how many rounds a test does.

A program says ``ready``, works, and ends when its standard input ends. None of them imports the product.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

FOLDER = Path(__file__).parent
ENDS_WITHIN_S = 60
SOAK_TIMEOUT_S = 7_200

soak = pytest.mark.skipif(os.environ.get("OXIDE_SOAK") != "1", reason="all rounds are done with OXIDE_SOAK=1")


def rounds(few: int, full: int) -> pytest.MarkDecorator:
    """Parametrises ``rounds``: ``few`` for `make test`, ``full`` for OXIDE_SOAK=1."""
    marks = [pytest.mark.slow, pytest.mark.timeout(SOAK_TIMEOUT_S), soak]
    return pytest.mark.parametrize("rounds", [few, pytest.param(full, marks=marks)])


class Program:
    """``FOLDER/name.py`` in a process of its own, from its first word to the end of its input."""

    def __init__(self, name: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, FOLDER / f"{name}.py", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.hear() == "ready"

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> str:
        """The next line it says; empty if it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")

    def ask(self, line: str) -> str:
        """Tell ``line``, and wait until that is done."""
        self.tell(line)
        return self.hear()

    def stop(self) -> None:
        """End its input and wait for it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(ENDS_WITHIN_S)
        self.process.stdout.close()
        assert code == 0, f"{self.process.args} ended with {code}"

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.process.poll() is None and kind is None:
            self.stop()
        else:
            self.kill()
