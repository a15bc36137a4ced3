"""Carry a plan out: prepared, staged, swapping, done; settle one that was interrupted; sweep what it left in staging.

Before ``swapping`` is durable a failure undoes everything silently; after it the operation is finished, or is left
``interrupted`` for ``continue_operation`` and ``abort_operation``.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from openoxide.checkpoints import journal
from openoxide.checkpoints.exchange import Exchange
from openoxide.checkpoints.journal import Operation, Outcome, OutcomeKind, Phase
from openoxide.checkpoints.known import Placed
from openoxide.checkpoints.model import STAGING_NAME, BlobHash, Certainty, FileState, Kind, Observed, Writer
from openoxide.checkpoints.plan import Left, RewindPlan
from openoxide.checkpoints.staging import (
    Stager,
    Strays,
    delete_operation_folder,
    find_staging,
    make_operation_folder,
    open_operation_folder,
    open_staging,
    remove_staging,
    require_staged,
    strays,
)
from openoxide.checkpoints.steps import Action, Step, steps_of
from openoxide.checkpoints.timeline import Attribute, Timeline
from openoxide.checkpoints.tree import Tree, mtime_of
from openoxide.errors import InterruptedOperationError, StoreDamagedError
from openoxide.fileio import write_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What the exchange came to. ``left``: paths that could not be done, with the reason."""

    steps: tuple[Step, ...]
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def paths(self) -> frozenset[bytes]:
        """Every path the operation meant to touch."""
        return frozenset(step.path for step in self.steps)

    @property
    def placed(self) -> dict[bytes, Placed]:
        """The files that were put in their places; one that lost a setuid bit looks like another and is read."""
        return {
            step.path: Placed(ino=step.new_ino, state=step.new)
            for step in self.steps
            if step.action is Action.PLACE and step.new.kind is Kind.FILE and step.new_ino is not None
        }


