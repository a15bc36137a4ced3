"""``purge --memory``: of a note every version but the one that stands, and with it every place that holds the same secret."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.daemon.operations.withdrawing import former_names
from openoxide.errors import ConflictError, NotFoundError, RefusedError, UsageError
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.scraps import Scrap, erase, scraps
from tests.daemon.test_purging import name_of, problems
from tests.kit import wait_until
from tests.kit.box import Box
from tests.kit.rawhome import texts

TOKEN = b"ghp_" + b"q8Zr2Lk9TmB4vN7c" * 2 + b"Xy1a"
OTHER = b"ghp_" + b"Zz7Qe1RkP0aVbN3d" * 2 + b"Uw5c"
WAIT_S = 30


def folder(box: Box) -> Path:
    place = Path(box.call("memory_index")["path"])
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def write(box: Box, name: str, text: bytes) -> None:
    """As an agent's own tool does, which asks nobody."""
    path = folder(box) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    box.checkpoint()


def where(box: Box, *needles: bytes) -> list[str]:
    """Every file of the home, frames unpacked, with one of ``needles`` in it."""
    return [at for at, data in texts(box.home.folder) if any(needle in data for needle in needles)]


@pytest.fixture(name="box")
def _box(tmp_path):
    """``api.md`` held TOKEN in three versions, and stands without it; ``kept.md`` never did."""
    with Box(tmp_path) as box:
        (box.root / "a").write_bytes(b"one\n")
        box.watch()
        write(box, "kept.md", b"# Kept\n\nnothing secret\n")
        for number in range(3):
            write(box, "api.md", b"# Api %d\n\nthe key is %s\n" % (number, TOKEN))
        write(box, "api.md", b"# Api\n\nthe key is in the vault\n")
        yield box


def test_after_the_line_is_taken_out_one_command_takes_every_version_with_it(box):
    assert where(box, TOKEN)
    before = {path.name: path.read_bytes() for path in folder(box).glob("*.md")}

    answer = box.call("purge", memory=["api.md"])

    assert (answer["finished"], answer["places"]["versions"], answer["contents"]) == (True, 3, 3)
    assert where(box, TOKEN) == problems(box) == answer["left"] == []
    assert {path.name: path.read_bytes() for path in folder(box).glob("*.md")} == before
    assert [item["reason"] for item in box.call("memory_history", name="api.md")["items"]] == ["", *["purged"] * 3]
    assert box.call("memory_history", name="kept.md")["items"][0]["reason"] == ""


def test_a_dry_run_tells_and_changes_nothing(box):
    plan = box.call("purge", memory=["api.md"], dry_run=True)
    assert (plan["refused"], [item["memory"] for item in plan["paths"]]) == (None, [True])
    assert (len(where(box, TOKEN)) > 0, TOKEN.decode() in repr(plan)) == (True, False)
    assert box.call("purge", memory=["api.md"], plan=plan["plan"]) == {**plan, "dry_run": False, "finished": True}


def test_what_stands_with_the_secret_in_it_is_refused_and_the_way_out_is_named(box):
    write(box, "api.md", b"# Api\n\nkey: %s\n" % TOKEN)
    plan = box.call("purge", memory=["api.md"], dry_run=True)
    with pytest.raises(RefusedError) as told:
        box.call("purge", memory=["api.md"])
    assert plan["refused"]["message"] == told.value.message
    assert ("memory edit api.md" in told.value.hint, "memory delete api.md" in told.value.hint) == (True, True)
    assert [item["path"] for item in told.value.details["paths"]] == ["api.md"]
    assert len([text for _, text in texts(box.home.blobs) if TOKEN in text]) > 0


def test_a_note_that_has_one_version_only_is_refused_as_it_stands(box):
    write(box, "one.md", b"# One\n\nkey: %s\n" % OTHER)
    with pytest.raises(RefusedError, match="no other version"):
        box.call("purge", memory=["one.md"])
    with pytest.raises(NotFoundError, match="only what stands there"):
        box.call("purge", memory=["kept.md"])
    with pytest.raises(NotFoundError, match="never had"):
        box.call("purge", memory=["never.md"])


def test_a_deleted_note_goes_whole_and_from_the_trash_too(box):
    box.call("memory_delete", name="api.md")
    assert list((folder(box).parent / "trash").rglob("api.md"))
    answer = box.call("purge", memory=["api.md"])
    assert (answer["places"]["trash"], answer["places"]["versions"]) == (1, 4)
    assert where(box, TOKEN, b"in the vault") == problems(box) == []
    assert list((folder(box).parent / "trash").iterdir()) == []
    assert box.call("memory_read", name="kept.md")["text"] == "# Kept\n\nnothing secret\n"


def test_a_text_that_was_refused_and_never_recorded_goes_with_its_note(box):
    with pytest.raises(ConflictError):
        box.call("memory_save", name="api.md", text="never recorded: marker\n", if_hash="0" * 64)
    assert where(box, b"never recorded: marker")
    box.call("purge", memory=["api.md"])
    assert where(box, b"never recorded: marker", TOKEN) == []


