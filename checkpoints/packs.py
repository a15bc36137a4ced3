"""Frames of bytes (``frames.py``) in append-only files; no file is appended to behind a failed write.

A blob of BIG_BYTES or more is a file of its own under ``big/``, named by its hash, plain or zstd.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import zstandard

from openoxide.checkpoints.bigfiles import codec_at, raw_bytes_of, write_big_file
from openoxide.checkpoints.frames import (
    DELTA,
    MOST_HEAD_BYTES,
    ZSTD,
    Frame,
    Header,
    Place,
    base_of,
    decompress,
    header_at_end,
    lay_out,
)
from openoxide.checkpoints.hashing import HASH_BYTES
from openoxide.checkpoints.model import BlobHash
from openoxide.errors import StoreDamagedError
from openoxide.fileio import FULL, fsync_folder, open_regular, require_readable, write_all

PACK_BYTES = 64 << 20
# from here on a content is copied in pieces and never held in memory (test_reading.py)
BIG_BYTES = 4 << 20
BIG = "big"
# no more digits than SQLite's integers hold
_NUMBERED = re.compile(r"([0-9]{8,12})\.pack(?:\.aside)?")
_NAMED = re.compile(f"[0-9a-f]{{{2 * HASH_BYTES}}}")
_COPYING = re.compile(r"[0-9a-f]{16}\.tmp")


class PackFile:
    """A pack that is being written, by one thread at a time."""

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self.size = 0
        self._fd = fd

    def append(self, frames: Sequence[Frame]) -> list[Place]:
        """Write ``frames`` and make them durable. After a failure nothing more may be appended."""
        data, places = lay_out(frames, self.number, self.size)
        try:
            # one write and one sync, however many frames
            write_all(self._fd, data)
            # fdatasync(2) flushes the new length too, without which the bytes could not be found again; times do not matter
            os.fdatasync(self._fd)
        except BaseException:
            with suppress(OSError):  # what was written in part would keep a full disk full
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(data)
        return places

    @property
    def is_intact(self) -> bool:
        """Whether it ends where it was written to: not so where somebody cut it short or added to it."""
        return os.fstat(self._fd).st_size == self.size

    def close(self) -> None:
        os.close(self._fd)


class Packs:
    """The ``blobs/`` folder. ``first_pack`` is a number no existing file has: each start opens a fresh pack."""

    def __init__(self, folder: Path, first_pack: int) -> None:
        self.folder = folder
        self.big = folder / BIG
        self._packs = _Held(self.folder)
        self._bigs = _Held(self.big)
        self._lock, self._putting = threading.Lock(), threading.Lock()
        self._next = first_pack
        self._open: PackFile | None = None
        self._beside: set[int] = set()

    def append(self, frames: Sequence[Frame]) -> list[Place]:
        """Write ``frames`` and make them durable. On any failure the pack is left behind for good."""
        with self._lock:
            try:
                # cut short or added to by somebody: what is appended would not be where the offset says
                if self._open is not None and not self._open.is_intact:
                    self._close()
                if self._open is None:
                    self._open = self._begin()
                places = self._open.append(frames)
            except BaseException:
                # O_APPEND goes on at the real end of the file, which a short write has moved: every offset counted from
                # here would be wrong (test_a_short_write_closes_the_pack)
                self._close()
                raise
            if self._open.size >= PACK_BYTES:
                self._close()
            return places

    @contextmanager
    def beside(self) -> Iterator[PackFile]:
        """A pack of its own: whoever appends waits for nothing that is written to it. Rows have to name it before the end of
        the block; from then on it is one like the others.
        """
        with self._lock:
            pack = self._begin()
            self._beside.add(pack.number)
        try:
            yield pack
        finally:
            pack.close()
            with self._lock:
                self._beside.discard(pack.number)

    def _begin(self) -> PackFile:
        # taken for good: a failed start of this number may leave a file
        number, self._next = self._next, self._next + 1
        # O_EXCL: a file of that number is somebody's, and its end may be torn
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(pack_name(number), flags, 0o600, dir_fd=self._packs.fd())
        try:
            # fsync(2): syncing a file does not make its name durable
            os.fsync(self._packs.fd())
        except BaseException:
            os.close(fd)
            raise
        return PackFile(number, fd)

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def next_number(self) -> int:
        """The number of the pack that comes next."""
        return self._next

    def leave(self, numbers: Collection[int]) -> None:
        """Append to none of these any more."""
        with self._lock:
            if self._open is not None and self._open.number in numbers:
                self._close()

    def close(self) -> None:
        """Close the pack that is being written."""
        with self._lock:
            self._close()
        self._packs.close()
        self._bigs.close()

    def numbers(self) -> list[int]:
        """The packs that exist. What somebody put beside them, or in the place of one, is none."""
        return sorted(number for number in taken_numbers(self._packs.fd()) if self._packs.holds(pack_name(number)))

    def sizes(self) -> dict[int, int]:
        """How long the packs that exist are."""
        found = {}
        for number in self.numbers():
            with suppress(FileNotFoundError):
                found[number] = os.stat(pack_name(number), dir_fd=self._packs.fd(), follow_symlinks=False).st_size
        return found

    def remove(self, number: int) -> None:
        """Delete a pack that no row names."""
        with suppress(FileNotFoundError):  # another one found it unused at the same time (Blobs.drop_packs)
            os.unlink(pack_name(number), dir_fd=self._packs.fd())

    def set_aside(self, number: int) -> None:
        """Keep a pack out of sight for good."""
        # not deleted: these may be the only bytes of a timeline.db that comes back
        folder, name = self._packs.fd(), pack_name(number)
        os.rename(name, f"{name}.aside", src_dir_fd=folder, dst_dir_fd=folder)
        # rename(2) leaves both names where they are one file already (keep_aside)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)

    def keep_aside(self, number: int) -> None:
        """As :meth:`set_aside`, beside the pack, which goes on being one of ours: what it holds stays when it is deleted."""
        folder, name = self._packs.fd(), pack_name(number)
        if not self._packs.holds(name):
            return
        try:
            os.link(name, f"{name}.aside", src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            # kept already, or by a file system that knows no second names: link(2)
            if error.errno not in (errno.EEXIST, errno.EPERM, errno.EOPNOTSUPP):
                raise
        os.fsync(folder)

    def take_back(self, number: int) -> None:
        """Undo :meth:`set_aside` where there was such a pack, and nothing stands in its place."""
        folder, name = self._packs.fd(), pack_name(number)
        if self._packs.holds(f"{name}.aside") and name not in os.listdir(folder):
            os.rename(f"{name}.aside", name, src_dir_fd=folder, dst_dir_fd=folder)

    def unused(self, used: Collection[int]) -> set[int]:
        """The packs that are not ``used``; nothing is appended to them any more, though somebody may just have done it."""
        with self._lock:
            # what comes next goes into a new file, so that this one can go
            if self._open is not None and self._open.number not in used:
                self._close()
            writing = {self._open.number} if self._open is not None else set()
            return set(self.numbers()) - {*used, *writing, *self._beside}

    def set_bigs_aside(self, names: Iterable[BlobHash]) -> tuple[list[str], int]:
        """Give big blobs' files names that the next start deletes; which these are, and how many bytes."""
        aside, size = [], 0
        for name in names:
            temporary = f"{os.urandom(8).hex()}.tmp"
            with suppress(FileNotFoundError):
                size += os.stat(name.hex(), dir_fd=self._bigs.fd(), follow_symlinks=False).st_size
                try:
                    os.rename(name.hex(), temporary, src_dir_fd=self._bigs.fd(), dst_dir_fd=self._bigs.fd())
                    aside.append(temporary)
                except OSError as error:
                    if error.errno not in FULL:
                        raise
                    # even a name may want room, and to delete makes some
                    os.unlink(name.hex(), dir_fd=self._bigs.fd())
        return aside, size

    def remove_aside(self, names: Iterable[str]) -> None:
        """Delete them."""
        for name in names:
            with suppress(FileNotFoundError):  # a purge came first (Blobs.drop_unnamed_big)
                os.unlink(name, dir_fd=self._bigs.fd())

    def unfinished(self) -> list[str]:
        """Files of big blobs that are being copied or deleted, or were when that was cut off."""
        return [name for name in os.listdir(self._bigs.fd()) if _COPYING.fullmatch(name) and self._bigs.holds(name)]

    def read(self, place: Place, size: int, dictionary: bytes = b"") -> bytes:
        """The first ``size`` raw bytes of a frame in a pack, at least; with ``dictionary`` instead of what it rests on. Raises
        StoreDamagedError where they cannot be had.
        """
        assert place.pack is not None
        try:
            payload = self._payload(place)
            if place.codec == DELTA and not dictionary:
                base = base_of(payload, place)
                dictionary = decompress(self._payload(base), base, base.raw)
            return decompress(payload, place, size, dictionary)
        # a damaged frame may claim any size
        except (OSError, zstandard.ZstdError, MemoryError, ValueError, OverflowError) as error:
            require_readable(error)
            raise StoreDamagedError(f"pack {place.pack} cannot be read at {place.offset}: {error}") from error

    def base(self, place: Place) -> Place | None:
        """Which frame's raw bytes another one has as its dictionary; None where it has none, or is damaged itself."""
        with suppress(OSError, StoreDamagedError, ValueError):
            return base_of(self._payload(place), place) if place.codec == DELTA else None
        return None

    def _payload(self, place: Place) -> bytes:
        assert place.pack is not None
        fd = self._packs.open_file(pack_name(place.pack))
        try:
            payload = os.pread(fd, place.stored, place.offset)
        finally:
            os.close(fd)
        if len(payload) != place.stored:
            raise StoreDamagedError(f"pack {place.pack} ends before offset {place.offset + place.stored}")
        return payload

    def header(self, place: Place, after: int) -> Header | None:
        """The header of a frame in a pack, looked for behind ``after``; None where there is none. Raises OSError."""
        assert place.pack is not None
        start = min(max(after, place.offset - MOST_HEAD_BYTES), place.offset)
        fd = self._packs.open_file(pack_name(place.pack))
        try:
            return header_at_end(os.pread(fd, place.offset - start, start))
        finally:
            os.close(fd)

    def length(self, place: Place, name: BlobHash) -> int | None:
        """How long the file is that ``place`` is in, for a big blob its own; None where there is none."""
        folder, file = (self._packs, pack_name(place.pack)) if place.pack is not None else (self._bigs, name.hex())
        try:
            # a link is followed: a pack may have been moved to another disk
            found = os.stat(file, dir_fd=folder.fd())
        except OSError as error:
            require_readable(error)
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def is_obstructed(self, name: BlobHash) -> bool:
        """Whether something that is no file stands where a big blob's own would be."""
        with suppress(FileNotFoundError):
            return not stat.S_ISREG(os.stat(name.hex(), dir_fd=self._bigs.fd()).st_mode)
        return False

    def bigs(self) -> list[str]:
        """The names of the big blobs' files; none where there is no folder."""
        with suppress(FileNotFoundError):
            return [name for name in os.listdir(self._bigs.fd()) if _NAMED.fullmatch(name) and self._bigs.holds(name)]
        return []

    def add_big(self, source: BinaryIO) -> tuple[BlobHash, Place]:
        """Copy ``source`` into a file of its own, durable under its hash when this returns: by sharing its blocks where the
        file system can.
        """
        temporary, (name, place) = self._write_big(source, None)
        try:
            while (codec := self._put_big(temporary, name, place)) is not None:
                # the same content lies there in the other form, which its row tells: so it stays in that
                with open(temporary, "rb", opener=self._bigs.opener) as file, raw_bytes_of(file, name) as again:
                    other, (name, place) = self._write_big(again, codec)
                os.rename(other, temporary, src_dir_fd=self._bigs.fd(), dst_dir_fd=self._bigs.fd())
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._bigs.fd())
            raise
        os.fsync(self._bigs.fd())
        return name, place

    def _write_big(self, source: BinaryIO, codec: int | None) -> tuple[str, tuple[BlobHash, Place]]:
        """The name of a new file with what ``source`` holds, durable, and what it is."""
        # beside its place: rename(2) is atomic within one file system only
        temporary = f"{os.urandom(8).hex()}.tmp"
        try:
            with open(temporary, "x+b", opener=self._bigs.opener) as out:
                name, raw, codec = write_big_file(source, out, codec)
                out.flush()
                # before the rename: a name must never lead to bytes that a power cut can take
                os.fsync(out.fileno())
                stored = os.fstat(out.fileno()).st_size
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._bigs.fd())
            raise
        return temporary, (name, Place(pack=None, offset=0, stored=stored, raw=raw, codec=codec))

    def _put_big(self, temporary: str, name: BlobHash, place: Place) -> int | None:
        """Give a file its name; not where it has that in another form already, which is answered then."""
        with self._putting:
            with suppress(FileNotFoundError), open(name.hex(), "rb", opener=self._bigs.opener) as there:
                codec = codec_at(there.fileno())
                # one that was cut short, or whose beginning was damaged, is none of either form
                whole = codec == ZSTD or os.fstat(there.fileno()).st_size == place.raw
                if whole and codec != place.codec:
                    return codec
            # the same content may be there already and is replaced by itself; who has it open goes on reading
            os.rename(temporary, name.hex(), src_dir_fd=self._bigs.fd(), dst_dir_fd=self._bigs.fd())
        return None

    def codec_of_big(self, name: BlobHash) -> int:
        """Which codec a big blob's file has. Raises OSError."""
        with open(name.hex(), "rb", opener=self._bigs.opener) as file:
            return codec_at(file.fileno())

    def open_big(self, name: BlobHash) -> BinaryIO:
        """A stream over a big blob's raw bytes."""
        try:
            source = open(self._bigs.open_file(name.hex()), "rb")  # noqa: SIM115 - the stream closes it
            return raw_bytes_of(source, name)
        except OSError as error:
            require_readable(error)
            raise StoreDamagedError(f"blob {name.hex()[:12]} cannot be opened: {error}") from error

    def prepare(self) -> None:
        """Make the folders and remove what an interrupted copy left behind."""
        self.big.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.fsync(self._packs.fd())
        # a new folder's name lies in the folder above
        fsync_folder(self.folder.parent)
        self.remove_aside(self.unfinished())
        for name in os.listdir(self._packs.fd()):
            # a pack that was being written anew without some of its contents (scrub.blank)
            if _COPYING.fullmatch(name) and self._packs.holds(name):
                os.unlink(name, dir_fd=self._packs.fd())


