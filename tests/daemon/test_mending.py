"""``repair`` against each damage that ``check`` knows: afterwards the store is sound or says exactly what is lost, and what was
sound before is the same, byte by byte. The oracle asks sqlite3, zstandard and blake3 themselves.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing

import pytest
import zstandard
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openoxide.daemon.mending import repair
from openoxide.db import PAGE_SIZE
from openoxide.errors import FailedError, NotFoundError, StoreDamagedError
from openoxide.paths import Home
from tests.daemon.test_checking import DAMAGES, FILES, damage, filled, first_pack, flip, looked_at, payload
from tests.kit import diff_trees, effort, tree_of
from tests.kit.box import Box

LOST, DAMAGED = b"lost", "damaged"
SKIPPED = 5


@pytest.fixture(autouse=True, scope="module")
def _as_the_daemon_has_it():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A home as a daemon leaves it, and the project beside it."""
    folder = tmp_path_factory.mktemp("sound")
    with filled(folder) as box:
        pass
    (box.home.folder / "oxided.lock").touch(0o600)
    return box


@pytest.fixture
def home(sound, tmp_path):
    return copied(sound, tmp_path)


def copied(box, folder):
    shutil.copytree(box.home.folder, folder / "home", copy_function=shutil.copy2)
    return Home(folder / "home")


def repaired(home, *, dry_run=False):
    return repair(home, dry_run=dry_run, report=lambda _: None)


def kinds(home):
    return {problem["kind"] for problem in looked_at(home, read_data=True)["problems"]}


def checkpoints(home):
    """``number -> {path: state}`` of every checkpoint, and the numbers of those that are marked."""
    query = """
      select p.path, max(v.seq), v.kind, v.mode, v.size, v.mtime_ns, b.hash, v.target
      from version v join path p on p.id = v.path left join blob b on b.id = v.blob where v.seq <= ? group by p.id
    """
    with closing(sqlite3.connect(f"file:{home.timeline_db}?mode=ro", uri=True)) as db:
        sealed = db.execute("select number, seq, gap from checkpoint where failed is null").fetchall()
        states = {number: {row[0]: row[2:] for row in db.execute(query, (seq,)) if row[2]} for number, seq, _ in sealed}
        return states, {number for number, _, gap in sealed if gap == DAMAGED}


def contents(home):
    """``hash -> bytes`` of every content that can be had, and the hashes of those that are marked."""
    query = """
      select b.hash, b.frame, b.inner, b.size, f.pack, f.offset, f.stored, f.codec
      from blob b left join frame f on f.id = b.frame
    """
    found, lost = {}, set()
    with closing(sqlite3.connect(f"file:{home.timeline_db}?mode=ro", uri=True)) as db:
        for name, frame, inner, size, pack, offset, stored, codec in db.execute(query).fetchall():
            if frame == 0:
                lost.add(name)
                continue
            file = home.blobs / (f"big/{name.hex()}" if pack is None else f"{pack:08d}.pack")
            data = file.read_bytes()[offset : offset + stored]
            if codec:
                data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
            found[name] = data[inner : inner + size]
    assert all(blake3(data).digest() == name for name, data in found.items())
    return found, lost


def assert_nothing_sound_changed(before, after):
    """A state is what it was, or says that it is lost, or lies in a checkpoint that is marked."""
    (states, marked), (was, _) = checkpoints(after), before
    for number in states.keys() - marked:
        for path, state in was[number].items():
            now = states[number].get(path)
            assert now == state or (now is not None and (now[0], now[5]) == (SKIPPED, LOST)), (number, path, now)
        assert states[number].keys() <= was[number].keys()
    return marked


SOUND_ALL_THE_SAME = {"a mode of a file", "a mode of the home", "a pack of another store"}


@pytest.mark.parametrize("name", DAMAGES)
def test_after_a_repair_of_rows_a_check_finds_nothing_but_marks(sound, home, name):
    before = checkpoints(home)
    damage(home, DAMAGES[name][0])

    answer = repaired(home)

    assert answer["needed"]
    assert kinds(home) <= {"lost"}
    assert_nothing_sound_changed(before, home)
    # rows do not take bytes with them: of all that is named by anything every byte is there
    assert contents(home)[1] == set()
    assert not repaired(home)["needed"]


# the newest state of a path, which its live row says too
SAID_TWICE = ["kind", "mode", "mode in range", "time", "size", "flags", "a target of a file", "a link without target"]
SAID_TWICE += ["a pipe of no kind", "a blob that is not there", "another blob", "two at a position", "a version gone"]


@pytest.mark.parametrize("name", SAID_TWICE)
def test_a_state_that_a_sum_proves_comes_back(sound, home, name):
    before = checkpoints(home)
    damage(home, DAMAGES[name][0])

    repaired(home)

    assert checkpoints(home) == before
    assert kinds(home) == set()


