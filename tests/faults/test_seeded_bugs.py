"""Sweeps find bugs that are known to be there, and nothing in a store that has none."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.lab import Lab, Mode, points, sample_size, shim

SEED = 20261129


@pytest.fixture(scope="module")
def shim_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def _complaint(folder: Path, acknowledged: list[str]) -> str | None:
    """Why the state that small_store.py left is bad. What a record holds is worked out here again."""
    whole = {n: hashlib.sha256(f"record {n}".encode()).hexdigest().encode() * 100 for n in range(2)}
    with closing(sqlite3.connect(folder / "rows.db")) as db:
        rows = [row[0] for row in db.execute("SELECT id FROM record")]
    promised = [int(text) for text in acknowledged]
    newest = folder / "newest"
    if missing := set(promised) - set(rows):
        return f"acknowledged but without a row: {missing}"
    for n in rows:
        record = folder / str(n)
        if not record.exists() or record.read_bytes() != whole[n]:
            return f"row {n} names missing or torn bytes"
    if newest.exists() or promised:
        held = newest.read_bytes() if newest.exists() else b""
        if held not in [data for n, data in whole.items() if n >= max(promised, default=0)]:
            return f"newest holds neither an old nor a new record ({len(held)} bytes)"
    return None


class SmallStoreSweep:
    """A sweep of small_store.py with one of its bugs."""

    def __init__(self, shim_file: Path, tmp_path: Path, bug: str, mode: Mode) -> None:
        self.folder = tmp_path / "store"
        self.lab = Lab(shim_file, [self.folder], tmp_path, armed=False)
        self.command = [sys.executable, "-m", "tests.faults.small_store", bug, self.folder]
        self.mode = mode

    def complaints(self, sample: int | None) -> dict[str, str]:
        """The calls at which a fault left a bad state."""
        total = self._fresh().count(self.command, mode=self.mode)
        assert (total.status, total.acknowledged) == (0, ["0", "1"]), total.stderr.decode()
        assert _complaint(self.folder, total.acknowledged) is None
        found = {}
        for at in points(total.calls, sample=sample, seed=SEED):
            outcome = self._fresh().run(self.command, mode=self.mode, at=at)
            assert outcome.faults, f"point {at} was not reached"
            if why := _complaint(self.folder, outcome.acknowledged):
                found[f"{at} {outcome.call}"] = why
        return found

    def _fresh(self) -> Lab:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        return self.lab


@pytest.mark.faults
@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_sound_store_survives_every_fault(shim_file, tmp_path, mode):
    assert SmallStoreSweep(shim_file, tmp_path, "sound", mode).complaints(sample_size(6)) == {}


@pytest.mark.parametrize(
    ("bug", "complaint"),
    [("row-first", "names missing or torn bytes"), ("in-place", "newest holds neither")],
)
def test_kill_finds_a_seeded_bug(shim_file, tmp_path, bug, complaint):
    found = SmallStoreSweep(shim_file, tmp_path, bug, "kill").complaints(None)
    assert found
    assert all(complaint in why for why in found.values())


@given(total=st.integers(1, 400), sample=st.integers(2, 60), seed=st.integers())
def test_a_sample_has_its_size_and_both_ends(total, sample, seed):
    chosen = points(total, sample=sample, seed=seed)
    assert chosen == points(total, sample=sample, seed=seed)
    assert chosen == sorted(set(chosen))
    assert (chosen[0], chosen[-1], len(chosen)) == (1, total, min(sample, total))


def test_without_a_sample_each_point_is_tried():
    assert points(5, sample=None, seed=0) == [1, 2, 3, 4, 5]


def test_a_sweep_over_nothing_is_an_error():
    with pytest.raises(ValueError, match="no call was counted"):
        points(0, sample=None, seed=0)


@pytest.mark.parametrize(("asked", "size"), [(None, 7), ("", 7), ("some", 7), ("all", None)])
def test_the_environment_asks_for_every_point(monkeypatch, asked, size):
    monkeypatch.setenv("OXIDE_THOROUGH", "1")
    monkeypatch.delenv("OXIDE_FAULTS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OXIDE_FAULTS", asked)
    assert sample_size(7) == size


@pytest.mark.parametrize(("of", "size"), [(3, 3), (4, 4), (6, 4), (8, 4), (12, 6)])
def test_less_is_tried_where_nobody_asks_for_more(monkeypatch, of, size):
    monkeypatch.delenv("OXIDE_FAULTS", raising=False)
    monkeypatch.delenv("OXIDE_THOROUGH", raising=False)
    assert sample_size(of) == size
