"""A dry run opens nothing, writes nothing, and counts what a first capture then records."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.settings import CaptureSettings
from tests.daemon.trouble import isolated, unprivileged
from tests.kit import diff_trees, effort, tree_of
from tests.kit.box import Box

TIGHT = CaptureSettings(
    quiet_ms=3_600_000, max_interval_ms=3_600_000, max_file_bytes=4_000, ignored_file_bytes=100, ignored_tree_files=3
)
NAMES = st.sampled_from(
    "a b .env node_modules build big venv/pyvenv.cfg x.log ignored/one ignored/two ignored/three ignored/four deep/er/c".split()
)
TREES = st.dictionaries(NAMES, st.integers(0, 6_000), max_size=10)
RULES = st.lists(st.sampled_from(["build", "*.log", "ignored", "!a", "b", "deep"]), max_size=3)


def counts(answer):
    return answer["files"], answer["bytes"], answer["skipped"]


def new(answer):
    return answer["new_files"], answer["new_bytes"]


def counts_of_files(answer):
    return answer["files"], answer["bytes"]


@settings(max_examples=effort(25))
@given(tree=TREES, gitignore=RULES, oxideignore=RULES)
def test_a_dry_run_counts_what_a_capture_records(tmp_path_factory, tree, gitignore, oxideignore):
    folder = tmp_path_factory.mktemp("box")
    with Box(folder, capture=TIGHT) as box:
        for name, size in tree.items():
            (box.root / name).parent.mkdir(parents=True, exist_ok=True)
            (box.root / name).write_bytes(os.urandom(size))
        (box.root / ".gitignore").write_text("\n".join(gitignore))
        (box.root / ".oxideignore").write_text("\n".join(oxideignore))

        expected = box.call("survey")
        captured = box.watch()

        assert counts(expected) == counts(captured)
        shown = box.call("show", checkpoint="last")["skipped_paths"]
        assert sum(skips["count"] for skips in expected["skips"]) == len(shown)
        assert {skips["reason"] for skips in expected["skips"]} == {entry["reason"] for entry in shown}
        assert counts(box.call("survey")) == counts(captured)  # also of a tree that is watched already


def test_of_a_watched_tree_it_tells_what_is_not_recorded_yet(tmp_path):
    with Box(tmp_path) as box:
        for name in ("same", "changed", "gone"):
            (box.root / name).write_text("one")
        with closing(sqlite3.connect(box.root / "data.db")) as database:
            database.execute("create table t (x)")
        assert new(box.call("survey")) == counts_of_files(box.call("survey"))
        box.watch()
        assert new(box.call("survey")) == (0, 0)

        (box.root / "changed").write_text("three")
        (box.root / "made").write_text("four")
        (box.root / "gone").unlink()

        assert new(box.call("survey")) == (2, 9)


def test_it_leaves_no_trace(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "a").write_text("one")
        (box.root / ".git" / "objects").mkdir(parents=True)
        tree, home = tree_of(box.root), tree_of(box.home.folder / "blobs")

        answer = box.call("survey")

        assert (answer["dry_run"], answer["watching"], answer["root"]) == (True, False, str(box.root))
        assert box.call("projects")["items"] == []
        assert diff_trees(tree, tree_of(box.root)) == []
        assert diff_trees(home, tree_of(box.home.folder / "blobs")) == []


@isolated
def test_no_file_is_opened_but_ignore_files(tmp_path):
    with Box(tmp_path) as box:
        (box.root / ".env").write_text("KEY=1")
        (box.root / "a").write_text("one")
        (box.root / ".gitignore").write_text("x\n")
        opened = []
        sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)

        answer = box.call("survey")

        assert {os.fsencode(name) for name in opened if isinstance(name, str | bytes)} <= {
            b".gitignore",
            os.fsencode(box.root),
            b"/proc/self/mountinfo",
        }
        assert [entry["path"] for entry in answer["secrets"]] == [".env"]


def test_skips_are_told_by_reason_with_the_largest(tmp_path):
    with Box(tmp_path, capture=TIGHT) as box:
        for name in ("node_modules", "lib/node_modules"):
            (box.root / name).mkdir(parents=True)
        for size in (5_000, 9_000):
            (box.root / f"{size}.bin").write_bytes(bytes(size))

        large, folders = box.call("survey")["skips"]

        assert large == {
            "reason": "too_large",
            "count": 2,
            "bytes": 14_000,
            "largest": [{"path": "9000.bin", "size_bytes": 9_000}, {"path": "5000.bin", "size_bytes": 5_000}],
        }
        assert (folders["reason"], folders["count"], folders["bytes"]) == ("dependencies", 2, 0)


@pytest.mark.parametrize("mode", [0o000, 0o200])
@unprivileged
def test_what_may_not_be_read_is_told_without_trying(tmp_path, mode):
    with Box(tmp_path) as box:
        (box.root / "shut").write_text("x")
        (box.root / "shut").chmod(mode)

        (skips,) = box.call("survey")["skips"]

        assert (skips["reason"], skips["count"]) == ("unreadable", 1)
