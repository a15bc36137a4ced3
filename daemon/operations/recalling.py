"""``history``: every version of a path, what vanished, in which versions a text stood. Only reads, so it also serves a
store that cannot be written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from openoxide.checkpoints import rows
from openoxide.checkpoints.diff import Status, status_of
from openoxide.checkpoints.history import (
    Position,
    Vanished,
    last_holding,
    read_positions,
    vanished,
    version_seqs,
)
from openoxide.checkpoints.model import ABSENT, FileState, Kind
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.search import Stretch, find_stretches, search_blobs
from openoxide.clock import rfc3339
from openoxide.daemon.answers import skip_reason, state_object, time_or_none
from openoxide.daemon.operations.looking import View, require_known, unrecorded, writer_name
from openoxide.daemon.operations.proposing import bring_back
from openoxide.daemon.protocol import Items, path_entry
from openoxide.daemon.protocol.checkpoints import (
    CheckpointReference,
    GoneItem,
    MomentObject,
    SearchAnswer,
    StretchItem,
    VersionItem,
)
from openoxide.daemon.requests import Request, flag, inside, number, optional_text, paths, text
from openoxide.db import Transaction
from openoxide.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter


def unreported(_: object) -> None:
    """The reporter of a caller whom nobody watches."""


def history(view: View, request: Request, report: Reporter = unreported) -> Items | SearchAnswer:
    """``history PATH``, ``history --deleted`` or ``history --search TEXT``; ``next`` is the cursor of the following page."""
    kinds = [name for name in ("file", "deleted", "search") if request.get(name)]
    if len(kinds) != 1:
        raise UsageError("a history is that of one file, of what was deleted, or of a text")
    if kinds == ["search"]:
        return _search(view, request, report)
    return _deleted(view, request) if kinds == ["deleted"] else _file(view, request)


def _cursor(request: Request) -> int | None:
    cursor = optional_text(request, "cursor")
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise UsageError(f"cursor {cursor!r} is not one that a listing gave")
    return int(cursor) if cursor is not None else None


def _page(items: list[Any], limit: int | None, cursor: Callable[[Any], int]) -> Items:
    """``items``, of which there is one more than ``limit`` where another page follows."""
    answer: Items = {"ok": True, "items": items[:limit]}
    if limit and len(items) > limit:
        answer["next"] = str(cursor(items[limit - 1]))
    return answer


def _file(view: View, request: Request) -> Items:
    wanted, limit, newer = inside(view.worktree.root, text(request, "file")), number(request, "limit"), _cursor(request)
    with view.timeline.database.reading() as db:
        seqs = version_seqs(db, view.id, wanted, newer, limit + 1 if limit else None)
        if not seqs and newer is None:
            raise unrecorded(db, view, wanted) or NotFoundError(
                f"{os.fsdecode(wanted) or '.'} has no history", hint="check the spelling"
            )
        telling = _Telling(db, view, seqs)
    triples = zip(seqs, [*seqs[1:], None], [newer, *seqs], strict=False)
    return _page([telling.version(seq, older, until) for seq, older, until in triples], limit, lambda item: item["seq"])


def _deleted(view: View, request: Request) -> Items:
    chosen, limit = paths(request, view.worktree.root), number(request, "limit")
    require_known(view, chosen)
    with view.timeline.database.reading() as db:
        found = vanished(db, view.id, chosen, _cursor(request), limit + 1 if limit else None)
        telling = _Telling(db, view, [seq for gone in found for seq in (gone.seq, gone.gone_seq)])
        answer = _page([telling.gone(db, item) for item in found], limit, lambda item: item["seq"])
        had = (item for item, told in zip(found, answer["items"], strict=False) if told["last_sealed"])
        for newest in islice(had, 1):
            answer["hint"] = _way_back(db, view, request, newest.path, chosen, sealed=bool(telling.held_last(newest)))
    return answer


def _way_back(
    db: Transaction, view: View, request: Request, newest: bytes, chosen: tuple[bytes, ...], *, sealed: bool
) -> str:
    """The command that brings the newest of what vanished back, with the topmost directory that is gone with it; empty
    where no checkpoint has it. ``sealed``: one has its last version.
    """
    parts = newest.split(b"/")
    above = [b"/".join(parts[:end]) for end in range(1, len(parts))]
    now = rows.states_at(db, view.id, rows.read_head(db, view.id).seq, above)
    gone = [folder for folder in above if now[folder] == ABSENT and within_paths(folder, chosen)]
    for wanted in (*gone, newest):
        if at := last_holding(db, view.id, wanted):
            file = "the newest one" if sealed else "an older version of the newest one"
            what = file if wanted == newest else "the folder"
            return f"{bring_back(request, view.worktree.root, at, wanted)} brings {what} back"
    return ""


def _search(view: View, request: Request, report: Reporter) -> SearchAnswer:
    """Pages of a search are each a search of their own; the cursor counts items."""
    wanted, limit, skip = os.fsencode(text(request, "search")), number(request, "limit"), _cursor(request) or 0
    chosen = paths(request, view.worktree.root)
    require_known(view, chosen)
    upto = view.timeline.head(view.id).seq

    def progress(done: int, total: int, size: int) -> None:
        report({"stage": "searching", "done": done, "total": total, "bytes": size})

    binary = flag(request, "binary")
    searched = search_blobs(view.timeline, view.id, upto, wanted, chosen=chosen, binary=binary, progress=progress)
    with view.timeline.database.looking() as db:
        found = find_stretches(db, view.id, upto, chosen, searched)
        shown = list(islice(found, skip, skip + limit + 1 if limit else None))
        telling = _Telling(db, view, [seq for item in shown for seq in item.seqs])
    page = _page([telling.stretch(item) for item in shown], limit, lambda _: skip + (limit or 0))
    return {
        **page,
        "searched": searched.blobs,
        "searched_bytes": searched.bytes,
        "binary": searched.binary,
        "damaged": searched.damaged,
    }


class _Telling:
    """Positions as answers show them: when, who, and in which checkpoint."""

    def __init__(self, db: Transaction, view: View, seqs: Sequence[int]) -> None:
        self._worktree = view.id
        self._versions = rows.versions_at(db, view.id, seqs)
        self._positions = read_positions(db, view.id)
        writers = {version.writer for version in self._versions.values()}
        self._writers = {writer: writer_name(db, writer) for writer in writers}

    def version(self, seq: int, older: int | None, until: int | None) -> VersionItem:
        """The row ``seq``, which replaced ``older`` and held until ``until``."""
        state = self._versions[seq].state
        status = status_of(ABSENT if older is None else self._versions[older].state, state)
        return self._item(seq, status.value if status else None, state, self._positions.first(seq, until))

    def gone(self, db: Transaction, item: Vanished) -> GoneItem:
        """A path that vanished: when and through whom, with its last state, the checkpoint that held that last, and the last
        one with any version of it.
        """
        state, held = self._versions[item.seq].state, self.held_last(item)
        sealed = held or last_holding(db, self._worktree, item.path, self._positions)
        told = self._item(item.gone_seq, Status.DELETED.value, state, held)
        return {**told, "last_sealed": _reference(sealed) if sealed else None}

    def held_last(self, item: Vanished) -> Position | None:
        """The last checkpoint that holds a path that vanished; None for what never was recorded."""
        # the row knows that something was there; no checkpoint has a byte of it
        if self._versions[item.seq].state.kind is Kind.SKIPPED:
            return None
        return self._positions.last(item.seq, item.until_seq)

    def stretch(self, item: Stretch) -> StretchItem:
        """Where a text stood, with the first and the last checkpoint that hold it there, and the first without it."""
        held, gone = (item.first_seq, item.until_seq), item.gone_seq
        unknown_since = "" if item.until_seq is None else "not_searched"
        reason = unknown_since if gone is None else skip_reason(self._versions[gone].state)
        return {
            **path_entry(item.path, reason),  # type: ignore[typeddict-unknown-key]
            "first": self._moment(item.first_seq, self._positions.first(*held)),
            "last": self._moment(item.last_seq, self._positions.last(*held)),
            "vanished": None if gone is None else self._moment(gone, self._positions.first(gone, None)),
            "versions": item.versions,
        }

    def _item(self, seq: int, status: str | None, state: FileState, checkpoint: Position | None) -> VersionItem:
        return {
            **path_entry(self._versions[seq].path, skip_reason(state)),  # type: ignore[typeddict-unknown-key]
            **self._moment(seq, checkpoint),
            "status": status,
            "state": state_object(state),
        }

    def _moment(self, seq: int, checkpoint: Position | None) -> MomentObject:
        writer = self._versions[seq].writer
        return {
            "seq": seq,
            "at": time_or_none(self._positions.recorded_by(seq)),
            "checkpoint": _reference(checkpoint) if checkpoint else None,
            "writer": self._writers[writer],
            "certainty": writer.certainty.value,
        }


def _reference(position: Position) -> CheckpointReference:
    return {
        "id": position.id,
        "number": position.number,
        "name": position.name,
        "created_at": rfc3339(position.created_at_ms),
    }
