"""The exchange on a real file system: what the plan saw is exchanged, everything else is given back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints.model import ABSENT, Kind
from openoxide.checkpoints.plan import Change, RewindPlan
from openoxide.checkpoints.steps import NEW_FOLDER_MODE
from tests.checkpoints.bench import DIRECTORY, FIFO, LINK, NEW, OLD, Bench, T, forge
from tests.kit import diff_trees, effort

names = st.sampled_from([b"a", b"b", b"\xff"])
entries = st.sampled_from([OLD, NEW, ("file", 0o644, T, b""), DIRECTORY, ("dir", 0o700), LINK, ("link", b"a"), FIFO])


@st.composite
def looks(draw):
    tree = {}
    for path in draw(st.lists(st.lists(names, min_size=1, max_size=3).map(b"/".join), max_size=6)):
        parents = [path[:at] for at, char in enumerate(path) if char == ord("/")]
        if path not in tree and all(tree.get(parent, DIRECTORY)[0] == "dir" for parent in parents):
            tree.update({parent: DIRECTORY for parent in parents if parent not in tree})
            tree[path] = draw(entries)
    return tree


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def a_bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("bench"))


def shrinks(before, wanted):
    """Whether a directory becomes something else: its steps cannot be done again, as one test below says."""
    return any(what[0] == "dir" != wanted.get(path, what)[0] for path, what in before.items())


@settings(max_examples=effort(40))
@given(looks(), looks())
def test_there_and_back_again(tmp_path_factory, before, wanted):
    bench = a_bench(tmp_path_factory)
    bench.put(before)
    steps = bench.stage_all(wanted)
    assert not diff_trees(before, bench.look()), "staging touches nothing"
    assert bench.swap(steps) == {}
    assert not diff_trees(wanted, bench.look())
    if not shrinks(before, wanted):
        assert bench.swap(steps) == {}, "doing it again is harmless"
        assert not diff_trees(wanted, bench.look())
    assert bench.unswap(steps) == {}
    assert not diff_trees(before, bench.look())
    assert bench.unswap(steps) == {}
    assert not diff_trees(before, bench.look())
    bench.close()


@settings(max_examples=effort(60))
@given(looks(), looks(), st.floats(0, 1), st.booleans())
def test_an_exchange_that_stopped_goes_on_or_back(tmp_path_factory, before, wanted, done, onwards):
    onwards = onwards and not shrinks(before, wanted)
    bench = a_bench(tmp_path_factory)
    bench.put(before)
    steps = bench.stage_all(wanted)
    bench.swap(steps[: round(done * len(steps))])
    assert (bench.swap if onwards else bench.unswap)(steps) == {}
    assert not diff_trees(wanted if onwards else before, bench.look())
    bench.close()


@settings(max_examples=effort(40))
@given(looks(), looks(), st.floats(0, 1))
def test_a_return_that_stopped_goes_on(tmp_path_factory, before, wanted, done):
    bench = a_bench(tmp_path_factory)
    bench.put(before)
    steps = bench.stage_all(wanted)
    bench.swap(steps)
    bench.unswap(steps[round(done * len(steps)) :])
    assert bench.unswap(steps) == {}
    assert not diff_trees(before, bench.look())
    bench.close()


def test_a_directory_that_became_a_file_is_no_conflict_when_it_is_done_again(bench):
    bench.put({b"a": DIRECTORY})
    steps = bench.stage_all({b"a": OLD})
    assert bench.swap(steps) == {}
    assert bench.swap(steps) == {}


def test_a_return_that_stopped_between_making_a_directory_and_its_mode_goes_on(bench):
    bench.put({b"d": DIRECTORY})
    steps = bench.stage_all({})
    bench.swap(steps)
    (bench.root / "d").mkdir(mode=NEW_FOLDER_MODE)  # killed here
    assert bench.unswap(steps) == {}
    assert bench.look() == {b"d": DIRECTORY}


def test_a_return_that_stopped_can_be_turned_round(bench):
    bench.put({b"a": LINK})
    steps = bench.stage_all({b"a": DIRECTORY, b"a/b": NEW})
    bench.swap(steps)
    bench.unswap(steps[1:])
    assert bench.swap(steps) == {}
    assert bench.look() == {b"a": DIRECTORY, b"a/b": NEW}


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"!")


def become(look):
    def change(path: Path) -> None:
        path.unlink()
        if look == "dir":
            path.mkdir()
        elif look == "link":
            path.symlink_to("elsewhere")
        elif look == "fifo":
            os.mkfifo(path)

    return change


class TestChangedAfterThePlan:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            pytest.param(lambda p: p.write_bytes(b"user's"), "changing", id="written"),
            pytest.param(append, "changing", id="appended"),
            pytest.param(forge, "changing", id="forged"),
            pytest.param(lambda p: p.chmod(0o755), "changing", id="mode"),
            pytest.param(lambda p: os.utime(p, ns=(T, T + 5)), "changing", id="touched"),
            pytest.param(become("dir"), "changing", id="a directory"),
            pytest.param(become("link"), "changing", id="a link"),
            pytest.param(become("fifo"), "changing", id="a fifo"),
            pytest.param(become(""), "changing", id="removed"),
        ],
    )
    def test_a_file_that_was_to_be_replaced_is_as_the_user_left_it(self, bench, change, reason):
        bench.put({b"f": OLD, b"g": OLD})
        steps = bench.stage({b"f": NEW, b"g": NEW})
        change(bench.root / "f")
        users = bench.look()
        assert bench.swap(steps) == {b"f": reason}
        assert bench.look() == {**users, b"g": NEW}

    @pytest.mark.parametrize("change", [forge, lambda p: p.write_bytes(b"user's"), become("link")])
    def test_a_file_that_was_to_be_removed_is_as_the_user_left_it(self, bench, change):
        bench.put({b"f": OLD})
        steps = bench.stage({b"f": None})
        change(bench.root / "f")
        users = bench.look()
        assert bench.swap(steps) == {b"f": "changing"}
        assert bench.look() == users

    def test_a_file_that_was_to_be_removed_and_is_gone_is_no_conflict(self, bench):
        bench.put({b"f": OLD})
        steps = bench.stage({b"f": None})
        (bench.root / "f").unlink()
        assert bench.swap(steps) == {}

    @pytest.mark.parametrize("wanted", [NEW, DIRECTORY, LINK, FIFO])
    def test_what_appeared_where_something_was_to_be_placed_stays(self, bench, wanted):
        steps = bench.stage({b"f": wanted})
        (bench.root / "f").write_text("user's")
        users = bench.look()
        assert bench.swap(steps) == {b"f": "appeared"}
        assert bench.look() == users

    @pytest.mark.parametrize("was", [LINK, FIFO])
    def test_links_and_fifos_are_looked_at_too(self, bench, was):
        bench.put({b"f": was, b"g": was})
        steps = bench.stage({b"f": NEW, b"g": NEW})
        (bench.root / "f").unlink()
        (bench.root / "f").symlink_to("elsewhere")
        assert bench.swap(steps) == {b"f": "changing"}
        assert bench.look() == {b"f": ("link", b"elsewhere"), b"g": NEW}

    def test_a_directory_that_got_an_entry_stays_with_it(self, bench):
        bench.put({b"d": DIRECTORY})
        steps = bench.stage({b"d": None})
        (bench.root / "d" / "users").write_text("x")
        assert bench.swap(steps) == {b"d": "not_empty"}
        assert (bench.root / "d" / "users").read_text() == "x"

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda p: p.chmod(0o711), "changing"),
            (lambda p: p.rmdir(), "vanished"),
            (lambda p: (p.rmdir(), p.symlink_to("/"))[0], "vanished"),
        ],
    )
    def test_a_directory_whose_mode_the_user_changed_keeps_it(self, bench, change, reason):
        bench.put({b"d": DIRECTORY})
        steps = bench.stage({b"d": ("dir", 0o700)})
        change(bench.root / "d")
        users = bench.look()
        assert bench.swap(steps) == {b"d": reason}
        assert bench.look() == users

    def test_a_parent_that_became_a_link_is_not_followed(self, bench, tmp_path):
        outside = tmp_path / "outside"
        outside.mkdir()
        bench.put({b"d": DIRECTORY})
        steps = bench.stage({b"d/f": NEW})
        (bench.root / "d").rmdir()
        (bench.root / "d").symlink_to(outside)
        assert bench.swap(steps) == {b"d/f": "parent_not_directory"}
        assert list(outside.iterdir()) == []

    def test_a_parent_that_vanished_is_named(self, bench):
        bench.put({b"d": DIRECTORY, b"d/f": OLD})
        steps = bench.stage({b"d/f": NEW, b"d/g": NEW})
        (bench.root / "d" / "f").unlink()
        (bench.root / "d").rmdir()
        assert bench.swap(steps) == {b"d/f": "changing", b"d/g": "vanished"}


class TestTakingBack:
    @pytest.mark.parametrize(("was", "wanted"), [(OLD, NEW), (None, NEW), (OLD, LINK)])
    def test_what_the_user_wrote_after_it_stays(self, bench, was, wanted):
        bench.put({b"f": was} if was else {})
        steps = bench.stage({b"f": wanted})
        bench.swap(steps)
        (bench.root / "f").unlink()
        (bench.root / "f").write_text("user's")
        users = bench.look()
        assert set(bench.unswap(steps)) <= {b"f"}
        assert bench.look() == users

    def test_what_the_user_wrote_into_a_placed_file_stays(self, bench):
        bench.put({b"f": OLD})
        steps = bench.stage({b"f": NEW})
        bench.swap(steps)
        (bench.root / "f").write_text("user's")
        assert bench.unswap(steps) == {b"f": "changing"}
        assert (bench.root / "f").read_text() == "user's"

    def test_what_the_user_wrote_into_a_new_file_stays(self, bench):
        steps = bench.stage({b"f": NEW})
        bench.swap(steps)
        (bench.root / "f").write_text("user's")
        assert bench.unswap(steps) == {b"f": "changing"}
        assert (bench.root / "f").read_text() == "user's"

    def test_what_appeared_where_something_was_removed_stays(self, bench):
        bench.put({b"f": OLD})
        steps = bench.stage({b"f": None})
        bench.swap(steps)
        (bench.root / "f").write_text("user's")
        assert bench.unswap(steps) == {b"f": "appeared"}
        assert (bench.root / "f").read_text() == "user's"

    def test_a_directory_with_something_new_in_it_stays(self, bench):
        steps = bench.stage({b"d": DIRECTORY})
        bench.swap(steps)
        (bench.root / "d" / "users").write_text("x")
        assert bench.unswap(steps) == {b"d": "not_empty"}
        assert (bench.root / "d" / "users").read_text() == "x"

    def test_a_mode_that_the_user_changed_stays(self, bench):
        bench.put({b"d": DIRECTORY})
        steps = bench.stage({b"d": ("dir", 0o700)})
        bench.swap(steps)
        (bench.root / "d").chmod(0o711)
        assert bench.unswap(steps) == {}
        assert bench.look() == {b"d": ("dir", 0o711)}


class TestDatabases:
    @staticmethod
    def plan(bench):
        def change(name, now, wanted, *, sqlite):
            flag = {"sqlite": sqlite}
            states = [bench.known(look)._replace(**flag) if look else ABSENT for look in (now, wanted)]
            return Change(path=name, now=states[0], wanted=states[1])

        bench.put({b"x.db": OLD, b"x.db-wal": OLD, b"x.db-shm": OLD, b"y": OLD})
        restore = [
            change(b"x.db", OLD, NEW, sqlite=True),
            change(b"x.db-wal", OLD, NEW, sqlite=False),
            change(b"y", OLD, NEW, sqlite=False),
        ]
        return RewindPlan(restore=tuple(restore), remove=(change(b"x.db-shm", OLD, None, sqlite=False),))

    @pytest.mark.parametrize("changed", ["x.db", "x.db-wal", "x.db-shm"])
    def test_if_one_file_of_a_database_stays_all_of_it_stays(self, bench, changed):
        steps = bench.stage_plan(self.plan(bench))
        forge(bench.root / changed)
        before = bench.look()
        members = [b"x.db", b"x.db-wal", b"x.db-shm"]
        assert bench.swap(steps) == {m: "changing" if m == changed.encode() else "database" for m in members}
        assert bench.look() == {**before, b"y": NEW}

    def test_a_whole_database_moves_together(self, bench):
        assert bench.swap(bench.stage_plan(self.plan(bench))) == {}
        assert bench.look() == {b"x.db": NEW, b"x.db-wal": NEW, b"y": NEW}


def test_many_steps_are_made_durable_at_once(bench):
    wanted = {b"%d" % number: NEW for number in range(20)}
    assert bench.swap(bench.stage(wanted)) == {}
    assert bench.look() == wanted
    assert bench.state(b"0").kind is Kind.FILE


def test_a_failure_of_the_file_system_is_no_conflict(bench):
    """It ends the operation in the middle: the caller leaves it interrupted."""
    steps = bench.stage({b"f": NEW})
    os.close(bench.staging)
    with pytest.raises(OSError, match="Bad file descriptor"):
        bench.swap(steps)
    bench.staging = os.open(bench.root, os.O_RDONLY)
