"""The races are those of Linux: renameat2 in the helper programs, /proc, O_PATH."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.races.canary import Site, site_in

collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[Site]:
    """A project with a canary beside it."""
    with site_in(tmp_path) as site:
        yield site
