"""``check``: whether the store holds what it says. Changes nothing, and works without a daemon."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from openoxide.checkpoints import meta, slices, store
from openoxide.checkpoints.affected import Affected, affected
from openoxide.checkpoints.check import Problem, ProblemKind
from openoxide.checkpoints.integrity import ask
from openoxide.checkpoints.repair import repair_number
from openoxide.checkpoints.verifying import Check, Reading, Unnamed, unnamed_files
from openoxide.clock import rfc3339
from openoxide.daemon.diagnosis import aside_problems
from openoxide.daemon.operations.breathing import Breath
from openoxide.daemon.protocol import path_entry, printable
from openoxide.daemon.protocol.health import AffectedObject, CheckAnswer, CheckProblem
from openoxide.daemon.requests import Request, flag, number
from openoxide.db import Database
from openoxide.errors import StoreDamagedError, UsageError
from openoxide.health import ERROR, WARNING, home_problems
from openoxide.health import Problem as HealthProblem
from openoxide.paths import Home

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

MOST_PROBLEMS, MOST_NAMED = 200, 20
log = logging.getLogger(__name__)

SLICE_DAYS, SLICE_SECONDS = 30, 60.0

_ROWS_HINT = "`oxide-ctl repair --dry-run` says what can be mended, and what is lost"
_FILES_HINT = (
    "bring the file back from a backup if there is one; else put what you still have of the paths' versions back where they"
    f" were, where a repair finds it: {_ROWS_HINT}"
)
_LOST_HINT = (
    "where you still have it, put it into the watched tree: the next look takes it up; else it stays marked until the"
    " checkpoints that hold it are gone, and `--partial` of rewind and restore leaves it out"
)
_HINTS: Mapping[ProblemKind, str] = {
    ProblemKind.FILE_MISSING: _FILES_HINT,
    ProblemKind.FILE_SHORT: _FILES_HINT,
    ProblemKind.FRAME: _FILES_HINT,
    ProblemKind.CONTENT: _FILES_HINT,
    ProblemKind.LOST: _LOST_HINT,
    ProblemKind.MODE: "`oxide-ctl doctor --fix` takes their rights away",
    ProblemKind.FOREIGN: "`oxide-ctl doctor` tells of packs of another timeline.db; the next start sets them aside",
}
_WARNINGS = frozenset({ProblemKind.MODE, ProblemKind.FOREIGN, ProblemKind.LOST})
# what nothing is about is not missed
_OF_SOMETHING = frozenset({ProblemKind.CONTENT, ProblemKind.LOST})


def check(service: Service, request: Request, report: Reporter) -> CheckAnswer:
    """``check``."""
    breathe = _breath(service)
    return checked(service.timeline.database, service.home, request, report, breathe, partial(_keep_all, service))


def _breath(service: Service) -> Breath:
    blobs = service.timeline.blobs
    return Breath("check", service.stop_requested.is_set, lambda: blobs.is_adding)


def _keep_all(service: Service, problems: Sequence[Problem]) -> None:
    _keep(service, problems, (0, None), now_ms=service.clock.now_ms())


def check_slice(service: Service) -> None:
    """Read the next contents, a thirtieth of them or what a minute allows, compare each with its name, and keep what was found:
    ``status`` and ``doctor`` tell of it. To be called once a day; goes on where the last one ended.
    """
    database = service.timeline.database
    with database.looking() as db:
        at = slices.progress(db).at
    (total,) = ask(database, "select count(*) from blob")[0]
    ends = time.monotonic() + SLICE_SECONDS
    breathe = _breath(service)
    run = Check(database=database, home=service.home, reading=Reading(), breathe=breathe)
    found, reached = run.slice(
        at, lambda: run.checked["contents"] * SLICE_DAYS >= max(total, 1) or time.monotonic() > ends
    )
    _keep(service, found, (at, reached), now_ms=service.clock.now_ms())


def _keep(service: Service, found: Sequence[Problem], read: tuple[int, int | None], *, now_ms: int) -> None:
    """What a reading of all contents after ``read[0]`` up to ``read[1]`` (None: to the end) found."""
    damaged = {number for problem in found if problem.kind is not ProblemKind.LOST for number in problem.blobs}
    if damaged:
        log.error("%s: `oxide-ctl check --read-data` tells which", _damaged_text(len(damaged)))
    after, reached = read
    upto = (1 << 62) if reached is None else reached
    with service.timeline.database.writing() as db:
        slices.keep(db, (after, upto), slices.Progress(reached or 0, now_ms), damaged)


def _damaged_text(contents: int) -> str:
    return "1 stored content is damaged" if contents == 1 else f"{contents} stored contents are damaged"


def damage_known(service: Service) -> list[HealthProblem]:
    """What slices and whole checks have found and nobody has mended yet, for ``doctor`` and ``status``."""
    with service.timeline.database.looking() as db:
        known = slices.damaged(db)
    if known is None:
        return []
    text = f"{_damaged_text(known.contents)}, found at {rfc3339(known.found_ms)}"
    return [HealthProblem("contents_damaged", ERROR, text, _ROWS_HINT)]


def checked(
    database: Database,
    home: Home,
    request: Request,
    report: Reporter,
    breathe: Callable[[], None],
    keep: Callable[[Sequence[Problem]], None] = lambda _: None,
) -> CheckAnswer:
    """The whole home. ``breathe`` is called each few milliseconds; ``keep`` gets what was found where all contents were read."""
    reading = _reading(request)

    def progress(stage: str, done: int, total: int, size: int) -> None:
        report({"stage": stage, "done": done, "total": max(done, total), "bytes": size})

    run = Check(database=database, home=home, reading=reading, breathe=breathe, progress=progress)
    found = run.run()
    if reading is not None and reading.share == 1:
        keep(found)
    problems = [*found, *_of_modes(home)]
    unnamed = Unnamed([], [])
    about: Sequence[Mapping[int, Affected]] = [{}] * len(problems)
    roots: dict[int, str] = {}
    # what cannot be read, or has another type, was told by the check itself; only what it is about is not known then
    with suppress(StoreDamagedError, TypeError, ValueError, AttributeError):
        unnamed = unnamed_files(database, home)
        about = affected(database, problems, breathe)
        roots = _roots(database)
    foreign = [told_problem(_foreign(name), {}, roots) for name in unnamed.foreign]
    told = [
        told_problem(problem, of_problem, roots)
        for problem, of_problem in zip(problems, about, strict=True)
        # a content that nothing is about is one that nothing names any more
        if of_problem or problem.kind not in _OF_SOMETHING or not roots
    ] + foreign
    return {
        "ok": True,
        "problems": told[:MOST_PROBLEMS],
        "problem_count": len(told),
        "checked": dict(run.checked),
        "bytes_read": run.bytes_read,
        "sampled": {"percent": reading.share * 100, "seed": reading.seed} if reading and reading.share < 1 else None,
        "unnamed": unnamed.ours[:MOST_NAMED],
        "unnamed_count": len(unnamed.ours),
    }


class Aside(NamedTuple):
    """Packs that were set aside, as names in the home: ``kept`` while the state before a repair, which names them, is there,
    ``left`` where it is gone; the others are ``foreign``.
    """

    kept: list[str]
    left: list[str]
    foreign: list[str]


def packs_aside(service: Service) -> Aside:
    """The packs that a repair gave up, and those of a ``timeline.db`` that was lost or replaced."""
    home = service.home
    there = {repair_number(path.name) for path in home.folder.glob("repair-*") if path.suffix != ".part"}
    with service.timeline.database.looking() as db:
        known = meta.read(db, meta.ASIDE)
    found = Aside([], [], [])
    for name in sorted(path.name for path in home.blobs.glob("*.pack.aside")):
        repair = known.get(name.split(".")[0].lstrip("0"))
        # what a repair of an earlier version left is not known by its number
        is_kept = bool(there) if repair is None else repair in there
        (found.kept if is_kept else found.foreign if repair is None else found.left).append(f"blobs/{name}")
    return found


def aside_told(service: Service, aside: Aside) -> list[HealthProblem]:
    """What is to be said of those that belong to no copy of the store."""
    return aside_problems(printable(str(service.home.folder)), aside.left, aside.foreign)


def _reading(request: Request) -> Reading | None:
    percent = request.get("sample")
    if percent is None:
        return Reading() if flag(request, "read_data") else None
    if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 < percent <= 100:
        raise UsageError("a sample is more than 0 % and at most 100 %")
    seed = number(request, "seed", least=0)
    return Reading(share=percent / 100, seed=int.from_bytes(os.urandom(4), "little") if seed is None else seed)


def _of_modes(home: Home) -> list[Problem]:
    found = [problem for problem in home_problems(home, fix=False) if problem.kind == "home_permissions"]
    return [Problem(kind=ProblemKind.MODE, object=str(home.folder), message=problem.message) for problem in found]


def _foreign(name: str) -> Problem:
    return Problem(kind=ProblemKind.FOREIGN, object=name, message="no row names it, and this timeline.db never made it")


def _roots(database: Database) -> dict[int, str]:
    with database.reading() as db:
        return {worktree.id: printable(os.fsdecode(worktree.root)) for worktree in store.worktrees(db)}


def told_problem(problem: Problem, about: Mapping[int, Affected], roots: Mapping[int, str]) -> CheckProblem:
    """A problem as answers have it. ``about``: what of each worktree it is about; ``roots``: these by their row ids."""
    return {
        "kind": problem.kind.value,
        "severity": WARNING if problem.kind in _WARNINGS else ERROR,
        "object": printable(problem.object),
        "message": printable(problem.message),
        "hint": _HINTS.get(problem.kind, _ROWS_HINT),
        "affected": [_affected(of_one, roots.get(worktree, "")) for worktree, of_one in sorted(about.items())],
    }


def _affected(found: Affected, root: str) -> AffectedObject:
    paths, numbers = list(dict.fromkeys(found.paths)), sorted(set(found.checkpoints))
    return {
        "root": root,
        "paths": [path_entry(path) for path in paths[:MOST_NAMED]],
        "path_count": len(paths),
        "checkpoints": numbers[:MOST_NAMED],
        "checkpoint_count": len(numbers),
    }
