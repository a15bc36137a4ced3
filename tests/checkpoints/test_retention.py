"""The floor: what stays whoever asks, and the reason that is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.model import Checkpoint, Trigger
from openoxide.checkpoints.retention import Reason, floor, spare


def checkpoint(number: int, **more: object) -> Checkpoint:
    values = {"trigger": Trigger.QUIET, **more}
    return Checkpoint(
        id=f"id{number}", worktree=1, number=number, seq=number, created_at_ms=number, manifest_hash=b"", **values
    )


PROMPTS = [checkpoint(n, trigger=Trigger.PROMPT) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("kept", "befores", "reasons"),
    [
        ([], {"id1"}, {}),
        ([checkpoint(1)], (), {"id1": Reason.NEWEST}),
        ([checkpoint(1), checkpoint(2)], (), {"id2": Reason.NEWEST}),
        ([checkpoint(2), checkpoint(1)], (), {"id2": Reason.NEWEST}),
        ([checkpoint(1, pinned=True), checkpoint(2)], (), {"id1": Reason.PINNED, "id2": Reason.NEWEST}),
        ([checkpoint(1, pinned=True)], {"id1"}, {"id1": Reason.PINNED}),
        ([checkpoint(1), checkpoint(2), checkpoint(3)], {"id1"}, {"id1": Reason.UNDO, "id3": Reason.NEWEST}),
        ([checkpoint(1)], {"id1"}, {"id1": Reason.NEWEST}),
        (
            [*PROMPTS, checkpoint(6)],
            (),
            {"id3": Reason.RECENT_TURN, "id4": Reason.RECENT_TURN, "id5": Reason.RECENT_TURN, "id6": Reason.NEWEST},
        ),
        ([*PROMPTS], {"id4", "id9"}, {"id3": Reason.RECENT_TURN, "id4": Reason.UNDO, "id5": Reason.NEWEST}),
    ],
)
def test_the_floor_and_its_reasons(kept, befores, reasons):
    assert floor(kept, befores) == reasons


checkpoints = st.lists(st.integers(1, 30), unique=True).flatmap(
    lambda numbers: st.tuples(
        *(
            st.builds(checkpoint, st.just(n), pinned=st.booleans(), trigger=st.sampled_from(sorted(Trigger)))
            for n in numbers
        )
    )
)


@given(kept=checkpoints, asked=st.lists(st.integers(1, 30)), befores=st.sets(st.integers(1, 30)))
def test_each_that_was_asked_for_goes_or_stays_with_a_reason(kept, asked, befores):
    ids = {f"id{n}" for n in befores}
    wanted = [c for n in asked for c in kept if c.number == n]

    go, stay = spare(wanted, floor(kept, ids))

    assert sorted(c.number for c in [*go, *(item.checkpoint for item in stay)]) == sorted({c.number for c in wanted})
    newest = max((c.number for c in kept), default=0)
    turns = sorted(c.number for c in kept if c.trigger is Trigger.PROMPT)[-3:]
    for c in go:
        assert not c.pinned
        assert c.id not in ids
        assert c.number != newest
        assert c.number not in turns
