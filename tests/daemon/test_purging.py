"""``purge``: nothing of a content is left in the home, whatever held it, and everything else is as it was."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from openoxide.checkpoints import purging
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.purging import Wanted
from openoxide.daemon.mending import repair
from openoxide.errors import NotFoundError, RefusedError, UsageError, error_object
from tests.kit.box import Box
from tests.kit.rawhome import texts, traces

SECRET = b"token = q8Zr2-marker-of-the-secret\n"


def problems(box: Box) -> list[str]:
    """What ``check`` finds; the modes are those of the umask of whoever runs the tests."""
    found = box.call("check", read_data=True)["problems"]
    return [f"{p['kind']} {p['object']}: {p['message']}" for p in found if p["kind"] != "mode"]


def tree(box: Box, checkpoint: str, folder: Path) -> dict[str, bytes]:
    """The files of a checkpoint, as ``restore`` copies them out."""
    box.call("restore", checkpoint=checkpoint, to=str(folder))
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(name="box")
def _box(tmp_path):
    """``secret`` held SECRET at 1 and 2, and is gone at 3; the others stay. What lies beside it shares its frame."""
    with Box(tmp_path) as box:
        for number in range(20):
            (box.root / f"file{number}").write_bytes(b"neighbour %d\n" % number * 40)
        (box.root / "secret").write_bytes(SECRET)
        box.watch()
        (box.root / "secret").write_bytes(SECRET + b"second\n")
        box.checkpoint()
        (box.root / "secret").unlink()
        box.checkpoint()
        yield box


def test_no_byte_of_a_purged_file_is_left_and_its_neighbours_are_whole(box, tmp_path):
    assert traces(box.home.folder, SECRET)
    before = {number: tree(box, number, tmp_path / f"before{number}") for number in "123"}

    answer = box.call("purge", paths=["secret"])

    assert answer["finished"]
    assert (answer["contents"], answer["places"]["versions"], answer["places"]["checkpoints"]) == (2, 2, 2)
    assert traces(box.home.folder, SECRET, SECRET + b"second\n") == []
    assert problems(box) == []
    for number, files in before.items():
        files.pop("secret", None)
        assert tree(box, number, tmp_path / f"after{number}") == files


def test_a_dry_run_tells_and_changes_nothing(box):
    plan = box.call("purge", paths=["secret"], dry_run=True)
    assert (plan["dry_run"], plan["finished"]) == (True, False)
    assert traces(box.home.folder, SECRET)
    assert box.call("cat", checkpoint="1", file="secret") == SECRET
    answer = box.call("purge", paths=["secret"], plan=plan["plan"])
    assert {**plan, "dry_run": False, "finished": True} == answer


def test_what_stands_on_the_disk_still_is_refused(box):
    (box.root / "secret").write_bytes(SECRET)
    with pytest.raises(RefusedError, match="secret"):
        box.call("purge", paths=["secret"])
    assert box.call("cat", checkpoint="1", file="secret") == SECRET


def test_a_plan_says_that_it_would_be_refused(box):
    (box.root / "secret").write_bytes(SECRET)
    refused = box.call("purge", paths=["secret"], dry_run=True)["refused"]
    with pytest.raises(RefusedError) as caught:
        box.call("purge", paths=["secret"])
    assert refused == error_object(caught.value)
    (box.root / "secret").unlink()
    assert box.call("purge", paths=["secret"], dry_run=True)["refused"] is None


def test_a_refusal_names_all_that_stands_and_what_nothing_is_in_the_way_of(box):
    """``zero`` held nothing until now, the text of a link is its content, and ``twin`` had what stands in ``copy``."""
    (box.root / "zero").touch()
    box.checkpoint()
    (box.root / "zero").write_bytes(b"appended\n")
    (box.root / "link").symlink_to("file1")
    (box.root / "copy").write_bytes(SECRET + b"third\n")
    (box.root / "twin").write_bytes(SECRET + b"third\n")
    box.checkpoint()
    (box.root / "twin").unlink()
    box.checkpoint()

    with pytest.raises(RefusedError) as caught:
        box.call("purge", paths=["zero", "link", "copy", "twin", "secret"])

    assert [(item["path"], item["reason"]) for item in caught.value.details["paths"]] == [
        (name, "stands there still") for name in ("copy", "link", "zero")
    ]
    assert "copy and 2 more stand there still" in caught.value.message
    assert "in the way of a purge of secret alone" in caught.value.hint
    assert box.call("purge", paths=["secret"])["finished"]


def test_twice(box):
    box.call("purge", paths=["secret"])
    with pytest.raises(NotFoundError):
        box.call("purge", paths=["secret"])


def name_of(content: bytes) -> str:
    return blob_hash(content).hex()


def other(box: Box, folder: Path, **files: bytes) -> str:
    """Another watched project."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    box.call("watch", path=str(folder))
    return str(folder)


