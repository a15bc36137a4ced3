"""The home is where the environment says, else in the user's home; nothing is made by asking."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openoxide.paths import Home, home_from


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"OPENOXIDE_HOME": "/some/where"}, "/some/where"),
        ({"OPENOXIDE_HOME": ""}, "~/.openoxide"),
        ({}, "~/.openoxide"),
    ],
)
def test_the_home_is_where_the_environment_says(environ, folder):
    found = home_from(environ)
    assert found.folder == Path(folder).expanduser()
    assert not found.folder.exists()


def test_a_relative_home_is_one_place_for_good(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert home_from({"OPENOXIDE_HOME": "store"}).folder == Path(os.getcwd()) / "store"


def test_everything_lies_in_the_home(tmp_path):
    home = Home(tmp_path)
    places = [home.socket, home.lock, home.timeline_db, home.blobs, home.config, home.logs]
    assert {place.parent for place in places} == {tmp_path}
    assert len(set(places)) == len(places)
