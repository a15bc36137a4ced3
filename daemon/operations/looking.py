"""What only reads: ``log show diff cat restore operations``. Needs a timeline and no daemon, so it also serves a store
that cannot be written (``daemon/offline.py``).
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openoxide.checkpoints import journal, rows, sight, store
from openoxide.checkpoints.diff import Difference, differences
from openoxide.checkpoints.doubt import damaged_checkpoint, doubtful, in_doubt, is_damaged
from openoxide.checkpoints.history import left_out
from openoxide.checkpoints.journal import OutcomeKind
from openoxide.checkpoints.model import PURGED, BlobHash, Checkpoint, FileState, Kind, SkipReason, Worktree, Writer
from openoxide.checkpoints.naming import (
    IdPrefix,
    Lookup,
    Moment,
    Name,
    Number,
    Reference,
    Resolved,
    TurnBack,
    TurnPrompt,
    parse,
    resolve,
)
from openoxide.checkpoints.patch import GitFile, git_patch
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.thinning import thins_at
from openoxide.checkpoints.timeline import Timeline
from openoxide.checkpoints.tree import Tree
from openoxide.clock import rfc3339
from openoxide.daemon.answers import (
    LATE,
    checkpoint_object,
    diff_item,
    skip_reason,
    skipped_entries,
    writer_object,
)
from openoxide.daemon.protocol import Items
from openoxide.daemon.protocol.checkpoints import ShowAnswer, WriterObject
from openoxide.daemon.requests import Request, flag, inside, number, optional_text, paths, text
from openoxide.db import Transaction
from openoxide.errors import (
    AmbiguousError,
    NotFoundError,
    RootVanishedError,
    StoreDamagedError,
    UsageError,
)
from openoxide.ids import short
from openoxide.settings import ThinSettings

PATCH_LIMIT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One worktree of a timeline, at one moment. ``thin``: how its automatic checkpoints are thinned."""

    timeline: Timeline
    worktree: Worktree
    now_ms: int
    thin: ThinSettings = field(default_factory=ThinSettings)

    @property
    def id(self) -> int:
        return self.worktree.id


def holds(root: bytes, path: bytes) -> bool:
    """Whether ``path`` is ``root`` or below it."""
    return path == root or path.startswith(root.rstrip(b"/") + b"/")


def is_broad(path: bytes) -> bool:
    """Whether ``path``, a real one, is the user's home directory or holds it."""
    return holds(path, os.path.realpath(os.fsencode(Path.home())))


def named_checkpoint(view: View, name: str) -> tuple[Checkpoint, str]:
    """The checkpoint that ``name`` means, and a note where it is not exactly what was asked for."""
    with view.timeline.database.reading() as db:
        kept, reference = store.CheckpointQuery(db, view.id), parse(name, view.now_ms)
        try:
            found = resolve(reference, kept)
        except NotFoundError as error:
            raise _explained(error, reference, kept, store.CheckpointQuery(db, view.id, trash=True)) from error
    return found.checkpoint, found.note


def _explained(error: NotFoundError, reference: Reference, kept: store.CheckpointQuery, trash: Lookup) -> NotFoundError:
    """``error`` with what there is instead of the checkpoint that was named."""
    match reference:
        case Moment() if oldest := kept.oldest():
            error.hint = f"the oldest one that is kept is #{oldest.number} of {rfc3339(oldest.created_at_ms)}"
        case TurnBack() if kept.turn_back(1) is None:
            return NotFoundError(
                f"{error.message}: no turn was declared here, or none of them is kept",
                hint="name a checkpoint or a time, such as @10m; `oxide-ctl turn begin --help` tells how turns are declared",
            )
        case Number() | IdPrefix() | Name() | TurnPrompt():
            with suppress(NotFoundError, AmbiguousError):
                number = resolve(reference, trash).checkpoint.number
                return NotFoundError(
                    f"checkpoint #{number} is in trash", hint=f"`oxide-ctl unforget {number}` takes it back out"
                )
    return error


