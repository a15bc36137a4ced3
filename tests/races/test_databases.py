"""A SQLite database whose last writer was killed: its file and its log are of one moment after whatever is rewound."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from openoxide.errors import ConflictError, NotFoundError
from openoxide.settings import CaptureSettings
from tests.kit.box import NO_QUIET, Box
from tests.races.programs import Program, rounds

MAIN, WAL, SHM = "dev.db", "dev.db-wal", "dev.db-shm"
OLD, NEW = "ok: old", "ok: old new newer"


def killed_writer(box: Box, *commands: str) -> None:
    with Program("neighbour", "database", box.root / MAIN) as writer:
        for command in commands:
            writer.ask(command)
        writer.kill()


def words(box: Box, aside: Path) -> str:
    """What the database says of itself. Looked at in a copy: to open one takes its log up."""
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for path in box.root.glob(f"{MAIN}*"):
        shutil.copy(path, aside)
    with closing(sqlite3.connect(aside / MAIN)) as connection:
        (verdict,) = connection.execute("pragma integrity_check").fetchone()
        return f"{verdict}: {' '.join(word for (word,) in connection.execute('select word from word'))}"


def listed(answer: Any, *lists: str) -> dict[str, str]:
    return {entry["path"]: entry.get("reason", "") for name in lists for entry in answer[name]}


@pytest.fixture(name="make")
def _make(tmp_path: Path) -> Iterator[Callable[..., Box]]:
    boxes: list[Box] = []

    def make(capture: CaptureSettings = NO_QUIET, **files: str) -> Box:
        """Checkpoint 2 has the word old; the newer ones are in the file of the database and in its log, one each."""
        box = Box(tmp_path, capture=capture)
        boxes.append(box)
        for name, text in files.items():
            (box.root / f".{name}").write_text(text)
        box.watch()
        killed_writer(box, "add old", "flush")
        box.checkpoint()
        killed_writer(box, "add new", "flush", "add newer")
        return box

    yield make
    for box in boxes:
        box.stop()


@pytest.mark.parametrize("named", [[], [MAIN], [WAL], [SHM]], ids=["all", "file", "log", "index"])
@pytest.mark.parametrize("exact", [False, True], ids=["all", "exact"])
def test_it_is_rewound_and_comes_back_as_a_whole_whichever_of_its_files_is_named(make, tmp_path, named, exact):
    box = make()
    assert words(box, tmp_path / "aside") == NEW

    answer = box.rewind("2", paths=named, exact=exact)

    assert {MAIN, WAL} <= listed(answer, "restored", "removed").keys()
    assert words(box, tmp_path / "aside") == OLD
    box.call("undo")
    assert words(box, tmp_path / "aside") == NEW


def test_it_is_copied_out_with_its_log(make, tmp_path):
    box = make()
    box.checkpoint()
    out = tmp_path / "out"

    box.call("restore", checkpoint="last", to=str(out), paths=[MAIN])

    with closing(sqlite3.connect(out / MAIN)) as connection:
        assert [word for (word,) in connection.execute("select word from word")] == ["old", "new", "newer"]


@pytest.mark.parametrize(
    ("capture", "files", "reason"),
    [
        pytest.param(NO_QUIET, {"oxideignore": "*.db-wal\n*.db-shm\n"}, "oxideignore", id="ignored log"),
        pytest.param(
            replace(NO_QUIET, ignored_file_bytes=100), {"gitignore": "*.db-wal\n"}, "ignored_large", id="large log"
        ),
        pytest.param(replace(NO_QUIET, max_file_bytes=8_000), {}, "too_large", id="large file"),
        pytest.param(NO_QUIET, {"oxideignore": "*.db\n"}, "oxideignore", id="ignored file"),
    ],
)
def test_one_of_which_a_part_is_not_recorded_is_left_as_it_is(make, tmp_path, capture, files, reason):
    box = make(capture, **files)
    (box.root / "other").touch()

    answer = box.rewind("2")

    assert words(box, tmp_path / "aside") == NEW
    assert listed(answer, "restored", "removed") == {}
    assert set(listed(answer, "conflicts").values()) == {"database"}
    assert set(listed(answer, "skipped").values()) <= {reason}
    with pytest.raises(ConflictError):
        box.rewind("2", exact=True)
    assert (box.root / "other").exists()


@pytest.mark.parametrize("named", [[], [MAIN]], ids=["all", "named"])
def test_a_log_that_grows_while_the_question_stands_holds_all_of_it_back(make, tmp_path, named):
    box = make()
    seen = box.rewind("2", paths=named, dry_run=True)["plan_seq"]
    killed_writer(box, "add newest")

    answer = box.rewind("2", paths=named, plan_seq=seen)

    assert listed(answer, "conflicts") == {MAIN: "database", WAL: "changed_later", SHM: "changed_later"}
    assert words(box, tmp_path / "aside") == f"{NEW} newest"


def test_undo_takes_nothing_back_of_one_that_somebody_went_on_with(tmp_path):
    """The rewind had to touch the file alone, and so had whoever came after it the log alone."""
    with Box(tmp_path) as box:
        for command in ("add old", "add new"):
            with Program("neighbour", "database", box.root / MAIN) as writer:
                writer.ask(command)
                writer.ask("close")
            box.watch()
            box.checkpoint()
        assert listed(box.rewind("2"), "restored", "removed") == {MAIN: ""}
        killed_writer(box, "add other")

        answer = box.call("undo")

        assert listed(answer, "restored", "removed") == {}
        assert listed(answer, "conflicts").items() >= {MAIN: "database", WAL: "changed_later"}.items()
        assert words(box, tmp_path / "aside") == "ok: old other"


def test_a_socket_in_its_place_is_left(make):
    box = make()
    (box.root / MAIN).unlink()
    os.mknod(box.root / MAIN, stat.S_IFSOCK | 0o600)

    answer = box.rewind("2", paths=[MAIN])

    assert listed(answer, "skipped") == {MAIN: "special"}
    assert stat.S_ISSOCK((box.root / MAIN).lstat().st_mode)
    assert (box.root / WAL).stat().st_size


RULES = ["", "", "", "*.db-wal\n", "*.db-shm\n", "*.db-wal\n*.db-shm\n", "*.db\n"]
LIMITS = [
    NO_QUIET,
    NO_QUIET,
    NO_QUIET,
    replace(NO_QUIET, max_file_bytes=8_000),
    replace(NO_QUIET, ignored_file_bytes=100),
]


@rounds(few=12, full=1_000)
def test_whatever_is_rewound_it_is_as_it_was_at_some_moment(tmp_path, rounds):
    """Random histories: killed and closed writers, turns, rules and limits; rewinds of each scope and path, undo, redo."""
    moved = 0
    for seed in range(rounds):
        random = Random(seed)
        with Box(tmp_path / str(seed), capture=random.choice(LIMITS)) as box:
            (box.root / random.choice([".oxideignore", ".gitignore"])).write_text(random.choice(RULES))
            box.watch()
            moved += _lived_through(box, random, tmp_path / "aside")
    print(f"\n{rounds} histories, {moved} times the database was rewound")
    assert moved, "no rewind"


def _lived_through(box: Box, random: Random, aside: Path) -> int:
    """How often a rewind, undo or redo moved the database."""
    known, moved, is_open = set[str](), 0, False
    for step in range(random.randint(10, 20)):
        match random.choice(["write", "write", "turn", *["rewind"] * 5, "back"] if known else ["write", "turn"]):
            case "write":
                known.add(_written(box, random, step, aside))
                box.checkpoint()
            case "turn":
                prompt = {} if is_open else {"prompt": f"p{step}"}
                box.call("turn_end" if is_open else "turn_begin", agent="a", session="s", **prompt)
                is_open = not is_open
            case "rewind":
                moved += _rewound(box, random, step, aside, known)
            case "back":
                with suppress(NotFoundError):
                    moved += MAIN in listed(box.call(random.choice(["undo", "redo"])), "restored", "removed")
        if (box.root / MAIN).exists():
            assert words(box, aside) in known
    return moved


def _written(box: Box, random: Random, step: int, aside: Path) -> str:
    commands = random.choices(["add", "add", "flush"], k=random.randint(1, 3))
    killed_writer(box, *(f"add {step}" if command == "add" else command for command in commands))
    if random.random() < 0.3:
        with Program("neighbour", "database", box.root / MAIN) as writer:
            writer.ask("close")
    return words(box, aside)


def _rewound(box: Box, random: Random, step: int, aside: Path, known: set[str]) -> bool:
    target = random.choice(box.call("log")["items"])
    request = {
        "paths": random.choice([[], [], [MAIN], [WAL], [SHM]]),
        "scope": random.choice(["all", "session" if target["session"] else "all"]),
        "conflict": random.choice(["keep", "overwrite"]),
    }
    request["exact"] = request["scope"] == "all" and random.random() < 0.3
    try:
        if random.random() < 0.3:
            request["plan_seq"] = box.rewind(target["id"], dry_run=True, **request)["plan_seq"]
            known.add(_written(box, random, step, aside))
        return MAIN in listed(box.rewind(target["id"], **request), "restored", "removed")
    except (ConflictError, NotFoundError):  # refused as a whole; a file that never was there
        return False
