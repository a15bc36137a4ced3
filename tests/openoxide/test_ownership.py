"""Whose a folder is that is named as the home."""

from __future__ import annotations

import os

import pytest

from openoxide import config
from openoxide.checkpoints.schema import open_timeline
from openoxide.errors import RefusedError
from openoxide.ownership import is_foreign
from openoxide.paths import Home
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
        (["notes.txt"], True),
        (["config.toml", "notes.txt"], True),
        (["logs/theirs"], True),
        (["src/config.toml"], True),
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
