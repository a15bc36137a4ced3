"""What a rewind decides for one path, case by case."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.model import ABSENT, FileState, Version
from openoxide.checkpoints.plan import (
    Change,
    Decisions,
    Left,
    PathHistory,
    RewindPlan,
    Surroundings,
    complete,
    decide_all,
    decide_reverse,
    decide_windows,
    hold_back,
    surroundings_needed,
    within_paths,
)
from tests.checkpoints.states import (
    DEPENDENCIES,
    LIKELY,
    MINE,
    OPERATION,
    OTHER,
    SHARED,
    SOMEONE,
    SURE,
    TOO_LARGE,
    UNKNOWN,
    file,
    folder,
    link,
    special,
    versions,
)

A, B, C, D = file(b"a"), file(b"b"), file(b"c"), file(b"d")
NOTHING = Surroundings()


def history(then: FileState, *rows: tuple[FileState, object], path: bytes = b"f") -> PathHistory:
    found = versions(*rows, path=path)
    return PathHistory(path=path, then=then, now=found[-1].state if found else then, versions=found)


def planned(*changes: Change, around: Surroundings = NOTHING, **lists: object) -> RewindPlan:
    return complete(Decisions(changes=list(changes), **lists), around)


def lists_of(plan: RewindPlan) -> dict[bytes, str]:
    """Each path with the list it is in and the reason."""
    named = {
        "restore": [(c.path, c.reason) for c in plan.restore],
        "remove": [(c.path, c.reason) for c in plan.remove],
        "kept": [(left.path, left.reason) for left in plan.kept],
        "conflict": [(left.path, left.reason) for left in plan.conflicts],
        "skipped": [(left.path, left.reason) for left in plan.skipped],
    }
    found: dict[bytes, str] = {}
    for name, entries in named.items():
        for path, reason in entries:
            assert path not in found, f"{path!r} is in two lists"
            found[path] = f"{name} {reason}".strip()
    return found


@pytest.mark.parametrize(
    ("chosen", "inside", "outside"),
    [
        ([], [b"a", b"a/b"], []),
        ([b""], [b"a", b"a/b"], []),
        ([b"a"], [b"a", b"a/b", b"a/b/c"], [b"ab", b"b", b"a\xff"]),
        ([b"a/b"], [b"a/b", b"a/b/c"], [b"a", b"a/bc"]),
        ([b"a", b"b/c"], [b"a/x", b"b/c"], [b"b", b"b/d"]),
    ],
)
def test_named_paths_mean_themselves_and_what_is_below(chosen, inside, outside):
    assert all(within_paths(path, chosen) for path in inside)
    assert not any(within_paths(path, chosen) for path in outside)


class TestScopeAll:
    @pytest.mark.parametrize(
        ("was", "rows", "decision"),
        [
            pytest.param(A, [(B, UNKNOWN)], "restore", id="changed comes back, whoever did it"),
            pytest.param(A, [(ABSENT, UNKNOWN)], "restore", id="deleted comes back"),
            pytest.param(A, [(link(), UNKNOWN)], "restore", id="another kind comes back"),
            pytest.param(A, [(file(b"a", 0o600), UNKNOWN)], "restore", id="a mode comes back"),
            pytest.param(A, [(file(b"a", mtime_ns=2), UNKNOWN)], "restore", id="a time comes back"),
            pytest.param(ABSENT, [(B, UNKNOWN)], "kept newer", id="newer of nobody stays"),
            pytest.param(ABSENT, [(B, SHARED)], "kept newer", id="newer of two stays"),
            pytest.param(ABSENT, [(B, LIKELY)], "remove", id="newer of a session goes"),
            pytest.param(ABSENT, [(B, SURE)], "remove", id="newer of a tool goes"),
            pytest.param(ABSENT, [(B, SURE), (C, SOMEONE)], "remove", id="newer of two sessions, one by one, goes"),
            pytest.param(
                ABSENT, [(B, LIKELY), (C, UNKNOWN)], "kept newer", id="newer that the user went on with stays"
            ),
            pytest.param(ABSENT, [(B, UNKNOWN), (C, LIKELY)], "kept newer", id="newer that the user began stays"),
            pytest.param(ABSENT, [(B, OPERATION)], "kept newer", id="what an operation brought from before stays"),
            pytest.param(
                ABSENT,
                [(B, LIKELY), (ABSENT, OPERATION), (B, OPERATION)],
                "remove",
                id="a session's, brought back, goes",
            ),
            pytest.param(ABSENT, [(B, UNKNOWN), (ABSENT, UNKNOWN)], None, id="come and gone is untouched"),
            pytest.param(A, [(B, UNKNOWN), (A, UNKNOWN)], None, id="changed and changed back is untouched"),
        ],
    )
    def test_what_becomes_of_a_path(self, was, rows, decision):
        decisions = decide_all([history(was, *rows)], exact=False)
        assert lists_of(complete(decisions, NOTHING)).get(b"f") == decision
        assert decisions.untouched == (decision is None)

    def test_exact_removes_whatever_is_newer(self):
        plan = complete(decide_all([history(ABSENT, (B, UNKNOWN))], exact=True), NOTHING)
        assert lists_of(plan) == {b"f": "remove"}


class TestScopeSession:
    @pytest.mark.parametrize(
        ("was", "rows", "decision", "wanted"),
        [
            pytest.param(A, [(B, SURE)], "restore", A, id="sure"),
            pytest.param(A, [(B, LIKELY)], "restore likely", A, id="likely is marked"),
            pytest.param(A, [(B, SURE), (C, LIKELY)], "restore likely", A, id="one that is only likely marks all"),
            pytest.param(ABSENT, [(B, SURE)], "remove", ABSENT, id="what it made goes"),
            pytest.param(A, [(ABSENT, LIKELY)], "restore likely", A, id="what it removed comes back"),
            pytest.param(A, [(B, UNKNOWN)], None, None, id="what others did is untouched"),
            pytest.param(A, [(B, SOMEONE)], None, None, id="what another session did is untouched"),
            pytest.param(A, [(B, SURE), (A, SURE)], None, None, id="it has changed it back itself"),
            pytest.param(A, [(B, UNKNOWN), (C, SURE)], "restore", B, id="back to what the user had left"),
            pytest.param(A, [(ABSENT, UNKNOWN), (C, SURE)], "remove", ABSENT, id="back to nothing"),
            pytest.param(A, [(B, SURE), (C, UNKNOWN)], "conflict changed_later", None, id="changed later"),
            pytest.param(A, [(B, SURE), (ABSENT, SOMEONE)], "conflict changed_later", None, id="removed later"),
            pytest.param(A, [(B, SURE), (C, UNKNOWN), (D, SURE)], "conflict mixed_writers", None, id="mixed writers"),
            pytest.param(A, [(B, SHARED)], "conflict shared_writer", None, id="shared"),
            pytest.param(A, [(B, SHARED), (C, SURE)], "conflict shared_writer", None, id="shared, then its own"),
            pytest.param(A, [(B, SHARED), (C, UNKNOWN)], "conflict shared_writer", None, id="shared, then another's"),
            pytest.param(A, [(B, SURE), (A, OPERATION)], None, None, id="rewound already"),
            pytest.param(A, [(B, SURE), (A, OPERATION), (B, OPERATION)], "restore", A, id="rewound and undone"),
            pytest.param(
                A,
                [(B, UNKNOWN), (C, SURE), (B, OPERATION)],
                None,
                None,
                id="rewound to the user's state",
            ),
            pytest.param(A, [(B, SURE), (D, OPERATION)], "conflict changed_later", None, id="an operation from before"),
        ],
    )
    def test_what_becomes_of_a_path(self, was, rows, decision, wanted):
        decisions = decide_windows([history(was, *rows)], {MINE})
        plan = complete(decisions, NOTHING)
        assert lists_of(plan).get(b"f") == decision
        assert [change.wanted for change in plan.changes] == ([wanted] if wanted else [])
        assert decisions.untouched == (decision is None)

    def test_a_shared_write_of_two_windows_of_the_session_is_its_own(self):
        assert not decide_windows([history(A, (B, LIKELY), (C, SOMEONE))], {MINE, OTHER}).conflicts


class TestUndo:
    @pytest.mark.parametrize(
        ("before", "left", "now", "decision"),
        [
            (A, B, B, "restore"),
            (A, ABSENT, ABSENT, "restore"),
            (ABSENT, B, B, "remove"),
            (A, B, C, "conflict changed_later"),
            (A, ABSENT, C, "conflict changed_later"),
            (ABSENT, B, C, "conflict changed_later"),
            (A, B, A, None),
            (A, B, file(b"b", 0o600), "conflict changed_later"),
        ],
    )
    def test_what_becomes_of_a_path(self, before, left, now, decision):
        decisions = decide_reverse([PathHistory(path=b"f", then=before, now=now)], {b"f": left})
        assert lists_of(complete(decisions, NOTHING)).get(b"f") == decision
        assert decisions.untouched == (decision is None)


class TestWhatCannotBeDone:
    @pytest.mark.parametrize(
        ("now", "wanted", "decision"),
        [
            pytest.param(TOO_LARGE, A, "skipped too_large", id="not recorded now"),
            pytest.param(B, TOO_LARGE, "skipped too_large", id="not recorded then"),
            pytest.param(DEPENDENCIES, ABSENT, "skipped dependencies", id="newer and not recorded"),
            pytest.param(special(b"socket"), ABSENT, "skipped special", id="a socket"),
            pytest.param(A, special(b"block"), "skipped special", id="a device"),
            pytest.param(special(b"fifo"), A, "restore", id="a fifo can be replaced"),
            pytest.param(ABSENT, special(b"fifo"), "restore", id="a fifo can be made"),
            pytest.param(B, file(b"a", torn=True), "conflict torn", id="the past state is torn"),
            pytest.param(file(b"b", torn=True), A, "conflict changing", id="the present state is torn"),
            pytest.param(file(b"b", torn=True), file(b"a", torn=True), "conflict torn", id="both are torn"),
        ],
    )
    def test_a_state_that_is_not_in_the_store_is_left(self, now, wanted, decision):
        assert lists_of(planned(Change(path=b"f", now=now, wanted=wanted))) == {b"f": decision}

    def test_a_path_that_is_held_open_is_left_for_the_reason_that_was_found(self):
        around = Surroundings(held={b"f": "held_open by pid 7"})
        plan = planned(Change(path=b"f", now=B, wanted=A), around=around)
        assert lists_of(plan) == {b"f": "conflict held_open by pid 7"}

    def test_further_entries_that_are_not_recorded_are_no_path(self):
        assert lists_of(planned(Change(path=b"d/", now=DEPENDENCIES, wanted=ABSENT))) == {}


class TestDirectories:
    GOES = Change(path=b"d", now=folder(), wanted=ABSENT)
    BECOMES = Change(path=b"d", now=folder(), wanted=A)

    @pytest.mark.parametrize(
        ("change", "inside", "decision"),
        [
            (GOES, [], "remove"),
            (GOES, [Change(path=b"d/x", now=A, wanted=ABSENT)], "remove"),
            (GOES, [Change(path=b"d/x", now=A, wanted=B)], "kept not_empty"),
            (GOES, [Change(path=b"d/x", now=TOO_LARGE, wanted=ABSENT)], "kept not_empty"),
            (BECOMES, [], "restore"),
            (BECOMES, [Change(path=b"d/x", now=A, wanted=ABSENT)], "restore"),
            (BECOMES, [Change(path=b"d/x", now=TOO_LARGE, wanted=ABSENT)], "conflict directory_not_empty"),
        ],
    )
    def test_a_directory_goes_only_if_everything_in_it_goes(self, change, inside, decision):
        around = Surroundings(below={b"d": [c.path for c in inside]}, folders={b"d": (change.now, change.wanted)})
        assert lists_of(planned(change, *inside, around=around))[b"d"] == decision

    def test_what_was_never_decided_about_keeps_a_directory(self):
        assert lists_of(planned(self.GOES, around=Surroundings(below={b"d": [b"d/x"]}))) == {b"d": "kept not_empty"}

    def test_a_directory_that_stays_keeps_the_one_above(self):
        inner = Change(path=b"d/e", now=folder(), wanted=ABSENT)
        around = Surroundings(below={b"d": [b"d/e", b"d/e/x"], b"d/e": [b"d/e/x"]})
        plan = planned(self.GOES, inner, around=around)
        assert lists_of(plan) == {b"d": "kept not_empty", b"d/e": "kept not_empty"}

    def test_missing_parents_come_back_with_what_needs_them(self):
        around = Surroundings(folders={b"d": (ABSENT, folder(0o700)), b"d/e": (ABSENT, folder())})
        plan = planned(Change(path=b"d/e/f", now=ABSENT, wanted=A), around=around)
        assert lists_of(plan) == {b"d": "restore parent", b"d/e": "restore parent", b"d/e/f": "restore"}
        assert plan.restore[0].wanted == folder(0o700)

    @pytest.mark.parametrize(
        ("now", "then"),
        [(A, folder()), (link(), folder()), (DEPENDENCIES, folder()), (ABSENT, ABSENT), (ABSENT, A)],
    )
    def test_a_path_whose_parent_is_no_directory_is_a_conflict(self, now, then):
        around = Surroundings(folders={b"d": (now, then)})
        plan = planned(Change(path=b"d/f", now=ABSENT, wanted=A), around=around)
        assert lists_of(plan) == {b"d/f": "conflict parent_not_directory"}

    def test_a_parent_that_is_a_conflict_is_not_made_for_its_child(self):
        around = Surroundings(folders={b"d": (ABSENT, folder())})
        plan = planned(
            Change(path=b"d/f", now=ABSENT, wanted=A),
            around=around,
            conflicts=[Left(path=b"d", reason="changed_later")],
        )
        assert lists_of(plan) == {b"d": "conflict changed_later", b"d/f": "conflict parent_not_directory"}

    def test_no_parent_is_made_for_a_path_that_stays_away(self):
        around = Surroundings(folders={b"d": (ABSENT, folder()), b"d/e": (ABSENT, folder())})
        plan = planned(
            Change(path=b"d/e/f", now=ABSENT, wanted=A),
            around=around,
            conflicts=[Left(path=b"d/e", reason="changed_later")],
        )
        assert lists_of(plan) == {b"d/e": "conflict changed_later", b"d/e/f": "conflict parent_not_directory"}

    @pytest.mark.parametrize(
        ("mode", "opened"), [(0o755, []), (0o555, [b"d"]), (0o300, []), (0o700, []), (0o400, [b"d"])]
    )
    def test_a_directory_that_allows_no_changes_is_opened_for_them(self, mode, opened):
        around = Surroundings(folders={b"d": (folder(mode), folder(mode))})
        plan = planned(Change(path=b"d/f", now=B, wanted=A), around=around)
        assert [(change.path, change.wanted) for change in plan.opened] == [(path, folder(mode)) for path in opened]


class TestDatabases:
    OLD, NEW = file(b"old", sqlite=True), file(b"new", sqlite=True)
    MAIN = Change(path=b"x.db", now=NEW, wanted=OLD)
    WAL = Change(path=b"x.db-wal", now=B, wanted=A)

    def test_a_database_and_its_side_files_move_together(self):
        assert lists_of(planned(self.MAIN, self.WAL)) == {b"x.db": "restore", b"x.db-wal": "restore"}

    def test_a_newer_side_file_goes_with_its_database(self):
        newer = Change(path=b"x.db-wal", now=B, wanted=ABSENT, reason="newer")
        plan = planned(self.MAIN, kept=[newer])
        assert lists_of(plan) == {b"x.db": "restore", b"x.db-wal": "remove"}

    def test_a_newer_database_is_kept_as_a_whole(self):
        newer = [
            Change(path=b"x.db", now=self.NEW, wanted=ABSENT, reason="newer"),
            Change(path=b"x.db-wal", now=B, wanted=ABSENT, reason="newer"),
        ]
        plan = planned(kept=newer, around=Surroundings(databases=[b"x.db"]))
        assert lists_of(plan) == {b"x.db": "kept newer", b"x.db-wal": "kept newer"}

    @pytest.mark.parametrize("held", [b"x.db", b"x.db-wal", b"x.db-shm"])
    def test_one_that_is_held_open_holds_all_of_them(self, held):
        around = Surroundings(held={held: "held_open by pid 7"}, databases=[b"x.db"])
        newer = Change(path=b"x.db-shm", now=C, wanted=ABSENT, reason="newer")
        plan = planned(self.MAIN, self.WAL, around=around, kept=[newer])
        assert lists_of(plan) == dict.fromkeys([b"x.db", b"x.db-shm", b"x.db-wal"], "conflict held_open by pid 7")

    @pytest.mark.parametrize("blocked", [b"x.db", b"x.db-wal"])
    def test_one_that_is_a_conflict_makes_all_conflicts(self, blocked):
        changes = [change for change in (self.MAIN, self.WAL) if change.path != blocked]
        plan = planned(
            *changes,
            around=Surroundings(databases=[b"x.db"]),
            conflicts=[Left(path=blocked, reason="changed_later")],
        )
        others = {change.path: "conflict database" for change in changes}
        assert lists_of(plan) == {blocked: "conflict changed_later", **others}

    def test_a_torn_side_file_keeps_the_database_away(self):
        torn = Change(path=b"x.db-wal", now=B, wanted=file(b"a", torn=True))
        assert lists_of(planned(self.MAIN, torn)) == {b"x.db": "conflict database", b"x.db-wal": "conflict torn"}

    def test_files_that_only_look_like_side_files_are_on_their_own(self):
        plan = planned(
            Change(path=b"notes", now=B, wanted=A), Change(path=b"notes-wal", now=B, wanted=file(b"a", torn=True))
        )
        assert lists_of(plan) == {b"notes": "restore", b"notes-wal": "conflict torn"}

    @pytest.mark.parametrize("newer", [b"x.db", b"x.db-wal", b"x.db-shm"])
    def test_one_that_changed_after_the_agreement_holds_all_of_them_back(self, newer):
        plan = planned(self.MAIN, self.WAL, around=Surroundings(databases=[b"x.db"]))
        held = {b"x.db": "conflict database", b"x.db-wal": "conflict database"}
        changed = {newer: "conflict changed_later"} if newer in held else {}
        assert lists_of(hold_back(plan, {newer})) == {**held, **changed}

    @pytest.mark.parametrize("missing", [b"x.db-wal", b"x.db-shm", b"x.db-journal"])
    def test_one_of_which_a_part_is_not_recorded_is_a_conflict_as_a_whole(self, missing):
        shm = Change(path=b"x.db-shm", now=C, wanted=ABSENT, reason="newer")
        changes = [change for change in (self.MAIN, self.WAL) if change.path != missing]
        kept = [shm] if missing != shm.path else []
        plan = planned(*changes, kept=kept, around=Surroundings(databases=[b"x.db"], missing=[missing]))
        assert lists_of(plan) == {change.path: "conflict database" for change in (*changes, *kept)}

    @pytest.mark.parametrize(("now", "wanted"), [(TOO_LARGE, A), (B, TOO_LARGE), (special(b"socket"), A)])
    def test_a_side_file_that_cannot_come_back_keeps_the_database_away(self, now, wanted):
        plan = planned(self.MAIN, Change(path=b"x.db-wal", now=now, wanted=wanted))
        assert lists_of(plan)[b"x.db"] == "conflict database"
        assert lists_of(plan)[b"x.db-wal"].startswith("skipped ")

    def test_side_files_of_one_that_is_not_recorded_stay(self):
        shm = Change(path=b"x.db-shm", now=C, wanted=ABSENT, reason="newer")
        around = Surroundings(databases=[b"x.db"], missing=[b"x.db"])
        plan = planned(Change(path=b"x.db", now=TOO_LARGE, wanted=self.OLD), self.WAL, kept=[shm], around=around)
        stay = dict.fromkeys([b"x.db-shm", b"x.db-wal"], "conflict database")
        assert lists_of(plan) == {b"x.db": "skipped too_large", **stay}

    def test_a_newer_side_file_of_one_that_is_not_recorded_is_kept_as_everywhere(self):
        newer = Change(path=b"x.db-wal", now=B, wanted=ABSENT, reason="newer")
        plan = planned(kept=[newer], around=Surroundings(databases=[b"x.db"], missing=[b"x.db"]))
        assert lists_of(plan) == {b"x.db-wal": "kept newer"}

    def test_no_log_comes_back_beside_a_newer_database_that_is_kept(self):
        newer = Change(path=b"x.db", now=self.NEW, wanted=ABSENT, reason="newer")
        plan = planned(self.WAL, kept=[newer], around=Surroundings(databases=[b"x.db"]))
        assert lists_of(plan) == {b"x.db": "kept newer", b"x.db-wal": "conflict database"}

    @pytest.mark.parametrize(
        ("main", "wal", "decisions"),
        [
            pytest.param(
                [(3, "new", SURE)], [(2, "b", SURE)], {b"x.db": "restore", b"x.db-wal": "restore"}, id="its own"
            ),
            pytest.param(
                [(1, "mid", UNKNOWN), (3, "new", SURE)],
                [(2, "b", SURE)],
                {b"x.db": "restore", b"x.db-wal": "restore"},
                id="others before",
            ),
            pytest.param(
                [(2, "mid", UNKNOWN), (3, "new", SURE)],
                [(1, "b", SURE)],
                dict.fromkeys([b"x.db", b"x.db-wal"], "conflict mixed_writers"),
                id="others in between, in another file of it",
            ),
            pytest.param(
                [(1, "new", SURE)],
                [(2, "b", UNKNOWN)],
                {b"x.db": "conflict mixed_writers", b"x.db-wal": "conflict changed_later"},
                id="others later, in another file of it",
            ),
        ],
    )
    def test_what_others_did_to_a_part_of_one_they_did_to_all_of_it(self, main, wal, decisions):
        histories = [
            PathHistory(
                path=path,
                then=then,
                now=file(rows[-1][1].encode(), sqlite=then.sqlite),
                versions=tuple(
                    Version(path=path, seq=seq, state=file(text.encode(), sqlite=then.sqlite), writer=writer)
                    for seq, text, writer in rows
                ),
            )
            for path, then, rows in ((b"x.db", self.OLD, main), (b"x.db-wal", A, wal))
        ]
        assert lists_of(complete(decide_windows(histories, {MINE}), NOTHING)) == decisions

    def test_what_is_overwritten_of_one_is_of_one_moment(self):
        mid = file(b"mid", sqlite=True)
        histories = [
            PathHistory(
                path=b"x.db",
                then=self.OLD,
                now=self.NEW,
                versions=(
                    Version(path=b"x.db", seq=2, state=mid, writer=UNKNOWN),
                    Version(path=b"x.db", seq=3, state=self.NEW, writer=SURE),
                ),
            ),
            PathHistory(
                path=b"x.db-wal",
                then=A,
                now=B,
                versions=(Version(path=b"x.db-wal", seq=1, state=B, writer=SURE),),
            ),
        ]
        contested = decide_windows(histories, {MINE}).contested
        assert [(one.change.path, one.change.wanted) for one in contested] == [(b"x.db", self.OLD), (b"x.db-wal", A)]

    def test_a_database_that_only_changed_after_the_agreement_keeps_its_side_files(self):
        assert lists_of(hold_back(planned(self.WAL), {b"x.db"})) == {b"x.db-wal": "conflict database"}

    def test_what_only_looks_like_a_side_file_is_held_back_alone(self):
        plan = planned(Change(path=b"notes", now=B, wanted=A), Change(path=b"notes-wal", now=B, wanted=A))
        assert lists_of(hold_back(plan, {b"notes"})) == {b"notes": "conflict changed_later", b"notes-wal": "restore"}


def test_what_has_to_be_known_beside_the_decided_paths():
    decisions = Decisions(
        changes=[
            Change(path=b"d", now=folder(), wanted=ABSENT),
            Change(path=b"e", now=folder(), wanted=folder(0o700)),
            Change(path=b"p/q/x.db-wal", now=A, wanted=B),
            Change(path=b"no-wal", now=folder(), wanted=folder(0o700)),
            Change(path=b"z", now=A, wanted=file(b"z", sqlite=True)),
        ],
        kept=[Change(path=b"y-journal", now=A, wanted=ABSENT)],
    )
    leaving, around, databases = surroundings_needed(decisions)
    assert (leaving, around, databases) == ([b"d"], {b"p", b"p/q"}, {b"p/q/x.db", b"y", b"z"})


@given(
    st.lists(st.tuples(st.sampled_from([A, B, ABSENT]), st.sampled_from([LIKELY, SURE, UNKNOWN, SHARED])), max_size=5)
)
def test_what_comes_back_is_a_state_that_the_path_had(rows):
    """And it is the one before the session's first change, with nobody else's change after that."""
    rows = [row for before, row in pairwise([(A, None), *rows]) if before[0] != row[0]]
    for change in decide_windows([history(A, *rows)], {MINE}).changes:
        at = next(at for at, (_, writer) in enumerate(rows) if writer in (LIKELY, SURE))
        assert change.wanted == ([A, *(state for state, _ in rows)])[at]
        assert {writer for _, writer in rows[at:]} <= {LIKELY, SURE}


def test_a_plan_lists_its_paths_in_order():
    plan = planned(*[Change(path=path, now=A, wanted=B) for path in (b"b", b"a", b"\xff", b"-")])
    assert [change.path for change in plan.restore] == [b"-", b"a", b"b", b"\xff"]
