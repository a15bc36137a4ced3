"""Writing to the end, and what a refusal of the system means."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from openoxide.errors import FailedError, StoreFullError, StoreReadOnlyError
from openoxide.fileio import fsync_folder, make_private, replace_file, write_all, write_errors
from tests.kit.limits import file_size_limit


@pytest.mark.parametrize("size", [0, 1, 65536, 1 << 20])
def test_every_byte_is_written_although_the_system_takes_them_in_parts(size):
    """A pipe that is full takes a part only and makes the writer wait."""
    data = os.urandom(size)
    reading, writing = os.pipe()
    os.set_blocking(writing, True)
    got = bytearray()

    def read() -> None:
        while chunk := os.read(reading, 7000):
            got.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    write_all(writing, data)
    os.close(writing)
    reader.join(30)
    os.close(reading)
    assert got == data


def test_a_short_write_is_carried_on_until_the_system_refuses(tmp_path):
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    try:
        with file_size_limit(1000), pytest.raises(OSError, match="File too large"):
            write_all(fd, bytes(5000))
        assert os.fstat(fd).st_size == 1000
    finally:
        os.close(fd)


def test_a_file_is_replaced_as_a_whole_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o644)

    replace_file(path, b"new")

    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_cannot_be_written_whole_stays_what_it_was(tmp_path):
    (tmp_path / "file").write_bytes(b"old")

    with file_size_limit(1000), pytest.raises(OSError, match="File too large"):
        replace_file(tmp_path / "file", bytes(5000))

    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_nothing_is_written_through_a_link_that_stands_beside(tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "file.new").symlink_to("mine")

    replace_file(tmp_path / "file", b"new")

    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_folder_is_made_durable_and_let_go(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    fsync_folder(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_is_not_there_cannot_be_made_durable(tmp_path):
    with pytest.raises(FileNotFoundError):
        fsync_folder(tmp_path / "gone")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, StoreFullError),
        (errno.EDQUOT, StoreFullError),
        (errno.EROFS, StoreReadOnlyError),
        (errno.EACCES, StoreReadOnlyError),
        (errno.EPERM, StoreReadOnlyError),
        (errno.EIO, FailedError),
        (errno.EFBIG, FailedError),
    ],
)
def test_a_refusal_is_an_error_that_names_what_could_not_be_written(code, error):
    with pytest.raises(error) as caught, write_errors("the store", StoreReadOnlyError):
        raise OSError(code, os.strerror(code))
    assert "the store" in caught.value.message
    assert isinstance(caught.value.__cause__, OSError)


def test_outside_the_store_a_missing_right_is_a_plain_failure():
    with pytest.raises(FailedError, match="the copy cannot be written"), write_errors("the copy"):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_other_errors_pass(tmp_path):
    with pytest.raises(ZeroDivisionError), write_errors("the store"):
        raise ZeroDivisionError


def test_what_others_may_read_is_made_private(tmp_path):
    """A restored backup, or a file that was copied in, may grant them rights."""
    (tmp_path / "folder").mkdir(mode=0o755)
    for name, mode in (("folder/f", 0o644), ("x", 0o755), ("own", 0o600)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to("/")
    make_private(tmp_path)
    modes = {name: os.lstat(tmp_path / name).st_mode & 0o777 for name in ("folder", "folder/f", "x", "own")}
    assert modes == {"folder": 0o700, "folder/f": 0o600, "x": 0o700, "own": 0o600}
    assert os.stat("/").st_mode & 0o077, "a link is not followed"
