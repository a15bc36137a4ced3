"""Making a backup of a home in a folder, or bringing one up to date, while the daemon records.

The database first, then the bytes: a row is written when its bytes are durable, so that all that the copied rows name is
there, and the caller's lease keeps it. Packs only grow, and a row names no more than is in them: the first so many bytes
never change. Every byte is copied; a link or a clone would share its blocks with the original, and its damage.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from openoxide.checkpoints import backup_folder
from openoxide.checkpoints.backup_list import (
    CONFIGS,
    DATABASE,
    LIST,
    BackedUp,
    BackupList,
    Seen,
    encode,
    fresh_name,
    is_name,
)
from openoxide.checkpoints.backup_sizes import memory_names, store_sizes
from openoxide.checkpoints.hashing import Hasher, blob_hash
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.packs import BIG, Packs
from openoxide.checkpoints.schema import check_version
from openoxide.checkpoints.verifying import Check, Reading
from openoxide.db import Database, Transaction
from openoxide.errors import OpenOxideError, RefusedError, StoreDamagedError
from openoxide.fileio import fsync_folder, read_regular, replace_file, write_all, write_errors
from openoxide.paths import Home

_CHUNK = 1 << 20
_TRIES = 3

Breathe = Callable[[], None]
"""Called after each piece; raises where the backup is to end."""

Report = Callable[[int, int, int], None]
"""Is told how many files are done, of how many, and the bytes that were copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a run did. ``skipped``: files of the memory directories that could not be read, with the reason. ``bad``: names of
    copies that were not what the list said any more, and are not there now: most were copied anew.
    """

    list: BackupList
    copied: int
    copied_bytes: int
    skipped: Mapping[str, str]
    bad: Sequence[str]


def home_number(database: Database) -> int:
    """What tells this home from every other one; made up where it has none yet."""
    with database.writing() as db:
        db.execute_sql("insert or ignore into meta(key, value) values('home', ?)", (secrets.randbits(62) + 1,))
        return int(db.execute_sql("select value from meta where key = 'home'").fetchone()[0])


def forget_home_number(db: Transaction) -> None:
    """From here on it is a home of its own."""
    db.execute_sql("delete from meta where key = 'home'")


def _other_home(folder: str, home: Home) -> str:
    """The home of a backup that is not of ``home``, which may have taken its place."""
    if folder == str(home.folder):
        return f"the home that was at {folder} before this one"
    return f"another home, {folder}"


def back_up(
    database: Database,
    home: Home,
    target: Path,
    *,
    program: str,
    now_ms: int,
    breathe: Breathe = lambda: None,
    report: Report = lambda _done, _total, _bytes: None,
) -> Made:
    """Make a backup in ``target``. After any failure what was there before is there, and nothing else. The caller holds a
    lease on what the rows name.
    """
    # before the folder is looked into: what is written here is the home, and the errors below are of the folder
    number = home_number(database)
    with write_errors(f"the backup in {target}"), backup_folder.held(target):
        before = backup_folder.backup_in(target)
        if before is not None and before.home != number:
            raise RefusedError(
                f"{target} holds a backup of {_other_home(before.folder, home)}",
                hint="name a folder of its own; a home that came out of a backup is another one too",
            )
        run = _Run(database, home, target, before, breathe, report)
        try:
            backup_folder.begin(target, before)
            schema = run.copy()
            made = run.listed(home=number, schema=schema, program=program, at_ms=now_ms)
            replace_file(target / LIST, encode(made))
        except BaseException:
            with suppress(OSError, OpenOxideError):  # the error that is under way says more
                backup_folder.give_up(target, made_run(before), before)
            raise
        backup_folder.settle(target, made)
        backup_folder.touch_list(target)
    return Made(list=made, copied=run.copied, copied_bytes=run.copied_bytes, skipped=run.skipped, bad=run.bad)


def damaged_contents(target: Path, made: BackupList, breathe: Breathe, report: Report) -> int:
    """How many contents of the files that this run brought are not what their names say. The copies are read, as a restored
    home would read them.
    """
    fresh = frozenset(entry.name for entry in made.files if entry.fresh)
    home = Home(target)
    database = Database(home.timeline_db, read_only=True, immutable=True)
    packs = Packs(home.blobs, 0)
    try:
        check = Check(
            database=database,
            home=home,
            reading=Reading(),
            files=fresh,
            breathe=breathe,
            progress=lambda _, done, total, size: report(done, total, size),
        )
        return len({found.blobs or found.object for found in check.contents(packs)})
    finally:
        packs.close()
        database.close()


def made_run(before: BackupList | None) -> int:
    """The number of the run that follows ``before``."""
    return before.run + 1 if before else 1


class _Run:
    """One run into one folder."""

    def __init__(
        self, database: Database, home: Home, target: Path, before: BackupList | None, breathe: Breathe, report: Report
    ) -> None:
        self._database = database
        self._home = home
        self._target = target
        self._known = before.by_name if before else {}
        self._run = made_run(before)
        self._breathe = breathe
        self._report = report
        self._total = 0
        self._entries: dict[str, BackedUp] = {}
        self.copied = self.copied_bytes = 0
        self.skipped: dict[str, str] = {}
        self.bad: list[str] = []
        self._listed_ns = backup_folder.listed_ns(target) if before else 0

    def copy(self) -> int:
        """Everything that is not there yet, durable; the schema version of the database."""
        schema = self._copy_database()
        with self._reading_copy() as copy, copy.reading() as db:
            sizes = store_sizes(db)
        memory, shut = memory_names(self._home)
        self._total = len(sizes) + len(memory) + len(CONFIGS) + 1
        for folder in ("blobs", f"blobs/{BIG}"):
            backup_folder.make_below(self._target, folder)
        # in the order of their numbers: packs are read as they were written
        for name, size in sorted(sizes.items()):
            self._take(name, size)
        for name in (*CONFIGS, *memory):
            self._take_small(name)
        self._keep_shut(shut)
        # the names are durable before the list names them (fsync(2)): that of the folder itself is in the one above
        folders = {above for name in self._entries for above in (self._target / name).parents}
        for above in folders - {*self._target.parents}:
            fsync_folder(above)
        fsync_folder(self._target.parent)
        return schema

    def listed(self, *, home: int, schema: int, program: str, at_ms: int) -> BackupList:
        """The list of what is there now."""
        return BackupList(
            home=home,
            folder=str(self._home.folder),
            schema=schema,
            program=program,
            at_ms=at_ms,
            run=self._run,
            files=tuple(self._entries.values()),
            gone=tuple(sorted(self._known.keys() - self._entries.keys())),
        )

    def _copy_database(self) -> int:
        fresh = self._fresh(DATABASE)
        self._database.copy_to(fresh)
        with self._reading_copy() as copy:
            with copy.reading() as db:
                found = db.execute_sql("pragma quick_check(1)").fetchone()[0]
            if found != "ok":
                raise StoreDamagedError(f"the copy of timeline.db is damaged: {found}", hint="run `oxide-ctl check`")
            schema = check_version(copy)
        here = fresh.stat()
        # the copy is what counts, and no connection has it open any more
        digest = self._hash(fresh, here.st_size)
        self.copied_bytes += here.st_size
        self._enter(DATABASE, here.st_size, digest, here)
        return schema

    def _hash(self, path: Path, size: int) -> BlobHash:
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return self._copy(path.name, source, size, None, None)
        finally:
            os.close(source)

    @contextmanager
    def _reading_copy(self) -> Iterator[Database]:
        copy = Database(self._fresh(DATABASE), read_only=True, immutable=True)
        try:
            yield copy
        finally:
            copy.close()

    def _take(self, name: str, size: int) -> None:
        """The first ``size`` bytes of a file of the content store, or more, if more of it was kept before."""
        known = self._known.get(name)
        length = max(size, known.size if known else 0)
        try:
            # a link is followed: a pack may have been moved to another disk
            source = os.open(self._home.folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _lacking(name, "is missing") from None
        try:
            here = os.fstat(source)
            if not stat.S_ISREG(here.st_mode) or here.st_size < length:
                raise _lacking(name, "is shorter than the rows say")
            have = known is not None and known.size == length and self._has(known)
            if known and have and known.seen == _seen(here):
                self._keep(known)
                return
            # what is there as long as it has to be is only compared
            fresh = None if have else self._fresh(name)
            prefix = known if name.endswith(".pack") or have else None
            digest = self._copy(name, source, length, fresh, prefix)
            if known and have and digest == known.hash:
                self._keep(replace(known, seen=_seen(here)))
            else:
                self._enter(name, length, digest, here)
        finally:
            os.close(source)

    def _copy(self, name: str, source: int, length: int, fresh: Path | None, known: BackedUp | None) -> BlobHash:
        """Read ``length`` bytes, into ``fresh`` if there is one; their hash. What was ``known`` of them has to be so."""
        hasher, done = Hasher(), 0
        out = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600) if fresh else None
        try:
            while done < length:
                upto = known.size if known and done < known.size else length
                chunk = os.pread(source, min(_CHUNK, upto - done), done)
                if not chunk:
                    raise _lacking(name, "was cut short")
                hasher.update(chunk)
                if out is not None:
                    write_all(out, chunk)
                    self.copied_bytes += len(chunk)
                done += len(chunk)
                # what lies in a pack never changes: then one of the two is damaged, and the copy may be the good one
                if known and done == known.size and hasher.digest() != known.hash:
                    raise StoreDamagedError(
                        f"{name} is not what was backed up before",
                        hint="run `oxide-ctl check --read-data`; the backup keeps its copy, and a new folder takes a new one",
                    )
                self._tell()
            if out is not None:
                os.fsync(out)
        finally:
            if out is not None:
                os.close(out)
        return hasher.digest()

    def _take_small(self, name: str) -> None:
        """A file that its owner edits, in one of the states that it had."""
        path, known = self._home.folder / name, self._known.get(name)
        try:
            for _ in range(_TRIES):
                # config.toml often lies among somebody's dotfiles
                before = os.stat(path, follow_symlinks=name in CONFIGS)
                if known and known.seen == _seen(before) and known.size == before.st_size and self._has(known):
                    self._keep(known)
                    return
                # small: index and topic files, which whoever edits them holds in memory too
                data = read_regular(path, follow=name in CONFIGS)
                if _seen(os.stat(path, follow_symlinks=name in CONFIGS)) == _seen(before):
                    break
            else:
                self._skip(name, "it changed while it was read")
                return
        except FileNotFoundError:  # no config.toml is needed, and a memory may be deleted meanwhile
            return
        except OSError as error:
            self._skip(name, error.strerror or str(error))
            return
        self._write_small(name, data, before)

    def _write_small(self, name: str, data: bytes, here: os.stat_result) -> None:
        if not is_name(name):
            self._skip(name, "its name cannot be kept")
            return
        fresh = self._fresh(name)
        backup_folder.make_below(self._target, os.path.dirname(name))
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        self.copied_bytes += len(data)
        self._enter(name, len(data), blob_hash(data), here)

    def _keep_shut(self, folders: Mapping[str, str]) -> None:
        """What is in folders that may not be read now stays as it was kept before."""
        self.skipped |= folders
        for name, known in self._known.items():
            if any(name.startswith(f"{folder}/") for folder in folders) and self._has(known):
                self._keep(known)

    def _skip(self, name: str, reason: str) -> None:
        self.skipped[name] = reason
        known = self._known.get(name)
        if known and self._has(known):  # what was kept of it before is better than nothing
            self._keep(known)

    def _keep(self, known: BackedUp) -> None:
        self._entries[known.name] = replace(known, fresh=False)
        self._tell()

    def _enter(self, name: str, size: int, digest: BlobHash, here: os.stat_result) -> None:
        self._entries[name] = BackedUp(
            name=name,
            size=size,
            hash=digest,
            # the owner's rights only: a memory that others could read is not to come back like that
            mode=stat.S_IMODE(here.st_mode) & 0o700,
            mtime_ns=here.st_mtime_ns,
            seen=_seen(here),
            fresh=True,
        )
        self.copied += 1
        self._tell()

    def _tell(self) -> None:
        self._breathe()
        self._report(len(self._entries), self._total, self.copied_bytes)

    def _fresh(self, name: str) -> Path:
        return self._target / fresh_name(name, self._run)

    def _has(self, known: BackedUp) -> bool:
        """Whether the copy is there, and is what the list says. Read only where it was touched since that was finished."""
        found = backup_folder.copy_at(self._target / known.name, known.size)
        if found and (
            found.st_ctime_ns <= self._listed_ns or backup_folder.is_whole(self._target, known, self._breathe)
        ):
            return True
        if known.name not in self.bad:
            self.bad.append(known.name)
        return False


def _seen(found: os.stat_result) -> Seen:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _lacking(name: str, what: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"{name} {what}: nothing was backed up", hint="`oxide-ctl check` says what that affects; copy the home as it is"
    )