class Staged(NamedTuple):
    """Steps whose new entries are staged."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


class Applier:
    """Carries out the operations of one worktree. The caller holds the worktree's lock."""

    def __init__(self, timeline: Timeline, tree: Tree) -> None:
        self._timeline = timeline
        self._tree = tree

    def prepare(self, operation: Operation, plan: RewindPlan) -> Staged:
        """Stage, durably; ``operation`` stays prepared, and no live path is touched."""
        steps = steps_of(plan)
        # the only copy of what will be displaced is in the tree until this has been checked
        self._require_before(steps)
        return Staged(*self._stage(operation, steps))

    def require_prepared(self, plan: RewindPlan) -> None:
        """For a dry run: raises what :meth:`prepare` would because of the store."""
        steps = steps_of(plan)
        self._require_before(steps)
        # what a merge makes is stored when it is begun
        made = {change.path for change in plan.merge if change.merged is not None}
        wanted = [step for step in steps if step.path not in made]
        require_staged(wanted, self._timeline.blobs.opener(_placed(wanted)))

    def exchange(self, operation: Operation, staged: Staged) -> Applied:
        """Swap what was staged with what stands there. ``operation`` is ``swapping``."""
        return self._swap(operation, staged.steps, staged.notes)

    def _require_before(self, steps: Sequence[Step]) -> None:
        """What will be displaced must be in the store, byte for byte. Raises StoreDamagedError that names what is not."""
        in_path_order = sorted(steps, key=lambda step: step.path)  # as captures store files
        displaced = {step.old.blob: step.path for step in in_path_order if step.old.blob}
        damaged = [
            displaced[blob]
            for blob in self._timeline.blobs.damaged([*displaced])
            if not self._mended(displaced[blob], blob)
        ]
        if damaged:
            raise StoreDamagedError(
                f"the store cannot give back {len(damaged)} of the files to be replaced, first {os.fsdecode(damaged[0])!r}",
                hint="nothing was changed; --partial leaves these paths out, or save them once more",
                details={"paths": [os.fsdecode(path) for path in damaged]},
            )

    def unsound(self, plan: RewindPlan) -> set[bytes]:
        """Paths of ``plan`` whose bytes, those that come back or those that are displaced, the store cannot give back."""
        wanted = {(change.path, change.wanted.blob) for change in plan.changes if change.merged is None}
        displaced = {(change.path, change.now.blob) for change in plan.changes}
        # a path that is absent on one side has no bytes there
        names = {blob: path for path, blob in sorted((p, b) for p, b in wanted | displaced if b is not None)}
        damaged = set(self._timeline.blobs.damaged([*names]))
        mended = {blob for path, blob in displaced if blob in damaged and self._mended(path, blob)}
        return {path for path, blob in wanted | displaced if blob in damaged - mended}

    def _mended(self, path: bytes, blob: BlobHash) -> bool:
        """The bytes that the store has lost may be in the tree still: then they are stored anew."""
        try:
            fd = self._tree.open_file(path)
        except OSError:  # vanished, or shut: there is nothing to mend it with
            return False
        with open(fd, "rb") as source:
            return self._timeline.blobs.mend(blob, source)

    def _stage(self, operation: Operation, steps: Sequence[Step]) -> tuple[tuple[Step, ...], tuple[str, ...]]:
        with write_errors(f"the staging folder in {os.fsdecode(self._tree.root)}"):
            staging = open_staging(self._tree)
            try:
                folder = make_operation_folder(staging, operation.staging_name)
            finally:
                os.close(staging)
            try:
                stager = Stager(self._tree, folder, self._timeline.blobs.opener(_placed(steps)))
                return stager.stage(steps), tuple(stager.notes)
            finally:
                os.close(folder)

    def _swap(self, operation: Operation, steps: tuple[Step, ...], notes: tuple[str, ...] = ()) -> Applied:
        folder = self._operation_folder(operation)
        try:
            left = Exchange(self._tree, folder).swap(steps)
        except OSError as error:
            self._interrupt(operation, error)
        finally:
            os.close(folder)
        return Applied(steps=steps, left=tuple(left), notes=notes)

    def _operation_folder(self, operation: Operation) -> int:
        try:
            staging = open_staging(self._tree)
            try:
                return open_operation_folder(staging, operation.staging_name)
            finally:
                os.close(staging)
        except OSError as error:
            self._interrupt(operation, error)

    def _interrupt(self, operation: Operation, error: OSError) -> NoReturn:
        with self._timeline.database.writing() as db:
            journal.set_phase(db, operation.id, Phase.INTERRUPTED)
        raise InterruptedOperationError(
            f"operation {operation.public_id[:8]} stopped in the middle: {error}",
            hint="run `oxide-ctl rewind --continue` or `oxide-ctl rewind --abort`",
        ) from error

    def give_up(self, operation: Operation) -> None:
        """Undo an operation whose exchange has not begun; no live path was touched."""
        self._delete_folder(operation)
        self.tidy()
        # after the folder: a crash in between leaves an open operation without one, which is given up again
        with self._timeline.database.writing() as db:
            journal.finish(db, operation.id, Phase.UNDONE, None, "given up before anything changed", ())
            journal.drop_steps(db, operation.id)

    def continue_operation(self, operation: Operation) -> Applied:
        """Do the steps that are not done yet. Without the staging folder there is nothing to do them with: every path is left
        as it is.
        """
        steps = self._steps(operation)
        # the commit of the steps may have failed for us and stand all the same: then nothing was begun, and it was given up
        return self._swap(operation, steps) if self._has_folder(operation) else _left_alone(steps)

    def abort_operation(self, operation: Operation) -> Applied:
        """Take back the steps that were done. Without the staging folder there is nothing to take back with: every path is
        left as it is, and what was displaced is in the pre-rewind checkpoint.
        """
        steps = self._steps(operation)
        if not self._has_folder(operation):
            return _left_alone(steps)
        folder = self._operation_folder(operation)
        try:
            left = Exchange(self._tree, folder).unswap(steps)
        except OSError as error:
            self._interrupt(operation, error)
        finally:
            os.close(folder)
        return Applied(steps=steps, left=tuple(left))

    def _has_folder(self, operation: Operation) -> bool:
        staging = find_staging(self._tree)
        if staging is None:
            return False
        try:
            os.close(open_operation_folder(staging, operation.staging_name))
        except OSError:
            return False
        finally:
            os.close(staging)
        return True

    def _steps(self, operation: Operation) -> tuple[Step, ...]:
        with self._timeline.database.reading() as db:
            return journal.steps(db, operation.id)

    def verify(self, applied: Applied) -> list[Left]:
        """Paths that are not as they were left any more: somebody has been there since."""
        skipped = {left.path for left in applied.left}
        placed = {step.path: step for step in applied.steps if step.action is Action.PLACE}
        gone = {step.path for step in applied.steps if step.action in (Action.REMOVE, Action.RMDIR)} - placed.keys()
        found = [path for path in gone - skipped if self._tree.lstat(path) is not None]
        for path, step in placed.items():
            if path in skipped or step.new.kind is Kind.DIRECTORY:
                continue
            # without reading: the bytes were hashed as they were staged, and a writer leaves its mark on size or time
            live = self._tree.lstat(path)
            if live is None or live.st_ino != step.new_ino or not _as_placed(live, step.new):
                found.append(path)
        return [Left(path=path, reason="changed_since") for path in sorted(found)]

    def sweep(self, operation: Operation) -> None:
        """Store what is in the operation's staging folder and nowhere else, then delete that folder and the steps. Left
        for a later sweep while a process can still write to something in there. The one method that needs no lock but that
        of the sweepers: nobody else looks into the folder of an ended operation.
        """
        steps = self._steps(operation)
        with write_errors(f"the staging folder in {os.fsdecode(self._tree.root)}"):
            found = self._strays(operation, steps)
            # stored now, it could be written to once more before it is deleted
            if found.busy:
                for _, fd in found.files:
                    os.close(fd)
                return
            with self._timeline.blobs.adding():
                self._record_strays(operation, found)
            # a folder may be a whole tree of somebody's: it is never read through, stored or deleted, only listed
            if not found.folders:
                self._delete_folder(operation)
        with self._timeline.database.writing() as db:
            journal.drop_steps(db, operation.id)

    def _record_strays(self, operation: Operation, found: Strays) -> None:
        """Rows that name what was found, durable before any of it is deleted. A sweep that was cut off here is done again."""
        late = [self._store_stray(step, fd) for step, fd in found.files]
        late += [
            Outcome(kind=OutcomeKind.LATE, path=step.path, reason=f"left in {_staged(operation, step)}")
            for step in found.folders
        ]
        names = {outcome.blob for outcome in late if outcome.blob is not None}
        with self._timeline.database.writing() as db:
            # a sweep that was cut off after this commit finds the same strays again
            known = journal.outcomes(db, operation.id)
            self._timeline.blobs.adopt(db, [], names)
            journal.add_outcomes(db, operation.id, [outcome for outcome in late if outcome not in known])
        self._timeline.blobs.forget_pending(names)

    def _strays(self, operation: Operation, steps: Sequence[Step]) -> Strays:
        staging = find_staging(self._tree)
        if staging is None:
            return Strays()
        try:
            folder = open_operation_folder(staging, operation.staging_name)
        except FileNotFoundError:
            return Strays()
        finally:
            os.close(staging)
        try:
            return strays(folder, steps)
        finally:
            os.close(folder)

    def _store_stray(self, step: Step, fd: int) -> Outcome:
        with open(fd, "rb") as source:
            blob = self._timeline.blobs.write_big(source)
        return Outcome(kind=OutcomeKind.LATE, path=step.path, reason="written while it was displaced", blob=blob)

    def _delete_folder(self, operation: Operation) -> None:
        staging = find_staging(self._tree)
        if staging is None:
            return
        try:
            delete_operation_folder(staging, operation.staging_name)
        finally:
            os.close(staging)

    def tidy(self) -> None:
        """Remove the staging folder if it is empty."""
        remove_staging(self._tree)