def resolved(among: Lookup, name: str, now_ms: int) -> Resolved:
    """What ``name`` means ``among`` some checkpoints; for a caller that acts on it in the same transaction."""
    return resolve(parse(name, now_ms), among)


def require_known(view: View, chosen: tuple[bytes, ...]) -> None:
    """Every path that was named stood in the worktree at some time, or stands there. Raises NotFoundError."""
    with view.timeline.database.reading() as db:
        for wanted in chosen:
            if wanted and not rows.ever_recorded(db, view.id, wanted) and not _stands(view.worktree.root, wanted):
                raise unrecorded(db, view, wanted) or NotFoundError(
                    f"{os.fsdecode(wanted)} never was in {os.fsdecode(view.worktree.root)}", hint="check the spelling"
                )


def unrecorded(db: Transaction, view: View, wanted: bytes, at: Checkpoint | None = None) -> NotFoundError | None:
    """The error for a path that lies in what is left out at a checkpoint (None: at any time), None if it does not."""
    found = left_out(db, view.id, wanted, at.seq if at else None)
    if found is None:
        return None
    folder, state = found
    if state == PURGED:
        return purged(folder)
    what = "it" if folder == wanted else f"its folder {os.fsdecode(folder)}"
    where = f" at checkpoint {at.number}" if at else ""
    return NotFoundError(
        f"{os.fsdecode(wanted)} was not recorded{where}: {what} is left out ({skip_reason(state)})",
        hint=f"`oxide-ctl show {at.number if at else 'last'}` lists everything that is left out",
    )


def purged(path: bytes) -> NotFoundError:
    """The error for a path whose content was removed on purpose."""
    return NotFoundError(
        f"{os.fsdecode(path)} was purged: its content is gone for good",
        hint="`oxide-ctl history` lists what is left of it",
    )


def _stands(root: bytes, wanted: bytes) -> bool:
    """Whether ``wanted`` is there now, behind no link."""
    try:
        with Tree(root) as tree:
            return tree.lstat(wanted) is not None
    except (OSError, RootVanishedError):
        return False


def log(view: View, request: Request) -> Items:
    """``log``: newest first; ``next`` is the cursor of the following page."""
    limit = number(request, "limit")
    cursor = optional_text(request, "cursor")
    if cursor is not None and not cursor.isdigit():
        raise UsageError(f"cursor {cursor!r} is not one that a listing gave")
    with view.timeline.database.reading() as db:
        found = store.CheckpointQuery(db, view.id).listing(
            limit=limit + 1 if limit else None,
            below=int(cursor) if cursor else None,
            session=optional_text(request, "session"),
            since_ms=_since(view, request),
            all_of_them=flag(request, "all"),
            only_named=flag(request, "named"),
        )
        shown = found[: limit or len(found)]
        thins = thins_at(db, view.id, view.thin, (c.created_at_ms for c in shown))
    answer: Items = {"ok": True, "items": [checkpoint_object(c, thins.get(c.id)) for c in shown]}
    if len(found) > len(shown):
        answer["next"] = str(shown[-1].number)
    return answer


def _since(view: View, request: Request) -> int | None:
    """``since`` is a moment as in ``@2h`` (with or without the @), or a checkpoint."""
    named = optional_text(request, "since")
    if named is None:
        return None
    for spelled in (named, "@" + named):
        try:
            reference = parse(spelled, view.now_ms)
        except UsageError:
            continue
        moment = getattr(reference, "ms", None)
        if isinstance(moment, int):
            return moment
    return named_checkpoint(view, named)[0].created_at_ms


