"""Makes each call that the fault shim must see, by every way a program can reach it.

    python -m tests.faults.every_call FOLDER NUMBERS [--restart] [--links-to FILE]

Each call is made by a process of its own in a folder of its own, ``FOLDER/000`` and up, prepared while nothing counts.
``FOLDER/pristine`` is such a folder without a call. For each call a line ``way name ending`` is printed, where ending is
``done``, ``errno N`` or ``signal N``. With ``--restart`` the numbering starts at 1 for each call, so that the fault at 1
meets every one of them in a single run. With ``--links-to`` the names that the calls use, ``file`` and ``new``, are links
to FILE. NUMBERS is a JSON object of system call numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import struct
from collections.abc import Callable, Iterator
from ctypes import c_char_p, c_long, c_void_p
from dataclasses import dataclass
from pathlib import Path

from tests.faults.crashkit import arm

CWD, REMOVE_FOLDER, EXCHANGE = -100, 0x200, 2
MAKE = os.O_WRONLY | os.O_CREAT
FICLONE = 0x40049409
NOT_EVERYWHERE = {"ioctl", "lchmod", "fchmodat2"}  # few file systems clone; chmod of a link needs Linux 6.6
FIFO = 0o010600


class Place:
    """A fresh folder, also the working directory, with what the calls need; all of it below the root."""

    def __init__(self, folder: Path, linked: Path | None) -> None:
        folder.mkdir()
        os.chdir(folder)
        if linked:
            os.symlink(linked, "file")
            os.symlink(linked, "new")
        Path("file").write_bytes(b"0123456789" * 8)
        Path("other").write_bytes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        Path("empty").mkdir()
        os.symlink("file", "link")
        os.setxattr("file", "user.old", b"1")
        self.folder = os.open(folder, os.O_RDONLY)
        self.file = os.open("file", os.O_RDWR)
        self.source = os.open("other", os.O_RDONLY)
        self.pipe, feed = os.pipe()
        os.write(feed, b"piped bytes")
        os.close(feed)
        self.parts = c_char_p(b"abcd"), c_char_p(b"efghij")
        self.vector = struct.pack("=QQQQ", _address(self.parts[0]), 4, _address(self.parts[1]), 6)

    def close(self) -> None:
        for descriptor in (self.folder, self.file, self.source, self.pipe):
            os.close(descriptor)


def _address(text: c_char_p) -> int:
    address = ctypes.cast(text, c_void_p).value
    assert address is not None
    return address


Arguments = Callable[[Place], tuple[object, ...]]
HOW = struct.pack("=QQQ", MAKE, 0o600, 0)

# By number the arguments are the function's own, except for what NUMBER_ARGUMENTS holds.
FUNCTIONS: dict[str, Arguments] = {
    "open": lambda _: (b"new", MAKE, 0o600),
    "openat": lambda p: (p.folder, b"new", MAKE, 0o600),
    "__open_2": lambda _: (b"file", os.O_WRONLY | os.O_TRUNC),
    "__openat_2": lambda p: (p.folder, b"file", os.O_WRONLY | os.O_TRUNC),
    "creat": lambda _: (b"new", 0o600),
    "write": lambda p: (p.file, b"abcdefgh", 8),
    "pwrite": lambda p: (p.file, b"abcdefgh", 8, c_long(3)),
    "writev": lambda p: (p.file, p.vector, 2),
    "pwritev": lambda p: (p.file, p.vector, 2, c_long(3)),
    "pwritev2": lambda p: (p.file, p.vector, 2, c_long(3), 0),
    "sendfile": lambda p: (p.file, p.source, None, 20),
    "copy_file_range": lambda p: (p.source, None, p.file, None, 20, 0),
    "splice": lambda p: (p.pipe, None, p.file, None, 8, 0),
    "fsync": lambda p: (p.file,),
    "fdatasync": lambda p: (p.file,),
    "syncfs": lambda p: (p.folder,),
    "ftruncate": lambda p: (p.file, c_long(7)),
    "truncate": lambda _: (b"file", c_long(7)),
    "fallocate": lambda p: (p.file, 0, c_long(0), c_long(4096)),
    "posix_fallocate": lambda p: (p.file, c_long(0), c_long(4096)),
    "rename": lambda _: (b"file", b"new"),
    "renameat": lambda p: (p.folder, b"file", CWD, b"new"),
    "renameat2": lambda p: (p.folder, b"file", p.folder, b"other", EXCHANGE),
    "unlink": lambda _: (b"file",),
    "unlinkat": lambda p: (p.folder, b"empty", REMOVE_FOLDER),
    "remove": lambda _: (b"file",),
    "rmdir": lambda _: (b"empty",),
    "mkdir": lambda _: (b"new", 0o700),
    "mkdirat": lambda p: (p.folder, b"new", 0o700),
    "mknod": lambda _: (b"new", FIFO, 0),
    "mknodat": lambda p: (p.folder, b"new", FIFO, 0),
    "mkfifo": lambda _: (b"new", 0o600),
    "mkfifoat": lambda p: (p.folder, b"new", 0o600),
    "symlink": lambda _: (b"target", b"new"),
    "symlinkat": lambda p: (b"target", p.folder, b"new"),
    "link": lambda _: (b"file", b"new"),
    "linkat": lambda p: (p.folder, b"file", p.folder, b"new", 0),
    "chmod": lambda _: (b"file", 0o640),
    "lchmod": lambda _: (b"file", 0o640),
    "fchmod": lambda p: (p.file, 0o640),
    "fchmodat": lambda p: (p.folder, b"file", 0o640, 0),
    "chown": lambda _: (b"file", os.getuid(), os.getgid()),
    "lchown": lambda _: (b"link", os.getuid(), os.getgid()),
    "fchown": lambda p: (p.file, os.getuid(), os.getgid()),
    "fchownat": lambda p: (p.folder, b"file", os.getuid(), os.getgid(), 0),
    "utime": lambda _: (b"file", struct.pack("=qq", 1, 2)),
    "utimes": lambda _: (b"file", struct.pack("=qqqq", 1, 0, 2, 0)),
    "lutimes": lambda _: (b"link", struct.pack("=qqqq", 1, 0, 2, 0)),
    "futimes": lambda p: (p.file, struct.pack("=qqqq", 1, 0, 2, 0)),
    "futimesat": lambda p: (p.folder, b"file", struct.pack("=qqqq", 1, 0, 2, 0)),
    "utimensat": lambda p: (p.folder, b"file", struct.pack("=qqqq", 1, 0, 2, 0), 0),
    "futimens": lambda p: (p.file, struct.pack("=qqqq", 1, 0, 2, 0)),
    "setxattr": lambda _: (b"file", b"user.new", b"v", 1, 0),
    "lsetxattr": lambda _: (b"file", b"user.new", b"v", 1, 0),
    "fsetxattr": lambda p: (p.file, b"user.new", b"v", 1, 0),
    "removexattr": lambda _: (b"file", b"user.old"),
    "lremovexattr": lambda _: (b"file", b"user.old"),
    "fremovexattr": lambda p: (p.file, b"user.old"),
    "ioctl": lambda p: (p.file, c_long(FICLONE), p.source),
}
ALIASES = {name + "64": name for name in ("open", "openat", "creat", "pwrite", "pwritev", "sendfile", "ftruncate")}
ALIASES |= {"truncate64": "truncate", "fallocate64": "fallocate", "posix_fallocate64": "posix_fallocate"}
ALIASES |= {"pwritev64v2": "pwritev2", "__open64_2": "__open_2", "__openat64_2": "__openat_2"}
# What programs built for glibc before 2.33 call; a newer libc hands these names to them alone.
FOR_OLD_PROGRAMS: dict[str, Arguments] = {
    "__xmknod": lambda _: (0, b"new", FIFO, bytes(8)),
    "__xmknodat": lambda p: (0, p.folder, b"new", FIFO, bytes(8)),
}
BY_NUMBER_ONLY: dict[str, Arguments] = {
    "openat2": lambda p: (p.folder, b"new", HOW, len(HOW)),
    "fchmodat2": lambda p: (p.folder, b"file", 0o640, 0),
}
NUMBER_ARGUMENTS: dict[str, Arguments] = {
    "pwritev2": lambda p: (p.file, p.vector, 2, 3, 0, 0),  # the offset takes two registers
}
KERNEL_NAMES = {"pwrite": "pwrite64"}

PYTHONS: dict[str, Callable[[Place], object]] = {
    "open": lambda _: os.close(os.open("new", MAKE | os.O_EXCL, 0o600)),
    "openat": lambda p: os.close(os.open("new", MAKE, 0o600, dir_fd=p.folder)),
    "open (truncate)": lambda _: os.close(os.open("file", os.O_WRONLY | os.O_TRUNC)),
    "open (unnamed)": lambda _: os.close(os.open(".", os.O_WRONLY | os.O_TMPFILE, 0o600)),
    "write": lambda p: os.write(p.file, b"abcdefgh"),
    "writev": lambda p: os.writev(p.file, [b"abcd", b"efghij"]),
    "pwrite": lambda p: os.pwrite(p.file, b"abcdefgh", 3),
    "pwritev2": lambda p: os.pwritev(p.file, [b"abcd", b"efghij"], 3, os.RWF_DSYNC),
    "copy_file_range": lambda p: os.copy_file_range(p.source, p.file, 20),
    "sendfile": lambda p: os.sendfile(p.file, p.source, 0, 20),
    "splice": lambda p: os.splice(p.pipe, p.file, 8),
    "posix_fallocate": lambda p: os.posix_fallocate(p.file, 0, 4096),
    "fsync": lambda p: os.fsync(p.file),
    "fdatasync": lambda p: os.fdatasync(p.file),
    "ftruncate": lambda p: os.ftruncate(p.file, 7),
    "truncate": lambda _: os.truncate("file", 7),
    "rename": lambda _: os.replace("file", "other"),
    "renameat": lambda p: os.rename("file", "new", src_dir_fd=p.folder, dst_dir_fd=p.folder),
    "unlink": lambda _: os.unlink("file"),
    "unlinkat": lambda p: os.unlink("file", dir_fd=p.folder),
    "rmdir": lambda _: os.rmdir("empty"),
    "mkdir": lambda _: os.mkdir("new"),
    "mkdirat": lambda p: os.mkdir("new", dir_fd=p.folder),
    "mkfifo": lambda _: os.mkfifo("new"),
    "mknod": lambda _: os.mknod("new", FIFO),
    "symlink": lambda _: os.symlink("target", "new"),
    "symlinkat": lambda p: os.symlink("target", "new", dir_fd=p.folder),
    "linkat": lambda _: os.link("file", "new", follow_symlinks=False),
    "chmod": lambda _: os.chmod("file", 0o640),
    "fchmod": lambda p: os.chmod(p.file, 0o640),
    "fchmodat": lambda p: os.chmod("file", 0o640, dir_fd=p.folder),
    "chown": lambda _: os.chown("file", os.getuid(), os.getgid()),
    "lchown": lambda _: os.lchown("link", os.getuid(), os.getgid()),
    "fchown": lambda p: os.fchown(p.file, os.getuid(), os.getgid()),
    "fchownat": lambda p: os.chown("file", os.getuid(), os.getgid(), dir_fd=p.folder),
    "utimensat": lambda _: os.utime("file", ns=(1, 2)),
    "futimens": lambda p: os.utime(p.file, ns=(1, 2)),
    "setxattr": lambda _: os.setxattr("file", "user.new", b"v"),
    "lsetxattr": lambda _: os.setxattr("file", "user.new", b"v", follow_symlinks=False),
    "fsetxattr": lambda p: os.setxattr(p.file, "user.new", b"v"),
    "removexattr": lambda _: os.removexattr("file", "user.old"),
    "lremovexattr": lambda _: os.removexattr("file", "user.old", follow_symlinks=False),
    "fremovexattr": lambda p: os.removexattr(p.file, "user.old"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One call: how it is reached, the name it must be counted under, and the call itself (it raises OSError)."""

    way: str
    name: str
    make: Callable[[Place], object]