def apply_together(timeline: Timeline, shares: Sequence[tuple[Applier, Operation, RewindPlan]]) -> list[Applied]:
    """Stage all of an operation, in each worktree that it concerns, then exchange. Each share is prepared; when this returns
    its phase is ``swapping``.
    """
    try:
        staged = [applier.prepare(operation, plan) for applier, operation, plan in shares]
        # the point of no return: with this commit the operation is settled by its steps, never silently undone
        with timeline.database.writing() as db:
            for (_, operation, _), one in zip(shares, staged, strict=True):
                journal.commit_steps(db, operation.id, one.steps)
    except BaseException:
        for applier, operation, _ in shares:
            with contextlib.suppress(OSError):  # the disk still refuses: the next start gives it up
                applier.give_up(operation)
        raise
    return [applier.exchange(operation, one) for (applier, operation, _), one in zip(shares, staged, strict=True)]


def _placed(steps: Sequence[Step]) -> set[BlobHash]:
    return {step.new.blob for step in steps if step.action is Action.PLACE and step.new.blob is not None}


def _left_alone(steps: tuple[Step, ...]) -> Applied:
    gone = [Left(path=path, reason="staging_gone") for path in sorted({step.path for step in steps})]
    return Applied(steps=steps, left=tuple(gone))


def _staged(operation: Operation, step: Step) -> str:
    return "/".join((os.fsdecode(STAGING_NAME), operation.staging_name, step.staged_name))


