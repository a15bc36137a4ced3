"""A watched project in the test process, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import FakeClock
from tests.kit.box import Box


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def box(tmp_path: Path, clock: FakeClock) -> Iterator[Box]:
    """A project with the file ``a``, watched: its checkpoint 1."""
    with Box(tmp_path, clock=clock) as box:
        (box.root / "a").write_text("one\n")
        box.watch()
        yield box
