"""Rows of figures, their verdicts, and the two files that hold them. A figure that could not be taken says why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

NAME = "main-job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a row is about. ``targets``: the most that each of these values may be. ``files``: of a generated tree."""

    figure: str
    what: str
    files: int | None = None
    targets: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came out. ``values`` have their unit in the name; ``made_of`` says what a result consists of, so also what
    bounds it; ``details`` go into the JSON file only.
    """

    summary: str
    made_of: str
    values: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A claim with its measurement, or with the reason why there is none."""

    claim: Claim
    rounds: int
    load: str
    command: str
    measured: Measured | None = None
    failure: str = ""

    @property
    def verdict(self) -> str:
        """``met``, ``missed`` with the values, ``no target`` or ``not measured``."""
        if self.measured is None:
            return f"not measured: {self.failure}"
        over = [f"{name} {self.measured.values[name]:.3g}" for name in self._missed(self.measured)]
        if over:
            return "missed: " + ", ".join(over)
        return "met" if self.claim.targets else "no target"

    def _missed(self, measured: Measured) -> list[str]:
        return [name for name, most in self.claim.targets.items() if measured.values[name] > most]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the program."""

    date: str
    machine: str
    versions: Mapping[str, str]
    command: str
    seconds: float
    rows: Sequence[Row]

    def write(self, folder: Path) -> None:
        """Both files."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.json").write_text(json.dumps(self._object(), indent=1, ensure_ascii=True) + "\n", "utf-8")
        (folder / f"{NAME}.md").write_text(self.markdown(), "utf-8")

    def _object(self) -> dict[str, Any]:
        return {**asdict(self), "rows": [{**asdict(row), "verdict": row.verdict} for row in self.rows]}

    def markdown(self) -> str:
        """A table for people."""
        lines = [
            "# The main job: figures",
            "",
            f"Taken {self.date} in {self.seconds / 60:.0f} minutes by `{self.command}`.",
            "",
            f"Machine: {self.machine}.",
            "",
            "Versions: " + ", ".join(f"{name} {version}" for name, version in self.versions.items()) + ".",
            "",
            "Candidates that are compared took turns in one run, each time another one first, on fresh copies of one",
            "generated tree. CPU is user and system time of all processes that took part, the daemon's background work",
            "included; a ratio is one median by another. On a busy machine trust ratios and CPU first, wall times second.",
            "",
            "| figure | files | rounds | result | target | verdict | made of | load before | again with |",
            "| --- | ---: | ---: | --- | --- | --- | --- | --- | --- |",
            *(_line(row) for row in self.rows),
        ]
        return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    claim, measured = row.claim, row.measured
    targets = ", ".join(f"{name} <= {most:g}" for name, most in claim.targets.items()) or "none"
    result, made_of = (measured.summary, measured.made_of) if measured else ("", "")
    cells = (
        claim.what, f"{claim.files:,}" if claim.files else "", str(row.rounds), result, targets, row.verdict, made_of, row.load,
        f"`{row.command}`",
    )  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
