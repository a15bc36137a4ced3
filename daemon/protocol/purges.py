"""What is said of a purge."""

from __future__ import annotations

from typing import Any, TypedDict

from openoxide.daemon.protocol import PathEntry


class PurgedPath(PathEntry):
    """A path with versions that hold what is purged. ``named``: it was asked for; another one has the same content.
    ``standing``: it stands on the disk like that, and would be recorded again. ``memory``: ``root`` is that of a memory, or of
    what lies beside one, where it was put aside. ``reason``: why it goes that was not asked for, where it is not the content.
    """

    root: str
    versions: int
    named: bool
    standing: bool
    memory: bool


class PurgeAnswer(TypedDict):
    """``purge`` and its dry run. ``places``: how many versions, checkpoints, operations (rows of them), staging (files), packs,
    big (files), aside (packs), logs, trash (files that were put aside beside a memory) and context (files that are generated of
    one) hold something of the ``contents``, by those words. ``plan`` given back with the request: nothing else is purged.
    ``refused``: of a dry run, the error object that a purge would end with, as it is. ``finished``: no byte of it is in the
    home, but for what is ``left``; else the daemon goes on with that by itself. ``freed_bytes`` is what the contents took.
    """

    ok: bool
    dry_run: bool
    finished: bool
    plan: str
    refused: dict[str, Any] | None
    contents: int
    freed_bytes: int
    paths: list[PurgedPath]
    places: dict[str, int]
    left: list[str]
    out_of_reach: list[str]
    notes: list[str]
