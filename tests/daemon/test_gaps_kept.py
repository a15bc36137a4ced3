"""What was told is not forgotten because the store could not take it down at that moment."""

from __future__ import annotations

import pytest

from openoxide.daemon.changes import Gap
from openoxide.errors import OpenOxideError
from tests.kit.box import Box
from tests.kit.limits import file_size_limit
from tests.kit.recorded import complete, wait_for_full_pass


@pytest.fixture(name="box")
def _box(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "f").write_text("one")
        box.watch()
        yield box


@pytest.mark.parametrize("cause", ["overflow", "unmount", "root_lost"])
def test_a_gap_of_which_no_row_could_be_made_is_still_a_gap(box, cause):
    (watched,) = box.service.all_watched()
    (box.root / "told").write_text("by an event that was lost")
    watched.watch.barrier()
    watched.watch.take()
    (box.root / "g").write_text("by an event that was not")
    watched.watch.give_back({}, [Gap(cause=cause)])
    with file_size_limit(0), pytest.raises(OpenOxideError):
        box.checkpoint()
    after = box.checkpoint()
    assert not after["complete"]
    assert after["gap"] == cause
    assert box.call("cat", checkpoint=after["id"], file="g") == b"by an event that was not"
    box.service.background.submit("a pass", lambda: watched.full_pass(None))
    wait_for_full_pass(box)
    complete(box)
