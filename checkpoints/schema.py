"""``timeline.db``: numbered migrations, each frozen once released. ``PRAGMA user_version`` is the number reached.

Times are milliseconds since the epoch in ``*_ms``, else nanoseconds in ``*_ns``; paths are bytes. ``version`` is
append-only: a row holds from its ``seq`` until the path's next row. ``claim`` says who wrote a version where that was
learned after it was recorded. ``live`` is the newest row of each path with the stat it was read under.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from openoxide.checkpoints import swapping
from openoxide.checkpoints.migrating import drop_unfinished, migrate, settle, statements
from openoxide.db import Database
from openoxide.errors import NewerStoreError, StoreDamagedError, StoreReadOnlyError
from openoxide.paths import APPLICATION_ID

# strict, since a text never equals the blob of its bytes and a path in the wrong column type would not be found.
# version lies in key order (without rowid), so the history of a path is one stretch of the file; its worktree is in the
# row for version_seq, which answers ranges of positions without a join. The partial indexes hold the few rows that are
# open, and files only
M0001 = """
create table worktree(
  id integer primary key, project text not null, root blob not null, kind text not null, dev integer not null,
  ino integer not null, birth_ns integer not null, watching integer not null, common_dir blob,
  created_ms integer not null, paused_ms integer, paused_until_ms integer
) strict;
create unique index worktree_root on worktree(root) where watching = 1;

create table path(id integer primary key, worktree integer not null, path blob not null, unique(worktree, path)) strict;

create table meta(key text primary key, value integer not null) strict, without rowid;

create table frame(
  id integer primary key, pack integer, offset integer not null, stored integer not null, raw integer not null,
  codec integer not null
) strict;
create table blob(
  id integer primary key, hash blob not null unique, frame integer not null, inner integer not null,
  size integer not null, dead_ms integer
) strict;

create table writer(id integer primary key, certainty text not null, operation integer) strict;
create table writer_window(writer integer not null, window integer not null, primary key(writer, window)) strict, without rowid;

create table version(
  path integer not null, seq integer not null, worktree integer not null, kind integer not null, mode integer not null,
  size integer not null, mtime_ns integer not null, blob integer, target blob, flags integer not null,
  writer integer, primary key(path, seq)
) strict, without rowid;
create index version_seq on version(worktree, seq);

create table claim(
  path integer not null, seq integer not null, writer integer not null, primary key(path, seq)
) strict, without rowid;

create table live(
  path integer primary key, seq integer not null, kind integer not null, mode integer not null, size integer not null,
  mtime_ns integer not null, blob integer, target blob, flags integer not null, dev integer, ino integer,
  stat_size integer, stat_mtime_ns integer, ctime_ns integer, stat_mode integer, nlink integer, read_at_ns integer
) strict;
create index live_inode on live(dev, ino) where kind = 1;

create table head(
  worktree integer primary key, seq integer not null, sum blob not null, files integer not null, bytes integer not null,
  skipped integer not null
) strict;

create table checkpoint(
  id integer primary key, public_id text not null unique, worktree integer not null, number integer not null,
  seq integer not null, created_ms integer not null, trigger text not null, name text, pinned integer not null,
  expires_ms integer, turn integer, agent text, session text, prompt text, complete integer not null,
  late integer not null, gap text not null, git_head text not null, git_branch text not null, git_origin text not null,
  added integer not null, modified integer not null, removed integer not null, skipped integer not null,
  manifest_hash blob not null, failed text, forgotten_ms integer, unique(worktree, number)
) strict;
create index checkpoint_seq on checkpoint(worktree, seq);
create index checkpoint_created on checkpoint(worktree, created_ms);

create table window(
  id integer primary key, worktree integer not null, kind text not null, agent text not null, session text not null,
  prompt text not null, tool text, parent integer, began_ms integer not null, ended_ms integer,
  began_seq integer not null, ended_seq integer, declares_tools integer not null default 0,
  lost text not null default ''
) strict;
create index window_open on window(worktree) where ended_seq is null;
create index window_session on window(worktree, session);

create table gap(
  id integer primary key, worktree integer not null, cause text not null, opened_ms integer not null, closed_ms integer
) strict;
create index gap_open on gap(worktree) where closed_ms is null;

create table operation(
  id integer primary key, public_id text not null unique, worktree integer not null, kind text not null,
  phase text not null, at_ms integer not null, boot_id text not null, boot_ms integer not null, scope text not null,
  exact integer not null, touch integer not null, reverses integer, target integer, before integer, after integer,
  summary text not null
) strict;
create index operation_worktree on operation(worktree, id);

