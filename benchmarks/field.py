"""Who takes part in a comparison, who was left out, and why; and what the samples of all of them come to."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median

from archivers import BORG, RESTIC, Borg, Restic
from measuring import Spent, UnmeasuredError, in_turn, said
from peers import FSMONITOR, GIT, PRODUCT, Candidate, Git, GitWithMonitor, Oxide, git_has_monitor
from undoers import STEPBACK, UNEDIT, Shelf, Stepback, Unedit

NAMES = (PRODUCT, GIT, FSMONITOR, RESTIC, BORG, STEPBACK, UNEDIT)
KEYS = {name: name.replace(" ", "_") for name in NAMES}


class Field:
    """The candidates of one run. A peer that fails is left out of the rest of that measurement; the product never is."""

    def __init__(self, candidates: Sequence[Candidate], left_out: Sequence[str]) -> None:
        self._candidates = list(candidates)
        self._failed: set[str] = set()
        self.left_out = list(left_out)
        self.versions = {c.name: c.version for c in candidates if c.version}

    def begin(self) -> None:
        """Another measurement: everybody is in it again."""
        self._failed.clear()

    def in_turn(self, number: int, only: Collection[str] = NAMES) -> Iterator[Candidate]:
        """Those of round ``number``, from 0, that did not fail, each time another one first."""
        for candidate in in_turn([c for c in self._candidates if c.name in only], number):
            if candidate.name not in self._failed and not (candidate.once and number):
                yield candidate

    @contextmanager
    def excused(self, name: str) -> Iterator[None]:
        """What goes wrong with a peer is in the results, and the others go on."""
        try:
            yield
        except (UnmeasuredError, subprocess.SubprocessError, OSError) as error:
            if name == PRODUCT:
                raise
            self._failed.add(name)
            self.left_out.append(f"{name} in a part ({said(error)})")


def gather(wanted: Collection[str], shelf: Shelf) -> Field:
    """The product and those of ``wanted`` that are there or can be installed."""
    found, left_out = [Candidate(name=PRODUCT, make=Oxide)], []
    for name, find in _FINDERS.items():
        if name not in wanted:
            continue
        try:
            found.append(find(shelf))
        except (UnmeasuredError, subprocess.SubprocessError, OSError) as error:
            left_out.append(f"{name} ({said(error)})")
    return Field(found, left_out)


def _git(_: Shelf) -> Candidate:
    _version("git", "--version")
    return Candidate(name=GIT, make=Git)


def _monitored(_: Shelf) -> Candidate:
    _version("git", "--version")
    if not git_has_monitor():
        raise UnmeasuredError("this git was built without fsmonitor--daemon")
    return Candidate(name=FSMONITOR, make=GitWithMonitor)


def _restic(_: Shelf) -> Candidate:
    return Candidate(name=RESTIC, make=Restic, version=_version("restic", "version"))


def _borg(_: Shelf) -> Candidate:
    return Candidate(name=BORG, make=Borg, version=_version("borg", "--version"), once=True)


def _stepback(shelf: Shelf) -> Candidate:
    program = shelf.install(STEPBACK)
    return Candidate(
        name=STEPBACK, make=lambda case: Stepback(case, program), version=shelf.version(STEPBACK), once=True
    )


def _unedit(shelf: Shelf) -> Candidate:
    program = shelf.install(UNEDIT)
    return Candidate(name=UNEDIT, make=lambda case: Unedit(case, program), version=shelf.version(UNEDIT), once=True)


_FINDERS: Mapping[str, Callable[[Shelf], Candidate]] = {
    GIT: _git,
    FSMONITOR: _monitored,
    RESTIC: _restic,
    BORG: _borg,
    STEPBACK: _stepback,
    UNEDIT: _unedit,
}


def _version(program: str, *arguments: str) -> str:
    if shutil.which(program) is None:
        raise UnmeasuredError(f"{program} is not installed")
    shown = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\d+\.[\w.]+", shown)
    return found[0] if found else ""


Samples = Mapping[str, Sequence[Spent]]


def compared(samples: Samples) -> dict[str, float]:
    """Medians in milliseconds, and the product's ratio to each peer and to the best one of each measure."""
    values: dict[str, float] = {}
    for measure in ("cpu", "wall"):
        found = {
            name: 1000 * median(getattr(s, f"{measure}_s") for s in some) for name, some in samples.items() if some
        }
        values |= {f"{measure}_ms_{KEYS[name]}": ms for name, ms in found.items()}
        values |= ratios(found, f"{measure}_")
    return values


def ratios(found: Mapping[str, float], prefix: str = "") -> dict[str, float]:
    """The product's figure by each peer's, and by the smallest of them."""
    ours, others = found[PRODUCT], {name: most for name, most in found.items() if name != PRODUCT and most > 0}
    values = {f"{prefix}ratio_to_{KEYS[name]}": ours / theirs for name, theirs in others.items()}
    if others:
        values[f"{prefix}ratio_to_best"] = ours / min(others.values())
    return values


def summary(samples: Samples) -> str:
    """Both measures of everybody, the product first, with the ratios to each."""
    values = compared(samples)
    parts = []
    for measure, title in (("cpu", "CPU"), ("wall", "wall")):
        shown = [f"{PRODUCT} {duration(values[f'{measure}_ms_{PRODUCT}'])}"]
        for name in (name for name in NAMES[1:] if samples.get(name)):
            ratio = values.get(f"{measure}_ratio_to_{KEYS[name]}")
            shown.append(
                f"{name} {duration(values[f'{measure}_ms_{KEYS[name]}'])}" + (f" ({ratio:.2f} x)" if ratio else "")
            )
        parts.append(f"{title}: " + ", ".join(shown))
    return "; ".join(parts)


def duration(ms: float) -> str:
    """As people read it."""
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"
