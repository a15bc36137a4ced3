"""``doctor`` against a real service: it finds what was broken, and repairs only what takes nothing away."""

from __future__ import annotations

import os

import pytest

from openoxide.daemon.diagnosis import SKEW_MS
from openoxide.settings import parse_settings
from openoxide.taken import take_settings
from tests.daemon.trouble import settled
from tests.kit import tree_of
from tests.kit.box import Box

OF_THE_MACHINE = {
    "home_in_memory",
    "home_in_container",
    "home_not_local",
    "tree_not_local",
    "disk_space",
    "watch_limit",
}


@pytest.fixture
def box(box):
    os.umask(0o022)
    box.call("doctor", fix=True)  # the box leaves out what the daemon's own start sees to: modes
    return box


def found(box, *, fix=False):
    problems = box.call("doctor", fix=fix)["problems"]
    return [(p["kind"], p["fixed"]) for p in problems if p["kind"] not in OF_THE_MACHINE]


def test_a_sound_installation_has_no_problems(box):
    answer = box.call("doctor")

    assert found(box) == []
    assert {"pid", "version", "home", "side"} <= answer["daemon"].keys()


def test_open_modes_are_repaired_when_asked_to(box):
    box.home.timeline_db.chmod(0o644)

    assert found(box) == [("home_permissions", False)]
    assert box.home.timeline_db.stat().st_mode & 0o077
    assert found(box, fix=True) == [("home_permissions", True)]
    assert found(box) == []


def test_a_staging_folder_that_nobody_needs_is_swept_when_asked_to(box):
    staging = box.root / ".openoxide-staging"
    staging.mkdir(0o700)
    (staging / ".gitignore").write_text("*\n")

    assert found(box) == [("staging_left", False)]
    assert found(box, fix=True) == [("staging_left", True)]
    assert not staging.exists()


def test_what_is_not_ours_in_it_stays(box):
    staging = box.root / ".openoxide-staging"
    staging.mkdir(0o700)
    (staging / "theirs").write_text("x")

    assert found(box, fix=True) == [("staging_busy", False)]
    assert (staging / "theirs").read_text() == "x"


def test_an_interrupted_operation_keeps_its_staging_folder(box):
    (box.root / "a").write_text("two")
    box.rewind("1")
    settled(box.root)
    (box.root / ".openoxide-staging" / "x").mkdir(parents=True)
    with box.service.timeline.database.writing() as db:
        db.execute_sql("update operation set phase = 'interrupted'")
    before = tree_of(box.root)

    assert found(box, fix=True) == [("interrupted", False)]
    assert tree_of(box.root) == before


def test_a_pause_and_a_lost_root_are_told_apart(box):
    box.call("pause")
    assert found(box) == [("paused", False)]
    box.call("unpause")
    box.root.rename(box.root.with_name("elsewhere"))

    assert ("root_gone", False) in found(box)


def test_a_clock_that_went_back_is_told(box, clock):
    clock.wall -= 2 * SKEW_MS

    assert found(box) == [("clock", False)]


def test_a_clock_that_jumped_pauses_the_expiry_and_that_is_told(box, clock):
    box.service.beat()
    clock.wall += 10 * 365 * 86_400_000
    box.service.beat()

    assert found(box) == [("retention_paused", False)]
    (told,) = [item for item in box.call("doctor")["problems"] if item["kind"] == "retention_paused"]
    assert "oxide-ctl expire --force" in told["hint"]


def test_what_is_wrong_with_the_configuration_is_told(box):
    box.home.config.touch(0o600)
    box.home.config.write_text("[capture]\nnonsense = 1\n")
    box.service.taken = take_settings(box.home)

    assert found(box) == [("config", False)]
    box.home.config.write_text('[project."/never/watched".capture]\nquiet_ms = 70\n')
    box.service.taken = taken = take_settings(box.home)
    box.service.settings = taken.settings
    assert found(box) == [("config_stranger", False)]
    box.home.config.write_text("[capture]\nquiet_ms = 60\n")
    assert found(box) == [("config_waits", False), ("config_stranger", False)]


def test_what_is_used_up_of_what_the_settings_leave_is_told(box):
    (box.root / "large").write_bytes(os.urandom(3_000_000))
    box.checkpoint()
    assert found(box) == []
    text = f"[retention]\nmin_free_bytes = {10**14}\ntotal_quota_bytes = 1_000_000\n"
    text += f"[project.'{box.root}'.retention]\nquota_bytes = 3_100_000\n"
    box.service.settings = parse_settings(text, box.home.config)

    assert found(box) == [("reserve", False), ("quota_exceeded", False), ("quota_near", False)]
    (near,) = [item for item in box.call("doctor")["problems"] if item["kind"] == "quota_near"]
    assert str(box.root) in near["message"]
    # one that is set for all would not change this one
    assert f"`oxide-ctl -C {box.root} config set --project retention.quota_bytes SIZE` raises it" in near["hint"]
    box.service.settings = parse_settings("[retention]\nquota_bytes = 3_100_000\n", box.home.config)
    (near,) = [item for item in box.call("doctor")["problems"] if item["kind"] == "quota_near"]
    assert "`oxide-ctl config set retention.quota_bytes SIZE` raises it" in near["hint"]


