"""A three-way merge: what it takes, what it refuses, and that git comes to the same."""

from __future__ import annotations

import subprocess
from itertools import chain, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints import merging
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.merging import NotMergedError, Resolution, merge_text, resolve
from openoxide.checkpoints.model import ABSENT, FileState
from openoxide.checkpoints.plan import Change, Contested, Decisions
from openoxide.errors import StoreDamagedError
from tests.checkpoints.states import file, link
from tests.kit import effort

NOW_NS = 77
texts = st.lists(st.sampled_from([b"a", b"b", b"", b"\xc3\xa9", b"\r"]), max_size=8).map(b"\n".join)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        pytest.param("a\nb\nc\n", "a\nb\nc\nd\n", "x\nb\nc\n", "x\nb\nc\nd\n", id="both ends"),
        pytest.param("a\nb\nc\n", "a\nc\n", "a\nb\nc\nd\n", "a\nc\nd\n", id="a line gone and one more"),
        pytest.param("a\nb\nc\n", "a\nx\nc\n", "a\nx\nc\n", "a\nx\nc\n", id="the same change"),
        pytest.param("a\nb", "a\nb", "x\nb", "x\nb", id="no line feed at the end"),
        pytest.param("a\nb\nc", "a\nb\nc\n", "x\nb\nc", "x\nb\nc\n", id="one side ends the last line"),
        pytest.param("a\r\nb\r\nc\r\n", "a\r\nb\r\nc\r\nd\r\n", "b\r\nc\r\n", "b\r\nc\r\nd\r\n", id="carriage returns"),
        pytest.param(
            "\u00e9\n\nz\n", "\u00e8\n\nz\n", "\u00e9\n\nz\n\u2028y\n", "\u00e8\n\nz\n\u2028y\n", id="not ASCII"
        ),
        pytest.param("a\n\n\n\nb\n", "a\n\n\n\nb\nc\n", "\n\n\nb\n", "\n\n\nb\nc\n", id="lines that repeat"),
        pytest.param("a\n", "", "", "", id="all of it gone"),
        pytest.param("a\nb\nc\nd\n", "a\nd\n", "a\nx\nd\n", None, id="gone and changed"),
        pytest.param("a\nb\n", "a\nx\nb\n", "a\ny\nb\n", None, id="two lines in one place"),
        pytest.param("a\nb\n", "x\nb\n", "a\ny\n", None, id="neighbours"),
        pytest.param("", "x\n", "y\n", None, id="out of nothing"),
        pytest.param("a", "a\nx", "b", None, id="behind a changed last line"),
    ],
)
def test_what_is_merged_and_what_is_not(base, ours, theirs, merged):
    texts = [text.encode() for text in (base, ours, theirs)]
    if merged is not None:
        assert merge_text(*texts) == merged.encode()
        return
    with pytest.raises(NotMergedError, match="overlap"):
        merge_text(*texts)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"a\0b\n", "not_text"), (b"\xff\xfea\n", "not_text"), (b"\xc3", "not_text")]
)
def test_what_is_no_text_is_not_merged(content, reason):
    for texts in ((content, b"a\n", b"b\n"), (b"a\n", content, b"b\n"), (b"a\n", b"b\n", content)):
        with pytest.raises(NotMergedError, match=reason):
            merge_text(*texts)


@pytest.mark.parametrize(("limit", "most"), [("MOST_LINES", 19), ("MOST_EDITS", 3)])
def test_texts_with_too_much_to_compare_are_not_merged(monkeypatch, limit, most):
    base, ours = b"x\n" * 20 + b"y\n", b"x\n" * 20 + b"z\nz\nz\n"
    assert merge_text(base, ours, base) == ours
    monkeypatch.setattr(merging, limit, most)
    with pytest.raises(NotMergedError, match="too_large"):
        merge_text(base, ours, base)