create table step(
  operation integer not null, number integer not null, action text not null, path blob not null, old text not null,
  new text not null, new_ino integer, primary key(operation, number)
) strict, without rowid;

create table outcome(
  id integer primary key, operation integer not null, kind text not null, path blob not null, reason text not null,
  blob integer
) strict;
create index outcome_operation on outcome(operation);
"""

# settled: a repack wrote the frame, and has tried what its contents share with other versions of their paths. The indexes
# answer which contents lie in a pack, and whether a frame holds any
M0002 = """
alter table frame add column settled integer not null default 0;
create index frame_pack on frame(pack);
create index blob_frame on blob(frame);
"""

# position: where another worktree of the project, its memory, stood when a checkpoint was sealed. bound: the operation on
# the code that one on the memory is a part of, so that both are done, settled and taken back together
M0003 = """
create table position(
  checkpoint integer not null, worktree integer not null, seq integer not null, primary key(checkpoint, worktree)
) strict, without rowid;
create index position_worktree on position(worktree);
alter table operation add column bound integer;
"""

# taint: a session had before it what nobody here vouches for, when the memory stood at seq; worktree 0 is a memory that came
# to be later. mark: what the user said of a text, whoever writes it, by the hash of its bytes. began_seq, ended_seq: what was
# recorded from the one to the other was not seen to come; null for a gap of before
M0004 = """
create table taint(
  worktree integer not null, agent text not null, session text not null, tool text not null, seq integer not null,
  primary key(worktree, agent, session)
) strict, without rowid;
create table mark(
  worktree integer not null, hash blob not null, standing text not null, at_ms integer not null, primary key(worktree, hash)
) strict, without rowid;
alter table gap add column began_seq integer;
alter table gap add column ended_seq integer;
"""

MIGRATIONS: tuple[str, ...] = (M0001, M0002, M0003, M0004)


def open_timeline(path: Path, migrations: Sequence[str] = MIGRATIONS) -> Database:
    """``timeline.db`` with the newest schema: a store of an older version is migrated (migrating.py) before it is opened
    for writing, one of a newer version is left untouched, down to its last byte.
    """
    # a repair that was killed may have left what is to take its place
    swapping.finish(path)
    reached = _reached(path, migrations)
    if 0 < reached < len(migrations):
        migrate(path, reached, migrations)
    else:
        with suppress(OSError):  # it is in nobody's way until the next migration
            drop_unfinished(path)
    database = Database(path)
    _create(database, migrations)
    return database


def _reached(path: Path, migrations: Sequence[str]) -> int:
    """The schema version of what is there; 0 where that is no store yet."""
    if not path.exists() or not path.stat().st_size:
        return 0
    # for reading first: the pragmas of a writer alone would change the file. An empty one is a store to be
    database = Database(path, read_only=True)
    try:
        return check_version(database, migrations)
    except StoreReadOnlyError:
        # a rollback journal is there only until WAL mode is set, and while a migration sets the file right: whoever wrote
        # it was killed at that, and only a writer can take back what it had begun (SQLite: File Locking And Concurrency,
        # hot journals)
        if not os.path.exists(f"{path}-journal"):
            raise
    finally:
        database.close()
    settle(path)
    return _reached(path, migrations)


def check_version(database: Database, migrations: Sequence[str] = MIGRATIONS) -> int:
    """The schema version reached. Raises NewerStoreError when this program is too old for it, StoreDamagedError for none."""
    with database.reading() as db:
        reached = int(db.execute_sql("pragma user_version").fetchone()[0])
    if reached < 0:
        raise StoreDamagedError(
            f"{database.path} is damaged: it has schema version {reached}",
            hint="`oxide-ctl repair --dry-run` says what can be mended, and what is lost",
        )
    if reached > len(migrations):
        raise NewerStoreError(
            f"{database.path} has schema version {reached}, this program knows {len(migrations)}",
            hint="upgrade openoxide, or use another OPENOXIDE_HOME",
        )
    return reached


def _create(database: Database, migrations: Sequence[str]) -> None:
    if check_version(database, migrations) == len(migrations):
        return
    with database.writing() as db:
        for script in migrations:
            for statement in statements(script):
                db.execute_sql(statement)
        db.execute_sql(f"pragma application_id = {APPLICATION_ID}")
        # with the tables: a store whose making was killed is made again as a whole (test_schema.py)
        db.execute_sql(f"pragma user_version = {len(migrations)}")
    database.fold_wal()  # the application id has to stand in the file itself: it tells a home of ours (openoxide.removal)
