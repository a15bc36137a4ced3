"""What a purge makes of sums, beside sums that are computed anew from what is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.hashing import blob_hash, manifest_sum
from openoxide.checkpoints.model import ABSENT, PURGED, FileState, Kind
from openoxide.checkpoints.purge import Gone, Sealed, resealed, without

PATHS = (b"a", b"b", b"c/d")


def state(number: int) -> FileState:
    if number == 0:
        return ABSENT
    return FileState(kind=Kind.FILE, mode=0o644, size=number, mtime_ns=7, blob=blob_hash(b"%d" % number))


ROWS = st.lists(st.tuples(st.sampled_from(PATHS), st.integers(0, 3)), max_size=30)


@given(ROWS, st.sets(st.integers(1, 3)), st.lists(st.integers(0, 30), max_size=8))
def test_every_sum_is_that_of_what_is_left(rows, doomed, positions):
    def at(seq: int) -> dict[bytes, FileState]:
        return {path: state(number) for path, number in rows[:seq]}

    def total(seq: int, left: bool) -> tuple[int, int]:
        states = at(seq)
        gone = [s.size for s in states.values() if s.size in doomed] if left else []
        kept = [(path, ABSENT, s) for path, s in states.items() if not (left and s.size in doomed)]
        return manifest_sum(0, kept), len(gone)

    def until(index: int) -> int | None:
        later = (i for i in range(index + 1, len(rows)) if rows[i][0] == rows[index][0])
        return next((i + 1 for i in later), None)

    sealed = [Sealed(i, seq, total(seq, left=False)[0], 0) for i, seq in enumerate(positions)]
    gone = [Gone(path, i + 1, until(i), state(number)) for i, (path, number) in enumerate(rows) if number in doomed]
    found = {one.id: (one.sum, one.skipped) for one in resealed(sealed, gone)}
    for one in sealed:
        wanted = total(one.seq, left=True)
        assert found.get(one.id, (one.sum, 0)) == wanted
        assert (one.id in found) == (wanted[1] > 0)
    last = [one for one in gone if one.until is None]
    assert without(total(len(rows), left=False)[0], last) == total(len(rows), left=True)[0]


def test_a_purged_state_says_nothing_of_what_it_was():
    assert PURGED == (Kind.SKIPPED, 0, 0, 0, None, b"purged", False, False)