@given(texts, texts)
def test_no_difference_is_longer_than_it_has_to_be(old, new):
    """As long as dynamic programming finds it."""
    lines = [merging._lines(text) for text in (old, new)]
    hunks = merging._hunks(*lines)
    assert sum(hunk.stop - hunk.start + len(hunk.lines) for hunk in hunks) == distance(*lines)
    assert all(before.stop < after.start for before, after in pairwise(hunks))


def distance(old: list[bytes], new: list[bytes]) -> int:
    row = list(range(len(new) + 1))
    for at, line in enumerate(old, 1):
        above, row = row, [at]
        for to, other in enumerate(new, 1):
            row.append(above[to - 1] if line == other else 1 + min(above[to], row[-1]))
    return row[-1]


@given(texts, texts)
def test_a_side_that_changed_nothing_gives_the_other(base, side):
    assert merge_text(base, base, side) == side
    assert merge_text(base, side, base) == side
    assert merge_text(base, side, side) == side


@given(texts, texts, texts)
def test_it_does_not_matter_which_side_is_which(base, ours, theirs):
    assert outcome(base, ours, theirs) == outcome(base, theirs, ours)


def outcome(*texts: bytes) -> bytes | None:
    try:
        return merge_text(*texts)
    except NotMergedError:
        return None


