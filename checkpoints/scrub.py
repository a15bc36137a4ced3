"""Contents in files that no row leads to: dead weight of packs, and packs of another database that were set aside.

A pack of ours is written anew as a whole once its rows are gone (``repack``). One that was set aside belongs to rows that may
come back, and of one that is damaged not everything can be moved: there every other content stays where it is, and what goes is
blanked, name and bytes, so that the frame keeps its place and its length. What differs in something from a content that is
blanked is lost with it (docs/purge.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from openoxide.checkpoints.frames import Span, blanked, spans, table_of
from openoxide.checkpoints.hashing import HASH_BYTES
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.packs import Packs, pack_name
from openoxide.fileio import fsync_folder

_NOBODY = BlobHash(bytes(HASH_BYTES))
_CHUNK = 1 << 20
Goes = Callable[[Span, BlobHash], bool]
"""Whether a content of a frame is to go."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def packs_holding(folder: Path, names: Collection[BlobHash]) -> set[int]:
    """Packs with a frame that has one of ``names`` in its table, and those whose frames do not reach to their end: what a
    crash left there has no table to ask.
    """
    if not names:
        return set()
    with closing(Packs(folder, 0)) as packs:
        numbers = packs.numbers()
    return {number for number in numbers if _holds(folder / pack_name(number), names)}


def _holds(file: Path, names: Collection[BlobHash]) -> bool:
    end = 0
    try:
        fd = os.open(file, _READ)
    except FileNotFoundError:  # written anew, or dropped meanwhile
        return False
    with open(fd, "rb") as source:
        for span in spans(source.fileno()):
            if any(name in names for name, _ in span.names):
                return True
            end = span.end
        return end < os.fstat(source.fileno()).st_size


def aside_holding(folder: Path, names: Collection[BlobHash]) -> list[Path]:
    """Packs that were set aside and have one of ``names``."""
    return sorted(file for file in folder.glob("*.pack.aside") if not file.is_symlink() and _names_any(file, names))


def _names_any(file: Path, names: Collection[BlobHash]) -> bool:
    with open(os.open(file, _READ), "rb") as source:
        end = 0
        for span in spans(source.fileno()):
            if any(name in names for name, _ in span.names):
                return True
            end = span.end
        # behind a torn frame there is nothing to go by but the bytes of a name
        rest: bytes = os.pread(source.fileno(), os.fstat(source.fileno()).st_size - end, end)
    return any(rest.find(name) >= 0 for name in names)


def blank(file: Path, to: Path, goes: Goes, rest: Callable[[bytes], bytes]) -> None:
    """Write a pack without the contents that go as ``to``, which is what it was or whole at any time. ``rest``: what becomes of
    the bytes behind the last whole frame.
    """
    # what a crash leaves of this name is removed at the next start (Packs.prepare)
    temporary = file.parent / f"{os.urandom(8).hex()}.tmp"
    try:
        with open(os.open(file, _READ), "rb") as source, open(temporary, "xb", opener=_private) as out:
            end = 0
            for span in spans(source.fileno()):
                _copy_span(source, out, span, goes)
                end = span.end
            source.seek(end)
            out.write(rest(source.read()))
            out.flush()
            os.fsync(out.fileno())
        os.rename(temporary, to)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_folder(file.parent)


def blank_aside(file: Path, names: Collection[BlobHash]) -> None:
    """As :func:`blank`, for a pack that was set aside: of a torn end nobody knows what is in it, up to one of ``names``."""

    def before_names(rest: bytes) -> bytes:
        return rest[: min((at for name in names if (at := rest.find(name)) >= 0), default=len(rest))]

    blank(file, file, lambda _, name: name in names, before_names)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _copy_span(source: BinaryIO, out: BinaryIO, span: Span, goes: Goes) -> None:
    fd = source.fileno()
    payload = os.pread(fd, span.end - span.payload, span.payload)
    gone = [goes(span, name) for name, _ in span.names]
    if not any(gone):
        out.write(os.pread(fd, span.payload - span.start, span.start) + payload)
        return
    names = zip(span.names, gone, strict=True)
    table = table_of((_NOBODY if is_gone else name, size) for (name, size), is_gone in names)
    # what stands before the table says nothing of the contents
    out.write(os.pread(fd, span.payload - span.start - len(table), span.start) + table)
    out.write(blanked(payload, span, gone) if not all(gone) else bytes(len(payload)))


def residue(folder: Path, needles: Collection[bytes], skipped: Collection[Path]) -> list[Path]:
    """Files below ``folder`` in which one of ``needles`` stands, but for ``skipped`` and what lies below those."""
    found = []
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if Path(directory, name) not in skipped)
        for name in sorted(files):
            file = Path(directory, name)
            if file not in skipped and file.is_file() and not file.is_symlink() and _contains(file, needles):
                found.append(file)
    return found


def _contains(file: Path, needles: Collection[bytes]) -> bool:
    longest, tail = max(map(len, needles)), b""
    with open(os.open(file, _READ), "rb") as source:
        while chunk := source.read(_CHUNK):
            window = tail + chunk
            if any(needle in window for needle in needles):
                return True
            tail = window[-longest:]
    return False


def mask(file: Path, needles: Collection[bytes]) -> None:
    """Write over each of ``needles`` in a file that others may append to at the same time: its length stays."""
    with open(os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as target:
        data = target.read()
        for needle in needles:
            at = data.find(needle)
            while at >= 0:
                os.pwrite(target.fileno(), b"x" * len(needle), at)
                at = data.find(needle, at + len(needle))
        os.fsync(target.fileno())
