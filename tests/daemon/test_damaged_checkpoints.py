"""A checkpoint that is damaged is refused with the paths that it cannot give back; the rest stays usable, and with ``partial``
all that is sound comes back.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest

from openoxide.daemon.mending import repair
from openoxide.errors import NotFoundError, StoreDamagedError
from tests.kit import tree_of
from tests.kit.box import Box
from tests.kit.recorded import wait_for_full_pass

NAMES = ("a", "b", "c")


@pytest.fixture
def box(tmp_path):
    """Three files, each with a second content, in two packs: that of the first ones is the first."""
    before = os.umask(0o077)
    box = Box(tmp_path)
    for name in NAMES:
        (box.root / name).write_text(f"first {name}\n")
    box.watch()
    box.stop()
    box.start()
    box.watch()
    wait_for_full_pass(box)  # else it may seal in the middle of the writing
    for name in NAMES:
        (box.root / name).write_text(f"second {name}\n")
    box.checkpoint("second")
    yield box
    box.stop()
    os.umask(before)


def changed_while_stopped(box, change):
    """``change`` a stopped store, then repair it."""
    box.stop()
    (box.home.folder / "oxided.lock").touch(0o600)
    change(box.home)
    answer = repair(box.home, dry_run=False, report=lambda _: None)
    box.start()
    box.watch()
    wait_for_full_pass(box)
    return answer


def bend_a_state(home):
    """The first state of a has another mode than the one that was sealed."""
    with closing(sqlite3.connect(home.timeline_db)) as db, db:
        db.execute("update version set mode = mode + 1 where seq = (select min(seq) from version join path on id = version.path"
                   " where path.path = x'61')")  # fmt: skip


def lose_a_pack(home):
    min(home.blobs.glob("*.pack")).unlink()


def reads(box):
    return [(box.root / name).read_text() for name in NAMES]


def test_a_checkpoint_whose_sum_is_another_is_refused_with_what_nobody_can_tell(box):
    answer = changed_while_stopped(box, bend_a_state)
    assert answer["lost"][0]["affected"][0]["checkpoints"] == [1]

    with pytest.raises(StoreDamagedError, match="checkpoint 1 is damaged") as refused:
        box.rewind("1", dry_run=True)

    # b and c changed since, too: no later checkpoint proves what they were
    assert refused.value.details["paths"] == ["a", "b", "c"]
    assert reads(box) == ["second a\n", "second b\n", "second c\n"]
    with pytest.raises(StoreDamagedError):
        box.call("restore", checkpoint="1", to=str(box.root.parent / "then"))
    assert not (box.root.parent / "then").exists()


def test_what_a_later_checkpoint_proves_is_not_in_doubt(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "a").write_text("first a\n")
        (box.root / "still").write_text("still\n")
        box.watch()
        for content in ("second", "third"):
            (box.root / "a").write_text(f"{content} a\n")
            box.checkpoint()
        (box.root / "still").write_text("changed\n")
        box.checkpoint()
        changed_while_stopped(box, bend_a_state)

        with pytest.raises(StoreDamagedError) as refused:
            box.rewind("1")
        answer = box.rewind("1", partial=True)

        assert refused.value.details["paths"] == ["a"]
        assert [(entry["path"], entry["reason"]) for entry in answer["conflicts"]] == [("a", "damaged")]
        assert ((box.root / "a").read_text(), (box.root / "still").read_text()) == ("third a\n", "still\n")
        box.rewind("2")  # a sound one
        assert (box.root / "a").read_text() == "second a\n"


def forget_the_states(home):
    """As where the pages of versions and paths could not be read."""
    with closing(sqlite3.connect(home.timeline_db)) as db, db:
        db.execute("delete from version")
        db.execute("delete from live")
        db.execute("delete from path")


def test_what_no_row_names_any_more_is_not_taken_for_absent(box):
    (box.root / "gone").write_text("gone\n")
    box.checkpoint("with gone")
    (box.root / "gone").unlink()
    box.checkpoint()
    changed_while_stopped(box, forget_the_states)

    for name in (None, b"a", b"gone"):
        with pytest.raises((StoreDamagedError, NotFoundError)) as refused:
            box.rewind("with gone", dry_run=True, **({"paths": [os.fsdecode(name)]} if name else {}))
        # of the path that no row names nobody knows that it ever was
        assert refused.type is (NotFoundError if name == b"gone" else StoreDamagedError)
    with pytest.raises(StoreDamagedError, match="checkpoint 3 is damaged"):
        box.call("cat", checkpoint="with gone", file=str(box.root / "gone"))
    assert "checkpoint 3 is damaged: what 3 paths were is not known" in box.call("diff", a="with gone")["note"]
    with pytest.raises(StoreDamagedError):
        box.call("restore", checkpoint="with gone", to=str(box.root.parent / "then"))

    answer = box.rewind("with gone", partial=True)

    assert "checkpoint 3 is damaged: paths may be missing that no row names any more" in answer["notes"]


def test_contents_that_are_lost_are_left_out_and_all_else_comes_back(box):
    (box.root / "new").write_text("new\n")
    box.checkpoint("with new")
    (box.root / "new").unlink()
    answer = changed_while_stopped(box, lose_a_pack)
    assert answer["newly_lost"] == 3

    with pytest.raises(StoreDamagedError) as refused:
        box.rewind("1")
    assert refused.value.details["paths"] == ["a", "b", "c"]
    partial = box.rewind("1", partial=True)
    assert {(entry["path"], entry["reason"]) for entry in partial["conflicts"]} == {(name, "damaged") for name in NAMES}
    assert reads(box) == ["second a\n", "second b\n", "second c\n"]

    box.rewind("with new")
    assert (box.root / "new").read_text() == "new\n"


def turn_the_last_byte(pack):
    data = bytearray(pack.read_bytes())
    data[-1] ^= 0xFF
    pack.write_bytes(data)


def left(box):
    found = {
        p["kind"]: p
        for p in box.call("doctor")["problems"]
        if p["kind"] in ("copies_left", "packs_left", "packs_aside")
    }
    return {kind: problem["severity"] for kind, problem in found.items()}, [*found.values()]


def done_as_told(problem):
    (command,) = re.findall("`(rm [^`]*)`", problem["hint"])
    subprocess.run(shlex.split(command), check=True)


def two_repairs(box):
    """Each loses contents in a pack of its own, which is set aside; the names of these two packs in the home."""
    packs = sorted(box.home.blobs.glob("*.pack"))
    box.stop()
    box.start()  # what comes now lies in a pack of its own
    box.watch()
    for name in NAMES:
        (box.root / name).write_text(f"third {name}\n")
    box.checkpoint("third")
    for pack in packs:
        assert changed_while_stopped(box, lambda _, pack=pack: turn_the_last_byte(pack))["newly_lost"]
    return [f"blobs/{pack.name}.aside" for pack in packs]


def test_what_repairs_left_goes_by_one_command(box):
    names = two_repairs(box)

    kinds, (told,) = left(box)

    assert kinds == {"copies_left": "note"}
    assert all(name in told["message"] and str(box.home.folder / name) in told["hint"] for name in names)
    done_as_told(told)
    assert left(box) == ({}, [])
    assert not [*box.home.folder.glob("repair-*"), *box.home.blobs.glob("*.aside")]
    assert not [p for p in box.call("check", read_data=True)["problems"] if p["kind"] not in ("lost", "mode")]


def test_packs_of_a_repair_whose_folder_is_gone_are_what_can_be_deleted(box):
    first, second = two_repairs(box)
    shutil.rmtree(min(box.home.folder.glob("repair-*")))

    kinds, told = left(box)

    assert kinds == {"copies_left": "note", "packs_left": "note"}
    assert first in told[1]["message"]
    assert second in told[0]["message"]
    assert first not in told[0]["message"]
    assert box.call("status")["daemon"]["problems"] == []
    done_as_told(told[1])
    assert left(box)[0] == {"copies_left": "note"}
    assert (box.home.folder / second).exists()


def test_a_copy_is_all_that_can_be_had(box):
    (box.root / "d").write_text("d\n")
    box.checkpoint("with d")
    (box.root / "a").write_text("third a\n")
    changed_while_stopped(box, lambda home: sorted(home.blobs.glob("*.pack"))[1].unlink())
    to = box.root.parent / "then"

    with pytest.raises(StoreDamagedError) as refused:
        box.call("restore", checkpoint="with d", to=str(to))
    assert not to.exists()
    answer = box.call("restore", checkpoint="with d", to=str(to), partial=True)

    # all but a are still in the tree, where the repair found them
    assert refused.value.details["paths"] == ["a"]
    assert [(entry["path"], entry["reason"]) for entry in answer["skipped"]] == [("a", "damaged")]
    assert sorted(entry.name for entry in to.iterdir()) == ["b", "c", "d"]


def test_a_sound_store_gives_back_in_part_what_is_absent_on_one_side(box):
    (box.root / "a").unlink()
    (box.root / "folder").mkdir()
    (box.root / "folder" / "new").write_text("new\n")
    os.symlink("b", box.root / "link")

    plan = box.rewind("second", partial=True, exact=True, dry_run=True)
    answer = box.rewind("second", partial=True, exact=True)

    assert plan["conflicts"] == answer["conflicts"] == []
    assert [entry["path"] for entry in answer["restored"]] == ["a"]
    assert {entry["path"] for entry in answer["removed"]} == {"folder", "folder/new", "link"}
    assert reads(box) == ["second a\n", "second b\n", "second c\n"]


def test_damage_that_nobody_has_marked_yet_is_met_alike(box):
    """Without a repair: one content of three is damaged in its pack."""
    pack = min(box.home.blobs.glob("*.pack"))
    data = bytearray(pack.read_bytes())
    data[-1] ^= 0xFF
    pack.write_bytes(data)
    with pytest.raises(StoreDamagedError) as refused:
        box.rewind("1")
    bad = refused.value.details["paths"]

    answer = box.rewind("1", partial=True)

    assert [entry["path"] for entry in answer["conflicts"]] == bad
    assert [entry["path"] for entry in answer["restored"]] == [name for name in NAMES if name not in bad]


def unmarked(box):
    box.stop()
    lose_a_pack(box.home)
    box.start()
    box.watch()


@pytest.mark.parametrize("damage", [unmarked, lambda box: changed_while_stopped(box, lose_a_pack)])
@pytest.mark.parametrize(
    "back", [lambda box, **options: box.rewind("1", **options), lambda box, **options: box.call("undo", **options)]
)
def test_a_dry_run_is_refused_as_what_it_is_a_dry_run_of(box, damage, back):
    """Undo brings the first contents back too, after a rewind to the second ones."""
    box.rewind("1")
    box.rewind("second")
    for name in NAMES[1:]:  # not in the tree any more, where they would be found
        (box.root / name).write_text(f"third {name}\n")
    box.checkpoint()
    damage(box)
    before = tree_of(box.root)

    with pytest.raises(StoreDamagedError) as planned:
        back(box, dry_run=True)
    with pytest.raises(StoreDamagedError) as refused:
        back(box)

    assert planned.value.details["paths"][0] == "a"
    assert (planned.value.message, planned.value.hint, planned.value.details) == (
        refused.value.message,
        refused.value.hint,
        refused.value.details,
    )
    assert tree_of(box.root) == before


def test_a_content_that_cannot_be_shown_is_named_with_what_helps(box):
    turn_the_last_byte(min(box.home.blobs.glob("*.pack")))

    with pytest.raises(StoreDamagedError, match="cannot give c at checkpoint 1 back") as refused:
        box.call("cat", checkpoint="1", file=str(box.root / "c"))

    assert "zstd" not in refused.value.message.lower()
    assert "oxide-ctl repair --dry-run" in refused.value.hint
    assert "oxide-ctl history c" in refused.value.hint
    assert refused.value.details["paths"] == ["c"]


def test_a_folder_that_is_in_doubt_keeps_what_would_go_into_it(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "a").mkdir()
        (box.root / "a" / "file").write_text("in it\n")
        box.watch()
        (box.root / "a" / "file").unlink()
        (box.root / "a").rmdir()
        box.checkpoint()
        changed_while_stopped(box, bend_a_state)

        answer = box.rewind("1", partial=True)

        assert {entry["path"] for entry in answer["conflicts"]} == {"a", "a/file"}
        assert not (box.root / "a").exists()
