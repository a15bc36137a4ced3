"""A home goes, whatever else lies in it stays, and what is no home of ours is not touched at all."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import pytest

from openoxide import removal
from openoxide.checkpoints.schema import open_timeline
from openoxide.errors import AlreadyRunningError, RefusedError
from openoxide.paths import Home
from openoxide.removal import plan, remove
from tests.kit import tree_of

HASH = "ab" * 32
OURS = (
    "timeline.db-wal",
    "oxided.lock",
    "oxided.reserve",
    "config.toml",
    "config.toml.new",
    "config.toml.rejected",
    "logs/oxided.log",
    "logs/oxided.log.1",
    f"spool/{17:020d}-4711.json",
    f"spool/{17:020d}-4711.new",
    "blobs/00000001.pack",
    "blobs/00000002.pack.aside",
    f"blobs/big/{HASH}",
    "blobs/big/0123456789abcdef.tmp",
)
FOREIGN = (
    "notes.txt",
    "config.toml.bak",
    "timeline.db.copy",
    "blobs/mine.pack",
    "blobs/1.pack",
    f"blobs/big/{HASH}.txt",
    "logs/other.log",
    "spool/4711.json",
    "sub/oxided.lock",
    "blobs/sub/00000001.pack",
    "projects/kkkkkkkkkkkkkkkk/memory/MEMORY.md",
)


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.folder.mkdir(mode=0o700)
    open_timeline(home.timeline_db).close()
    write(home, *OURS)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))
    return home


def write(home, *names):
    for name in names:
        (home.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (home.folder / name).write_text("x" * 10)


def test_a_home_goes_with_all_of_ours(home):
    planned = plan(home, keep_history=False)

    done = remove(home, keep_history=False)

    assert not home.folder.exists()
    assert sum(done.removed.values()) == sum(planned.removed.values())
    assert done.removed["blobs"] == 40
    assert (done.kept, done.left) == ({}, {})
    assert remove(home, keep_history=False) == plan(home, keep_history=False) == removal.Removal({}, {}, {})


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_not_ours_stays_and_is_named(home, name):
    write(home, name)

    done = remove(home, keep_history=False)

    assert list(done.left.values()) == ["not_ours"]
    assert next(iter(done.left)) in (name, *map(str, Path(name).parents))
    assert (home.folder / name).read_text() == "x" * 10
    assert [path for path in home.folder.rglob("*") if path.is_file()] == [home.folder / name]


def test_notes_stay_and_do_not_stop_a_removal_that_is_done_again(home):
    write(home, "projects/kkkkkkkkkkkkkkkk/memory/MEMORY.md")

    for _ in range(2):
        assert remove(home, keep_history=False).left == {"projects": "not_ours"}
    assert (home.folder / "projects/kkkkkkkkkkkkkkkk/memory/MEMORY.md").exists()
    write(home, "config.toml")
    assert list(remove(home, keep_history=False).removed) == ["config.toml", "oxided.lock"], (
        "nor does a home without a history"
    )


@pytest.mark.parametrize("name", ["blobs", "logs", "blobs/big", "config.toml"])
def test_a_link_is_not_ours_and_not_followed(home, tmp_path, name):
    theirs = tmp_path / "theirs"
    (home.folder / name).rename(theirs)
    (home.folder / name).symlink_to(theirs)
    before = tree_of(tmp_path, skip={b"home"})

    done = remove(home, keep_history=False)

    assert name in done.left
    assert tree_of(tmp_path, skip={b"home"}) == before


@pytest.mark.parametrize("name", ["blobs", "logs", "blobs/big"])
def test_what_a_link_of_ours_leads_to_is_said_to_stay(home, tmp_path, name):
    (home.folder / name).rename(tmp_path / "theirs")
    (home.folder / name).symlink_to(tmp_path / "theirs")

    for act in (plan, remove):
        assert act(home, keep_history=False).left[name] == f"leads to {tmp_path / 'theirs'}, which stays"


def test_blobs_on_another_disk_are_kept_with_the_history(home, tmp_path):
    home.blobs.rename(tmp_path / "theirs")
    home.blobs.symlink_to(tmp_path / "theirs")

    done = remove(home, keep_history=True)

    assert ("blobs" in done.kept, done.left) == (True, {})


@pytest.mark.parametrize("name", ["timeline.db.bak", "blobs/notes.txt", "config.toml.old"])
def test_what_is_not_ours_is_not_said_to_be_kept(home, name):
    write(home, name)

    for act in (plan, remove):
        done = act(home, keep_history=True)
        assert (done.left, name in done.kept) == ({name: "not_ours"}, False)
    assert (home.folder / name).exists()


def test_the_history_is_kept_when_asked_to(home):
    done = remove(home, keep_history=True)

    stays = ["blobs", "config.toml", "config.toml.rejected", "oxided.lock", "timeline.db", "timeline.db-wal"]
    assert sorted(os.listdir(home.folder)) == stays
    assert set(done.removed) == {"logs", "oxided.sock", "config.toml.new", "spool", "oxided.reserve"}
    assert sorted(done.kept) == stays
    assert (home.blobs / "big" / HASH).exists()


def test_a_history_that_is_half_gone_cannot_be_kept(home):
    home.timeline_db.rename(home.folder / "timeline.db.uninstalled")

    with pytest.raises(RefusedError):
        remove(home, keep_history=True)
    remove(home, keep_history=False)

    assert not home.folder.exists()


def no_database(home):
    home.timeline_db.unlink()


def database_of_others(home):
    home.timeline_db.write_bytes(b"SQLite format 3\0" + bytes(84))


def database_that_is_a_link(home):
    home.timeline_db.rename(home.folder.parent / "elsewhere.db")
    home.timeline_db.symlink_to(home.folder.parent / "elsewhere.db")


@pytest.mark.parametrize("make", [no_database, database_of_others, database_that_is_a_link])
def test_what_is_no_home_of_ours_is_refused(home, make):
    make(home)
    before = tree_of(home.folder)

    for act in (plan, remove):
        with pytest.raises(RefusedError):
            act(home, keep_history=False)

    assert tree_of(home.folder) == before


@pytest.mark.parametrize("place", ["/", ".", ".."])
def test_the_users_own_home_is_refused_whatever_is_in_it(place):
    user = Path.home()
    open_timeline(user / "timeline.db").close()

    with pytest.raises(RefusedError):
        remove(Home(Path(os.path.normpath(user / place))), keep_history=False)

    assert (user / "timeline.db").exists()


def test_a_home_that_a_daemon_has_is_refused_whole(home, monkeypatch):
    monkeypatch.setattr(removal, "_LOCK_SECONDS", 0)
    before = tree_of(home.folder)
    with home.lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(AlreadyRunningError, match=r"pid xxxxxxxxxx\)"):
            remove(home, keep_history=False)

    assert tree_of(home.folder) == before


def test_a_link_to_the_home_is_left_to_its_maker(home, tmp_path):
    (tmp_path / "link").symlink_to(home.folder)

    done = remove(Home(tmp_path / "link"), keep_history=False)

    assert (done.left, home.folder.exists(), (tmp_path / "link").is_symlink()) == ({".": "not_ours"}, False, True)


def test_an_empty_folder_is_the_rest_of_a_removal(tmp_path):
    home = Home(tmp_path / "home")
    home.folder.mkdir()

    assert remove(home, keep_history=False) == removal.Removal({}, {}, {})
    assert not home.folder.exists()


def test_a_folder_of_foreign_files_is_left_as_it_is(tmp_path):
    home = Home(tmp_path / "home")
    home.folder.mkdir()
    write(home, "notes.txt", "sub/notes.txt")

    for act in (plan, remove):
        assert act(home, keep_history=False) == removal.Removal({}, {}, {"notes.txt": "not_ours", "sub": "not_ours"})
    assert sorted(os.listdir(home.folder)) == ["notes.txt", "sub"]


@pytest.mark.parametrize("names", [["config.toml"], ["oxided.lock", "logs/oxided.log", "config.toml.rejected"]])
def test_a_home_that_no_daemon_has_made_whole_goes_too(tmp_path, names):
    home = Home(tmp_path / "home")
    write(home, *names)
    (home.folder / "timeline.db").touch()

    assert set(plan(home, keep_history=False).removed) >= {name.split("/")[0] for name in names}
    assert remove(home, keep_history=False).left == {}
    assert not home.folder.exists()


def test_while_something_resists_the_home_can_still_be_told(home, monkeypatch):
    unlink = os.unlink
    monkeypatch.setattr(
        os, "unlink", lambda name, **at: unlink(name, **at) if name != "config.toml" else os.stat("/dev/null/x")
    )

    done = remove(home, keep_history=False)

    assert done.left == {"config.toml": "Not a directory", "timeline.db.uninstalled": "needed to finish"}
    monkeypatch.undo()
    assert remove(home, keep_history=False).left == {}
    assert not home.folder.exists()


def test_a_file_in_the_place_of_the_home_is_left(tmp_path):
    (tmp_path / "home").write_text("x")

    assert remove(Home(tmp_path / "home"), keep_history=False) == removal.Removal({}, {}, {})
    assert (tmp_path / "home").read_text() == "x"