class _Held:
    """A folder that is reached by one descriptor from its first use on: moved or replaced, it stays the one that it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._fd: int | None = None

    def fd(self) -> int:
        """Its descriptor. Raises OSError."""
        with self._lock:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return self._fd

    def opener(self, name: str, flags: int) -> int:
        """For ``open``: a file in it, its owner's alone."""
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self.fd())

    def open_file(self, name: str) -> int:
        """A descriptor to read a file in it with. Raises OSError for what is none."""
        # a link is followed: a pack may have been moved to another disk
        return open_regular(name, dir_fd=self.fd())

    def holds(self, name: str) -> bool:
        """Whether there is a regular file of this name."""
        try:
            return stat.S_ISREG(os.stat(name, dir_fd=self.fd(), follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def close(self) -> None:
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None


def taken_numbers(folder: Path | int) -> set[int]:
    """The numbers for which something stands in a ``blobs/`` folder, whatever it is; none where there is no folder."""
    # a reader may come before the first daemon has made anything
    with suppress(FileNotFoundError):
        return {int(found[1]) for name in os.listdir(folder) if (found := _NUMBERED.fullmatch(name))}
    return set()


def pack_name(number: int) -> str:
    """The name of a pack's file."""
    return f"{number:08d}.pack"


def pack_number(file: str) -> int | None:
    """The number of a pack by its file's name; None for one that was set aside, or is none."""
    found = _NUMBERED.fullmatch(file)
    return int(found[1]) if found and not file.endswith(".aside") else None
