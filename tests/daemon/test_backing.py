"""A backup taken beside a daemon that records, brought up to date, and made a home again."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest

from openoxide.checkpoints.backing_up import back_up
from openoxide.checkpoints.backup_folder import read_list
from openoxide.checkpoints.backup_list import STARTED
from openoxide.checkpoints.hashing import blob_hash
from openoxide.daemon import offline
from openoxide.errors import (
    FailedError,
    NewerStoreError,
    NotFoundError,
    OpenOxideError,
    RefusedError,
    StoreDamagedError,
    StoreFullError,
)
from openoxide.paths import Home
from tests.kit import diff_trees, tree_of
from tests.kit.box import Box

BIG = random.Random(7).randbytes(5 << 20)


@pytest.fixture(name="box")
def _box(tmp_path):
    with Box(tmp_path / "here") as box:
        (box.root / "a.txt").write_text("one\n")
        (box.root / "big.bin").write_bytes(BIG)
        box.watch()
        box.home.config.write_text("[retention]\nttl_days = 40\n")
        memory = box.home.folder / "projects" / "kkkk" / "memory"
        memory.mkdir(parents=True)
        (memory / "MEMORY.md").write_text("- [build](build.md)\n")
        yield box


@pytest.fixture(name="target")
def _target(tmp_path):
    return tmp_path / "disk" / "backup"


def backup(box, target, **options):
    return box.call("backup", to=str(target), **options)


def restore(source, home, **options):
    request = {"source": str(source), "home": str(home), **options}
    return offline.restore_home(request, lambda _: None)


def taken_up(home, root=None):
    """A daemon with the restored home."""
    box = Box(home.parent, root=root)
    assert box.home.folder == home
    return box


def held(folder):
    return sorted(str(found.relative_to(folder)) for found in folder.rglob("*") if found.is_file())


def test_it_holds_all_of_the_home_and_nothing_else(box, target):
    answer = backup(box, target)

    packs = [name for name in held(target) if name.endswith(".pack")]
    bigs = [name for name in held(target) if "big/" in name]
    assert packs
    assert len(bigs) == 1
    assert set(held(target)) - {*packs, *bigs} == {
        "backup.json",
        "config.toml",
        "projects/kkkk/memory/MEMORY.md",
        "timeline.db",
    }
    assert answer["files"] == len(held(target)) - 1
    assert answer["bytes"] == sum((target / name).stat().st_size for name in held(target) if name != "backup.json")
    assert answer["copied_files"] == answer["files"]
    assert (answer["updated"], answer["checkpoints"], answer["skipped"]) == (False, 1, [])
    assert {found.stat().st_mode & 0o777 for found in target.rglob("*")} == {0o600, 0o700}
    assert target.stat().st_mode & 0o777 == 0o700


def test_its_bytes_are_no_blocks_of_the_home(box, target):
    backup(box, target)
    inodes = {found.stat().st_ino for found in box.home.folder.rglob("*")}
    assert not inodes & {found.stat().st_ino for found in target.rglob("*")}


def test_a_home_made_of_it_gives_back_every_byte(box, target, tmp_path):
    (box.root / "a.txt").write_text("two\n")
    box.checkpoint("second")
    wanted = tree_of(box.root)
    backup(box, target)
    box.stop()
    home = tmp_path / "there" / "home"
    home.parent.mkdir()

    answer = restore(target, home)

    assert answer["worktrees"] == [
        {"root": str(box.root), "project": answer["worktrees"][0]["project"], "state": "as_it_was", "checkpoints": 2}
    ]
    with taken_up(home, box.root) as restored:
        assert restored.call("check", read_data=True)["problems"] == []
        restored.call("restore", checkpoint="second", to=str(tmp_path / "given"))
        assert not diff_trees(tree_of(tmp_path / "given"), wanted)
        restored.call("restore", checkpoint="1", to=str(tmp_path / "first"), paths=["a.txt"])
        assert (tmp_path / "first" / "a.txt").read_text() == "one\n"
        assert restored.home.config.read_text() == "[retention]\nttl_days = 40\n"
        assert (home / "projects/kkkk/memory/MEMORY.md").read_text() == "- [build](build.md)\n"
    box.start()


def test_only_what_is_new_is_copied_again(box, target):
    first = backup(box, target)
    again = backup(box, target)
    assert again["updated"] is True
    assert again["copied_files"] == 1  # timeline.db
    assert again["copied_bytes"] < first["copied_bytes"] - len(BIG)

    (box.root / "b.txt").write_text("more\n")
    box.checkpoint()
    third = backup(box, target)
    assert third["copied_files"] == 2  # and the pack that has grown
    assert third["checkpoints"] == 2
    assert read_list(target).run == 3


def test_what_the_home_does_not_need_any_more_goes(box, target, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "only.bin").write_bytes(random.Random(8).randbytes(6 << 20))
    box.call("watch", path=str(other))
    backup(box, target)
    before = set(held(target))
    box.call("unwatch", path=str(other), delete_history=True)
    (box.home.folder / "projects/kkkk/memory/MEMORY.md").unlink()

    backup(box, target)

    gone = before - set(held(target))
    assert "projects/kkkk/memory/MEMORY.md" in gone
    assert sum("big/" in name for name in gone) == 1
    assert set(held(target)) == {entry.name for entry in read_list(target).files} | {"backup.json"}


def test_a_dry_run_says_how_much_and_writes_nothing(box, target):
    planned = backup(box, target, dry_run=True)
    assert not target.exists()
    done = backup(box, target)
    assert planned["files"] == done["files"]
    assert abs(planned["copied_bytes"] - done["copied_bytes"]) < 1 << 20
    assert planned["free_bytes"] > 0


@pytest.mark.parametrize("place", ["home", "home/backup", "home/blobs/x", ".", "project", "project/sub/backup"])
def test_places_that_a_backup_must_not_be_in_are_refused(box, place):
    before = tree_of(box.home.folder.parent)
    with pytest.raises(RefusedError):
        backup(box, box.home.folder.parent / place)
    after = tree_of(box.home.folder.parent)
    assert {path for path in before if b"home" not in path} == {path for path in after if b"home" not in path}


@pytest.mark.parametrize(("rule", "place"), [("backups/\n", "backups/one"), ("", "node_modules/backup")])
def test_in_a_project_where_nothing_is_recorded_it_may_be(box, rule, place):
    (box.root / ".oxideignore").write_text(rule)
    backup(box, box.root / place)
    box.checkpoint("after")
    shown = box.call("diff", a="1", b="after")["items"]
    assert {item["path"] for item in shown} <= {".oxideignore"}


def test_a_folder_with_other_things_in_it_is_refused(box, target):
    target.mkdir(parents=True)
    (target / "mine.txt").write_text("mine\n")
    with pytest.raises(RefusedError, match="holds no backup"):
        backup(box, target)
    assert held(target) == ["mine.txt"]


def test_the_backup_of_another_home_is_not_touched(box, target, tmp_path):
    with Box(tmp_path / "elsewhere") as other:
        other.watch()
        backup(other, target)
    before = tree_of(target)
    with pytest.raises(RefusedError, match="backup of another home"):
        backup(box, target)
    assert tree_of(target) == before


def test_a_restored_home_takes_a_folder_of_its_own(box, target, tmp_path):
    backup(box, target)
    home = tmp_path / "there" / "home"
    home.parent.mkdir()
    restore(target, home)
    with taken_up(home) as restored:
        with pytest.raises(RefusedError, match="backup of another home"):
            backup(restored, target)
        backup(restored, tmp_path / "second")
    backup(box, target)


def test_a_home_that_was_restored_to_its_place_is_told_from_the_one_before(target, tmp_path):
    with Box(tmp_path / "mine") as before:
        before.watch()
        backup(before, target)
    home = before.home.folder
    shutil.rmtree(home)
    restore(target, home)

    with taken_up(home) as restored, pytest.raises(RefusedError) as refused:
        backup(restored, target)

    assert refused.value.message == f"{target} holds a backup of the home that was at {home} before this one"


def test_a_pack_that_was_damaged_since_does_not_replace_its_copy(box, target):
    backup(box, target)
    (pack,) = box.home.blobs.glob("*.pack")
    kept = (target / "blobs" / pack.name).read_bytes()
    with pack.open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"\xff\xff")
    before = tree_of(target)

    with pytest.raises(StoreDamagedError, match="is not what was backed up before"):
        backup(box, target)

    assert (target / "blobs" / pack.name).read_bytes() == kept
    assert tree_of(target) == before


def spoilt(source, name, how):
    """Do something to the one file of a backup that ``name`` matches; its name. The kernel's clock has gone on since the list."""
    (path,) = (found for found in source.rglob("*") if found.is_file() and found.match(name))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    finished = (source / "backup.json").stat().st_mtime_ns
    if how == "cut":
        os.truncate(path, len(data) - 1)
    elif how in ("gone", "link"):
        path.unlink()
    if how == "link":
        path.symlink_to("/etc/hostname")
    while how == "flip" and path.stat().st_ctime_ns <= finished:
        times = path.stat()
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return str(path.relative_to(source))