def test_what_others_put_aside_stays(box):
    box.call("memory_delete", name="kept.md")
    with pytest.raises(ConflictError):
        box.call("memory_save", name="other.md", text="of another note\n", if_hash="0" * 64)
    box.call("purge", memory=["api.md"])
    kept = {path.name: path.read_bytes() for path in (folder(box).parent / "trash").rglob("*.md")}
    assert kept == {"kept.md": b"# Kept\n\nnothing secret\n", "other.md": b"of another note\n"}


@pytest.mark.parametrize(
    ("left", "goes"),
    [
        (b"# Other\n\nhalf a note with %s" % TOKEN, True),
        (b"# Api 1\n\nthe key", True),  # the beginning of a version
        (b"# Api", False),  # too short to say whose it is
        (b"# Somebody's only copy of another text\n", False),
    ],
)
def test_what_a_killed_writer_has_left(box, left, goes):
    staging = folder(box).parent / "staging"
    staging.mkdir(mode=0o700, exist_ok=True)
    (staging / "4711-1").write_bytes(left)
    plan = box.call("purge", memory=["api.md"], dry_run=True)
    assert [item["path"] for item in plan["paths"] if item.get("reason") == "put aside"] == ["staging/4711-1"] * goes
    box.call("purge", memory=["api.md"])
    assert (staging / "4711-1").exists() is not goes
    assert where(box, TOKEN) == []


def test_other_notes_that_held_the_secret_lose_those_versions_and_no_others(box):
    write(box, "copy.md", b"# Copy\n\nfirst\n")
    write(box, "copy.md", b"# Copy\n\nalso %s\n" % TOKEN)
    write(box, "copy.md", b"# Copy\n\nlast\n")
    box.call("memory_rename", name="api.md", new="howto/api.md")
    answer = box.call("purge", memory=["howto/api.md"])
    assert where(box, TOKEN) == problems(box) == []
    told = {item["path"]: item.get("reason") for item in answer["paths"]}
    assert told == {"api.md": None, "copy.md": "the same secret"}
    assert [item["named"] for item in answer["paths"]] == [True, False]
    assert [item["reason"] for item in box.call("memory_history", name="copy.md")["items"]] == ["", "purged", ""]


A, B, C = (blob_hash(text) for text in (b"a", b"b", b"c"))


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({b"new": [B], b"old": [A, B, None]}, [b"old"]),
        ({b"new": [B, C], b"old": [A, B, None], b"oldest": [C, A, None]}, [b"old", b"oldest"]),
        ({b"new": [B], b"copied": [A, B]}, []),  # stands: a copy
        ({b"new": [B], b"another": [B, C, None]}, []),  # held something else by then
        ({b"new": [B, C], b"later": [C, None]}, []),
        ({b"new": [None, B], b"old": [A, B, None]}, [b"old"]),
        ({b"new": [None], b"gone": [None]}, []),
        ({b"new": [A, None], b"old": [A, None]}, [b"old"]),
    ],
)
def test_the_names_that_a_note_had_before(held, expected):
    assert former_names([b"new"], held) == expected


def test_another_note_that_stands_with_it_is_told_of_and_left(box):
    write(box, "copy.md", b"# Copy\n\nalso %s\n" % TOKEN)
    answer = box.call("purge", memory=["api.md"])
    assert [text for text in answer["left"] if "copy.md" in text]
    assert (folder(box) / "copy.md").read_bytes() == b"# Copy\n\nalso %s\n" % TOKEN
    assert box.call("memory_history", name="copy.md")["items"][0]["reason"] == ""


def test_the_same_bytes_in_a_tree_are_in_the_way_as_everywhere(box):
    (box.root / "b").write_bytes(b"# Api 1\n\nthe key is %s\n" % TOKEN)
    box.checkpoint()
    with pytest.raises(RefusedError, match=r"/b stands there still"):
        box.call("purge", memory=["api.md"])
    (box.root / "b").unlink()
    assert box.call("purge", memory=["api.md"])["finished"]
    assert where(box, TOKEN) == []


def test_a_note_with_the_bytes_of_a_file_is_in_the_way_of_a_purge_of_that(box):
    (box.root / "b").write_bytes(b"# Same\n\nas a note\n")
    write(box, "same.md", b"# Same\n\nas a note\n")
    (box.root / "b").unlink()
    box.checkpoint()
    with pytest.raises(RefusedError) as told:
        box.call("purge", paths=["b"])
    assert ("memory delete" in told.value.hint, ".oxideignore" in told.value.hint) == (True, False)
    box.call("memory_delete", name="same.md")
    assert box.call("purge", paths=["b"])["places"]["trash"] == 1
    assert where(box, b"# Same\n\nas a note") == []


def test_one_version_by_the_hash_that_its_history_shows(box):
    first = box.call("memory_history", name="api.md")["items"][-1]
    assert first["blob"] == name_of(b"# Api 0\n\nthe key is %s\n" % TOKEN)
    box.call("purge", blobs=[first["blob"]])
    assert [item["reason"] for item in box.call("memory_history", name="api.md")["items"]] == ["", "", "", "purged"]


