"""Whose a folder is that is named as the home."""

from __future__ import annotations

import os
import sqlite3

import pytest

from openoxide import config
from openoxide.checkpoints.schema import open_timeline
from openoxide.daemon.instance import acquire
from openoxide.errors import RefusedError
from openoxide.ownership import is_foreign
from openoxide.paths import Home
from openoxide.removal import remove
from tests.kit import tree_of


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.folder.mkdir()
    return home


def write(home, *names):
    for name in names:
        (home.folder / name).parent.mkdir(exist_ok=True)
        (home.folder / name).write_text("x")


@pytest.mark.parametrize(
    ("names", "foreign"),
    [
        ([], False),
        (["config.toml"], False),
        (["oxided.lock", "logs/oxided.log"], False),
        (["timeline.db.v1", "timeline.db.migrating"], False),
        (["timeline.db.vault"], True),
        (["notes.txt"], True),
        (["config.toml", "notes.txt"], True),
        (["logs/theirs"], True),
        (["src/config.toml"], True),
        (["projects/kkkkkkkkkkkkkkkk"], False),
        (["projects/my-app"], True),
        (["projects/kkkkkkkkkkkkkkkk", "projects/notes.txt"], True),
        (["projects"], True),
    ],
)
def test_a_folder_is_foreign_where_one_thing_in_it_is(home, names, foreign):
    write(home, *names)

    assert is_foreign(home) is foreign


def test_a_database_of_ours_outweighs_whatever_lies_beside_it(home):
    open_timeline(home.timeline_db).close()
    write(home, "notes.txt")

    assert not is_foreign(home)


@pytest.mark.parametrize(("name", "foreign"), [("config.toml", False), ("blobs", False), ("notes.txt", True)])
def test_a_link_may_stand_where_we_would_make_something(home, tmp_path, name, foreign):
    (home.folder / name).symlink_to(tmp_path)

    assert is_foreign(home) is foreign


THEIRS = 'theme = "dark"\n[editor]\nrulers = [80]\n'


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        (THEIRS, True),
        ("", False),
        ("# [capture]\n", False),
        ("[capture]\nquiet_ms = 5\n", False),
        ("[memory]\n", False),
        ("[summarizer]\n", False),  # not built yet, and refused by name
        ("[capture", False),  # a mistake is for those who use it to tell
    ],
)
def test_settings_are_told_from_those_of_another_program(home, text, foreign):
    home.config.write_text(text)

    assert is_foreign(home) is foreign


def test_a_link_to_settings_is_followed_to_tell_whose_they_are(home, tmp_path):
    (tmp_path / "theirs.toml").write_text(THEIRS)
    home.config.symlink_to(tmp_path / "theirs.toml")

    assert is_foreign(home)


def test_settings_of_another_program_are_neither_taken_nor_taken_away(home):
    home.config.write_text(THEIRS)

    with pytest.raises(RefusedError):
        remove(home, keep_history=False)
    with pytest.raises(RefusedError):
        acquire(home)

    assert os.listdir(home.folder) == ["config.toml"]


def test_a_database_of_another_program_is_not_made_ours(home):
    theirs = sqlite3.connect(home.timeline_db)
    theirs.execute("create table theirs(a)")
    theirs.close()
    before = home.timeline_db.read_bytes()

    with pytest.raises(RefusedError):
        acquire(home)

    assert (home.timeline_db.read_bytes(), os.listdir(home.folder)) == (before, ["timeline.db"])


@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_a_database_that_nothing_was_written_to_yet_is_nobodys(home, journal_mode):
    """What a daemon leaves that was killed in its first moment."""
    begun = sqlite3.connect(home.timeline_db)
    begun.execute(f"pragma journal_mode = {journal_mode}")
    begun.close()

    assert not is_foreign(home)
    remove(home, keep_history=False)
    assert not home.folder.exists()


def test_a_damaged_database_stays_ours_by_the_lock_beside_it(home):
    write(home, "oxided.lock", "timeline.db")

    assert not is_foreign(home)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_does_not_hide_what_is_foreign(home):
    write(home, "notes.txt")
    (home.folder / "logs").mkdir(mode=0)

    assert is_foreign(home)
    (home.folder / "logs").chmod(0o700)


def test_settings_are_not_written_into_a_foreign_folder(home):
    write(home, "notes.txt")
    before = tree_of(home.folder)

    with pytest.raises(RefusedError):
        config.change(home, "retention.ttl_days", ["10"])
    with pytest.raises(RefusedError):
        config.edit(home, lambda copy: copy.write_text("[retention]\nttl_days = 9\n"))

    assert tree_of(home.folder) == before
