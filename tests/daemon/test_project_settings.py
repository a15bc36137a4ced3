"""What ``config.toml`` says of one project holds for that one alone."""

from __future__ import annotations

import os
from datetime import datetime

import pytest

from openoxide.settings import Settings, parse_settings
from tests.kit import FakeClock, wait_until
from tests.kit.box import NO_QUIET, Box

DAY_MS = 86_400_000
DEADLINE_S = 30


@pytest.fixture
def box(tmp_path):
    """A project with settings of its own, and another without; both are watched."""
    box = Box(tmp_path, clock=FakeClock())
    other = tmp_path / "other"
    other.mkdir()
    own = """
        retention.ttl_days = 90
        capture = { max_file_bytes = 2000, extra_skip = ["*.iso"] }
    """
    text = f"[project.'{box.root}']\n{own}"
    box.settings = Settings(capture=NO_QUIET, projects=parse_settings(text, box.home.config).projects)
    box.stop()
    box.start()
    with box:
        for root in (box.root, other):
            (root / "large").write_bytes(bytes(3_000))
            (root / "disk.iso").touch()
            (root / "file").touch()
            box.call("watch", path=str(root))
        yield box


@pytest.fixture
def other(box, tmp_path):
    return {"path": str(tmp_path / "other")}


def lives(box, checkpoint):
    """For how many days."""
    expires_ms = datetime.fromisoformat(checkpoint["expires_at"]).timestamp() * 1000
    return (expires_ms - box.clock.now_ms()) / DAY_MS


def test_a_checkpoint_lives_as_long_as_its_project_says(box, other):
    assert lives(box, box.call("checkpoint")) == 90
    assert lives(box, box.call("checkpoint", **other)) == 30


def test_what_is_unpinned_or_taken_back_too(box, other):
    for named in ({}, other):
        box.call("checkpoint", **named)
        box.call("pin", checkpoint="2", **named)
        box.call("forget", checkpoints=["1"], **named)
    days = [
        (
            lives(box, box.call("unpin", checkpoint="2", **named)),
            lives(box, box.call("unforget", checkpoints=["1"], **named)["items"][0]),
        )
        for named in ({}, other)
    ]
    assert days == [(90, 90), (30, 30)]


def test_what_is_captured_follows_its_project_s_rules(box, other):
    def recorded(named):
        return {item["path"]: item["reason"] for item in box.call("show", checkpoint="last", **named)["skipped_paths"]}

    assert recorded({}) == {"large": "too_large", "disk.iso": "extra_skip"}
    assert recorded(other) == {}


def test_what_would_be_captured_too(box, tmp_path, other):
    box.call("unwatch")
    assert box.call("survey")["skipped"] == 2
    assert box.call("survey", **other)["skipped"] == 0


def test_a_burst_is_sealed_after_its_project_s_quiet_time(tmp_path):
    """Of two trees that change only the one that need not wait is sealed."""
    box = Box(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    text = f"project.'{box.root}'.capture.quiet_ms = 50"
    box.settings = Settings(capture=NO_QUIET, projects=parse_settings(text, box.home.config).projects)
    box.stop()
    box.start()
    with box:
        for root in (other, box.root):
            box.call("watch", path=str(root))
            (root / "new").touch()
        wait_until(lambda: box.call("log", limit=1)["items"][0]["trigger"] == "quiet", DEADLINE_S)
        assert [item["trigger"] for item in box.call("log", path=os.fspath(other))["items"]] == ["manual"]
