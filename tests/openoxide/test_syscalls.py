"""The system calls that a rewind stands on do what they promise, on this very system."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from openoxide.syscalls import birth_ns, exchange, gentle_io, holders, is_written_to, rename_exclusive, sync_filesystem

linux = pytest.mark.skipif(sys.platform != "linux", reason="leases and /proc are Linux's")


@contextmanager
def opened(path, flags=os.O_RDONLY):
    fd = os.open(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "inner").write_text("inner")
    (tmp_path / "link").symlink_to("nowhere")
    with opened(tmp_path, os.O_RDONLY | os.O_DIRECTORY) as fd:
        yield fd, tmp_path


def test_a_birth_stays_while_everything_else_changes(tmp_path):
    with opened(tmp_path, os.O_RDONLY | os.O_DIRECTORY) as fd:
        before = birth_ns(fd)
        (tmp_path / "new").touch()
        tmp_path.chmod(0o700)
        os.utime(tmp_path, (1, 1))

        assert birth_ns(fd) == before


@linux
def test_a_birth_is_what_stat_says_or_not_told(tmp_path):
    (tmp_path / "made").mkdir()
    said = subprocess.run(["stat", "-c", "%W", tmp_path / "made"], capture_output=True, check=True, text=True).stdout
    with opened(tmp_path / "made", os.O_RDONLY | os.O_DIRECTORY) as fd:
        assert birth_ns(fd) // 1_000_000_000 in (int(said.strip() or 0), 0)


@linux
def test_a_birth_is_not_told_where_it_may_change():
    with opened("/proc", os.O_RDONLY | os.O_DIRECTORY) as fd:
        assert birth_ns(fd) == 0


def test_a_rename_never_replaces(folder):
    fd, path = folder
    for taken in (b"b", b"full", b"link"):
        with pytest.raises(FileExistsError):
            rename_exclusive(fd, b"a", fd, taken)
    assert (path / "a").read_text() == "a"
    rename_exclusive(fd, b"a", fd, b"new\n\xff")
    assert sorted(os.listdir(os.fsencode(path))) == [b"b", b"full", b"link", b"new\n\xff"]


@pytest.mark.parametrize("other", ["b", "full", "link"])
def test_an_exchange_swaps_entries_of_any_kind(folder, other):
    fd, path = folder
    was = os.lstat(path / "a").st_ino, os.lstat(path / other).st_ino
    exchange(fd, b"a", fd, other.encode())
    assert (os.lstat(path / other).st_ino, os.lstat(path / "a").st_ino) == was


def test_an_exchange_works_between_two_folders(folder):
    fd, path = folder
    with opened(path / "full", os.O_RDONLY | os.O_DIRECTORY) as inner:
        exchange(fd, b"a", inner, b"inner")
    assert ((path / "a").read_text(), (path / "full" / "inner").read_text()) == ("inner", "a")


def test_an_exchange_with_nothing_changes_nothing(folder):
    fd, path = folder
    with pytest.raises(FileNotFoundError) as caught:
        exchange(fd, b"a", fd, b"nothing")
    assert caught.value.errno == errno.ENOENT
    assert (path / "a").read_text() == "a"


def test_syncing_a_file_system_needs_a_descriptor_of_it(folder):
    sync_filesystem(folder[0])
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync_filesystem(1_000_000)


@linux
def test_a_file_that_nobody_writes_to_is_known(folder):
    with opened(folder[1] / "a") as fd, opened(folder[1] / "a"):
        assert is_written_to(fd) is False
        assert is_written_to(fd) is False, "the lease was given back"


@linux
@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND])
def test_a_file_that_is_open_for_writing_is_known(folder, flags):
    with opened(folder[1] / "a") as fd, opened(folder[1] / "a", flags):
        assert is_written_to(fd) is True


@linux
def test_a_file_that_is_only_mapped_for_writing_is_known(folder):
    path = folder[1] / "a"
    with opened(path, os.O_RDWR) as writing:
        mapped = mmap.mmap(writing, 1)
    with closing(mapped), opened(path) as fd:
        assert is_written_to(fd) is True


@linux
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can give a file and a right away"
)
@pytest.mark.parametrize(("flags", "told"), [(os.O_WRONLY | os.O_APPEND, "True"), (os.O_RDONLY, "None")])
def test_without_the_right_to_a_lease_open_descriptors_are_looked_at(folder, flags, told):
    """Root in a container, without CAP_LEASE, and a tree of the user outside."""
    path = folder[1] / "a"
    os.chown(path, 12345, -1)
    program = (
        f"import os; from openoxide.syscalls import is_written_to as w; print(w(os.open({str(path)!r}, os.O_RDONLY)))"
    )
    command = ["setpriv", "--bounding-set=-lease", "--inh-caps=-lease", sys.executable, "-c", program]
    with opened(path, flags):
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == told


@linux
def test_whether_a_directory_is_written_to_cannot_be_told(folder):
    assert is_written_to(folder[0]) is None


@linux
def test_the_process_that_holds_a_file_is_named(folder):
    path = folder[1] / "a"
    seen = path.stat()
    assert holders(seen.st_dev, seen.st_ino) == []
    program = f"f = open({str(path)!r}); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with opened(path):
            assert holders(seen.st_dev, seen.st_ino) == [other.pid]
        other.communicate(b"\n")


def test_a_lease_that_is_broken_does_not_end_the_process(folder):
    """Another process opens the file for writing again and again while it is asked about."""
    path = folder[1] / "a"
    program = f"for _ in range(3000): open({str(path)!r}, 'a').close()"
    with subprocess.Popen([sys.executable, "-c", program]) as other:
        answers = set()
        while other.poll() is None:
            with opened(path) as fd:
                answers.add(is_written_to(fd))
    assert answers <= {True, False}
    assert other.returncode == 0


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine not in {"x86_64", "aarch64"}, reason="not known here")
def test_a_thread_waits_for_the_disk_last_of_all_and_so_do_those_it_starts():
    def order() -> str:
        said = subprocess.run(
            ["ionice", "-p", str(threading.get_native_id())], capture_output=True, text=True, check=True
        )
        return said.stdout.strip()

    before = order()
    with ThreadPoolExecutor(1) as pool, gentle_io():
        assert (order(), pool.submit(order).result()) == ("best-effort: prio 7", "best-effort: prio 7")
    assert order() == before