def show(view: View, request: Request) -> ShowAnswer:
    """``show CKPT``: its changes, writers, git position and what was skipped."""
    checkpoint, _ = named_checkpoint(view, text(request, "checkpoint"))
    with view.timeline.database.reading() as db:
        previous = store.CheckpointQuery(db, view.id).before(checkpoint.number)
        after = previous.seq if previous else 0
        changed = rows.changed_paths(db, view.id, after, checkpoint.seq)
        old = rows.states_at(db, view.id, after, changed)
        new = rows.states_at(db, view.id, checkpoint.seq, changed)
        found = _items(db, view, differences(old, new), checkpoint.seq, None)
        skipped = rows.skipped_at(db, view.id, checkpoint.seq)
        writers = _writers(db, view, after, checkpoint.seq)
        # each change took one position, so those that a prune took away are missing
        pruned = checkpoint.seq - after - sum(writer["paths"] for writer in writers)
        thins = thins_at(db, view.id, view.thin, [checkpoint.created_at_ms])
    return {
        **checkpoint_object(checkpoint, thins.get(checkpoint.id)),
        "ok": True,
        "git": {"head": checkpoint.git.head, "branch": checkpoint.git.branch, "origin": checkpoint.git.origin},
        "writers": writers,
        "pruned_changes": max(0, pruned),
        "changes": found,
        "skipped_paths": skipped_entries(sorted(skipped.items())),
    }


def _writers(db: Transaction, view: View, after: int, upto: int) -> list[WriterObject]:
    names = {operation.id: operation.public_id for operation in journal.operations(db, view.id)}
    return [
        writer_object(writer, sight.windows_by_id(db, writer.windows), names.get(writer.operation or 0), count)
        for writer, count in rows.writer_counts(db, view.id, after, upto)
    ]


def diff(view: View, request: Request) -> Items:
    """``diff A [B]``; without B the newest recorded state, which the daemon has just brought up to date."""
    first, note = named_checkpoint(view, text(request, "a"))
    second = optional_text(request, "b")
    chosen = paths(request, view.worktree.root)
    require_known(view, chosen)
    with view.timeline.database.reading() as db:
        head = rows.read_head(db, view.id).seq
    other, note_b = (None, "") if second is None else named_checkpoint(view, second)
    upto = other.seq if other else head
    low, high = min(first.seq, upto), max(first.seq, upto)
    with view.timeline.database.reading() as db:
        changed = [p for p in rows.changed_paths(db, view.id, low, high) if within_paths(p, chosen)]
        old = rows.states_at(db, view.id, first.seq, changed)
        new = rows.states_at(db, view.id, upto, changed)
        patches = view.timeline if flag(request, "patch") else None
        items = _items(db, view, differences(old, new), high, patches)
        doubts = [
            in_doubt(one, sorted(path for path in doubtful(db, one) if within_paths(path, chosen)))
            for one in (first, other)
            if one is not None and is_damaged(one)
        ]
    answer: Items = {"ok": True, "items": items}
    if notes := [*filter(None, (note, note_b)), *doubts]:
        answer["note"] = "; ".join(notes)
    return answer


def _items(db: Transaction, view: View, found: list[Difference], upto: int, patches: Timeline | None) -> list[Any]:
    writers = rows.last_writers(db, view.id, [d.path for d in found], upto)
    names = {writer: writer_name(db, writer) for writer in set(writers.values())}
    return [
        diff_item(d, writers[d.path].certainty.value, names[writers[d.path]], _patch(patches, d) if patches else None)
        for d in found
    ]


def writer_name(db: Transaction, writer: Writer) -> str | None:
    """``agent/session`` of the windows, ``operation`` for our own."""
    if writer.operation is not None:
        return "operation"
    named = sorted({f"{w.agent}/{w.session}" for w in sight.windows_by_id(db, writer.windows)})
    return ", ".join(named) or None


def _patch(timeline: Timeline, difference: Difference) -> str:
    """Empty where one side was not recorded: what is not known to be gone is not taken away by a patch."""
    if skip_reason(difference.old) or skip_reason(difference.new):
        return ""
    old, new = (_git_file(timeline, state) for state in (difference.old, difference.new))
    return git_patch(os.fsdecode(difference.path), old, new)


