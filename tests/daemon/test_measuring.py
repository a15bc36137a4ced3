"""``du`` against the files themselves."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.usage import PathUsage, largest, pattern_of
from openoxide.settings import parse_settings
from tests.kit import FakeClock
from tests.kit.box import Box

DAY_MS = 86_400_000
KIB = 1 << 10


@pytest.fixture
def box(tmp_path):
    """Two watched worktrees with one file in common; every content is incompressible, so it takes what it is."""
    with Box(tmp_path, clock=FakeClock()) as box:
        (box.root / "own").write_bytes(os.urandom(40 * KIB))
        (box.root / "common").write_bytes(os.urandom(20 * KIB))
        (box.root / "empty").touch()
        box.watch()
        other = tmp_path / "other"
        other.mkdir()
        (other / "common").write_bytes((box.root / "common").read_bytes())
        box.call("watch", path=str(other))
        yield box


def stored_files(box):
    return sum(path.stat().st_size for path in box.home.blobs.rglob("*.pack"))


def test_each_worktree_has_its_share(box):
    own, other = box.call("du")["worktrees"]

    assert (own["root"], own["files"], own["checkpoints"], own["watching"]) == (str(box.root), 3, 1, True)
    assert own["logical_bytes"] == own["history_bytes"] == own["stored_bytes"] == 60 * KIB
    assert own["unique_bytes"] == 40 * KIB
    assert (other["stored_bytes"], other["unique_bytes"]) == (20 * KIB, 0)


def test_the_history_is_more_than_the_tree(box):
    (box.root / "own").write_bytes(os.urandom(10 * KIB))
    box.checkpoint()

    own, _ = box.call("du")["worktrees"]

    assert (own["logical_bytes"], own["history_bytes"]) == (30 * KIB, 70 * KIB)
    assert 70 * KIB < stored_files(box) < 71 * KIB


def test_what_compresses_is_counted_as_it_lies_there(box):
    (box.root / "text").write_bytes(b"all the same\n" * 10_000)
    box.checkpoint()

    own, _ = box.call("du")["worktrees"]

    assert own["history_bytes"] == 60 * KIB + 130_000
    assert own["stored_bytes"] <= stored_files(box) < 62 * KIB


def test_growth_is_by_the_day_of_the_first_recording(box):
    day = datetime.fromtimestamp(box.clock.now_ms() / 1000, UTC).date().isoformat()
    box.clock.advance(2 * DAY_MS)
    later = datetime.fromtimestamp(box.clock.now_ms() / 1000, UTC).date().isoformat()
    content = (box.root / "common").read_bytes()
    (box.root / "copy").write_bytes(content)
    (box.root / "new").write_bytes(os.urandom(5 * KIB))
    box.checkpoint()

    growth = box.call("du")["worktrees"][0]["growth"]

    assert growth == [
        {"day": day, "contents": 3, "stored_bytes": 60 * KIB},
        {"day": later, "contents": 1, "stored_bytes": 5 * KIB},
    ]


def test_the_largest_paths_come_first_with_all_their_contents(box):
    for _ in range(3):
        (box.root / "common").write_bytes(os.urandom(15 * KIB))
        box.checkpoint()
    (box.root / "common").unlink()
    box.checkpoint()

    first, second, _ = box.call("du")["worktrees"][0]["largest"]

    assert first == {"path": "common", "contents": 4, "stored_bytes": 65 * KIB}
    assert (second["path"], second["stored_bytes"]) == ("own", 40 * KIB)


def test_the_parts_are_the_whole_home(box):
    (box.home.folder / "config.toml").write_text("[capture]\n")
    (box.home.folder / "logs").mkdir()
    (box.home.folder / "logs" / "oxided.log").write_text("started\n")

    answer = box.call("du")

    sizes = {part["name"]: part["size_bytes"] for part in answer["parts"]}
    assert sizes["contents"] == sum(p.stat().st_blocks * 512 for p in box.home.blobs.rglob("*") if p.is_file())
    assert sizes["settings"] == (box.home.folder / "config.toml").stat().st_blocks * 512
    assert {part["name"]: part["files"] for part in answer["parts"] if part["name"] in ("settings", "logs")} == {
        "settings": 1,
        "logs": 1,
    }
    assert answer["total_bytes"] == sum(sizes.values())


def test_the_kinds_are_the_whole_home_too(box):
    (box.home.folder / "config.toml").write_text("[capture]\n")
    for folder, name in (("spool", "x.json"), ("logs", "oxided.log"), ("repair-1", "timeline.db"), ("projects", "m")):
        (box.home.folder / folder).mkdir(exist_ok=True)
        (box.home.folder / folder / name).write_text("something")
    (box.home.blobs / "00000099.pack.aside").write_bytes(bytes(100_000))
    (box.home.folder / "timeline.db.v1").write_text("a copy of before")
    box.home.reserve.write_bytes(bytes(8192))

    answer = box.call("du")

    sizes = {kind["name"]: kind["size_bytes"] for kind in answer["kinds"]}
    assert answer["total_bytes"] == sum(sizes.values()) == sum(part["size_bytes"] for part in answer["parts"])

    def on_disk(*patterns):
        return sum(
            p.stat().st_blocks * 512 for pattern in patterns for p in box.home.folder.glob(pattern) if p.is_file()
        )

    for kind, patterns in {
        "spool": ["spool/*"],
        "logs": ["logs/*"],
        "aside": ["blobs/*.aside", "repair-1/*", "timeline.db.v1"],
        "memory": ["projects/*"],
        "settings": ["config.toml"],
        "reserve": ["oxided.reserve"],
    }.items():
        assert sizes[kind] == on_disk(*patterns) > 0, kind
    assert sizes["database"] > 0
    assert sizes["wal"] > 0  # how much of it is allocated may change any moment
    assert sizes["history"] + sizes["dead"] == on_disk("blobs/*.pack", "blobs/big/*")
    assert sizes["trash"] == 0


def test_bytes_that_no_row_names_are_dead_weight(box):
    before = {kind["name"]: kind["size_bytes"] for kind in box.call("du")["kinds"]}
    (box.home.blobs / "00000099.pack").write_bytes(os.urandom(64 * KIB))

    after = {kind["name"]: kind["size_bytes"] for kind in box.call("du")["kinds"]}

    assert after["dead"] - before["dead"] == 64 * KIB
    assert abs(after["history"] - before["history"]) < 16 * KIB  # of a file that grows blocks are allocated ahead


def test_a_content_that_comes_again_is_no_new_one(box):
    for text in (b"one", b"two", b"one", b"two"):
        (box.root / "own").write_bytes(text * 10_000)
        box.checkpoint()

    own, other = box.call("du")["worktrees"]

    assert own["recorded_bytes"] == 60 * KIB + 4 * 30_000
    assert own["history_bytes"] == 60 * KIB + 2 * 30_000
    assert own["dedup_ratio"] == round(own["recorded_bytes"] / own["history_bytes"], 2) > 1
    assert own["compression_ratio"] == round(own["history_bytes"] / own["stored_bytes"], 2) > 1
    assert (other["dedup_ratio"], other["compression_ratio"]) == (1, 1)
    whole = box.call("du")
    assert whole["dedup_ratio"] == round((own["recorded_bytes"] + 20 * KIB) / own["history_bytes"], 2)


def test_a_project_is_all_its_worktrees_with_the_quota_that_leaves_them_most(box, tmp_path):
    roots = [str(box.root), str(tmp_path / "other")]
    box.call("projects_join", a=roots[0], b=roots[1])
    box.service.settings = parse_settings(
        f"[retention]\nquota_bytes = 1_000_000\n[project.'{roots[1]}'.retention]\nquota_bytes = 3_000_000",
        box.home.config,
    )

    (project,) = box.call("du")["projects"]

    assert (project["roots"], project["quota_bytes"]) == (roots, 3_000_000)
    assert project["stored_bytes"] == project["unique_bytes"] == 60 * KIB


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        (b"a.py", (b"", b".py")),
        (b"src/a.py", (b"src", b".py")),
        (b"src/b/c/a.tar.gz", (b"src", b".gz")),
        (b"src/Makefile", (b"src", b"")),
        (b".env", (b"", b"")),
        (b"a/.env", (b"a", b"")),
        (b"a/.env.local", (b"a", b".local")),
        (b"a/end.", (b"a", b"")),
        (b"a.d/b", (b"a.d", b"")),
        (b"cache/x.0123456789abcdef", (b"cache", b"")),
        (b"\xff/\xfe.\xfd", (b"\xff", b".\xfd")),
    ],
)
def test_a_path_belongs_to_one_pattern(path, pattern):
    assert pattern_of(path) == pattern


PATHS = st.lists(
    st.builds(
        PathUsage,
        st.sampled_from([b"a.py", b"b.py", b"src/a.py", b"src/x/b.py", b"src/c", b"data/d.bin", b"data/e.bin"]),
        st.integers(1, 9),
        st.integers(0, 99),
    ),
    unique_by=lambda item: item.path,
)


@given(PATHS, st.integers(1, 4))
def test_what_takes_most_comes_first_and_patterns_lose_nothing(paths, limit):
    most, patterns = largest(iter(paths), limit)

    assert most == sorted(paths, key=lambda item: (-item.stored_bytes, item.path))[:limit]
    _, whole = largest(iter(paths), 99)
    assert patterns == whole[:limit]
    assert [p.stored_bytes for p in whole] == sorted((p.stored_bytes for p in whole), reverse=True)
    for found in whole:
        its = [item for item in paths if pattern_of(item.path) == (found.folder, found.suffix)]
        assert (found.contents, found.stored_bytes) == (
            sum(item.contents for item in its),
            sum(item.stored_bytes for item in its),
        )
    assert sum(p.contents for p in whole) == sum(item.contents for item in paths)


def test_the_patterns_of_a_worktree_are_told(box):
    (box.root / "src").mkdir()
    for number in range(3):
        (box.root / "src" / f"{number}.bin").write_bytes(os.urandom(30 * KIB))
    box.checkpoint()

    first, second = box.call("du")["worktrees"][0]["patterns"]

    assert first == {"path": "src", "suffix": ".bin", "contents": 3, "stored_bytes": 90 * KIB}
    assert second == {"path": "", "suffix": "", "contents": 3, "stored_bytes": 60 * KIB}


def test_what_a_rewind_left_in_the_tree_is_counted(box):
    assert box.call("du")["worktrees"][0]["staging_bytes"] == 0
    (box.root / ".openoxide-staging").mkdir()
    (box.root / ".openoxide-staging" / "left").write_bytes(bytes(4096))

    assert box.call("du")["worktrees"][0]["staging_bytes"] == 4096


def free(box):
    """What nothing needs, trash alone besides; each content has a head of 51 bytes where it lies."""
    answer = box.call("du")
    assert answer["trash_bytes"] <= answer["freeable_bytes"]
    sizes = {kind["name"]: kind["size_bytes"] for kind in answer["kinds"]}
    return pytest.approx(sizes["dead"] + sizes["trash"], abs=120)


def trash(box):
    return next(kind["size_bytes"] for kind in box.call("du")["kinds"] if kind["name"] == "trash")


class TestFreeable:
    @pytest.fixture
    def history(self, box):
        """Checkpoints 2 and 3 that hold states which nothing else holds, and 4; two days later."""
        for number in (2, 3):
            (box.root / "own").write_bytes(os.urandom(number * KIB))
            assert box.checkpoint()["number"] == number
        (box.root / "own").write_bytes(b"now")
        box.checkpoint()
        box.clock.advance(2 * DAY_MS)
        return box

    def test_nothing_that_a_checkpoint_holds(self, history):
        assert free(history) == 0

    def test_what_only_forgotten_checkpoints_hold(self, history):
        history.call("forget", checkpoints=["2"])
        assert free(history) == 2 * KIB
        assert free(history) == trash(history)
        history.call("forget", checkpoints=["3"])
        assert free(history) == 5 * KIB
        history.call("unforget", checkpoints=["2"])
        assert free(history) == 3 * KIB

    def test_nothing_of_the_last_day(self, box):
        (box.root / "own").write_bytes(os.urandom(2 * KIB))
        box.checkpoint()
        (box.root / "own").write_bytes(b"now")
        box.checkpoint()
        box.call("forget", checkpoints=["2"])
        assert free(box) == 0

    def test_nothing_that_another_worktree_or_path_still_has(self, history, tmp_path):
        content = history.call("cat", checkpoint="2", file=str(history.root / "own"))
        (tmp_path / "other" / "copy").write_bytes(content)
        history.call("checkpoint", path=str(tmp_path / "other"))
        history.call("forget", checkpoints=["2", "3"])
        assert free(history) == 3 * KIB

    def test_nothing_that_an_operation_began_from(self, history):
        history.rewind("2", exact=True)
        history.checkpoint()
        history.clock.advance(2 * DAY_MS)
        history.call("forget", checkpoints=["3", "4"])
        assert free(history) == 3 * KIB
        history.call("undo")
        assert (history.root / "own").read_bytes() == b"now"

    def test_what_no_checkpoint_ever_held_is_not_trash(self, box):
        (box.root / "own").write_bytes(os.urandom(2 * KIB))
        box.service.all_watched()[0].record()
        (box.root / "own").write_bytes(b"now")
        box.checkpoint()
        box.clock.advance(2 * DAY_MS)
        box.checkpoint()
        box.clock.advance(2 * DAY_MS)

        assert (free(box), trash(box)) == (2 * KIB, 0)

    def test_what_it_tells_is_what_a_prune_frees(self, box):
        for number in range(12):
            (box.root / "big").write_bytes(os.urandom(100 * KIB))
            box.checkpoint() if number % 2 else box.service.all_watched()[0].record()
        retention = replace(box.settings.retention, quota_bytes=400 * KIB)
        box.service.settings = replace(box.settings, retention=retention)
        assert "`oxide-ctl prune` frees what that leaves" in box.call("expire")["notes"][0]

        answer, plan = box.call("du"), box.call("prune", dry_run=True)

        assert answer["freeable_bytes"] == plan["freed_bytes"] > 600 * KIB
        assert answer["trash_bytes"] == 0
        assert next(kind["size_bytes"] for kind in answer["kinds"] if kind["name"] == "dead") > 600 * KIB
        box.call("prune")
        after = box.call("du")
        assert after["freeable_bytes"] == box.call("prune", dry_run=True)["freed_bytes"] == 0
        # the quota is of this project, and the other one has nothing of its own
        used = next(project["used_bytes"] for project in after["projects"] if project["used_bytes"] > 100 * KIB)
        assert used == pytest.approx(
            sum(k["size_bytes"] for k in after["kinds"] if k["name"] == "history"), abs=8 * KIB
        )

    def test_what_trash_holds_is_what_a_prune_frees_once_it_is_emptied(self, box):
        for _ in range(4):
            (box.root / "own").write_bytes(os.urandom(100 * KIB))
            box.checkpoint()
        box.clock.advance(3 * DAY_MS)
        (box.root / "own").write_bytes(b"now")
        box.checkpoint()
        box.call("forget", checkpoints=["2", "3", "4"])
        answer = box.call("du")
        assert answer["freeable_bytes"] == answer["trash_bytes"] > 0
        box.call("expire", trash=True)
        assert (
            box.call("prune", dry_run=True)["freed_bytes"]
            == answer["freeable_bytes"]
            == box.call("du")["freeable_bytes"]
        )