def steps(numbers: dict[str, int]) -> Iterator[Step]:
    for name, call in PYTHONS.items():
        yield Step("python", name.split(" ")[0], call)
    loaded = ctypes.CDLL(None, use_errno=True)
    for name, arguments in FOR_OLD_PROGRAMS.items():
        yield Step("global", name, _function(loaded[name], arguments, name))
    for way, libc in (("global", loaded), ("libc", ctypes.CDLL("libc.so.6", use_errno=True))):
        for name in [*FUNCTIONS, *ALIASES]:
            canonical = ALIASES.get(name, name)
            yield Step(way, canonical, _function(libc[name], FUNCTIONS[canonical], canonical))
    for name, arguments in {**FUNCTIONS, **BY_NUMBER_ONLY, **NUMBER_ARGUMENTS}.items():
        number = numbers.get(KERNEL_NAMES.get(name, name))
        if number is not None:
            yield Step("number", name, _by_number(loaded.syscall, number, arguments, name))


def _function(function: Callable[..., int], arguments: Arguments, name: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        result = function(*arguments(place))
        if name == "posix_fallocate":  # hands its error back
            _check(-1 if result else 0, result, name)
        else:
            _check(result, ctypes.get_errno(), name)

    return make


def _by_number(syscall: Callable[..., int], number: int, arguments: Arguments, name: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        wide = [c_long(argument) if isinstance(argument, int) else argument for argument in arguments(place)]
        _check(syscall(c_long(number), *wide), ctypes.get_errno(), name)

    return make


def _check(result: int, error: int, name: str) -> None:
    refused = name in NOT_EVERYWHERE and error in {errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS}
    if result < 0 and not refused:
        raise OSError(error, os.strerror(error))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("numbers", type=Path)
    parser.add_argument("--restart", action="store_true")
    parser.add_argument("--links-to", type=Path)
    args = parser.parse_args()
    arm(on=False)
    Place(args.folder / "pristine", args.links_to).close()
    for position, step in enumerate(steps(json.loads(args.numbers.read_text("ascii")))):
        place = Place(args.folder / f"{position:03d}", args.links_to)
        if args.restart:
            _restart_numbering()
        print(step.way, step.name, _ending(step, place), flush=True)
        place.close()


def _restart_numbering() -> None:
    with open(os.environ["FAULT_COUNT"], "r+b", buffering=0) as page:
        page.write(bytes(8))


def _ending(step: Step, place: Place) -> str:
    arm()
    child = os.fork()
    if not child:
        try:
            step.make(place)
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    arm(on=False)
    return f"signal {-status}" if status < 0 else f"errno {status}" if status else "done"


if __name__ == "__main__":
    main()