@pytest.mark.parametrize("name", ["config.toml", "projects/kkkk/memory/MEMORY.md", "*.pack", "big/*"])
@pytest.mark.parametrize("how", ["flip", "cut", "gone", "link"])
def test_an_update_copies_anew_what_the_backup_has_not_whole(box, target, tmp_path, name, how):
    backup(box, target)
    before = {name: (target / name).read_bytes() for name in held(target)}
    spoilt_name = spoilt(target, name, how)
    home = tmp_path / "there" / "home"
    home.parent.mkdir()
    with pytest.raises(OpenOxideError):
        restore(target, home, dry_run=True)

    answer = backup(box, target)

    assert [entry["path"] for entry in answer["mended"]] == [spoilt_name]
    restore(target, home, dry_run=True)
    assert (target / spoilt_name).read_bytes() == before[spoilt_name]
    assert backup(box, target)["mended"] == []


def test_a_copy_that_was_only_touched_stays_and_is_not_copied(box, target):
    backup(box, target)
    (pack,) = (target / "blobs").glob("*.pack")
    inode, finished = pack.stat().st_ino, (target / "backup.json").stat().st_mtime_ns
    while pack.stat().st_ctime_ns <= finished:
        os.utime(pack)
    answer = backup(box, target)
    assert (answer["mended"], answer["copied_files"], pack.stat().st_ino) == ([], 1, inode)