def test_the_same_content_goes_from_other_paths_and_projects(box, tmp_path):
    root = other(box, tmp_path / "other", copy=SECRET, kept=b"of the other\n")
    with pytest.raises(RefusedError) as refused:
        box.call("purge", paths=["secret"])
    assert [item["path"] for item in refused.value.details["paths"]] == ["copy"]
    (tmp_path / "other" / "copy").unlink()

    answer = box.call("purge", paths=["secret"])

    told = {(item["root"], item["path"], item["versions"], item["named"]) for item in answer["paths"]}
    assert told == {(str(box.root), "secret", 2, True), (root, "copy", 1, False)}
    assert traces(box.home.folder, SECRET) == problems(box) == []
    assert box.call("cat", path=root, checkpoint="1", file=f"{root}/kept") == b"of the other\n"
    with pytest.raises(NotFoundError, match="purged"):
        box.call("cat", path=root, checkpoint="1", file=f"{root}/copy")


@pytest.mark.parametrize("digits", [8, 15, 64])
def test_one_content_goes_by_its_name_and_the_others_of_its_path_stay(box, digits):
    box.call("purge", blobs=[name_of(SECRET)[:digits]])
    # the second version begins like the first one, but for the name that it has
    assert not any(blob_hash(SECRET) in data for _, data in texts(box.home.folder))
    assert box.call("cat", checkpoint="2", file="secret") == SECRET + b"second\n"
    with pytest.raises(NotFoundError, match="purged"):
        box.call("cat", checkpoint="1", file="secret")
    assert problems(box) == []


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"blobs": ["0" * 64]}, NotFoundError),
        ({"blobs": ["00000000"]}, NotFoundError),
        ({"blobs": ["1234567"]}, UsageError),
        ({"blobs": ["xyzxyzxyz"]}, UsageError),
        ({"blobs": [name_of(b"")]}, UsageError),
        ({"paths": ["never-was"]}, NotFoundError),
        ({"paths": ["../outside"]}, UsageError),
        ({"paths": ["secret"], "blobs": ["0" * 64]}, UsageError),
        ({}, UsageError),
    ],
)
def test_what_cannot_be_meant_purges_nothing(box, request_, error):
    (box.root / "empty").write_bytes(b"")
    box.checkpoint()
    with pytest.raises(error):
        box.call("purge", **request_)
    assert box.call("cat", checkpoint="1", file="secret") == SECRET


def test_an_empty_file_is_left_alone_wherever_it_is(box):
    for name in ("secret", "package"):
        (box.root / name).write_bytes(b"")
    box.checkpoint()
    (box.root / "secret").unlink()
    box.call("purge", paths=["secret"])
    assert box.call("cat", checkpoint="4", file="package") == b""
    assert problems(box) == []


def test_a_large_file_goes_with_its_name(box):
    content = os.urandom(5 << 20)
    (box.root / "secret").write_bytes(content)
    box.checkpoint()
    (box.root / "secret").unlink()
    assert traces(box.home.folder, content)
    # as a deletion leaves it that fails half way
    (box.home.blobs / "big" / f"{'a' * 16}.tmp").write_bytes(content)
    answer = box.call("purge", paths=["secret"])
    assert (answer["places"]["big"], answer["finished"]) == (1, True)
    assert [*(box.home.blobs / "big").iterdir()] == []
    assert problems(box) == []


def test_the_text_of_a_link_goes(box):
    (box.root / "link").symlink_to("marker-in-a-link")
    box.checkpoint()
    (box.root / "link").unlink()
    answer = box.call("purge", paths=["link"])
    assert (answer["contents"], answer["places"]["versions"]) == (0, 1)
    assert not any(b"marker-in-a-link" in data for _, data in texts(box.home.folder))
    assert problems(box) == []