def _as_placed(live: os.stat_result, new: FileState) -> bool:
    if new.kind is not Kind.FILE:
        return True
    return (live.st_size, mtime_of(live)) == (new.size, new.mtime_ns) and stat.S_ISREG(live.st_mode)


def attribution(operation: Operation, steps: Sequence[Step], otherwise: Attribute) -> Attribute:
    """The operation as the writer of paths that are as it left them; ``otherwise`` decides about all others."""
    placed = {step.path: step for step in steps if step.action is Action.PLACE}
    modes = {step.path: step for step in steps if step.action is Action.MODE}
    # what was removed to make room is judged by what was placed there
    gone = {step.path for step in steps if step.action in (Action.REMOVE, Action.RMDIR)} - placed.keys()
    writer = Writer(certainty=Certainty.OPERATION, operation=operation.id)

    def attribute(seen: Observed) -> Writer:
        step = placed.get(seen.path)
        if step is not None and seen.identity is not None and seen.identity.ino == step.new_ino:
            # the mode may have lost a setuid bit and the time may be another: neither makes it somebody else's
            same = (seen.state.kind, seen.state.blob, seen.state.target) == (
                step.new.kind, step.new.blob, step.new.target)  # fmt: skip
            return writer if same else otherwise(seen)
        if step is None and seen.path in modes and seen.state == modes[seen.path].new:
            return writer
        if seen.path in gone and seen.state.kind is Kind.ABSENT:
            return writer
        return otherwise(seen)

    return attribute


def returned(operation: Operation, steps: Sequence[Step], otherwise: Attribute) -> Attribute:
    """The operation as the writer of paths that hold again what it had found there."""
    first: dict[bytes, FileState] = {}
    for step in steps:
        # the first step of a path met what stood there before the operation
        first.setdefault(step.path, step.old)
    writer = Writer(certainty=Certainty.OPERATION, operation=operation.id)

    def attribute(seen: Observed) -> Writer:
        was = first.get(seen.path)
        if was is not None and (was == seen.state or not (was.exists or seen.state.exists)):
            return writer
        return otherwise(seen)

    return attribute
