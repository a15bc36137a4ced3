"""What a backup holds, file by file, as ``backup.json`` says it. Whoever has replaced that file has made a backup.

Below the folder of a backup everything has the name that it has in a home. What a run replaces or adds comes under a name
of its own first (``fresh_name``); the list that names it is written then; the renames follow. So the files of the list
before are whole until the moment at which the new list counts, and of a fresh entry the file under either name is it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import BlobHash
from openoxide.errors import NewerStoreError, StoreDamagedError

LIST, STARTED = "backup.json", "backup.unfinished"
FORMAT = 1
DATABASE, PROJECTS = "timeline.db", "projects"
# the text itself, and the last one that a daemon took its settings from: it counts where the text is wrong
CONFIGS = ("config.toml", "config.toml.used")
_STORE = re.compile(r"timeline\.db|config\.toml(?:\.used)?|blobs/[0-9]{8,12}\.pack|blobs/big/[0-9a-f]{64}")
_FRESH = re.compile(r"\.([0-9]{1,18})\.oxide-new")

_HINT = "a new folder takes a new backup; this one is laid out as a home, for what can be saved by hand"

Seen = tuple[int, int, int, int]
"""Device, inode, mtime and ctime (ns) of a file in the home when it was copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUp:
    """A file: its name below the home, its first ``size`` bytes and their BLAKE3. ``fresh``: this run brought it."""

    name: str
    size: int
    hash: BlobHash
    mode: int
    mtime_ns: int
    seen: Seen
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupList:
    """A backup. ``home`` is the number of the home and ``folder`` where it was, ``run`` counts its updates, ``gone`` are
    files of the list before that this one names no more.
    """

    home: int
    folder: str
    schema: int
    program: str
    at_ms: int
    run: int
    files: tuple[BackedUp, ...]
    gone: tuple[str, ...]

    @property
    def by_name(self) -> dict[str, BackedUp]:
        return {entry.name: entry for entry in self.files}

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.files)


def fresh_name(name: str, run: int) -> str:
    """What a file is called until the list of ``run`` counts."""
    return f"{name}.{run}.oxide-new"


def run_of(name: str) -> tuple[str, int] | None:
    """The name and the run that a :func:`fresh_name` was made from; None for every other name."""
    found = _FRESH.search(name)
    return (name[: found.start()], int(found[1])) if found and found.end() == len(name) else None


def names_of(entry: BackedUp, run: int) -> list[str]:
    """Where an entry of the list of ``run`` lies: the first of these that is there."""
    return [fresh_name(entry.name, run), entry.name] if entry.fresh else [entry.name]


def is_name(name: str) -> bool:
    """Whether a backup may hold a file of this name: nothing else is ever written into a home."""
    if _STORE.fullmatch(name):
        return True
    parts = name.split("/")
    return parts[0] == PROJECTS and len(parts) > 1 and "\0" not in name and not {"", ".", ".."} & set(parts)


def encode(made: BackupList) -> bytes:
    """The text of ``backup.json``, with the BLAKE3 of what it says."""
    fields = asdict(made)
    fields["files"] = [{**entry, "hash": entry["hash"].hex()} for entry in fields["files"]]
    body = _canonical(fields)
    return json.dumps({"format": FORMAT, "blake3": blob_hash(body).hex(), "backup": fields}, indent=1).encode()


def decode(text: bytes) -> BackupList:
    """What :func:`encode` made. Raises StoreDamagedError for anything else, NewerStoreError for a newer format."""
    try:
        found = json.loads(text)
        # before the hash: a newer format may take it over something else
        if found["format"] > FORMAT:
            raise NewerStoreError(f"{LIST} has format {found['format']}, this program knows {FORMAT}")
        fields = found["backup"]
        files, gone = tuple(map(_entry, fields["files"])), tuple(map(str, fields["gone"]))
        made = BackupList(**{**fields, "files": files, "gone": gone})
        is_whole = blob_hash(_canonical(fields)).hex() == found["blake3"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreDamagedError(f"{LIST} is damaged: {error}", hint=_HINT) from error
    if not is_whole:
        raise StoreDamagedError(f"{LIST} is damaged: its hash is another one", hint=_HINT)
    # the hash tells damage and no adversary: whoever can write the folder can write a list that fits
    strange = [name for name in (*made.by_name, *made.gone) if not is_name(name)]
    if strange or len(made.by_name) != len(made.files) or DATABASE not in made.by_name:
        raise StoreDamagedError(f"{LIST} names what no backup holds: {strange[:1] or 'one file twice, or no store'}")
    return made


def _entry(fields: dict[str, Any]) -> BackedUp:
    dev, ino, mtime_ns, ctime_ns = fields["seen"]
    digest = BlobHash(bytes.fromhex(fields["hash"]))
    return BackedUp(**{**fields, "hash": digest, "seen": (dev, ino, mtime_ns, ctime_ns)})


def _canonical(fields: Any) -> bytes:
    # ASCII: the name of a file that is no UTF-8 has a lone surrogate, which goes as an escape
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