def test_a_directory_means_all_that_was_in_it(box):
    (box.root / "keys").mkdir()
    contents = [b"key %d of the directory\n" % number for number in range(3)]
    for number, content in enumerate(contents):
        (box.root / "keys" / str(number)).write_bytes(content)
    box.checkpoint()
    shutil.rmtree(box.root / "keys")
    (box.root / "keysmith").write_bytes(b"another name\n")
    assert box.call("purge", paths=["keys"])["contents"] == 3
    assert traces(box.home.folder, *contents) == problems(box) == []
    assert box.call("cat", checkpoint=box.checkpoint()["id"], file="keysmith") == b"another name\n"


def test_what_is_left_out_by_a_rule_may_stand(box):
    (box.root / "secret").write_bytes(SECRET)
    (box.root / ".oxideignore").write_text("secret\n")
    assert box.call("purge", paths=["secret"])["finished"]
    box.checkpoint()
    assert traces(box.home.folder, SECRET) == problems(box) == []
    assert (box.root / "secret").read_bytes() == SECRET


def test_checkpoints_in_trash_are_purged_too(box):
    box.call("checkpoint")
    box.call("forget", checkpoints=["1"])
    box.call("purge", paths=["secret"])
    assert traces(box.home.folder, SECRET) == []
    box.call("unforget", checkpoints=["1"])
    assert problems(box) == []


def test_a_root_that_is_gone_or_not_watched(box, tmp_path):
    root = other(box, tmp_path / "other", copy=SECRET)
    box.call("unwatch", path=root)
    shutil.rmtree(root)
    answer = box.call("purge", paths=["secret"])
    assert (answer["finished"], answer["notes"]) == (True, [])
    assert traces(box.home.folder, SECRET) == problems(box) == []
    with closing(sqlite3.connect(box.home.timeline_db)) as db:  # how long it was is told by nothing either
        assert db.execute("select size, stat_size, ino from live where kind = 5").fetchall() == [(0, None, None)]


def test_a_tree_that_is_not_watched_and_has_it_still_is_told_of(box, tmp_path):
    root = other(box, tmp_path / "other", copy=SECRET)
    box.call("unwatch", path=root)
    answer = box.call("purge", paths=["secret"])
    assert [note for note in answer["notes"] if root in note]
    assert traces(box.home.folder, SECRET) == problems(box) == []
    # as it was said: what stands there is recorded when it is watched again
    box.call("watch", path=root)
    assert traces(box.home.folder, SECRET)
    assert problems(box) == []


def test_many_contents_at_once(box):
    contents = [b"content %d of many\n" % number for number in range(3_000)]
    (box.root / "many").mkdir()
    for number, content in enumerate(contents):
        (box.root / "many" / str(number)).write_bytes(content)
    box.checkpoint()
    for number in range(0, 3_000, 2):
        (box.root / "many" / str(number)).unlink()
    box.checkpoint()
    (box.root / "many").rename(box.root / "others")
    gone = [content for number, content in enumerate(contents) if number % 2 == 0]
    assert box.call("purge", blobs=[name_of(content) for content in gone])["finished"]
    everything = b"".join(data for _, data in texts(box.home.folder))
    assert [content for content in gone if blob_hash(content) in everything or content in everything] == []
    assert problems(box) == []


@pytest.mark.parametrize("together", [True, False])
def test_a_repair_before_a_purge_has_finished_keeps_nothing_of_it(tmp_path, together):
    victim = random.Random(1).randbytes(5_000)
    with Box(tmp_path) as box:
        (box.root / "victim").write_bytes(victim)
        if not together:  # a start begins a pack of its own
            box.watch()
            box.stop()
            box.start()
        (box.root / "secret").write_bytes(SECRET)
        box.watch() if together else box.checkpoint()
        for name in ("secret", "victim"):
            (box.root / name).unlink()
        box.checkpoint()
        # as it is when a kill comes behind the transaction
        with box.service.timeline.database.writing() as db:
            doomed = purging.find(db, Wanted(names=frozenset([blob_hash(SECRET)])))
            purging.purge_rows(db, doomed, doomed.packs)
        box.stop()
        for pack in box.home.blobs.glob("*.pack"):
            at = pack.read_bytes().find(victim[:100])
            if at >= 0:
                with pack.open("r+b") as file:
                    file.seek(at + 50)
                    file.write(bytes([victim[50] ^ 1]))

        assert repair(box.home, dry_run=False, report=lambda _: None)["newly_lost"] == 1
        box.start()

        assert box.service.finish_purge()
        assert traces(box.home.folder, SECRET) == []