def _git_file(timeline: Timeline, state: FileState) -> GitFile | None:
    """``state`` as git would keep it; None for what it knows nothing of, such as a directory."""
    if state.kind is Kind.SYMLINK:
        return GitFile(mode="120000", content=state.target or b"")
    if state.kind is not Kind.FILE:
        return None
    assert state.blob is not None
    # a large one is shown as binary: nobody reads a patch of this size
    content = b"\0" if state.size > PATCH_LIMIT_BYTES else timeline.blobs.read(state.blob)
    return GitFile(mode="100755" if state.mode & 0o100 else "100644", content=content)


def cat(view: View, request: Request) -> bytes:
    """``cat CKPT PATH``: the raw bytes of a file, or a link's target. ``late:OPERATION`` stands for a checkpoint too."""
    named = text(request, "file")
    wanted = inside(view.worktree.root, named)
    name = text(request, "checkpoint")
    if name.startswith(LATE):
        return _late(view, name.removeprefix(LATE), wanted)
    checkpoint, _ = named_checkpoint(view, name)
    with view.timeline.database.reading() as db:
        state = rows.states_at(db, view.id, checkpoint.seq, [wanted])[wanted]
        if not state.exists and (error := unrecorded(db, view, wanted, checkpoint)):
            raise error
    if state.kind is Kind.DIRECTORY:
        raise UsageError(f"{named} is a directory at checkpoint {checkpoint.number}", hint="use `oxide-ctl restore`")
    if not state.exists and is_damaged(checkpoint):
        raise damaged_checkpoint(checkpoint, [wanted])
    if not state.exists:
        raise NotFoundError(f"{named} did not exist at checkpoint {checkpoint.number}")
    if state.kind is not Kind.FILE:
        return state.target or b""
    assert state.blob is not None
    return _content(view, state.blob, wanted, f"at checkpoint {checkpoint.number}")


def _late(view: View, name: str, wanted: bytes) -> bytes:
    """What somebody wrote to ``wanted`` when an operation had displaced it. ``name``: the id of the operation, and after a
    dot which one where there are several.
    """
    prefix, _, which = name.partition(".")
    # without a number it is the first one: nearly always there is one only
    position = int(which) if which.isascii() and which.isdigit() else 1
    with view.timeline.database.reading() as db:
        meant = [o for o in journal.operations(db, view.id) if prefix and o.public_id.startswith(prefix)]
        if len(meant) > 1:
            raise AmbiguousError(f"{prefix!r} fits {len(meant)} operations", hint="give more letters of the id")
        outcomes = journal.outcomes(db, meant[0].id) if meant else []
    late = [o for o in outcomes if o.kind is OutcomeKind.LATE and o.path == wanted]
    blobs = [o.blob for o in late if o.blob is not None]
    if not 0 < position <= len(blobs):
        if any(o.reason == SkipReason.PURGED.value for o in late):
            raise purged(wanted)
        raise NotFoundError(
            f"nothing of {os.fsdecode(wanted)} came late to operation {prefix!r}",
            hint="`oxide-ctl operations` lists what did",
        )
    return _content(view, blobs[position - 1], wanted, f"late to operation {short(meant[0].public_id)}")


def _content(view: View, blob: BlobHash, wanted: bytes, when: str) -> bytes:
    """Raises StoreDamagedError that names the path."""
    try:
        return view.timeline.blobs.read(blob)
    except StoreDamagedError as error:
        named = os.fsdecode(wanted)
        raise StoreDamagedError(
            f"the store cannot give {named} {when} back: content {blob.hex()[:12]} is damaged",
            hint="`oxide-ctl repair --dry-run` says whether it can be mended;"
            f" `oxide-ctl history {shlex.quote(named)}` lists other versions",
            details={"paths": [named]},
        ) from error
