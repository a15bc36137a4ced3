"""What a daemon starts with where ``config.toml`` is right, wrong, unreadable or gone."""

from __future__ import annotations

import os
import stat

import pytest

from openoxide.config import edit, unset
from openoxide.paths import Home
from openoxide.settings import CaptureSettings, RetentionSettings, Settings
from openoxide.taken import CAUTIOUS, Taken, take_settings, trouble, waits

NINETY = "[retention]\nttl_days = 90\n"
LONG = Settings(retention=RetentionSettings(ttl_days=90))
WRONG = [b"[retention", b"# \xff", b"[retention]\nttl_days = 'x'\n", b"[memory]\npolicy = 1\n"]


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return Home(folder)


def test_without_a_file_the_defaults_hold_and_nothing_is_written(home):
    taken = take_settings(home)

    assert (taken.settings, taken.problem) == (Settings(), "")
    assert os.listdir(home.folder) == []
    assert (trouble(home, taken), waits(home, taken)) == ("", False)


@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_went_wrong_leaves_the_settings_of_before(home, text):
    home.config.write_text(NINETY)
    assert take_settings(home).settings == LONG
    home.config.write_bytes(text)

    for _ in range(2):  # the copy is not replaced by what is wrong
        taken = take_settings(home)
        assert taken.settings == LONG
        assert str(home.config) in taken.problem
        assert "config.toml.used" in taken.problem
        assert trouble(home, taken) == taken.problem
    assert stat.S_IMODE(home.used_config.stat().st_mode) == 0o600


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_cannot_be_read_leaves_the_settings_of_before(home, make):
    home.config.write_text(NINETY)
    take_settings(home)
    home.config.unlink()
    make(home.config)

    assert take_settings(home).settings == LONG


def test_a_link_that_leads_nowhere_leaves_the_settings_of_before(home):
    home.config.write_text(NINETY)
    take_settings(home)
    home.config.unlink()
    home.config.symlink_to(home.folder / "gone.toml")

    for _ in range(2):
        taken = take_settings(home)
        assert taken.settings == LONG
        assert "leads nowhere" in taken.problem
        assert (trouble(home, taken), waits(home, taken)) == (taken.problem, False)


def test_of_a_link_that_leads_nowhere_and_never_did_nothing_is_known(home):
    home.config.symlink_to(home.folder / "gone.toml")

    assert take_settings(home).settings == CAUTIOUS


def test_a_file_of_no_bytes_in_the_place_of_one_that_said_something_is_not_believed(home):
    """A full disk or a power cut leaves one."""
    home.config.write_text(NINETY)
    running = take_settings(home)
    home.config.write_bytes(b"")

    for _ in range(2):
        taken = take_settings(home)
        assert taken.settings == LONG
        assert "is empty, and was not before" in taken.problem
        assert (trouble(home, taken), waits(home, taken)) == (taken.problem, False)
    assert (waits(home, running), "is empty" in trouble(home, running)) == (False, True)
    home.config.write_text("\n")
    assert take_settings(home) == Taken(settings=Settings())


def test_what_takes_the_last_key_out_is_believed(home):
    home.config.write_text("retention.ttl_days = 90\n")
    take_settings(home)

    unset(home, "retention.ttl_days")

    assert take_settings(home) == Taken(settings=Settings())


def test_an_editor_that_empties_the_file_is_believed(home):
    home.config.write_text(NINETY)
    take_settings(home)

    edit(home, lambda copy: copy.write_bytes(b""))

    assert take_settings(home) == Taken(settings=Settings())


@pytest.mark.parametrize("copy", [None, b"[retention", b"# \xff"])
def test_with_nothing_to_go_by_nothing_expires(home, copy):
    home.config.write_text("[retention")
    if copy is not None:
        home.used_config.write_bytes(copy)

    taken = take_settings(home)

    assert taken.settings == CAUTIOUS
    assert (CAUTIOUS.retention.ttl_days, CAUTIOUS.capture) == (0, CaptureSettings())
    assert "nothing expires" in taken.problem


def test_a_file_that_was_deleted_means_the_defaults(home):
    home.config.write_text(NINETY)
    take_settings(home)
    home.config.unlink()

    assert take_settings(home).settings == Settings()
    home.config.write_text("[retention")
    assert take_settings(home).settings == CAUTIOUS, "and not what was deleted"


def test_a_daemon_that_runs_keeps_what_it_has_and_tells(home):
    home.config.write_text(NINETY)
    taken = take_settings(home)
    assert (trouble(home, taken), waits(home, taken)) == ("", False)

    home.config.write_text("[retention")

    assert "goes on with the settings that it started with" in trouble(home, taken)
    assert not waits(home, taken)
    home.config.write_text("[retention]\nttl_days = 5\n")
    assert (trouble(home, taken), waits(home, taken)) == ("", True)
    home.config.write_text(f"# the same, in other words\n{NINETY}")
    assert not waits(home, taken)


def test_a_file_that_is_right_again_is_told_of_until_it_is_taken_up(home):
    home.config.write_text("[retention")
    taken = take_settings(home)
    home.config.write_text(NINETY)

    assert "not taken up yet" in trouble(home, taken)
    again = take_settings(home)
    assert (again.settings, trouble(home, again)) == (LONG, "")


def test_a_home_that_takes_no_copy_is_no_reason_not_to_start(home):
    home.config.write_text(NINETY)
    home.used_config.mkdir()

    assert take_settings(home).settings == LONG
