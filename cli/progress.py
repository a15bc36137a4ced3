"""The progress bar of long operations, on standard error; imported only where a person watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from openoxide.daemon import protocol
from openoxide.knobs import size


@contextmanager
def bar(what: str) -> Iterator[Callable[[protocol.Progress], None]]:
    """Shows ``what`` and how far it is, and leaves nothing behind."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[amount]}"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None, amount="")

        def report(step: protocol.Progress) -> None:
            elapsed = progress.tasks[0].elapsed
            amount = size(step["bytes"]) if step.get("bytes") else ""
            amount += f", {size(int(step['bytes'] / elapsed))}/s" if amount and elapsed else ""
            progress.update(
                task,
                description=str(step.get("stage", what)),
                completed=step.get("done", 0),
                # 0 means not known yet, and rich takes None for that
                total=step.get("total") or None,
                amount=amount,
            )

        yield report