def test_a_plan_counts_the_copies_that_are_not_there(box, target):
    backup(box, target)
    least = backup(box, target, dry_run=True)
    (pack,) = (target / "blobs").glob("*.pack")
    size = pack.stat().st_size
    pack.unlink()
    planned = backup(box, target, dry_run=True)
    assert planned["copied_files"] == least["copied_files"] + 1
    assert planned["copied_bytes"] == least["copied_bytes"] + size


@pytest.mark.parametrize(("name", "at"), [("*.pack", -2), ("big/*", 1 << 20)])
def test_what_is_damaged_in_the_home_is_copied_and_told(box, target, name, at):
    assert backup(box, target.with_name("sound"))["damaged"] == 0
    (path,) = box.home.blobs.glob(name)
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)

    answer = backup(box, target)

    assert answer["damaged"] == 1
    assert "check --read-data" in answer["notes"][-1]
    assert (target / "blobs" / path.relative_to(box.home.blobs)).read_bytes() == data
    # only what a run has copied is read once more
    assert backup(box, target)["damaged"] == 0


@pytest.mark.parametrize("what", ["gone", "short"])
def test_a_store_that_lacks_bytes_is_not_backed_up(box, target, what):
    (pack,) = box.home.blobs.glob("*.pack")
    if what == "gone":
        pack.unlink()
    else:
        os.truncate(pack, 10)
    with pytest.raises(StoreDamagedError, match="nothing was backed up"):
        backup(box, target)
    assert not target.exists()


def test_a_link_in_the_backup_leads_nowhere(box, target, tmp_path):
    backup(box, target)
    outside = tmp_path / "outside"
    shutil.move(target / "blobs", outside)
    (target / "blobs").symlink_to(outside)
    before = tree_of(outside)
    (box.root / "b.txt").write_text("more\n")
    box.checkpoint()
    with pytest.raises(RefusedError, match="is no folder"):
        backup(box, target)
    assert tree_of(outside) == before