@pytest.mark.parametrize("name", [name for name in FILES if name != "a folder in its place"])
def test_after_a_repair_of_files_what_was_not_lost_is_as_it_was(sound, home, name):
    before, had = checkpoints(home), contents(home)[0]
    FILES[name][0](home)

    answer = repaired(home)

    assert answer["needed"] is (name not in SOUND_ALL_THE_SAME)
    found, lost = contents(home)
    assert found.items() <= had.items()
    assert assert_nothing_sound_changed(before, home) == set()
    assert {*had} - {*found} == lost
    # the tree still has what a whole pack held, but for what has changed since
    assert len(lost) == (2 if name == "a pack gone" else 0) == answer["newly_lost"]
    assert kinds(home) - {"mode", "foreign"} == ({"lost"} if lost else set())


def test_one_repair_finds_all_that_is_damaged_in_a_frame(home):
    """A name in its table, and bytes of its contents."""
    before, pack = checkpoints(home), first_pack(home)
    at = payload(home, "f1")
    flip(pack, 15)
    flip(pack, at + 20)

    repaired(home)

    contents(home)
    assert_nothing_sound_changed(before, home)
    assert kinds(home) <= {"lost"}
    assert not repaired(home)["needed"]


@pytest.mark.parametrize("is_big", [False, True])
def test_a_name_that_only_its_index_has_right_comes_back(home, is_big):
    """One bit of it in the table: its bytes prove the index."""
    before, had = checkpoints(home), contents(home)
    query = "select b.hash from blob b join frame f on f.id = b.frame where (f.pack is null) = ? order by b.id limit 1"
    with closing(sqlite3.connect(home.timeline_db)) as db:
        (name,) = db.execute(query, (is_big,)).fetchone()
    data, at = home.timeline_db.read_bytes(), -1
    # a leaf of a table begins with 13 (SQLite: Database File Format, 1.6)
    while (at := data.find(name, at + 1)) >= 0 and data[at - at % PAGE_SIZE] != 13:
        pass
    assert at >= 0
    flip(home.timeline_db, at + 3)

    answer = repaired(home)

    assert (checkpoints(home), contents(home)) == (before, had)
    assert (answer["newly_lost"], kinds(home)) == (0, set())


def test_a_path_that_only_its_index_has_right_comes_back(home):
    """The sums prove the index."""
    before = checkpoints(home)
    # as a table has it: four bytes of header, the last one its type
    flip(home.timeline_db, home.timeline_db.read_bytes().index(b"\x04\x00\x09\x10f1") + 4)

    repaired(home)

    assert checkpoints(home) == before
    assert kinds(home) == set()


def test_what_is_in_the_way_of_a_file_is_told_and_stays(home):
    FILES["a folder in its place"][0](home)
    before = tree_of(home.folder, skip={b"oxided.lock"})

    with pytest.raises(FailedError, match="is in the way"):
        repaired(home)

    assert diff_trees(before, tree_of(home.folder, skip={b"oxided.lock"})) == []


@pytest.mark.parametrize("gone", ["blobs", "blobs/big"])
def test_a_folder_that_is_gone_is_what_was_in_it(home, gone):
    shutil.rmtree(home.folder / gone)

    dry = repaired(home, dry_run=True)
    assert not (home.folder / gone).exists()
    answer = repaired(home)

    assert answer["needed"]
    assert answer["newly_lost"] == dry["newly_lost"]
    assert (home.blobs / "big").is_dir()
    assert not repaired(home)["needed"]


@pytest.mark.parametrize("name", ["a version gone", "a frame's place", "an index gone"])
def test_a_dry_run_says_the_same_and_changes_nothing(home, name):
    damage(home, DAMAGES[name][0])
    before = tree_of(home.folder, skip={b"oxided.lock"})

    plan = repaired(home, dry_run=True)

    assert diff_trees(before, tree_of(home.folder, skip={b"oxided.lock"})) == []
    done = repaired(home)
    same = ("needed", "structure", "fixes", "mended_count", "newly_lost")
    assert {key: plan[key] for key in same} == {key: done[key] for key in same}
    assert (plan["kept"], plan["dry_run"], done["dry_run"]) == (None, True, False)


def test_a_dry_run_calls_lost_what_the_repair_will_not_bring_back(home):
    FILES["a pack gone"][0](home)

    plan = repaired(home, dry_run=True)
    done = repaired(home)

    assert done["mended"]
    assert done["lost"]
    assert plan["lost"] == done["lost"]


