"""What the system refuses: bytes that may not be read, a disk that is full, a store that is not for this program."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from openoxide.checkpoints.schema import MIGRATIONS
from openoxide.errors import OpenOxideError
from tests.daemon.trouble import (
    STAGING,
    fill,
    isolated,
    paths,
    phases,
    reasons,
    refused,
    settled,
    skips,
    small_disk,
    unprivileged,
    with_own_mounts,
    write,
)
from tests.kit import diff_trees, tree_of
from tests.kit.box import Box

# Files and directories that may not be read


@unprivileged
def test_a_file_that_may_not_be_read_is_shown_and_everything_else_is_recorded(tmp_path):
    with Box(tmp_path) as box:
        secret = write(box.root / "secret", "secret")
        secret.chmod(0)
        write(box.root / "plain", "first")
        box.watch()
        shown = box.call("show", checkpoint="1")["skipped_paths"]
        assert shown == [{"path": "secret", "reason": "unreadable", "size_bytes": 6}]
        write(box.root / "plain", "second")

        assert paths(box.rewind("1", exact=True)["restored"]) == [b"plain"]

        secret.chmod(0o600)
        assert secret.read_text() == "secret"


@unprivileged
def test_a_file_that_may_not_be_read_any_more_is_left_and_listed(tmp_path):
    with Box(tmp_path) as box:
        plain = write(box.root / "plain", "first")
        box.watch()
        write(plain, "second")
        plain.chmod(0)

        answer = box.rewind("1", exact=True)

        assert (answer["restored"], reasons(answer["skipped"])) == ([], {b"plain": "unreadable"})
        plain.chmod(0o644)
        assert plain.read_text() == "second"
        assert paths(box.rewind("1", exact=True)["restored"]) == [b"plain"]
        assert plain.read_text() == "first"


@unprivileged
def test_a_directory_that_may_not_be_read_is_shown_and_everything_else_is_recorded(tmp_path):
    with Box(tmp_path) as box:
        shut = write(box.root / "shut" / "inner", "inner").parent
        write(box.root / "plain", "first")
        shut.chmod(0)
        box.watch()
        assert skips(box) == {b"shut": "unreadable"}
        write(box.root / "plain", "second")

        assert paths(box.rewind("1", exact=True)["restored"]) == [b"plain"]

        shut.chmod(0o755)
        assert (shut / "inner").read_text() == "inner"


@unprivileged
def test_a_directory_that_stays_shut_is_no_change(tmp_path):
    """However often the whole tree is compared."""
    with Box(tmp_path) as box:
        shut = write(box.root / "shut" / "inner", "inner").parent
        shut.chmod(0)
        box.watch()
        for _ in range(3):
            box.rewind("1", dry_run=True)
            assert box.checkpoint()["changed"] == {"added": 0, "modified": 0, "removed": 0}
            assert skips(box) == {b"shut": "unreadable"}
        shut.chmod(0o755)


@unprivileged
def test_what_a_directory_holds_is_recorded_as_soon_as_it_may_be_read(tmp_path):
    with Box(tmp_path) as box:
        shut = write(box.root / "shut" / "inner", "inner").parent
        shut.chmod(0)
        box.watch()
        shut.chmod(0o755)
        assert box.checkpoint()["complete"]
        assert skips(box) == {}
        assert box.call("cat", checkpoint="last", file="shut/inner") == b"inner"


@unprivileged
def test_what_was_in_a_directory_that_may_not_be_read_any_more_is_left_and_listed(tmp_path):
    with Box(tmp_path) as box:
        shut = write(box.root / "shut" / "inner", "first").parent
        write(box.root / "plain", "first")
        box.watch()
        write(shut / "inner", "second")
        write(box.root / "plain", "second")
        shut.chmod(0)

        answer = box.rewind("1", exact=True)

        assert paths(answer["restored"]) == [b"plain"]
        assert reasons(answer["skipped"])[b"shut/inner"] == "unreadable"
        shut.chmod(0o755)
        assert (shut / "inner").read_text() == "second"
        assert b"shut/inner" in paths(box.rewind("1", exact=True)["restored"])
        assert (shut / "inner").read_text() == "first"


@unprivileged
def test_what_was_shut_at_the_checkpoint_is_not_taken_for_new(tmp_path):
    with Box(tmp_path) as box:
        shut = write(box.root / "shut" / "inner", "precious").parent
        shut.chmod(0)
        box.watch()
        shut.chmod(0o755)

        box.rewind("1", exact=True)

        shut.chmod(0o755)
        assert (shut / "inner").read_text() == "precious"


# A full disk


@with_own_mounts
def test_a_full_store_refuses_and_loses_nothing_and_works_again_with_space(tmp_path):
    disk = small_disk(tmp_path / "home", "4m")
    with Box(tmp_path) as box:
        write(box.root / "plain", "first")
        write(box.root / "data", random.Random(1).randbytes(1 << 20))
        box.watch()
        then = tree_of(box.root)
        ballast = fill(disk)
        write(box.root / "plain", "second")
        write(box.root / "data", random.Random(2).randbytes(1 << 20))
        now = tree_of(box.root)

        for act, request in NEEDS_SPACE.items():
            with refused(box, "store_full", "content store") as caught:
                box.call(act, **request)
            assert caught.value.hint

        assert box.call("cat", checkpoint="1", file="plain") == b"first"
        assert (box.call("status")["worktrees"][0]["state"], box.call("status")["worktrees"][0]["complete"]) == (
            "degraded",
            False,
        )
        assert not (box.root / STAGING).exists()
        ballast.unlink()
        assert box.checkpoint()["changed"]["modified"] == 2
        assert paths(box.rewind("1")["restored"]) == [b"data", b"plain"]
        assert diff_trees(then, settled(box.root)) == []
        box.call("undo")
        assert diff_trees(now, settled(box.root)) == []
    with Box(tmp_path) as again:
        again.rewind("1", exact=True)
        assert diff_trees(then, settled(again.root)) == []


NEEDS_SPACE: dict[str, dict[str, Any]] = {
    "checkpoint": {},
    "rewind": {"checkpoint": "1", "exact": True},
    "turn_begin": {"agent": "claude", "session": "S", "prompt": "P"},
    "diff": {"a": "1"},
}


@with_own_mounts
def test_a_checkpoint_for_which_there_is_no_space_is_listed_as_failed_and_never_taken_for_one(tmp_path):
    disk = small_disk(tmp_path / "home", "4m")
    with Box(tmp_path) as box:
        write(box.root / "plain", "first")
        box.watch()
        write(box.root / "large", random.Random(1).randbytes(8 << 20))
        for act in (box.checkpoint, lambda: box.rewind("1")):
            with refused(box, "store_full", "content store"):
                act()
        assert [item["number"] for item in box.call("log")["items"]] == [1]
        assert list((disk / "blobs" / "big").iterdir()) == []
        failed = [item["failed"] for item in box.call("log", all=True)["items"] if item["failed"]]
        assert failed[0] == "no space left to write the content store"


@with_own_mounts
def test_a_full_database_refuses_and_loses_nothing(tmp_path):
    """The bytes are stored already, only the rows find no space."""
    disk = small_disk(tmp_path / "home", "4m")
    with Box(tmp_path) as box:
        write(box.root / "first", "the same everywhere")
        box.watch()
        ballast = fill(disk)
        for number in range(2_000):
            write(box.root / f"{number % 40}" / f"{number}", "the same everywhere")
        with refused(box, "store_full", "the disk that holds the store is full"):
            box.checkpoint()
        ballast.unlink()
        assert box.checkpoint()["changed"] == {"added": 2_040, "modified": 0, "removed": 0}
        assert box.call("cat", checkpoint="last", file="39/1999") == b"the same everywhere"


@contextmanager
def on_a_full_project(tmp_path: Path) -> Iterator[Box]:
    disk = small_disk(tmp_path / "project", "4m")
    with Box(tmp_path) as box:
        write(box.root / "plain", "first")
        write(box.root / "data", random.Random(1).randbytes(1 << 20))
        box.watch()
        (box.root / "data").unlink()
        write(box.root / "plain", "second")
        fill(disk)
        with refused(box, "store_full", f"staging folder in {box.root}"):
            box.rewind("1")
        yield box


@with_own_mounts
def test_a_rewind_without_space_in_the_project_changes_nothing_and_works_again_with_space(tmp_path):
    with on_a_full_project(tmp_path) as box:
        (box.root / "ballast").unlink()
        assert paths(box.rewind("1")["restored"]) == [b"data", b"plain"]
        assert (box.root / "data").read_bytes() == random.Random(1).randbytes(1 << 20)


@with_own_mounts
def test_a_rewind_without_space_in_the_project_leaves_nothing_behind(tmp_path):
    with on_a_full_project(tmp_path) as box:
        assert phases(box) == ["undone"]
        assert not (box.root / STAGING).exists()


# A store that is not for this program


def folded(box: Box, version: int) -> None:
    box.stop()
    with closing(sqlite3.connect(box.home.timeline_db)) as db, db:
        db.execute(f"pragma user_version = {version}")


def in_the_wal(box: Box, version: int) -> None:
    """As after a crash: the version stands in the WAL, which nobody may fold either."""
    with closing(sqlite3.connect(box.home.timeline_db)) as db:
        with db:
            db.execute(f"pragma user_version = {version}")
        crashed = box.home.folder.with_name("crashed")
        shutil.copytree(box.home.folder, crashed)
    box.stop()
    shutil.rmtree(box.home.folder)
    crashed.rename(box.home.folder)
    assert (box.home.folder / "timeline.db-wal").stat().st_size


def without_shared_memory(folder: Path) -> dict[bytes, Any]:
    """A reader may make the files that readers share, and an empty WAL; they hold nothing."""
    return {
        path: what
        for path, what in tree_of(folder).items()
        if not path.endswith(b"-shm") and not (path.endswith(b"-wal") and what[3] == b"")
    }


@pytest.fixture
def stored(tmp_path: Path) -> Box:
    box = Box(tmp_path)
    write(box.root / "plain", "first")
    box.watch()
    return box


@pytest.mark.parametrize("raise_to", [folded, in_the_wal])
def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(stored, raise_to: Callable[[Box, int], None]):
    raise_to(stored, 99)
    before = without_shared_memory(stored.home.folder)

    with pytest.raises(OpenOxideError) as caught:
        stored.start()

    assert caught.value.kind == "newer_store"
    assert f"{stored.home.timeline_db} has schema version 99" in caught.value.message
    assert "upgrade" in caught.value.hint
    assert diff_trees(before, without_shared_memory(stored.home.folder)) == []
    with closing(sqlite3.connect(stored.home.timeline_db)) as db, db:
        db.execute(f"pragma user_version = {len(MIGRATIONS)}")
    with Box(stored.home.folder.parent) as again:
        assert again.call("cat", checkpoint="1", file="plain") == b"first"


def test_a_store_that_is_no_database_is_refused_and_left_as_it_is(stored):
    stored.stop()
    stored.home.timeline_db.write_bytes(b"no database" * 1000)
    before = tree_of(stored.home.folder)

    with pytest.raises(OpenOxideError) as caught:
        stored.start()

    assert (caught.value.kind, str(stored.home.timeline_db) in caught.value.message) == ("store_damaged", True)
    assert diff_trees(before, tree_of(stored.home.folder)) == []


def lost(content: bytes, upto: int) -> bytes:
    return bytes(upto) + content[upto:]


def flipped(content: bytes, upto: int) -> bytes:
    return content[: upto - 1] + bytes([content[upto - 1] ^ 1]) + content[upto:]


def cut(content: bytes, upto: int) -> bytes:
    return content[: upto // 2]


@pytest.mark.parametrize("damage", [lost, flipped, cut])
def test_damaged_bytes_are_named_and_nothing_is_rewound(tmp_path, damage: Callable[[bytes, int], bytes]):
    with Box(tmp_path) as box:
        write(box.root / "bad", "first")
        box.watch()
        (pack,) = box.home.blobs.glob("*.pack")
        upto = pack.stat().st_size
        write(box.root / "good", "stored behind it")
        checkpoint = box.checkpoint()["id"]
        pack.write_bytes(damage(pack.read_bytes(), upto))
        box.stop()
        box.start()
        write(box.root / "bad", "second")
        write(box.root / "good", "second")

        with refused(box, "store_damaged", "bad") as caught:
            box.rewind(checkpoint)

        assert "bad" in caught.value.details["paths"]
        assert not (box.root / STAGING).exists()
        if damage is not cut:
            assert paths(box.rewind(checkpoint, paths=["good"])["restored"]) == [b"good"]


@isolated
def test_a_home_that_may_not_be_made_is_named(tmp_path):
    write(tmp_path / "home", "a file in its place")
    with pytest.raises((OpenOxideError, OSError)) as caught:
        Box(tmp_path)
    assert str(tmp_path / "home") in str(caught.value)
    assert os.path.isfile(tmp_path / "home")
