"""What is said of backups of the home: made, and made a home again."""

from __future__ import annotations

from typing import TypedDict

from openoxide.daemon.protocol import PathEntry


class BackupAnswer(TypedDict):
    """``backup``. ``updated``: an earlier backup was there; of ``files`` and ``bytes`` that it holds now, ``copied_files``
    and ``copied_bytes`` came with this run. In a dry run they would, judged by names and sizes, and ``free_bytes`` are free.
    ``same_disk``: it shares the file system of the home. ``skipped``: what could not be read, by its name in the home.
    ``mended``: copies that were not what had been backed up any more, and went. ``damaged``: how many contents of what was
    copied the home has not whole.
    """

    ok: bool
    dry_run: bool
    to: str
    home: str
    updated: bool
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int
    free_bytes: int
    checkpoints: int
    same_disk: bool
    skipped: list[PathEntry]
    mended: list[PathEntry]
    damaged: int
    notes: list[str]


class RestoredWorktree(TypedDict):
    """A worktree that the daemon of a restored home watches. ``state``: as_it_was, another_directory or gone; of the last
    two nothing is recorded until ``projects move``.
    """

    root: str
    project: str
    state: str
    checkpoints: int


class RestoreHomeAnswer(TypedDict):
    """``restore-home``; made by the command line, since no daemon has the home yet. ``from_home``: where it was. ``notes``: of
    a dry run, that the place is taken.
    """

    ok: bool
    dry_run: bool
    source: str
    home: str
    from_home: str
    made_at: str
    made_by: str
    files: int
    bytes: int
    worktrees: list[RestoredWorktree]
    notes: list[str]