def test_the_state_before_stays_in_the_home(home):
    damage(home, DAMAGES["a version gone"][0])
    with closing(sqlite3.connect(home.timeline_db)) as db:
        rows = db.execute("select * from version").fetchall()

    answer = repaired(home)

    kept = Home(home.folder / os.path.basename(answer["kept"]))
    assert [entry.name for entry in kept.folder.iterdir()] == ["timeline.db"]
    with closing(sqlite3.connect(kept.timeline_db)) as db:
        assert db.execute("select * from version").fetchall() == rows
    assert not [entry.name for entry in home.folder.iterdir() if entry.name.endswith((".part", ".repairing"))]


def test_a_sound_store_is_left_as_it_is(home):
    before = tree_of(home.folder, skip={b"oxided.lock"})

    assert not repaired(home)["needed"]

    assert diff_trees(before, tree_of(home.folder, skip={b"oxided.lock"})) == []


def test_a_home_without_a_store_has_nothing_to_repair(tmp_path):
    with pytest.raises(NotFoundError):
        repaired(Home(tmp_path / "home"))


def test_a_file_that_is_no_database_is_left_to_a_backup(home):
    home.timeline_db.write_bytes(b"no database at all" * 1000)
    before = tree_of(home.folder, skip={b"oxided.lock"})

    with pytest.raises(StoreDamagedError, match="nothing of"):
        repaired(home)

    assert diff_trees(before, tree_of(home.folder, skip={b"oxided.lock"})) == []


@pytest.mark.parametrize("at", [0, 20, 100, 3000])
def test_a_first_page_that_is_damaged_is_taken_from_a_new_database(home, at):
    before, had = checkpoints(home), contents(home)[0]
    with home.timeline_db.open("r+b") as file:
        file.seek(at)
        file.write(bytes(60))

    repaired(home)

    assert checkpoints(home) == before
    assert contents(home) == (had, set())
    assert kinds(home) == set()


