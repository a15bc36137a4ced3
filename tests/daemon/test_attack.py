"""What an attack on the whole found, kept out."""

from __future__ import annotations

import shutil
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from openoxide.checkpoints.model import STAGING_NAME
from openoxide.daemon.operations.sweeping import sweep_ended
from openoxide.errors import StoreDamagedError
from tests.kit import wait_until
from tests.kit.box import Box


def test_nothing_is_displaced_whose_stored_copy_is_damaged(tmp_path):
    """The undo that was promised could not bring it back."""
    with Box(tmp_path) as box:
        (box.root / "f").write_bytes(b"first")
        box.watch()
        box.stop()
        box.start()  # a pack of its own for what comes next
        (box.root / "f").write_bytes(b"second, and the only copy" * 40)
        box.checkpoint()
        pack = max(box.home.blobs.glob("*.pack"))
        pack.write_bytes(pack.read_bytes()[:-10])

        with pytest.raises(StoreDamagedError) as caught:
            box.rewind("1", scope="all")

        assert caught.value.details["paths"] == ["f"]
        assert (box.root / "f").read_bytes() == b"second, and the only copy" * 40


def test_a_widened_folder_that_stays_gets_its_mode_back(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "other").write_bytes(b"")
        box.watch()
        shut = box.root / "shut"
        shut.mkdir()
        (shut / "held").write_bytes(b"held open")
        (shut / "free").write_bytes(b"not held")
        shut.chmod(0o555)
        with (shut / "held").open("ab"):
            box.checkpoint()
            answer = box.rewind("1", exact=True)
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