def test_copies_of_the_store_are_told(box):
    (box.home.folder / "repair-20261130T120000000").mkdir(0o700)
    for name in ("repair-20261130T120000000/timeline.db", "timeline.db.v1"):
        place = box.home.folder / name
        place.touch(0o600)
        place.write_bytes(bytes(5 << 20))

    (told,) = box.call("doctor")["problems"]

    assert (told["kind"], told["severity"]) == ("copies_left", "note")
    assert "10 MiB: repair-20261130T120000000, timeline.db.v1" in told["message"]


def test_a_home_inside_a_watched_tree_is_told(tmp_path):
    with Box(tmp_path, root=tmp_path / ".") as box:
        box.watch()

        assert ("home_in_project", False) in found(box, fix=True)


def test_a_journal_mode_that_is_not_wal_is_told(box):
    with box.service.timeline.database.looking() as db:
        assert db.execute_sql("pragma journal_mode").fetchone() == ("wal",)
    assert ("journal_mode", False) not in found(box)


def of_the_store(box):
    return [(p["severity"], p["kind"], p["message"]) for p in box.call("doctor")["problems"] if "store" in p["message"]]


def a_big_file(box):
    (box.root / "big").write_bytes(os.urandom(5_000_000))
    box.checkpoint()
    (big,) = (box.home.blobs / "big").iterdir()
    return big


def test_files_of_the_store_that_are_gone_are_told(box):
    big = a_big_file(box)
    big.unlink()
    (box.home.blobs / "00000001.pack").unlink()

    text = "files of the store are missing: 2, first blobs/00000001.pack"
    assert of_the_store(box) == [("error", "store_damaged", text)]


def test_files_of_the_store_that_were_cut_short_are_told(box):
    for file in (a_big_file(box), box.home.blobs / "00000001.pack"):
        os.truncate(file, file.stat().st_size - 1)

    text = "files of the store are cut short: 2, first blobs/00000001.pack"
    assert of_the_store(box) == [("error", "store_damaged", text)]


def test_what_is_not_ours_in_the_store_is_told_and_stays(box):
    (box.home.blobs / "abc.pack").touch()
    (box.home.blobs / "00000009.pack").mkdir(0o700)
    (box.home.blobs / "abc.pack").chmod(0o600)

    text = "what is not ours lies in the store and stays there: 2, first blobs/00000009.pack"
    assert of_the_store(box) == [("warning", "store_foreign", text)]
    assert found(box, fix=True) == [("store_foreign", False)]
    assert (box.home.blobs / "abc.pack").exists()


def test_a_timeline_that_was_lost_is_told_by_the_packs_it_left(box):
    box.stop()
    for file in box.home.folder.glob("timeline.db*"):
        file.unlink()
    box.start()
    box.call("doctor", fix=True)

    assert found(box) == [("packs_aside", False)]
    (told,) = box.call("status")["daemon"]["problems"]
    assert "packs of another timeline.db were set aside: 1" in told


def test_a_timeline_that_comes_back_has_its_packs_again(box):
    for name in ("one", "another"):
        (box.root / name).write_text(name)
        box.call("checkpoint")
        box.stop()
        box.start()
    box.stop()
    database = box.home.timeline_db
    kept = database.read_bytes()
    packs = {pack.name: pack.read_bytes() for pack in box.home.blobs.glob("*.pack")}
    database.unlink()
    box.start()
    box.stop()
    assert {pack.name for pack in box.home.blobs.glob("*.aside")} >= {f"{name}.aside" for name in packs}
    # as where a kill came in the middle
    (box.home.blobs / f"{min(packs)}.aside").rename(box.home.blobs / min(packs))

    assert len(packs) > 1
    database.write_bytes(kept)
    box.start()

    assert {name: (box.home.blobs / name).read_bytes() for name in packs} == packs
    assert ("packs_aside", False) not in found(box)
    assert box.call("status")["daemon"]["problems"] == []


def test_packs_that_a_repair_gave_up_are_a_note_with_the_way_back(box):
    """As a repair left it of which nothing is recorded."""
    kept = box.home.folder / "repair-20261130T120000000"
    kept.mkdir(0o700)
    (kept / "timeline.db").touch(0o600)
    aside = box.home.blobs / "00000001.pack.aside"
    aside.touch(0o600)

    (told,) = [
        problem for problem in box.call("doctor")["problems"] if problem["kind"] in ("copies_left", "packs_aside")
    ]

    assert (told["kind"], told["severity"]) == ("copies_left", "note")
    assert told["message"].endswith(": blobs/00000001.pack.aside, repair-20261130T120000000")
    assert "put repair-20261130T120000000/timeline.db in the place of timeline.db" in told["hint"]
    assert box.call("status")["daemon"]["problems"] == []
