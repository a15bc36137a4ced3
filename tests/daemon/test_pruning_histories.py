"""Random histories, pruned: nobody who looks at what is kept can tell that there was a prune."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openoxide.errors import NotFoundError, OpenOxideError
from tests.daemon.aged import DAY_MS, age, problems, record, release, sql
from tests.kit import FakeClock, diff_trees, effort, tree_of
from tests.kit.box import Box

STAGING = b".openoxide-staging"
SESSIONS = ("a", "b")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(0, 5)),
        st.tuples(st.just("remove"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("record"), st.just(0), st.just(0)),
        st.tuples(st.just("turn"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("tool"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("seal"), st.just(0), st.just(0)),
        st.tuples(st.just("rewind"), st.integers(0, 9), st.integers(0, 2)),
        st.tuples(st.just("undo"), st.just(0), st.just(0)),
        # what others did in between is what plans are about
        st.tuples(st.just("burst"), st.integers(0, 1), st.integers(0, 5)),
        st.tuples(st.just("burst"), st.integers(0, 1), st.integers(0, 5)),
        st.tuples(st.just("edit"), st.integers(0, 1), st.integers(0, 5)),
        st.tuples(st.just("edit"), st.integers(0, 1), st.integers(0, 5)),
    ),
    min_size=6,
    max_size=22,
)
TEXTS = [b"".join(b"line %d of %d\n" % (line, min(text, line % 7)) for line in range(300)) for text in range(6)]


class Acting:
    """Carries steps out on a box and keeps a copy of the tree at each checkpoint."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.trees: dict[int, dict[bytes, tuple[object, ...]]] = {}
        self.open: dict[str, list[str]] = {name: [] for name in SESSIONS}
        self.tick = 1_700_000_000_000_000_000
        self.turns = 0

    def sealed(self, number: int) -> None:
        self.trees[number] = tree_of(self.box.root, skip={STAGING})

    def act(self, what: str, which: int, more: int) -> None:
        getattr(self, what)(which, more)

    def write(self, which: int, more: int) -> None:
        path = self.box.root / ("f0", "f1", "d/f2", "d/f3")[which]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(TEXTS[more])
        self.tick += 1_000_000_000
        os.utime(path, ns=(self.tick, self.tick))

    def remove(self, which: int, _more: int) -> None:
        (self.box.root / ("f0", "f1", "d/f2", "d/f3")[which]).unlink(missing_ok=True)

    def record(self, _which: int, _more: int) -> None:
        record(self.box)

    def turn(self, which: int, _more: int) -> None:
        session = SESSIONS[which]
        if self.open[session]:
            self.open[session].clear()
            number = self.box.call("turn_end", session=session)["checkpoint"]["number"]
        else:
            self.turns += 1
            self.open[session].append("turn")
            prompt = f"p{self.turns}"
            number = self.box.call("turn_begin", agent="x", session=session, prompt=prompt)["checkpoint"]["number"]
        self.sealed(number)

    def burst(self, which: int, more: int) -> None:
        """A turn that writes one file."""
        if not self.open[SESSIONS[which]]:
            self.turn(which, 0)
        self.write(more % 2, more)
        self.turn(which, 0)

    def edit(self, which: int, more: int) -> None:
        self.write(which, more)
        self.record(0, 0)

    def tool(self, which: int, _more: int) -> None:
        session = SESSIONS[which]
        if self.open[session] == ["turn"]:
            self.open[session].append("tool")
            self.box.call("tool_begin", agent="x", session=session, tool="t")
        elif self.open[session]:
            self.open[session].pop()
            self.box.call("tool_end", session=session, tool="t")

    def seal(self, _which: int, _more: int) -> None:
        self.sealed(self.box.checkpoint()["number"])

    def rewind(self, which: int, more: int) -> None:
        numbers = sorted(self.trees)
        target = numbers[which % len(numbers)]
        before = tree_of(self.box.root, skip={STAGING})
        options = [{"scope": "all"}, {"exact": True}, {}][more]
        answer = self.box.rewind(str(target), **options)
        self._operated(before, answer)

    def undo(self, _which: int, _more: int) -> None:
        if any(item["kind"] == "rewind" for item in self.box.call("operations")["items"]):
            before = tree_of(self.box.root, skip={STAGING})
            with suppress(NotFoundError):
                self._operated(before, self.box.call("undo"))

    def _operated(self, before: dict[bytes, tuple[object, ...]], answer: dict[str, object]) -> None:
        self.trees[answer["pre_rewind_checkpoint"]["number"]] = before
        if answer["operation"]:
            self.sealed(self.box.call("log", limit=1)["items"][0]["number"])


