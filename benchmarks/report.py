"""Rows of figures, their verdicts, and the files that hold them. A figure that could not be taken says why."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plot import Bar, picture


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
    profile: Sequence[str] = ()
    """Where the CPU time went, if that was looked at."""

    @property
    def verdict(self) -> str:
        """``met``, ``missed`` with the values, ``no target`` or ``not measured``; a peer that was left out is one of a
        target's values that are not there.
        """
        if self.measured is None:
            return f"not measured: {self.failure}"
        values = self.measured.values
        over = [f"{name} {values[name]:.3g}" for name in self.missed]
        absent = [name for name in self.claim.targets if name not in values]
        said = ["missed: " + ", ".join(over)] if over else []
        said += ["nothing to compare: " + ", ".join(absent)] if absent else []
        return "; ".join(said) or ("met" if self.claim.targets else "no target")

    @property
    def missed(self) -> list[str]:
        """The values that are above their targets."""
        values = self.measured.values if self.measured else {}
        return [name for name, most in self.claim.targets.items() if values.get(name, most) > most]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the program. ``name``: of the files; ``notes``: paragraphs before the table."""

    name: str
    title: str
    notes: Sequence[str]
    date: str
    machine: str
    versions: Mapping[str, str]
    command: str
    seconds: float
    rows: Sequence[Row]

    def write(self, folder: Path) -> None:
        """The files: JSON, a table, and a picture if there are targets."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(
            json.dumps(self._object(), indent=1, ensure_ascii=True) + "\n", "utf-8"
        )
        (folder / f"{self.name}.md").write_text(self.markdown(), "utf-8")
        (folder / f"{self.name}.svg").write_text(picture(f"{self.title}, {self.date}", list(self._bars())), "utf-8")

    def _object(self) -> dict[str, Any]:
        return {**asdict(self), "rows": [{**asdict(row), "verdict": row.verdict} for row in self.rows]}

    def markdown(self) -> str:
        """A table for people, and what bounds each figure that missed its target, where that was looked at."""
        lines = [
            f"# {self.title}",
            "",
            f"Taken {self.date} in {self.seconds / 60:.0f} minutes by `{self.command}`.",
            "",
            f"Machine: {self.machine}.",
            "",
            "Versions: " + ", ".join(f"{name} {version}" for name, version in self.versions.items()) + ".",
            "",
            *(line for note in self.notes for line in (*textwrap.wrap(" ".join(note.split()), 120), "")),
            "| figure | files | rounds | result | target | verdict | made of | load before | again with |",
            "| --- | ---: | ---: | --- | --- | --- | --- | --- | --- |",
            *(_line(row) for row in self.rows),
            *(line for row in self.rows if row.profile for line in _bound(row)),
        ]
        return "\n".join(lines) + "\n"

    def _bars(self) -> Iterator[Bar]:
        for row in self.rows:
            for name, most in row.claim.targets.items() if row.measured else ():
                if most and row.measured and name in row.measured.values:
                    files = f", {row.claim.files:,} files" if row.claim.files else ""
                    yield Bar(label=f"{row.claim.what}{files}: {name}", value=row.measured.values[name], target=most)


def _bound(row: Row) -> list[str]:
    """Where the CPU time went in a row that missed its target."""
    files = f", {row.claim.files:,} files" if row.claim.files else ""
    return ["", f"## What bounds: {row.claim.what}{files}", "", *(f"- {line}" for line in row.profile)]


def _line(row: Row) -> str:
    claim, measured = row.claim, row.measured
    targets = ", ".join(f"{name} <= {most:g}" for name, most in claim.targets.items()) or "none"
    result, made_of = (measured.summary, measured.made_of) if measured else ("", "")
    cells = (
        claim.what, f"{claim.files:,}" if claim.files else "", str(row.rounds), result, targets, row.verdict, made_of, row.load,
        f"`{row.command}`",
    )  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
