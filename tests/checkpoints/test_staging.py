"""The staging folder: ours alone, and nothing in it is lost that is nowhere else."""

from __future__ import annotations

import os
import stat

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import ABSENT, STAGING_NAME
from openoxide.checkpoints.plan import Change, RewindPlan
from openoxide.checkpoints.staging import (
    FEW_FILES,
    Stager,
    delete_operation_folder,
    find_staging,
    hash_of,
    make_operation_folder,
    open_operation_folder,
    open_staging,
    remove_staging,
    strays,
)
from openoxide.checkpoints.steps import Action, Step, steps_of
from openoxide.checkpoints.tree import Tree
from openoxide.errors import RefusedError, StoreDamagedError
from tests.checkpoints.bench import Bench, names_in
from tests.checkpoints.states import file

STAGING = os.fsdecode(STAGING_NAME)
OLD, NEW = ("file", 0o644, 5, b"old"), ("file", 0o640, 7, b"new")


@pytest.fixture
def tree(tmp_path):
    with Tree(os.fsencode(tmp_path)) as tree:
        yield tree


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.close()


class TestFolder:
    def test_it_is_private_and_git_ignores_it(self, tree, tmp_path):
        os.close(open_staging(tree))
        assert stat.S_IMODE((tmp_path / STAGING).stat().st_mode) == 0o700
        assert (tmp_path / STAGING / ".gitignore").read_text() == "*\n"

    def test_one_that_is_there_is_used_and_made_private(self, tree, tmp_path):
        (tmp_path / STAGING).mkdir(mode=0o755)
        (tmp_path / STAGING / "operation").mkdir()
        os.close(open_staging(tree))
        os.close(open_staging(tree))
        assert stat.S_IMODE((tmp_path / STAGING).stat().st_mode) == 0o700
        assert (tmp_path / STAGING / ".gitignore").read_text() == "*\n"
        assert (tmp_path / STAGING / "operation").is_dir()

    @pytest.mark.parametrize("make", [lambda p: p.write_text("x"), lambda p: p.symlink_to("/"), os.mkfifo])
    def test_something_else_of_its_name_is_left_alone(self, tree, tmp_path, make):
        make(tmp_path / STAGING)
        before = os.lstat(tmp_path / STAGING)
        with pytest.raises(RefusedError, match="is not a directory of ours"):
            open_staging(tree)
        assert os.lstat(tmp_path / STAGING) == before
        assert find_staging(tree) is None

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
    def test_one_of_another_user_is_refused(self, tree, tmp_path):
        (tmp_path / STAGING).mkdir()
        os.chown(tmp_path / STAGING, 12345, -1)
        with pytest.raises(RefusedError, match="belongs to another user"):
            open_staging(tree)

    def test_it_goes_when_no_operation_has_anything_in_it(self, tree, tmp_path):
        remove_staging(tree)
        staging = open_staging(tree)
        os.close(make_operation_folder(staging, "one"))
        remove_staging(tree)
        assert (tmp_path / STAGING / "one").is_dir()
        delete_operation_folder(staging, "one")
        delete_operation_folder(staging, "one")
        os.close(staging)
        remove_staging(tree)
        assert os.listdir(tmp_path) == []

    def test_an_operation_has_a_folder_of_its_own(self, tree):
        staging = open_staging(tree)
        os.close(make_operation_folder(staging, "one"))
        with pytest.raises(FileExistsError):
            make_operation_folder(staging, "one")
        os.close(open_operation_folder(staging, "one"))
        with pytest.raises(FileNotFoundError):
            open_operation_folder(staging, "two")
        os.close(staging)