@pytest.mark.parametrize("table", ["path", "blob", "frame", "live", "head", "writer", "operation", "window"])
def test_a_table_whose_first_page_is_gone_is_made_again_as_far_as_anything_tells(home, table):
    before, had = checkpoints(home), contents(home)[0]
    with closing(sqlite3.connect(home.timeline_db)) as db:
        (page,) = db.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()
        (size,) = db.execute("pragma page_size").fetchone()
    with home.timeline_db.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))

    repaired(home)

    assert kinds(home) == set()
    assert checkpoints(home) == before
    assert contents(home) == (had, set())


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store whose tables have inner pages: 1,500 paths, edited twice."""
    with Box(tmp_path_factory.mktemp("large")) as box:
        for number in range(1500):
            (box.root / f"file {number}").write_text(f"line {number}\n" * 3)
        box.watch()
        for turn in range(2):
            for number in range(0, 1500, 10):
                (box.root / f"file {number}").write_text(f"another {number} {turn}\n")
            box.checkpoint()
    (box.home.folder / "oxided.lock").touch(0o600)
    return box


def header(home, length):
    with home.timeline_db.open("r+b") as file:
        file.write(bytes(length))


def vacuum(home):
    """As a purge does: the tables begin at other pages then."""
    with closing(sqlite3.connect(home.timeline_db)) as db:
        db.execute("vacuum")


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("length", [16, 90, 8192])
def test_a_large_store_whose_first_page_is_damaged_loses_nothing(large, tmp_path, length, anew):
    home = copied(large, tmp_path)
    before, had = checkpoints(home), contents(home)[0]
    if anew:
        vacuum(home)
    header(home, length)

    answer = repaired(home)

    assert (checkpoints(home), contents(home)) == (before, (had, set()))
    assert (answer["newly_lost"], answer["lost"], kinds(home)) == (0, [], set())


def test_the_wal_of_a_store_whose_first_page_is_damaged_is_read_too(large, tmp_path):
    home = copied(large, tmp_path)
    with closing(sqlite3.connect(home.timeline_db)) as db:
        db.execute("update checkpoint set name = 'in the wal' where number = 2")
        db.commit()
        for side in ("", "-wal"):
            shutil.copyfile(f"{home.timeline_db}{side}", f"{home.timeline_db}{side}.kept")
    for side in ("", "-wal"):
        os.rename(f"{home.timeline_db}{side}.kept", f"{home.timeline_db}{side}")
    header(home, 8192)

    repaired(home)

    with closing(sqlite3.connect(home.timeline_db)) as db:
        assert db.execute("select name from checkpoint where number = 2").fetchone() == ("in the wal",)
    assert kinds(home) == set()


@pytest.mark.parametrize("share", [0.75, 1])
def test_of_a_file_that_was_cut_short_the_rest_is_read_as_if_the_end_were_blank(large, tmp_path, share):
    """A file cut short says as much as one whose end is zeros, which SQLite opens."""
    (tmp_path / "cut").mkdir()
    (tmp_path / "blank").mkdir()
    home, other = copied(large, tmp_path / "cut"), copied(large, tmp_path / "blank")
    before, whole = checkpoints(home), home.timeline_db.stat().st_size
    length = min(int(whole / PAGE_SIZE * share), whole // PAGE_SIZE - 1) * PAGE_SIZE
    os.truncate(home.timeline_db, length)
    os.truncate(other.timeline_db, length)
    os.truncate(other.timeline_db, whole)

    repaired(home)
    repaired(other)

    assert kinds(home) <= {"lost"}
    assert_nothing_sound_changed(before, home)
    assert any(checkpoints(home)[0].values())
    assert (checkpoints(home), contents(home)) == (checkpoints(other), contents(other))


def leaf_pages(home, table):
    with closing(sqlite3.connect(home.timeline_db)) as db:
        (size,) = db.execute("pragma page_size").fetchone()
        pages = db.execute("select pageno from dbstat where name = ? and pagetype = 'leaf'", (table,)).fetchall()
    return size, [number for (number,) in pages]


@pytest.mark.parametrize("table", ["version", "path", "blob", "live", "checkpoint", "frame"])
def test_one_page_of_a_large_table_takes_no_more_than_its_rows(large, tmp_path, table):
    home = copied(large, tmp_path)
    before, had = checkpoints(home), contents(home)[0]
    try:
        size, pages = leaf_pages(home, table)
    except sqlite3.OperationalError:
        pytest.skip("this SQLite is built without dbstat")
    page = random.Random(1).choice(pages)
    with home.timeline_db.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)

    answer = repaired(home)

    # those before the damage are read twice, which is no loss
    assert [fix for fix in answer["fixes"] if "rows that are none" in fix["what"]] == []
    assert kinds(home) <= {"lost"}
    assert contents(home)[0].items() <= had.items()
    marked = assert_nothing_sound_changed(before, home)
    if table == "version":
        assert marked
        kept = sum(len(states) for states in checkpoints(home)[0].values())
        assert kept > 0.8 * sum(len(states) for states in before[0].values())
    elif table != "checkpoint":
        # an index, the live rows, or the packs' own tables of names tell the rest
        assert (checkpoints(home), contents(home)[1]) == (before, set())
    assert answer["structure"]


def test_what_sqlite_says_of_many_pages_comes_line_by_line(large, tmp_path):
    home = copied(large, tmp_path)
    size, pages = leaf_pages(home, "version")
    with home.timeline_db.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * size + 8)
            file.write(bytes(64))

    structure = repaired(home, dry_run=True)["structure"]

    assert len([text for text in structure if text.startswith("table version: ")]) > 2
    assert not [text for text in structure if r"\x0a" in text or "\n" in text or "***" in text]


@settings(max_examples=effort(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_whatever_is_damaged_is_mended_or_marked(sound, tmp_path_factory, seed):
    """Bits turned over in the database and in packs, packs deleted, rows deleted; then a repair, and a check of it."""
    drawn = random.Random(seed)
    home = copied(sound, tmp_path_factory.mktemp("any"))
    before, had = checkpoints(home), contents(home)[0]
    for _ in range(drawn.randrange(1, 4)):
        hurt(home, drawn)

    try:
        repaired(home)
    except StoreDamagedError:
        return  # nothing can be read at all: it was refused, and nothing was changed

    assert kinds(home) <= {"lost"}
    assert_nothing_sound_changed(before, home)
    assert contents(home)[0].items() <= had.items()


def hurt(home, drawn):
    files = [
        home.timeline_db,
        home.timeline_db,
        *sorted(home.blobs.glob("*.pack")),
        *sorted((home.blobs / "big").iterdir()),
    ]
    match drawn.randrange(6):
        case 0:
            for file in drawn.sample(files[2:], min(1, len(files) - 2)):
                file.unlink()
        case 1:
            table = drawn.choice(["version", "path", "blob", "frame", "live", "head", "window", "writer"])
            try:
                with closing(sqlite3.connect(home.timeline_db)) as db, db:
                    count = drawn.randrange(1, 4)
                    key = "path" if table in ("version", "live") else "worktree" if table == "head" else "id"
                    db.execute(
                        f"delete from {table} where {key} in (select {key} from {table} order by random() limit {count})"
                    )
            except sqlite3.Error:
                return
        case _:
            file = drawn.choice(files)
            if file.exists():
                turn(file, drawn)


def turn(file, drawn):
    at, bit = drawn.randrange(file.stat().st_size), drawn.randrange(8)
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ (1 << bit)]))
