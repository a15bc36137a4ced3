"""What is wrong with a home, and what its place means."""

from __future__ import annotations

import socket
import stat

import pytest

from openoxide.health import home_problems, place_problems, side_problems, space_problems, tree_problems
from openoxide.paths import Home
from openoxide.surroundings import Side


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.folder.mkdir(mode=0o700)
    home.blobs.mkdir(mode=0o700)
    home.timeline_db.touch(mode=0o600)
    return home


def kinds(problems):
    return [(problem.kind, problem.severity) for problem in problems]


def permissions(home, *, fix=False):
    return [problem for problem in home_problems(home, fix=fix) if problem.kind == "home_permissions"]


@pytest.mark.parametrize("name", [".", "timeline.db", "blobs"])
def test_what_others_may_reach_is_found_and_repaired(home, name):
    (home.folder / name).chmod(0o755)

    (found,) = permissions(home)
    assert (found.severity, found.fixed, "--fix" in found.hint) == ("error", False, True)
    (repaired,) = permissions(home, fix=True)

    assert repaired.fixed
    assert not stat.S_IMODE((home.folder / name).stat().st_mode) & 0o077
    assert permissions(home) == []


def test_an_open_socket_is_found_and_repaired(home):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))
        home.socket.chmod(0o666)

        assert permissions(home, fix=True)[0].fixed

    assert stat.S_IMODE(home.socket.stat().st_mode) == 0o600


def test_a_link_says_nothing_about_what_it_leads_to(home, tmp_path):
    (tmp_path / "theirs").touch(mode=0o666)
    (home.folder / "link").symlink_to(tmp_path / "theirs")

    assert permissions(home, fix=True) == []


def test_where_no_home_is_nothing_is_wrong_with_it(tmp_path):
    assert home_problems(Home(tmp_path / "none"), fix=True) == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ext4", []),
        ("", []),
        ("nfs4", [("home_not_local", "error")]),
        ("9p", [("home_not_local", "error")]),
        ("tmpfs", [("home_in_memory", "warning")]),
        ("overlay", [("home_in_container", "note")]),
    ],
)
def test_the_place_of_a_home_matters(kind, expected):
    assert kinds(place_problems("/h", kind)) == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("ext4", []), ("drvfs", [("tree_not_local", "warning")]), ("overlay", [])]
)
def test_the_place_of_a_tree_matters(kind, expected):
    assert kinds(tree_problems("/p", kind)) == expected


@pytest.mark.parametrize(
    ("free", "expected"),
    [(2 << 30, []), (500 << 20, [("disk_space", "warning")]), (5 << 20, [("disk_space", "error")])],
)
def test_little_room_is_told(free, expected):
    assert kinds(space_problems("/h", free)) == expected


@pytest.mark.parametrize(
    ("ours", "daemons", "expected"),
    [
        (Side(world="1"), Side(world="1"), []),
        (Side(world="1"), Side(), []),
        (Side(world="1"), Side(world="2", container="docker"), [("other_side", "warning"), ("container", "note")]),
        (Side(world="1", wsl="WSL 2"), Side(world="1", wsl="WSL 2"), [("wsl", "note")]),
        (Side(sandbox=True), Side(), [("sandbox", "note")]),
    ],
)
def test_sides_are_compared(ours, daemons, expected):
    assert kinds(side_problems(ours, daemons)) == expected