class TestStaging:
    @pytest.mark.parametrize("many", [1, FEW_FILES + 3])
    def test_what_will_be_placed_lies_ready(self, bench, many):
        steps = bench.stage({b"%d" % number: NEW for number in range(many)})
        for step in steps:
            seen = os.stat(step.staged_name, dir_fd=bench.staging)
            assert (seen.st_ino, stat.S_IMODE(seen.st_mode), seen.st_mtime_ns) == (step.new_ino, 0o640, 7)
        assert len(steps) == many

    def test_each_kind_is_made_as_what_it_is(self, bench):
        looks = {b"d": ("dir", 0o755), b"f": ("fifo", 0o644), b"l": ("link", b"\xff"), b"r": NEW}
        steps = bench.stage(looks)
        assert names_in(bench.staging) == ["place-0 d", "place-1 p", "place-2 l", "place-3 -"]
        assert [step.action for step in steps if step.new_ino is None] == [Action.MODE]

    @pytest.mark.parametrize(
        ("mode", "expected"), [(0o4755, 0o4755), (0o2755, 0o2755), (0o1644, 0o1644), (0o644, 0o644)]
    )
    def test_set_id_and_sticky_bits_come_back_for_our_own_files(self, bench, mode, expected):
        steps = bench.stage({b"f": ("file", mode, 7, b"new")})
        assert stat.S_IMODE(os.stat(steps[0].staged_name, dir_fd=bench.staging).st_mode) == expected

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_for_another_users_file_they_are_left_out_and_told(self, bench):
        bench.put({b"f": OLD})
        os.chown(bench.root / "f", 12345, -1)
        plan = RewindPlan(
            restore=(Change(path=b"f", now=bench.state(b"f"), wanted=bench.known(("file", 0o4755, 7, b"new"))),)
        )
        stager = Stager(bench.tree, bench.staging, bench.open_blob)
        (step,) = stager.stage(steps_of(plan))
        assert stat.S_IMODE(os.stat(step.staged_name, dir_fd=bench.staging).st_mode) == 0o755
        assert stager.notes == ["'f': setuid, setgid and sticky bits were left out"]

    def test_all_paths_that_are_damaged_are_named_at_once(self, bench):
        changes = tuple(
            Change(path=path, now=ABSENT, wanted=bench.known(("file", 0o644, 7, path))) for path in (b"a", b"b", b"c")
        )
        for path in (b"a", b"c"):
            bench.blobs[blob_hash(path)] = b"damaged"
        with pytest.raises(StoreDamagedError, match="2 stored files are damaged, first 'a'") as caught:
            bench.stage_plan(RewindPlan(restore=changes))
        assert caught.value.details == {"paths": ["a", "c"]}
        assert bench.look() == {}


class TestStrays:
    """What a sweep must store before it deletes the folder."""

    def found(self, bench, steps):
        contents = {}
        for step, fd in strays(bench.staging, steps).files:
            with open(fd, "rb") as source:
                contents[step.path] = source.read()
        return contents

    def test_what_was_displaced_as_it_was_expected_is_in_the_store(self, bench):
        bench.put({b"f": OLD, b"g": OLD, b"l": ("link", b"x"), b"d": ("dir", 0o755)})
        steps = bench.stage({b"f": NEW, b"g": None, b"l": None, b"d": None, b"n": NEW, b"e": ("dir", 0o755)})
        bench.swap(steps)
        assert self.found(bench, steps) == {}

    def test_what_was_staged_and_never_placed_is_ours(self, bench):
        steps = bench.stage({b"f": NEW})
        assert self.found(bench, steps) == {}

    @pytest.mark.parametrize("wanted", [NEW, None])
    def test_what_was_written_to_a_displaced_file_later_is_found(self, bench, wanted):
        bench.put({b"f": OLD})
        steps = bench.stage({b"f": wanted})
        bench.swap(steps)
        (name,) = os.listdir(bench.staging)
        os.chmod(name, 0o644, dir_fd=bench.staging)
        fd = os.open(name, os.O_WRONLY | os.O_APPEND, dir_fd=bench.staging)
        os.write(fd, b", and late")
        os.close(fd)
        assert self.found(bench, steps) == {b"f": b"old, and late"}

    def test_what_was_saved_in_between_is_found(self, bench):
        """It has another inode than what was staged, and other bytes than what was expected."""
        steps = (Step(number=0, action=Action.PLACE, path=b"f", old=file(b"old"), new=file(b"new"), new_ino=1),)
        fd = os.open("place-0", os.O_WRONLY | os.O_CREAT, dir_fd=bench.staging)
        os.write(fd, b"saved")
        os.close(fd)
        assert self.found(bench, steps) == {b"f": b"saved"}

    def test_the_name_of_the_content_is_counted_from_its_start(self, bench):
        (bench.root / "f").write_bytes(b"content")
        fd = os.open(bench.root / "f", os.O_RDONLY)
        os.read(fd, 3)
        assert hash_of(fd) == blob_hash(b"content")
        os.close(fd)

    def test_a_folder_with_something_of_the_users_in_it_is_not_deleted(self, bench):
        os.mkdir("place-0", dir_fd=bench.staging)
        inner = os.open("place-0/users", os.O_WRONLY | os.O_CREAT, dir_fd=bench.staging)
        os.close(inner)
        staging = open_staging(bench.tree)
        delete_operation_folder(staging, "operation")
        os.close(staging)
        assert os.path.exists(bench.root / STAGING / "operation" / "place-0" / "users")