def told(box, trees):
    """Everything that the product says of what is kept: plans, diffs, what undo would do."""
    found = {}
    items = {item["number"]: item for item in box.call("log", all=True)["items"]}
    numbers = sorted(number for number in trees if number in items)
    for number, after in zip(numbers, [*numbers[1:], None], strict=True):
        found["diff", number] = box.call("diff", a=str(number), **({"b": str(after)} if after else {}))
        for options in ({"scope": "all"}, {"exact": True}):
            found["rewind", number, str(options)] = dry(box, number, options)
        if items[number]["session"]:
            for conflict in ("keep", "merge", "overwrite"):
                for scope in ("session", "turn"):
                    found["rewind", number, scope, conflict] = dry(box, number, {"scope": scope, "conflict": conflict})
    for prompt in {item["prompt"] for item in items.values() if item["prompt"] and item["trigger"] == "prompt"}:
        found["turn", prompt] = dry(box, None, {"turn": prompt, "conflict": "merge"})
    for kind in ("undo", "redo"):
        found[kind] = said(lambda kind=kind: box.call(kind, dry_run=True))
    return found


def dry(box, number, options):
    if number is None:
        return said(lambda: box.call("rewind", dry_run=True, **options))
    return said(lambda: box.rewind(str(number), dry_run=True, **options))


def said(ask):
    try:
        return ask()
    except OpenOxideError as error:
        return error.kind, error.message


@settings(max_examples=effort(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.sets(st.integers(0, 30), max_size=25), st.booleans())
def test_nobody_can_tell_that_there_was_a_prune(tmp_path_factory, history, released, restarts):
    folder = tmp_path_factory.mktemp("box")
    with Box(folder, clock=FakeClock()) as box:
        box.watch()
        acting = Acting(box)
        acting.sealed(1)
        for step in history:
            acting.act(*step)
        box.service.background.submit("nothing", lambda: None)
        acting.seal(0, 0)
        named = "select before from operation union select after from operation union select target from operation"
        floor = {row[0] for row in sql(box, f"select number from checkpoint where id in ({named})")}
        gone = {number for number in released if number in acting.trees and number not in {*floor, max(acting.trees)}}
        release(box, *gone)
        trees = {number: tree for number, tree in acting.trees.items() if number not in gone}
        age(box)
        acting.open = {name: [] for name in SESSIONS}
        for session in SESSIONS:
            said(lambda session=session: box.call("turn_end", session=session))
        before = told(box, trees)
        box.call("prune")
        assert_nothing_more_can_go(box)
        if restarts:
            box.stop()
            box.start()
            for watched in box.service.all_watched():
                with watched.lock:
                    box.service.attach(watched)
        assert told(box, trees) == before
        for number, tree in trees.items():
            if sql(box, "select 1 from checkpoint where number = ?", number):
                to = tempfile.mkdtemp(dir=folder)
                box.call("restore", checkpoint=str(number), to=to)
                assert not diff_trees(tree_of(to), tree)
                shutil.rmtree(to)
        assert problems(box) == []


def assert_nothing_more_can_go(box):
    """Of paths that no session and no operation has to do with, each row that is left is at a checkpoint or the last."""
    rows = sql(box, "select path, seq, writer from version order by path, seq")
    marks = [row[0] for row in sql(box, "select seq from checkpoint where failed is null")]
    day_ago = box.clock.now_ms() - DAY_MS
    old = [row[0] for row in sql(box, "select seq from checkpoint where failed is null and created_ms <= ?", day_ago)]
    plain = {path for path, _, _ in rows} - {path for path, _, writer in rows if writer is not None}
    for (path, seq, _), (after, until, _) in pairwise(rows):
        if path == after and path in plain and until <= max(old, default=0):
            assert any(seq <= mark < until for mark in marks)