def test_the_index_goes_from_the_files_that_agents_read(box):
    written = Path(box.call("memory_context", agent="aider", write=True)["written"])
    # not for the refresh that comes by itself
    box.service.background.stop()
    write(box, "MEMORY.md", b"# Memory\n\n- an address: marker-of-old-index\n")
    written.write_bytes(b"as it was: marker-of-old-index\n")
    written.with_name(written.name + ".new").write_bytes(b"half of it: marker-of-old-index")
    write(box, "MEMORY.md", b"# Memory\n\n- [Api](api.md)\n")
    plan = box.call("purge", memory=["MEMORY.md"], dry_run=True)
    assert plan["places"]["context"] == 1
    box.call("purge", memory=["MEMORY.md"])
    assert where(box, b"marker-of-old-index") == []
    assert b"[Api](api.md)" in written.read_bytes()
    box.service.background = type(box.service.background)()
    box.service.background.start()


def test_all_notes_of_a_folder_and_by_the_path_that_answers_show(box):
    write(box, "keys/a.md", b"# A\n\n%s\n" % OTHER)
    (folder(box) / "keys" / "a.md").unlink()
    box.checkpoint()
    assert box.call("purge", memory=[f"{folder(box)}/keys"])["places"]["versions"] == 1
    assert where(box, OTHER) == []
    with pytest.raises(RefusedError):
        box.call("purge", memory=["../kept.md"])


@pytest.mark.parametrize(
    "request_", [{}, {"memory": ["api.md"], "blobs": ["0" * 64]}, {"memory": ["api.md"], "paths": ["a"]}]
)
def test_one_kind_of_name_at_a_time(box, request_):
    with pytest.raises(UsageError):
        box.call("purge", **request_)


def test_a_purged_version_is_said_to_be_one_and_is_never_brought_back_as_nothing(box):
    box.call("purge", memory=["api.md"])
    first = box.call("memory_history", name="api.md")["items"][-1]["version"]
    with pytest.raises(NotFoundError, match="purged"):
        box.call("memory_read_version", name="api.md", version=first)
    with pytest.raises(NotFoundError, match="purged"):
        box.call("memory_revert", name="api.md")
    assert (folder(box) / "api.md").read_bytes() == b"# Api\n\nthe key is in the vault\n"
    lines = box.call("memory_blame", name="api.md")["lines"]
    assert {line["version"] for line in lines} == {box.call("memory_history", name="api.md")["items"][0]["version"]}


def test_a_rewind_to_a_purged_version_leaves_the_note(box):
    box.call("purge", memory=["api.md"])
    answer = box.call("rewind", checkpoint="3", memory=True, scope="all")
    assert (folder(box) / "api.md").read_bytes() == b"# Api\n\nthe key is in the vault\n", answer


def test_the_memory_of_a_project_that_is_not_watched_can_be_purged(box):
    box.call("unwatch")
    assert box.call("purge", memory=["api.md"])["finished"]
    assert where(box, TOKEN) == []


def test_a_memory_that_is_gone_leaves_its_history_to_a_purge(box):
    for path in folder(box).glob("*"):
        path.unlink()
    folder(box).rmdir()
    os.sync()
    answer = box.call("purge", memory=["api.md"])
    assert (answer["finished"], answer["places"]["versions"]) == (True, 4)
    assert where(box, TOKEN) == []


def test_a_reader_of_old_pages_leaves_the_rest_to_the_heartbeat(box):
    with closing(sqlite3.connect(box.home.timeline_db)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from version").fetchone()
        assert not box.call("purge", memory=["api.md"])["finished"]
    assert box.call("purge", memory=["api.md"])["finished"]
    wait_until(lambda: not box.service.purge_waits, WAIT_S)
    assert where(box, TOKEN) == []


def test_scraps_are_found_behind_no_link(tmp_path):
    directory = MemoryDirectory(tmp_path / "home", "kkkkkkkkkkkkkkkk")
    with directory.opened("trash", "0000000000001-deleted-0", "a", create=True):
        pass
    base, outside = directory.path.parent, tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_bytes(b"theirs")
    (base / "trash" / "0000000000001-deleted-0" / "a" / "b.md").write_bytes(b"ours")
    (base / "trash" / "0000000000001-deleted-0" / "link.md").symlink_to(outside / "x.md")
    (base / "trash" / "folder").symlink_to(outside)
    assert list(scraps(directory)) == [Scrap("trash/0000000000001-deleted-0/a/b.md", b"ours")]
    assert [scrap.name for scrap in scraps(directory)] == ["a/b.md"]
    erase(directory, lambda _: True)
    assert (list(scraps(directory)), (outside / "x.md").read_bytes()) == ([], b"theirs")
    assert sorted(p.name for p in (base / "trash").rglob("*")) == ["0000000000001-deleted-0", "folder", "link.md"]
