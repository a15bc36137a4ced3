"""What an attack on the whole found, kept out."""

from __future__ import annotations

import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import STAGING_NAME
from openoxide.daemon.operations.sweeping import sweep_ended
from openoxide.errors import RefusedError, StoreDamagedError
from tests.kit import wait_until
from tests.kit.box import Box
from tests.races.interleaving import after, meanwhile
from tests.races.looking import wait_until_swept


@pytest.mark.parametrize("content", [b"second, and the only copy" * 40, os.urandom(5 << 20)], ids=["small", "big"])
def test_what_is_displaced_is_stored_anew_where_its_copy_is_damaged(tmp_path, content):
    """The undo that was promised could not bring it back."""
    with Box(tmp_path) as box:
        (box.root / "f").write_bytes(b"first")
        box.watch()
        box.stop()
        box.start()  # a pack of its own for what comes next
        box.watch()  # the pass of the start is over: nobody else stores what comes next
        (box.root / "f").write_bytes(content)
        box.checkpoint()
        big = box.home.blobs / "big" / blob_hash(content).hex()
        newest = big if big.exists() else max(box.home.blobs.glob("*.pack"))
        newest.write_bytes(newest.read_bytes()[:-10])

        with pytest.raises(StoreDamagedError):
            box.call("cat", checkpoint="2", file="f")
        box.rewind("1", scope="all")
        assert (box.root / "f").read_bytes() == b"first"
        assert box.call("cat", checkpoint="2", file="f") == content
        box.call("undo")
        assert (box.root / "f").read_bytes() == content


def test_a_widened_folder_that_stays_gets_its_mode_back(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "other").write_bytes(b"")
        box.watch()
        box.call("turn_begin", agent="codex", session="s", prompt="p")
        shut = box.root / "shut"
        shut.mkdir()
        (shut / "held").write_bytes(b"held open")
        (shut / "free").write_bytes(b"not held")
        shut.chmod(0o555)
        with (shut / "held").open("ab"):
            box.checkpoint()
            answer = box.rewind("turn:-1")
        assert [entry["path"] for entry in answer["conflicts"]] == ["shut/held"]
        assert stat.S_IMODE(shut.stat().st_mode) == 0o555
        assert (shut / "held").read_bytes() == b"held open"


def test_undo_leaves_what_somebody_made_in_the_place_of_a_removed_file(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "kept").write_bytes(b"")
        box.watch()
        (box.root / "new").write_bytes(b"the agent's")
        box.rewind("1", exact=True)
        (box.root / "new").write_bytes(b"the user's")
        answer = box.call("undo")
        assert [entry["path"] for entry in answer["conflicts"]] == ["new"]
        assert (box.root / "new").read_bytes() == b"the user's"


def test_what_an_operation_left_in_staging_is_gone_when_the_service_stops(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "f").write_bytes(b"first")
        box.watch()
        (box.root / "f").write_bytes(b"second")
        box.rewind("1", scope="all")
    with Box(tmp_path) as again:
        again.checkpoint()
        assert not (again.root / STAGING_NAME.decode()).exists()
    shutil.rmtree(tmp_path / "project")


def test_sweeps_of_one_worktree_take_turns(tmp_path):
    """The background's, and that of whoever cannot wait for it (`doctor --fix`, `uninstall`)."""
    names = [f"file{number}" for number in range(600)]
    with Box(tmp_path) as box:
        box.watch()
        (watched,) = box.service.all_watched()
        for content in ("then", "now and longer"):
            for name in names:
                (box.root / name).write_text(content)
            number = box.checkpoint()["number"]
        box.rewind(str(number - 1), scope="all")
        with ThreadPoolExecutor(4) as pool:
            for swept in [pool.submit(sweep_ended, box.service, watched) for _ in range(4)]:
                swept.result()
        wait_until(lambda: not (box.root / STAGING_NAME.decode()).exists(), 30)


def test_a_copy_is_never_restored_into_the_home(tmp_path):
    """A file of the project may have the name of one of ours."""
    with Box(tmp_path) as box:
        (box.root / "timeline.db").write_bytes(b"the project's")
        box.watch()
        for target in (box.home.folder, box.home.folder / "new", box.home.folder.parent):
            with pytest.raises(RefusedError):
                box.call("restore", checkpoint="1", to=str(target), force=True)
        assert box.call("log")["items"]


def test_a_database_whose_side_files_could_have_no_name_is_recorded(tmp_path):
    with Box(tmp_path) as box:
        box.watch()
        name = "n" * 250
        (box.root / name).write_bytes(b"SQLite format 3\0 and more")
        (box.root / "other").write_bytes(b"other")
        checkpoint = box.checkpoint()["id"]
        assert box.call("cat", checkpoint=checkpoint, file="other") == b"other"
        assert box.call("cat", checkpoint=checkpoint, file=name) == b"SQLite format 3\0 and more"


def test_what_somebody_puts_into_the_staging_folder_stays_and_stops_nothing(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "f").write_bytes(b"first")
        box.watch()
        (box.root / "f").write_bytes(b"second")
        staging = box.root / os.fsdecode(STAGING_NAME)

        def put() -> None:
            (operation,) = [entry for entry in staging.iterdir() if entry.is_dir()]
            (operation / "mine").mkdir()
            (operation / "mine" / "x").write_bytes(b"x")
            (operation / "notes").write_bytes(b"notes")

        with meanwhile(put, after("exchange")):
            box.rewind("1")
        wait_until_swept(box)
        box.stop()
        box.start()
        (box.root / "f").write_bytes(b"third")
        box.checkpoint()
        box.rewind("1")
        assert [path.read_bytes() for path in staging.glob("*/mine/x")] == [b"x"]
        assert [path.read_bytes() for path in staging.glob("*/notes")] == [b"notes"]
