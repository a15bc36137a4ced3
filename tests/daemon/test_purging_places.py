"""``purge`` finds contents wherever they are: staging, steps, what came late, packs set aside, dead weight, logs, copies."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest

from openoxide.checkpoints import journal
from openoxide.checkpoints.blobs import BlobVanishedError
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.journal import Outcome, OutcomeKind, Phase
from openoxide.checkpoints.model import FileState, Kind
from openoxide.checkpoints.repack import repack
from openoxide.checkpoints.steps import Action, Step
from openoxide.errors import ConflictError, InterruptedOperationError, NotFoundError
from tests.daemon.test_purging import SECRET, name_of, problems
from tests.kit import wait_until
from tests.kit.box import Box
from tests.kit.rawhome import texts, traces

WAIT_S = 30


@pytest.fixture(name="box")
def _box(tmp_path):
    """``secret`` held SECRET at 1, is gone at 2; a rewind and its undo came and went."""
    with Box(tmp_path) as box:
        (box.root / "kept").write_bytes(b"kept\n" * 50)
        (box.root / "secret").write_bytes(SECRET)
        box.watch()
        (box.root / "secret").unlink()
        box.checkpoint()
        yield box


def marks(box: Box) -> int:
    """What tells that a purge has something left to be done."""
    with closing(sqlite3.connect(box.home.timeline_db)) as db:
        return int(db.execute("select count(*) from meta where key glob 'purge*'").fetchone()[0])


def staged(box: Box, content: bytes, *, phase: Phase) -> str:
    """An operation of which something is left: a step that displaced ``content``, and the file in the staging folder."""
    box.rewind("1")
    box.call("undo")
    wait_until(lambda: not (box.root / ".openoxide-staging").exists(), WAIT_S)
    public_id = box.call("operations")["items"][0]["operation"]
    folder = box.root / ".openoxide-staging" / public_id
    folder.mkdir(parents=True)
    (folder / "remove-0").write_bytes(content)
    state = FileState(kind=Kind.FILE, mode=0o644, size=len(content), mtime_ns=1, blob=blob_hash(content))
    step = Step(number=0, action=Action.REMOVE, path=b"secret", old=state, new=FileState(kind=Kind.ABSENT))
    with box.service.timeline.database.writing() as db:
        (operation,) = [o for o in journal.operations(db, 1) if o.public_id == public_id]
        journal.commit_steps(db, operation.id, [step])
        journal.set_phase(db, operation.id, phase)
    return public_id


def test_what_a_rewind_has_displaced_goes_with_its_step(box):
    staged(box, SECRET, phase=Phase.DONE)
    with open(box.root / ".openoxide-staging" / "foreign", "wb"), closing(sqlite3.connect(box.home.timeline_db)) as db:
        assert db.execute("select count(*) from step").fetchone() == (1,)
    assert box.call("purge", paths=["secret"])["finished"]
    assert traces(box.home.folder, SECRET) == traces(box.root, SECRET) == []
    assert problems(box) == []


def test_a_step_that_cannot_be_swept_now_is_rewritten(box, tmp_path):
    staged(box, SECRET, phase=Phase.DONE)
    os.rename(box.root, tmp_path / "moved away")
    answer = box.call("purge", paths=["secret"])
    assert answer["places"]["operations"] == 1
    assert any("staging" in text for text in answer["left"])
    assert traces(box.home.folder, SECRET) == []
    os.rename(tmp_path / "moved away", box.root)
    assert problems(box) == []


def test_an_open_operation_may_need_it(box):
    staged(box, SECRET, phase=Phase.INTERRUPTED)
    with pytest.raises(InterruptedOperationError):
        box.call("purge", paths=["secret"])
    assert box.call("cat", checkpoint="1", file="secret") == SECRET


def test_what_came_late_goes(box):
    late = b"written while it was displaced: marker\n"
    box.rewind("1")
    operation = box.call("operations")["items"][0]["operation"]
    timeline = box.service.timeline
    placed = timeline.blobs.write({blob_hash(late): late})
    with timeline.database.writing() as db:
        timeline.blobs.adopt(db, placed, [blob_hash(late)])
        (number,) = [o.id for o in journal.operations(db, 1) if o.public_id == operation]
        journal.add_outcomes(db, number, [Outcome(OutcomeKind.LATE, b"secret", "late", blob_hash(late))])
    assert box.call("cat", checkpoint=f"late:{operation}", file="secret") == late

    answer = box.call("purge", blobs=[name_of(late)])

    assert (answer["places"]["operations"], [item["path"] for item in answer["paths"]]) == (1, ["secret"])
    assert traces(box.home.folder, late) == problems(box) == []
    with pytest.raises(NotFoundError, match="purged"):
        box.call("cat", checkpoint=f"late:{operation}", file="secret")


def test_a_pack_that_was_set_aside_keeps_all_others_in_their_places(box):
    box.stop()
    (pack,) = [path for path in box.home.blobs.glob("*.pack") if traces(path.parent, SECRET)]
    aside = box.home.blobs / "09999999.pack.aside"
    shutil.copy(pack, aside)
    aside.write_bytes(aside.read_bytes() + b"OXF1torn" + blob_hash(SECRET) + SECRET)
    before = aside.read_bytes()
    box.start()
    answer = box.call("purge", paths=["secret"])
    assert (answer["places"]["aside"], answer["finished"], answer["left"]) == (1, True, [])
    assert traces(box.home.folder, SECRET) == []
    assert any(b"kept\nkept\n" in data for where, data in texts(box.home.folder) if "aside@" in where)
    assert before.index(blob_hash(b"kept\n" * 50)) == aside.read_bytes().index(blob_hash(b"kept\n" * 50))


def test_dead_weight_and_torn_ends_of_packs_go(box):
    blobs = box.service.timeline.blobs
    blobs.write({blob_hash(b"dead weight: marker\n"): b"dead weight: marker\n"})
    torn = max(box.home.blobs.glob("*.pack"))
    blobs.packs.leave([int(torn.stem)])
    torn.write_bytes(torn.read_bytes() + b"OXF1" + SECRET)
    answer = box.call("purge", blobs=[name_of(b"dead weight: marker\n")])
    assert (answer["contents"], answer["places"]["versions"], answer["finished"]) == (1, 0, True)
    assert traces(box.home.folder, b"dead weight: marker\n") == []
    assert box.call("purge", paths=["secret"])["finished"]
    assert traces(box.home.folder, SECRET) == problems(box) == []


def test_what_others_differ_in_from_it_is_whole(box):
    """A repack packs versions against the newest one: that one goes."""
    lines = [b"line %d of a longer file\n" % number for number in range(2_000)]
    versions = []
    for number in range(4):
        lines[number * 100] = b"edited, version %d\n" % number
        versions.append(b"".join(lines))
        (box.root / "code").write_bytes(versions[-1])
        box.checkpoint()
    repack(box.service.timeline.database, box.service.timeline.blobs, range(1, 100))
    with closing(sqlite3.connect(box.home.timeline_db)) as db:
        assert db.execute("select count(*) from frame where codec = 2").fetchone()[0] > 0
    (box.root / "code").unlink()
    box.call("purge", blobs=[name_of(versions[-1])])
    assert traces(box.home.folder, versions[-1]) == problems(box) == []
    assert [box.call("cat", checkpoint=str(3 + number), file="code") for number in range(3)] == versions[:3]


def test_a_pack_with_damaged_contents_loses_it_too(box, tmp_path):
    """What cannot be read cannot be moved, and stays where it is."""
    (pack,) = [path for path in box.home.blobs.glob("*.pack") if traces(path.parent, SECRET)]
    noise = os.urandom(4_000)
    (box.root / "noise").write_bytes(noise)
    box.checkpoint()
    data = pack.read_bytes()
    assert noise in data
    box.call("backup", to=str(tmp_path / "backup"))
    pack.write_bytes(data.replace(noise, noise[:-1] + bytes([noise[-1] ^ 1])))
    # of somebody who records at the same time, and has appended what no row names yet
    blobs, theirs = box.service.timeline.blobs, {blob_hash(b"theirs"): b"theirs"}
    placed = blobs.write(theirs)
    assert placed[0][0].pack == int(pack.stem)
    assert box.call("purge", paths=["secret"])["finished"]
    with pytest.raises(BlobVanishedError), box.service.timeline.database.writing() as db:
        blobs.adopt(db, placed, theirs)
    assert traces(box.home.folder, SECRET) == []
    assert any(noise[:-1] in path.read_bytes() for path in box.home.blobs.glob("*.pack"))
    # its bytes are others, and so is its name: a backup of before takes it for a new one
    assert not pack.exists()
    assert box.call("backup", to=str(tmp_path / "backup"))["copied_files"] > 1
    assert {problem.split()[0] for problem in problems(box)} == {"content"}
    assert box.call("cat", checkpoint="1", file="kept") == b"kept\n" * 50


def test_logs_and_copies(box):
    box.home.logs.mkdir()
    (box.home.logs / "oxided.log").write_text(f"blob {name_of(SECRET)[:12]} and {name_of(SECRET)} it was\n")
    copy = box.home.folder / "timeline.db.before"
    with closing(sqlite3.connect(box.home.timeline_db)) as db, closing(sqlite3.connect(copy)) as target:
        db.backup(target)
    answer = box.call("purge", paths=["secret"])
    assert (box.home.logs / "oxided.log").read_text() == f"blob {'x' * 12} and {'x' * 64} it was\n"
    assert [text for text in answer["left"] if str(copy) in text]
    assert {where.split("@")[0] for where in traces(box.home.folder, SECRET)} == {copy.name}


def test_a_reader_of_old_pages_is_waited_for_and_then_left_to_the_heartbeat(box):
    with closing(sqlite3.connect(box.home.timeline_db)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from version").fetchone()
        answer = box.call("purge", paths=["secret"])
        assert not answer["finished"]
        assert [p for p in box.call("status")["daemon"]["problems"] if "purge" in p]
        assert "purge_waits" in [p["kind"] for p in box.call("doctor")["problems"]]
    box.service.beat()
    wait_until(lambda: not [p for p in box.call("status")["daemon"]["problems"] if "purge" in p], WAIT_S)
    assert traces(box.home.folder, SECRET) == problems(box) == []


def test_what_the_next_start_finishes(box):
    with closing(sqlite3.connect(box.home.timeline_db)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from version").fetchone()
        box.service.stop_requested.set()
        assert not box.call("purge", paths=["secret"])["finished"]
        box.stop()
        assert marks(box) > 0
    box.start()
    wait_until(lambda: marks(box) == 0, WAIT_S)
    assert traces(box.home.folder, SECRET) == []
    assert problems(box) == []


def test_another_plan_is_not_what_was_agreed_to(box):
    plan = box.call("purge", paths=["secret"], dry_run=True)["plan"]
    (box.root / "secret").write_bytes(b"a third one\n")
    box.checkpoint()
    (box.root / "secret").unlink()
    with pytest.raises(ConflictError):
        box.call("purge", paths=["secret"], plan=plan)
    assert box.call("cat", checkpoint="1", file="secret") == SECRET


def test_a_read_that_has_begun_keeps_its_pack_until_it_ends(box):
    (pack,) = [path for path in box.home.blobs.glob("*.pack") if traces(path.parent, SECRET)]
    begun, ended = threading.Event(), threading.Event()

    def read() -> None:
        with box.service.timeline.blobs.leases.holding():
            begun.set()
            ended.wait(WAIT_S)

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait(WAIT_S)
    box.service.stop_requested.set()  # nobody waits for it
    assert not box.call("purge", paths=["secret"])["finished"]
    assert pack.exists()
    ended.set()
    box.service.stop_requested.clear()
    reader.join()
    assert box.service.finish_purge()
    assert traces(box.home.folder, SECRET) == problems(box) == []