def test_nothing_is_deleted_while_a_backup_runs(box, target, tmp_path):
    """An unwatch in the middle takes rows away whose bytes the copied database still names."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "only.bin").write_bytes(random.Random(8).randbytes(6 << 20))
    box.call("watch", path=str(other))
    service = box.service
    once = threading.Event()

    def in_the_middle():
        if not once.is_set():
            once.set()
            worker = threading.Thread(
                target=box.call, args=("unwatch",), kwargs={"path": str(other), "delete_history": True}
            )
            worker.start()
            worker.join()

    with service.timeline.blobs.leases.holding():
        back_up(service.timeline.database, box.home, target, program="0", now_ms=0, breathe=in_the_middle)

    assert once.is_set()
    restore(target, tmp_path / "there" / "home", dry_run=True)
    home = tmp_path / "there" / "home"
    restore(target, home)
    with taken_up(home) as restored:
        assert restored.call("check", read_data=True)["problems"] == []


def test_a_daemon_that_ends_ends_the_backup(box, target):
    box.service.stop_requested.set()
    with pytest.raises(FailedError, match="the daemon ends"):
        backup(box, target)
    assert not target.exists()
    box.service.stop_requested.clear()


def test_two_at_a_time_do_not_share_a_folder(box, target):
    refused = []

    def second():
        if not refused:
            try:
                back_up(box.service.timeline.database, box.home, target, program="0", now_ms=0)
            except RefusedError as error:
                refused.append(error.message)

    back_up(box.service.timeline.database, box.home, target, program="0", now_ms=0, breathe=second)
    assert refused == [f"a backup into {target} is under way"]


def test_what_a_killed_first_run_left_is_begun_again(box, target):
    target.mkdir(parents=True)
    (target / STARTED).write_text("begun\n")
    (target / "timeline.db.1.oxide-new").write_bytes(b"half")
    (target / "blobs").mkdir()
    (target / "blobs" / "00000001.pack.1.oxide-new").write_bytes(b"half")
    with pytest.raises(NotFoundError, match="no backup that was finished"):
        read_list(target)

    backup(box, target)

    assert not [name for name in held(target) if name.endswith("oxide-new")]
    assert not (target / STARTED).exists()


def test_a_memory_that_cannot_be_read_is_told_and_keeps_its_copy(box, target):
    backup(box, target)
    memory = box.home.folder / "projects/kkkk/memory/MEMORY.md"
    memory.unlink()
    os.mkfifo(memory)
    (memory.parent / "link.md").symlink_to("/etc/hostname")
    answer = backup(box, target)
    # what is no file is none of the memory's: the copy goes as that of a deleted file does
    assert answer["skipped"] == []
    assert [name for name in held(target) if name.startswith("projects")] == []


@pytest.mark.parametrize("place", ["file", "under a file"])
def test_what_is_no_folder_is_refused(box, target, place):
    target.parent.mkdir()
    target.write_text("mine\n")
    with pytest.raises((RefusedError, FailedError)):
        backup(box, target if place == "file" else target / "below")
    assert target.read_text() == "mine\n"


@pytest.mark.skipif(not os.geteuid(), reason="root may read everything")
def test_a_memory_folder_that_is_shut_is_told_and_keeps_its_copy(box, target):
    backup(box, target)
    shut = box.home.folder / "projects/kkkk"
    shut.chmod(0)
    answer = backup(box, target)
    shut.chmod(0o700)
    assert [entry["path"] for entry in answer["skipped"]] == ["projects/kkkk"]
    assert (target / "projects/kkkk/memory/MEMORY.md").read_text() == "- [build](build.md)\n"


# restoring


@pytest.fixture(name="source")
def _source(box, target):
    backup(box, target)
    return target


@pytest.fixture(name="home")
def _home(tmp_path):
    home = tmp_path / "there" / "home"
    home.parent.mkdir()
    return home


def test_a_dry_run_reads_all_of_it_and_writes_nothing(source, home):
    answer = restore(source, home, dry_run=True)
    assert answer["bytes"] == sum(entry.size for entry in read_list(source).files)
    assert list(home.parent.iterdir()) == []


def test_a_dry_run_needs_no_free_place_and_says_that_it_is_taken(box, source):
    before = tree_of(source)
    answer = restore(source, box.home.folder, dry_run=True)
    (note,) = answer["notes"]
    assert answer["home"] == str(box.home.folder)
    assert f"{box.home.folder} is not empty" in note
    assert f"mv {box.home.folder} {box.home.folder}.before" in note
    assert tree_of(source) == before
    (source / "timeline.db").write_bytes(b"")
    with pytest.raises(StoreDamagedError, match="is not what was backed up"):
        restore(source, box.home.folder, dry_run=True)


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("name", ["timeline.db", "config.toml", "projects/kkkk/memory/MEMORY.md", "*.pack", "big/*"])
@pytest.mark.parametrize("how", ["flip", "cut", "gone", "link", "fifo"])
def test_a_backup_that_is_not_what_it_was_makes_no_home(source, home, name, how, dry_run):
    (path,) = (found for found in source.rglob("*") if found.is_file() and found.match(name))
    data = bytearray(path.read_bytes())
    if how == "flip":
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    elif how == "cut":
        path.write_bytes(data[:-1])
    else:
        path.unlink()
        if how == "link":
            path.with_suffix(".real").write_bytes(data)
            path.symlink_to(path.with_suffix(".real"))
        elif how == "fifo":
            os.mkfifo(path)
    with pytest.raises(OpenOxideError) as caught:
        restore(source, home, dry_run=dry_run)
    assert isinstance(caught.value, StoreDamagedError | FailedError)
    assert list(home.parent.iterdir()) == []


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9, 0.99])
def test_a_list_that_is_damaged_is_told(source, home, at):
    text = bytearray((source / "backup.json").read_bytes())
    text[int(len(text) * at)] ^= 1
    (source / "backup.json").write_bytes(text)
    with pytest.raises((StoreDamagedError, NewerStoreError)):
        restore(source, home)
    assert list(home.parent.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/evil", "blobs/../../evil", "projects/../evil", "oxided.sock", "projects"]
)
def test_a_list_that_names_what_is_elsewhere_is_refused(source, home, name):
    found = json.loads((source / "backup.json").read_bytes())
    found["backup"]["files"].append({**found["backup"]["files"][0], "name": name})
    body = json.dumps(found["backup"], sort_keys=True, separators=(",", ":")).encode()
    found["blake3"] = blob_hash(body).hex()
    (source / "backup.json").write_text(json.dumps(found))
    with pytest.raises(StoreDamagedError, match="names what no backup holds"):
        restore(source, home)


def test_a_newer_backup_is_told_before_anything_is_read(source, home):
    made = json.loads((source / "backup.json").read_bytes())
    made["format"] = 2
    (source / "backup.json").write_text(json.dumps(made))
    with pytest.raises(NewerStoreError):
        restore(source, home)


@pytest.mark.parametrize("what", ["file", "home"])
def test_a_place_that_is_taken_stays_as_it_is(source, home, what):
    if what == "file":
        home.write_text("mine\n")
    else:
        home.mkdir()
        (home / "mine.txt").write_text("mine\n")
    before = tree_of(home.parent)
    with pytest.raises(RefusedError) as caught:
        restore(source, home)
    assert tree_of(home.parent) == before
    if what == "home":
        assert f"mv {home} {home}.before" in caught.value.hint


def test_an_empty_folder_becomes_the_home(source, home):
    home.mkdir()
    restore(source, home)
    assert {found.stat().st_mode & 0o077 for found in [home, *home.rglob("*")]} == {0}
    assert [found.name for found in home.parent.iterdir()] == ["home"]


def test_what_a_killed_one_left_is_removed_first(source, home):
    stage = home.with_name(".home.restoring")
    stage.mkdir()
    (stage / "oxided.lock").touch()
    (stage / "timeline.db").write_bytes(b"half")
    restore(source, home)
    assert [found.name for found in home.parent.iterdir()] == ["home"]


@pytest.mark.parametrize("what", ["folder", "link", "file"])
def test_what_is_not_a_killed_ones_is_in_the_way(source, home, tmp_path, what):
    stage = home.with_name(".home.restoring")
    if what == "folder":
        stage.mkdir()
        (stage / "mine.txt").write_text("mine\n")
    elif what == "link":
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "oxided.lock").touch()
        stage.symlink_to(tmp_path / "mine")
    else:
        stage.write_text("mine\n")
    before = tree_of(home.parent)
    with pytest.raises(RefusedError):
        restore(source, home)
    assert tree_of(home.parent) == before


def test_a_tree_that_is_not_there_is_paused_and_loses_nothing(box, source, home, tmp_path):
    """As on another machine: no path of it is recorded as deleted."""
    box.stop()
    root = box.root.rename(tmp_path / "away")
    answer = restore(source, home)
    assert [worktree["state"] for worktree in answer["worktrees"]] == ["gone"]

    with Box(home.parent, root=tmp_path / "unrelated") as restored:
        (state,) = restored.call("status")["worktrees"]
        assert state["state"] == "paused"
        assert [item["number"] for item in restored.call("log", path=str(box.root))["items"]] == [1]
        with closing(sqlite3.connect(home / "timeline.db")) as db:
            assert db.execute("select count(*) from version where kind = 0").fetchone() == (0,)
        restored.call("restore", path=str(box.root), checkpoint="1", to=str(tmp_path / "given"))
    assert (tmp_path / "given" / "a.txt").read_text() == "one\n"
    root.rename(box.root)
    box.start()


def test_another_directory_at_the_same_root_needs_a_move(box, source, home, tmp_path):
    """As on another machine with a checkout of its own: nothing of it is recorded by itself."""
    box.stop()
    away = box.root.rename(tmp_path / "away")
    box.root.mkdir()
    (box.root / "a.txt").write_text("of the other machine\n")
    answer = restore(source, home)
    assert [worktree["state"] for worktree in answer["worktrees"]] == ["another_directory"]

    with taken_up(home, box.root) as restored:
        assert [item["number"] for item in restored.call("log")["items"]] == [1]
        restored.call("projects_move", old=str(box.root), new=str(box.root))
        items = restored.call("diff", a="1", b="last")["items"]
        assert {(item["path"], item["status"]) for item in items} == {("a.txt", "M"), ("big.bin", "D")}
        assert restored.call("check", read_data=True)["problems"] == []
    shutil.rmtree(box.root)
    away.rename(box.root)
    box.start()


def test_changes_since_the_backup_are_found_in_the_same_tree(box, source, home):
    (box.root / "a.txt").write_text("after the backup\n")
    box.checkpoint("lost")
    box.stop()
    restore(source, home)
    with taken_up(home, box.root) as restored:
        restored.checkpoint("found")
        assert restored.call("cat", checkpoint="found", file=str(box.root / "a.txt")) == b"after the backup\n"
        assert restored.call("cat", checkpoint="1", file=str(box.root / "a.txt")) == b"one\n"
    box.start()


def test_what_was_half_done_then_is_not_finished_by_itself(box, target, home):
    """The tree went on since: what the operation had left to do is for its user to say."""
    (box.root / "a.txt").write_text("two\n")
    box.checkpoint()
    box.rewind("1")
    with closing(sqlite3.connect(box.home.timeline_db)) as db:
        db.execute("update operation set phase = 'swapping'")
        db.commit()
    backup(box, target)
    (box.root / "a.txt").write_text("three\n")
    box.stop()
    restore(target, home)
    with taken_up(home, box.root) as restored:
        assert (box.root / "a.txt").read_text() == "three\n"
        (state,) = restored.call("status")["worktrees"]
        assert len(state["interrupted"]) == 1
    with closing(sqlite3.connect(box.home.timeline_db)) as db:
        db.execute("update operation set phase = 'done'")
        db.commit()
    box.start()


def test_too_little_room_is_said_before_anything_is_written(source, home, monkeypatch):
    little = shutil.disk_usage(home.parent)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: little)
    with pytest.raises(StoreFullError, match="and 1000 are free"):
        restore(source, home)
    assert list(home.parent.iterdir()) == []


def test_a_backup_is_a_home_for_whoever_has_no_program_to_restore_it(box, source, tmp_path):
    """Its layout is that of a home: a copy of the folder can be used as one."""
    home = Home(tmp_path / "by hand" / "home")
    shutil.copytree(source, home.folder)
    (home.folder / "backup.json").unlink()
    with taken_up(home.folder) as restored:
        assert [item["number"] for item in restored.call("log", path=str(box.root))["items"]] == [1]
        assert restored.call("check", read_data=True)["problems"] == []