@st.composite
def versions(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """A base of lines that are all different, and two that were edited from it: then a merge has one answer."""
    base = [b"%d" % at for at in range(draw(st.integers(0, 8)))]
    sides = []
    for name in (b"ours", b"theirs"):
        side = list(base)
        for at, (verb, new) in enumerate(
            draw(st.lists(st.tuples(st.sampled_from("idrs"), st.integers(0, 8)), max_size=3))
        ):
            place = new % (len(side) + 1)
            line = b"same" if verb == "s" else b"%s-%d" % (name, at)
            if verb in "is":
                if line not in side:
                    side.insert(place, line)
            elif place < len(side):
                side[place : place + 1] = [line] if verb == "r" else []
        sides.append(side)
    ends = draw(st.tuples(*[st.sampled_from([b"\n", b""])] * 3))
    texts = [b"\n".join(lines) + (end if lines else b"") for lines, end in zip([base, *sides], ends, strict=True)]
    return texts[0], texts[1], texts[2]


@settings(max_examples=effort(150), deadline=None)
@given(versions())
def test_git_comes_to_the_same(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("merge")
    assert outcome(*texts) == git_merge(folder, *texts)


def git_merge(folder: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """What ``git merge-file`` makes of it; None where it finds a conflict."""
    names = {"ours": ours, "base": base, "theirs": theirs}
    for name, text in names.items():
        (folder / name).write_bytes(text)
    done = subprocess.run(["git", "merge-file", "-p", *names], cwd=folder, capture_output=True, check=False)
    assert done.returncode < 128, done.stderr
    return done.stdout if done.returncode == 0 else None


BASE, BEFORE, LIVE = b"1\n2\n3\n", b"0\n2\n3\n", b"1\n2\n3\n4\n"
BOTH = b"0\n2\n3\n4\n"
STORE = {blob_hash(content): content for content in (BASE, BEFORE, LIVE, b"\0", b"x" * 9)}


def contested(now: FileState, wanted: FileState, *own: tuple[FileState, FileState]) -> Contested:
    return Contested(change=Change(path=b"f", now=now, wanted=wanted, reason="changed_later"), own=own)


def resolved(one: Contested, resolution: Resolution = Resolution.MERGE) -> Decisions:
    decisions = Decisions(contested=[one])
    resolve(decisions, resolution, STORE.__getitem__, NOW_NS)
    return decisions


@pytest.mark.parametrize(
    ("modes", "mode"),
    [
        pytest.param((0o644, 0o644, 0o644), 0o644, id="nobody's"),
        pytest.param((0o755, 0o644, 0o644), 0o755, id="the user's"),
        pytest.param((0o755, 0o755, 0o644), 0o644, id="the session's"),
        pytest.param((0o600, 0o755, 0o644), None, id="of both"),
        pytest.param((0o644, 0o755, 0o644), 0o644, id="the same of both"),
    ],
)
def test_a_merged_file_is_new_and_its_mode_is_merged(modes, mode):
    now, after, before = (file(text, mode) for text, mode in zip((LIVE, BASE, BEFORE), modes, strict=True))
    found = resolved(contested(now, before, (before, after)))
    if mode is None:
        assert [one.change.reason for one in found.contested] == ["mode"]
    else:
        wanted = file(BOTH, mode, NOW_NS)
        assert found.changes == [Change(path=b"f", now=now, wanted=wanted, merged=BOTH)]


def test_what_comes_out_as_the_target_is_the_target():
    target = file(BEFORE, mtime_ns=5)
    found = resolved(contested(file(b"0\n2\n3\n", mtime_ns=9), target, (target, file(BASE))))
    assert found.untouched == 1, "and what comes out as it is stays"
    now = file(LIVE)
    found = resolved(contested(now, target, (target, now)))
    assert found.changes == [Change(path=b"f", now=now, wanted=target)]


def test_only_the_mode_changes_under_the_time_that_is_there():
    now, base, before = file(LIVE, 0o755, 9), file(BASE, 0o755), file(BASE, 0o644)
    (change,) = resolved(contested(now, before, (before, base))).changes
    assert change.wanted == file(LIVE, 0o644, 9)


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        pytest.param(contested(file(LIVE), ABSENT, (ABSENT, file(BASE))), "changed_later", id="made"),
        pytest.param(contested(ABSENT, file(BEFORE), (file(BEFORE), file(BASE))), "changed_later", id="removed"),
        pytest.param(contested(link(), file(BEFORE), (file(BEFORE), file(BASE))), "changed_later", id="a link"),
        pytest.param(contested(file(LIVE, torn=True), file(BEFORE), (file(BEFORE), file(BASE))), "changed_later", id="torn"),
        pytest.param(contested(file(b"\0"), file(BEFORE), (file(BEFORE), file(BASE))), "not_text", id="binary"),
        pytest.param(contested(file(b"1\n" * 600_000), file(BEFORE), (file(BEFORE), file(BASE))), "too_large", id="large"),
        pytest.param(contested(file(b"x" * 9), file(BEFORE), (file(BEFORE), file(BASE))), "overlap", id="overlap"),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_stays_contested(one, reason):
    found = resolved(one)
    assert (found.changes, [left.change.reason for left in found.contested]) == ([], [reason])


def test_what_two_may_have_written_is_not_merged():
    change = Change(path=b"f", now=file(LIVE), wanted=file(BEFORE), reason="shared_writer")
    found = resolved(Contested(change=change, own=None))
    assert (found.changes, found.contested) == ([], [Contested(change=change, own=None)])


def test_nothing_left_to_take_out_is_untouched():
    assert resolved(contested(file(LIVE), file(BEFORE))).untouched == 1


@pytest.mark.parametrize(
    ("resolution", "reasons"),
    [(Resolution.KEEP, ["changed_later"]), (Resolution.OVERWRITE, ["overwrites changed_later"])],
)
def test_without_a_merge_it_stays_or_goes_as_a_whole(resolution, reasons):
    found = resolved(contested(file(b"\0"), ABSENT, (ABSENT, file(BASE))), resolution)
    every = chain(found.changes, (one.change for one in found.contested))
    assert [change.reason for change in every] == reasons


def test_damaged_bytes_end_it_and_are_named():
    def damaged(_: object) -> bytes:
        raise StoreDamagedError("gone")

    decisions = Decisions(contested=[contested(file(LIVE), file(BEFORE), (file(BEFORE), file(BASE)))] * 2)
    with pytest.raises(StoreDamagedError) as raised:
        resolve(decisions, Resolution.MERGE, damaged, NOW_NS)
    assert raised.value.details == {"paths": ["f", "f"]}
