"""The pure comparisons of a check, against brute force that shares no code with them."""

from __future__ import annotations

import struct

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.check import (
    BlobRow,
    Problem,
    ProblemKind,
    Replay,
    Sealed,
    StateRow,
    blob_problem,
    holding,
    is_sampled,
    live_problem,
    merged,
    path_trouble,
)
from openoxide.checkpoints.frames import Place, compressor, header_at_end, make_frame

ABSENT, FILE, DIRECTORY, SKIPPED = 0, 1, 3, 5


@pytest.mark.parametrize("path", [b"", b"a", b"a/b", b"\xff", b"...", b".a/b..", b"hidden/"])
def test_what_is_a_path(path):
    assert path_trouble(path) == ""


@pytest.mark.parametrize("path", [b"/a", b"a//b", b".", b"a/..", b"../a", b"a\0", b"/", b"a//", "a", None])
def test_what_is_none(path):
    assert path_trouble(path)


def content(number):
    return blake3(b"%d" % number).digest()


def row(path, seq, kind, number):
    """A version; ``number`` stands for what it holds."""
    name, size = (content(number), number) if kind == FILE else (None, 0)
    target = b"too_large" if kind == SKIPPED else None
    mtime = number if kind == FILE else 0
    blob = number if kind == FILE else None
    return StateRow(path, seq, b"p%d" % path, kind, 0o600, size, mtime, blob, name, size if blob else None, target, 0)


def brute_sum(states):
    """docs/design.md, section 4: a BLAKE3 term for each path that exists, summed modulo 2^256."""
    total = 0
    for one in states.values():
        if one.kind not in (ABSENT, SKIPPED):
            fields = struct.pack("<BHqq", one.kind, one.mode, one.size, one.mtime_ns)
            whole = struct.pack("<I", len(one.path)) + one.path + fields + (one.name or one.target or b"")
            total += int.from_bytes(blake3(whole).digest(), "little")
    return (total % 2**256).to_bytes(32, "little")


@st.composite
def timelines(draw):
    """Rows by position, with gaps between these, and where checkpoints were sealed."""
    rows, seq = [], 0
    for _ in range(draw(st.integers(0, 25))):
        seq += draw(st.integers(1, 3))
        kind = draw(st.sampled_from([ABSENT, FILE, FILE, FILE, DIRECTORY, SKIPPED]))
        rows.append(row(draw(st.integers(1, 5)), seq, kind, draw(st.integers(1, 9))))
    return rows, sorted(draw(st.lists(st.integers(0, seq), max_size=6)))


def states_at(rows, seq):
    return {one.path_id: one for one in rows if one.seq <= seq}


def skipped(states):
    return sum(one.kind == SKIPPED for one in states.values())


def head_of(rows):
    states = states_at(rows, 10**9)
    files = [one for one in states.values() if one.kind == FILE]
    return (rows[-1].seq if rows else 0, brute_sum(states), len(files), sum(one.size for one in files), skipped(states))


def seals_of(rows, seqs):
    return [
        Sealed(1, number, seq, brute_sum(states_at(rows, seq)), skipped(states_at(rows, seq)))
        for number, seq in enumerate(seqs, 1)
    ]


def replayed(rows, sealed, head):
    replay, before = Replay(worktree=1, sealed=sealed), {}
    for one in rows:
        replay.add(one, before.get(one.path_id))
        before[one.path_id] = one
    replay.finish(head)
    return replay.problems


@given(timelines())
def test_a_walk_finds_nothing_in_what_is_sound(timeline):
    rows, seqs = timeline

    assert replayed(rows, seals_of(rows, seqs), head_of(rows)) == []


@given(timelines(), st.data())
def test_a_state_that_changed_is_told_of_wherever_it_counts(timeline, data):
    rows, seqs = timeline
    if not rows:
        return
    sealed, head = seals_of(rows, seqs), head_of(rows)
    at = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw(st.sampled_from([ABSENT, FILE, DIRECTORY, SKIPPED]))
    changed = [*rows[:at], row(rows[at].path_id, rows[at].seq, other, data.draw(st.integers(1, 9))), *rows[at + 1 :]]

    told = {problem.object for problem in replayed(changed, sealed, head)}

    wrong = {
        f"checkpoint 1#{one.number}"
        for one in sealed
        if (one.manifest_hash, one.skipped)
        != (brute_sum(states_at(changed, one.seq)), skipped(states_at(changed, one.seq)))
    }
    assert told == wrong | ({"head 1"} if head_of(changed) != head else set())


@given(
    st.lists(st.tuples(st.integers(0, 20), st.none() | st.integers(0, 20))),
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 99)), unique_by=lambda pair: pair[1]),
)
def test_what_holds_a_stretch(stretches, positions):
    brute = {
        number for seq, number in positions for low, high in stretches if low <= seq and (high is None or seq < high)
    }

    assert [*holding(stretches, sorted(positions))] == sorted(brute)


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=20),
    st.binary(max_size=50),
    st.sampled_from([b"", b"OXF1", b"OXF1" + bytes(11)]),
)
def test_the_header_before_a_payload_is_found_whatever_lies_before_it(blobs, noise, bait):
    frame = make_frame([(blake3(data).digest(), data) for data in blobs], compressor())
    table = b"".join(name + struct.pack("<I", size) for name, size in frame.names)
    head = struct.pack("<4sBHII", b"OXF1", frame.codec, len(blobs), len(frame.payload), frame.raw)

    header = header_at_end(noise + bait + head + table)

    assert header is not None
    assert (header.codec, header.stored, header.raw) == (frame.codec, len(frame.payload), frame.raw)
    starts = [sum(map(len, blobs[:index])) for index in range(len(blobs))]
    assert header.entries == {
        (blake3(data).digest(), start, len(data)) for data, start in zip(blobs, starts, strict=True)
    }


@pytest.mark.parametrize("region", [b"", b"OXF1", bytes(15), b"OXF1" + bytes(12)])
def test_what_ends_in_no_header(region):
    assert header_at_end(region) is None


def test_a_big_blob_is_the_whole_of_its_file():
    place = Place(None, 0, 10, 99, 1)
    whole = BlobRow(1, content(1), 7, 0, 99, 7, *place)

    assert blob_problem(whole) is None
    assert blob_problem(whole._replace(size=98)) is not None
    assert blob_problem(whole._replace(offset=1)) is not None


def test_a_live_row_is_the_newest_version():
    newest = [3, 1, 0o600, 5, 9, 2, None, 0]

    assert live_problem(1, newest, [*newest]) is None
    assert live_problem(1, [None] * 8, [None] * 8) is None
    changed = live_problem(1, [3, 1, 0o644, 5, 9, 7, None, 0], newest)
    assert changed is not None
    assert changed.message.endswith("in mode, blob")


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_sample_holds_about_its_share(share):
    drawn = sum(is_sampled(content(number), 3, share) for number in range(4_000))

    assert abs(drawn - 4_000 * share) < 150


def test_a_sample_of_all_is_all():
    assert all(is_sampled(content(number), 3, 1.0) for number in range(500))


def test_problems_of_one_object_are_one():
    one = Problem(kind=ProblemKind.FILE_MISSING, object="a", message="m", blobs=(1,))
    two = Problem(kind=ProblemKind.FILE_MISSING, object="a", message="m", blobs=(2, 1))
    other = Problem(kind=ProblemKind.FILE_SHORT, object="a", message="m", blobs=(1,))

    assert merged([one, two, other]) == [Problem(kind=one.kind, object="a", message="m", blobs=(1, 2)), other]
