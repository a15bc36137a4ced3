"""One daemon per home: whoever holds the flock on ``oxided.lock`` owns the home and the socket in it.

The lock is taken before the socket is touched and given back after the socket is gone, so a socket found under the
lock is stale by definition. The pid in the lock file is for people; only the flock is the truth, and the file is never
removed (two daemons could each lock a file of that name).
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from openoxide.daemon.protocol import MAX_SOCKET_PATH
from openoxide.errors import AlreadyRunningError, FailedError, RefusedError, StoreFullError, StoreReadOnlyError
from openoxide.ownership import require_ours
from openoxide.paths import Home

BACKLOG = 128
PID_WAIT_SECONDS = 0.2
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Instance:
    """The home, held until :meth:`close`. ``folder`` and ``lock`` are descriptors that ``held`` closes."""

    def __init__(self, home: Home, folder: int, lock: int, held: ExitStack) -> None:
        self._home = home
        self._folder = folder
        self._held = held
        held.callback(_forget_pid, lock)

    def listen(self) -> socket.socket:
        """The bound and listening socket, 0600. What lies at its path and is no socket is never removed."""
        with _explained(self._home.socket):
            self._remove_stale()
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                listener.bind(self._address())
                self._held.callback(self._remove_own, self._identity())
                # before listen: nobody can connect until then (connect(2), ECONNREFUSED)
                os.chmod(self._home.socket.name, 0o600, dir_fd=self._folder)
                listener.listen(BACKLOG)
            except BaseException:
                listener.close()
                raise
        return listener

    def close(self) -> None:
        """Remove the socket if it is still ours, then give the home back."""
        self._held.close()

    def _address(self) -> str:
        path = str(self._home.socket)
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            return path
        # sun_path is short; this link leads to the open folder without naming it (Linux only: elsewhere bind refuses)
        return f"/proc/self/fd/{self._folder}/{self._home.socket.name}"

    def _identity(self) -> tuple[int, int]:
        found = os.stat(self._home.socket.name, dir_fd=self._folder, follow_symlinks=False)
        return found.st_dev, found.st_ino

    def _remove_stale(self) -> None:
        name = self._home.socket.name
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            if not stat.S_ISSOCK(found.st_mode):
                raise RefusedError(f"{self._home.socket} is not a socket", hint="move it away, then start again")
            os.unlink(name, dir_fd=self._folder)

    def _remove_own(self, bound: tuple[int, int]) -> None:
        with suppress(FileNotFoundError):
            if self._identity() == bound:
                os.unlink(self._home.socket.name, dir_fd=self._folder)


def acquire(home: Home) -> Instance:
    """Take ``home``, which is created where missing. From here on this process creates files for its user only.

    Raises AlreadyRunningError with the pid of the holder, RefusedError for a home of another user or a folder that holds
    what is not ours, StoreReadOnlyError for one that cannot be written.
    """
    # SQLite and the packs create their files with the process's umask; it stays for the daemon's life
    os.umask(0o077)
    with _explained(home.folder), ExitStack() as held:
        folder = _open_folder(home)
        held.callback(os.close, folder)
        lock = os.open(home.lock.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        held.callback(os.close, lock)
        _take(lock, home)
        return Instance(home, folder, lock, held.pop_all())


def _open_folder(home: Home) -> int:
    home.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    link, target = os.lstat(home.folder), os.stat(home.folder)
    # Run through sudo with the caller's HOME, we would leave root's files in the home of somebody who cannot read them
    if target.st_uid != os.geteuid() or link.st_uid not in {os.geteuid(), 0}:
        raise RefusedError(
            f"{home.folder} belongs to another user (uid {target.st_uid}, link {link.st_uid})",
            hint="name a folder of your own in OPENOXIDE_HOME",
        )
    require_ours(home)
    if stat.S_IMODE(target.st_mode) != 0o700:
        home.folder.chmod(0o700)
    return os.open(home.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _take(lock: int, home: Home) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = _holder(lock)
        raise AlreadyRunningError(
            f"another daemon (pid {pid or 'not known'}) owns {home.folder}",
            hint="stop it with `oxide-ctl stop`, or watch in it with `oxide-ctl watch DIR`",
            details={"pid": pid},
        ) from None
    if not os.fstat(lock).st_nlink:  # an uninstall removed it between open and flock: others would lock another file
        raise AlreadyRunningError(f"{home.folder} is being removed", details={"pid": 0})
    os.fchmod(lock, 0o600)
    _forget_pid(lock)
    with suppress(OSError):  # for people only: a full disk must not keep the daemon down
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _forget_pid(lock: int) -> None:
    with suppress(OSError):
        os.ftruncate(lock, 0)


def _holder(lock: int) -> int:
    """The pid that the holder wrote, 0 if none; between its flock and its write there is a moment without."""
    deadline = time.monotonic() + PID_WAIT_SECONDS
    while True:
        text = os.pread(lock, 20, 0).strip()
        if text.isdigit() and _lives(int(text)):
            return int(text)
        if time.monotonic() > deadline:
            return 0
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    # it lives and is another user's (kill(2))
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _READ_ONLY:
            raise StoreReadOnlyError(f"{path} cannot be written: {reason}", hint="check its owner and mount") from error
        if error.errno in _FULL:
            raise StoreFullError(f"{path} cannot be written: {reason}", hint="free space on its disk") from error
        raise FailedError(f"{path} cannot be used: {reason}", hint="name another folder in OPENOXIDE_HOME") from error
