"""``pin``, ``unpin`` and ``name``: what is changed of a checkpoint, and nothing else."""

from __future__ import annotations

import pytest

from openoxide.errors import AmbiguousError, NotFoundError, UsageError

DAY_MS = 86_400_000


@pytest.fixture
def box(box):
    """With the checkpoints 1 and 2."""
    (box.root / "a").write_text("two\n")
    box.checkpoint("second")
    return box


# what `show` has beyond what every list has of a checkpoint
LOOKED_UP = ("changes", "writers", "skipped_paths", "git", "pruned_changes")


def shown(box, checkpoint="2"):
    item = box.call("show", checkpoint=checkpoint)
    return {key: value for key, value in item.items() if key not in LOOKED_UP}


def test_a_pinned_checkpoint_does_not_expire(box):
    before = shown(box)

    answer = box.call("pin", checkpoint="second")

    assert answer == {**before, "pinned": True, "expires_at": None}
    assert shown(box) == answer
    assert box.call("pin", checkpoint="2") == answer


def test_an_unpinned_one_has_its_whole_time_again(box, clock):
    box.call("pin", checkpoint="1")
    clock.advance(90 * DAY_MS)
    fresh = box.checkpoint()

    answer = box.call("unpin", checkpoint="1")

    assert (answer["pinned"], answer["expires_at"]) == (False, fresh["expires_at"])


def test_unpinning_what_is_not_pinned_gives_no_time(box, clock):
    before = shown(box)
    clock.advance(DAY_MS)

    assert box.call("unpin", checkpoint="2") == before


@pytest.mark.parametrize("new", ["works", "caf\N{LATIN SMALL LETTER E WITH ACUTE} 2", "second"])
def test_a_name_replaces_the_one_before(box, new):
    before = shown(box)

    assert box.call("name", checkpoint="2", name=new) == {**before, "name": new}
    assert box.call("show", checkpoint=new)["number"] == 2


def test_an_empty_name_takes_the_name_off(box):
    assert box.call("name", checkpoint="2", name="")["name"] is None
    with pytest.raises(NotFoundError):
        box.call("show", checkpoint="second")
    assert box.checkpoint("second")["number"] == 3


def test_a_name_means_one_checkpoint(box):
    with pytest.raises(UsageError, match="checkpoint 2 has the name 'second' already") as raised:
        box.call("name", checkpoint="1", name="second")
    assert "oxide-ctl name 2 ''" in raised.value.hint
    assert shown(box, "1")["name"] is None


@pytest.mark.parametrize("letters", [1, 8, 32])
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_name_is_no_start_of_the_id_of_another_checkpoint(box, letters, forgotten):
    other = shown(box, "1")["id"][:letters]
    if forgotten:
        box.call("forget", checkpoints=["1"])

    for name_it in (lambda: box.call("name", checkpoint="2", name=other), lambda: box.checkpoint(other)):
        with pytest.raises(UsageError, match=f"'{other}' already means checkpoint [12], whose id begins like it"):
            name_it()

    assert next(item["name"] for item in box.call("log")["items"]) == "second"


def test_its_own_id_is_a_name_for_a_checkpoint(box):
    own = shown(box)["id"]

    assert box.call("name", checkpoint="2", name=own)["name"] == own
    assert box.call("show", checkpoint=own)["number"] == 2


@pytest.mark.parametrize("new", ["42", "last", "last~2", "@2h", "turn:x", "#7", "-x", "a\nb", None, 3])
def test_what_cannot_be_a_name_is_refused(box, new):
    with pytest.raises(UsageError):
        box.call("name", checkpoint="2", name=new)
    assert shown(box)["name"] == "second"


@pytest.mark.parametrize("by", ["2", "#2", "second", "id"])
def test_what_is_in_trash_is_said_to_be_there(box, by):
    named = shown(box)["id"] if by == "id" else by
    box.checkpoint()
    box.call("forget", checkpoints=["2"])

    with pytest.raises(NotFoundError, match="checkpoint #2 is in trash") as raised:
        box.call("show", checkpoint=named)

    assert "oxide-ctl unforget 2" in raised.value.hint


@pytest.mark.parametrize(
    ("named", "said"), [("@9d", "the oldest one that is kept is #1 of"), ("turn:-1", "no turn was declared here")]
)
def test_what_is_not_there_comes_with_what_is(box, named, said):
    with pytest.raises(NotFoundError) as raised:
        box.call("show", checkpoint=named)

    assert said in f"{raised.value.message} {raised.value.hint}"


def test_nobody_is_told_to_watch_their_home_directory(box, monkeypatch):
    monkeypatch.setenv("HOME", str(box.root.parent))
    for path in (box.root.parent, "/"):
        with pytest.raises(NotFoundError) as raised:
            box.call("log", path=str(path))
        assert "watch" not in raised.value.hint


@pytest.mark.parametrize("what", ["pin", "unpin", "name"])
def test_what_names_no_checkpoint_is_not_found(box, what):
    with pytest.raises(NotFoundError):
        box.call(what, checkpoint="9", name="x")


def test_what_names_several_is_ambiguous(box):
    ids = [box.checkpoint()["id"] for _ in range(17)]
    letter = next(letter for letter in "klmnopqrstuvwxyz" if sum(name.startswith(letter) for name in ids) > 1)
    with pytest.raises(AmbiguousError):
        box.call("pin", checkpoint=letter)


def test_a_moment_says_which_checkpoint_was_taken(box, clock):
    clock.advance(5_000)

    answer = box.call("pin", checkpoint="@1s")

    assert (answer["number"], answer["pinned"]) == (2, True)
    assert "#2" in answer["note"]


def test_a_project_that_is_not_watched_any_more_can_be_pinned(box):
    box.call("unwatch")

    assert box.call("pin", checkpoint="1")["pinned"]
