"""A slice of the contents a day: each is read in its turn, and what is damaged is told of until it is mended."""

from __future__ import annotations

import os
import re

import pytest

from openoxide.daemon.operations import breathing, checking
from openoxide.daemon.operations.checking import check_slice
from openoxide.errors import FailedError
from openoxide.fileio import make_private
from tests.kit import FakeClock
from tests.kit.box import Box

FILES = 450


@pytest.fixture
def box(tmp_path):
    before = os.umask(0o077)
    with Box(tmp_path, clock=FakeClock()) as box:
        for number in range(FILES):
            (box.root / f"f{number}").write_text(f"line {number}\n")
        box.watch()
        make_private(box.home.folder)
        yield box
    os.umask(before)


def position(box):
    with box.service.timeline.database.reading() as db:
        found = db.execute_sql("select value from meta where key = 'check_at'").fetchone()
    return found[0] if found else None


def told(box):
    kinds = [problem["kind"] for problem in box.call("doctor")["problems"]]
    return "contents_damaged" in kinds, [text for text in box.call("status")["daemon"]["problems"] if "damaged" in text]


def hurt(box):
    """The last byte of the first pack, and so of the last frame in it."""
    pack = min(box.home.blobs.glob("*.pack"))
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)


def test_slices_pass_all_contents_and_begin_again(box):
    passed = []
    for _ in range(12):
        check_slice(box.service)
        passed.append(position(box))

    # a page at a time, of hundred contents each: at 450 contents a thirtieth is less than that
    assert passed[:6] == [100, 200, 300, 400, 0, 100]
    assert told(box) == (False, [])


def test_what_a_slice_finds_is_told_until_it_is_mended(box):
    hurt(box)
    for _ in range(4):
        check_slice(box.service)
    found, texts = told(box)

    assert found
    assert len(texts) == 1
    assert re.match("1 stored content is damaged, |[0-9]+ stored contents are damaged, ", texts[0])
    box.call("check", read_data=True)
    assert told(box)[0]
    hurt(box)  # the bit is as it was
    check_slice(box.service)
    box.call("check", read_data=True)
    assert told(box) == (False, [])


def test_it_is_still_told_after_a_restart(box):
    hurt(box)
    box.call("check", read_data=True)
    box.stop()
    box.start()

    assert told(box)[0]


def test_a_slice_ends_with_the_daemon(box, monkeypatch):
    monkeypatch.setattr(breathing, "_WORK_SECONDS", 0.0)
    box.service.stop_requested.set()

    with pytest.raises(FailedError, match="the daemon ends"):
        check_slice(box.service)

    assert position(box) is None


def test_a_slice_takes_no_more_than_its_time(box, monkeypatch):
    monkeypatch.setattr(checking, "SLICE_SECONDS", -1.0)

    check_slice(box.service)

    assert position(box) == 0
