"""The live timeline of a daemon in the foreground: the daemon never waits for the terminal, nor dies with it.

Callers only leave frames; one thread draws them. A terminal that stands still (Ctrl-S, a pager) misses lines and is
told how many; one that is gone is no longer written to. A pipe is another matter: who closes its other end (`make run |
head -1`) wants no more of it, and :func:`when_reader_leaves` tells.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, Full, Queue
from threading import Lock, Thread
from types import TracebackType
from typing import Protocol, Self, TextIO

from openoxide.clock import Clock, SystemClock, rfc3339
from openoxide.daemon.protocol import Progress, printable
from openoxide.daemon.protocol.checkpoints import CheckpointObject
from openoxide.ids import short

WAITING_FRAMES = 1_000
CLOSE_SECONDS = 1.0
# colours only: with NO_COLOR nothing but text is left
_STYLES: Mapping[str, str] = {
    "watching": "cyan",
    "checkpoint": "green",
    "operation": "magenta",
    "gap": "yellow",
    "stopped": "cyan",
}


def when_reader_leaves(out: TextIO, act: Callable[[], None]) -> None:
    """Calls ``act``, in another thread, once nobody reads the pipe ``out`` any more; never if ``out`` is no pipe."""
    if stat.S_ISFIFO(os.fstat(out.fileno()).st_mode):
        Thread(target=_await_end, args=(out.fileno(), act), name="reader", daemon=True).start()


def _await_end(pipe: int, act: Callable[[], None]) -> None:
    poller = select.poll()
    poller.register(pipe, 0)  # that the reader left is told unasked
    poller.poll()
    # what is still in a buffer would fail when the interpreter ends, and with it the exit code
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    shared = [fd for fd in (pipe, sys.stderr.fileno()) if os.path.sameopenfile(pipe, fd)]
    for fd in shared:
        os.dup2(nowhere, fd)
    os.close(nowhere)
    act()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    at: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """A new line, if any, and the status below it."""

    line: _Line | None
    status: str


class _View(Protocol):
    def draw(self, frame: _Frame) -> None: ...

    def close(self) -> None: ...


class Timeline:
    """What the daemon does, a line an event, on ``out``: a live view with a status line if it is a ``tty``.

    All methods may be called by any thread. ``close`` draws what is left and gives the terminal back; so does leaving
    the ``with`` block.
    """

    def __init__(self, out: TextIO, *, tty: bool, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._view: _View = _Live(out) if tty else _Plain(out)
        self._encoding = getattr(out, "encoding", None) or "utf-8"
        self._lock = Lock()
        self._frames: Queue[_Frame | None] = Queue(WAITING_FRAMES)
        self._open = True
        self._missed = 0
        self._roots: list[str] = []
        self._checkpoints = 0
        self._store_bytes: int | None = None
        self._progress = ""
        self._stage = ""
        self._thread = Thread(target=self._draw_frames, name="terminal", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def started(self, root: str, socket: str) -> None:
        """A worktree is watched from now on."""
        with self._lock:
            if root not in self._roots:
                self._roots.append(root)
            self._show("watching", f"{root} socket {socket}")

    def capturing(self, progress: Progress) -> None:
        """A long capture goes on; the begin and the end of a stage get a line, the status line has the rest."""
        stage, done, total = str(progress["stage"]), int(progress["done"]), int(progress["total"])
        text = f"{stage} {done}/{total}" if total else f"{stage} {done}"
        with self._lock:
            worth_a_line = text != self._progress and (stage != self._stage or done == total)
            self._progress, self._stage = text, stage
            self._show("capturing", text) if worth_a_line else self._refresh()

    def checkpoint(self, checkpoint: CheckpointObject, root: str) -> None:
        """A checkpoint was sealed, or its capture failed."""
        with self._lock:
            self._checkpoints += checkpoint["failed"] is None
            self._progress = self._stage = ""
            where = f" in {root}" if len(self._roots) > 1 else ""
            self._show("checkpoint", _described(checkpoint) + where, checkpoint["created_at"])

    def operation(self, text: str) -> None:
        """A rewind, an undo or another recorded mutation."""
        with self._lock:
            self._show("operation", text)

    def gap(self, cause: str) -> None:
        """Changes may have been missed until the next scan."""
        with self._lock:
            self._show("gap", cause)

    def totals(self, checkpoints: int, store_bytes: int) -> None:
        """What the status line says of the store."""
        with self._lock:
            self._checkpoints, self._store_bytes = checkpoints, store_bytes
            self._refresh()

    def stopped(self, reason: str) -> None:
        """The daemon ends; the terminal is given back."""
        with self._lock:
            self._show("stopped", reason)
        self.close()

    def close(self) -> None:
        """Draw what is waiting and give the terminal back; a terminal that stands still is left as it is."""
        with self._lock:
            was_open, self._open = self._open, False
        if was_open:
            with suppress(Full):
                self._frames.put(None, timeout=CLOSE_SECONDS)
            self._thread.join(CLOSE_SECONDS)

    def _show(self, kind: str, text: str, at: str | None = None) -> None:
        at = at or rfc3339(self._clock.now_ms())
        self._put(_Frame(line=_Line(at=at, kind=kind, text=self._safe(text)), status=self._status()))

    def _refresh(self) -> None:
        self._put(_Frame(line=None, status=self._status()))

    def _put(self, frame: _Frame) -> None:
        if not self._open:
            return
        try:
            self._frames.put_nowait(frame)
        except Full:
            self._missed += frame.line is not None

    def _status(self) -> str:
        watching = self._roots[0] if len(self._roots) == 1 else f"{len(self._roots)} worktrees"
        plural = "" if self._checkpoints == 1 else "s"
        parts = [f"watching {watching}", f"{self._checkpoints} checkpoint{plural}"]
        if self._store_bytes is not None:
            parts.append(f"store {self._store_bytes / (1 << 20):,.1f} MiB")
        if self._progress:
            parts.append(f"capturing {self._progress}")
        return self._safe(" | ".join(parts))

    def _safe(self, text: str) -> str:
        return printable(text).encode(self._encoding, "backslashreplace").decode(self._encoding)

    def _draw_frames(self) -> None:
        with suppress(OSError):  # the terminal is gone, and the daemon works on without a view
            try:
                while (frame := self._frames.get()) is not None:
                    if frame.line is not None or self._frames.empty():  # an old status need not be drawn
                        self._view.draw(frame)
                    self._tell_missed(frame)
            finally:
                self._view.close()
        self._discard()

    def _tell_missed(self, frame: _Frame) -> None:
        with self._lock:
            missed, self._missed = self._missed, 0
        if missed:
            line = _Line(at=rfc3339(self._clock.now_ms()), kind="missed", text=f"{missed} lines not shown")
            self._view.draw(_Frame(line=line, status=frame.status))

    def _discard(self) -> None:
        with self._lock:
            self._open = False
        with suppress(Empty):
            while True:
                self._frames.get_nowait()


class _Plain:
    """Lines for a pipe, a file or a journal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def draw(self, frame: _Frame) -> None:
        if frame.line is not None:
            self._out.write(f"{frame.line.at} {frame.line.kind} {frame.line.text}\n")
            self._out.flush()

    def close(self) -> None:
        """Nothing was changed that would have to be given back."""


class _Live:
    """Lines that scroll up as usual, the newest above a status line that stays at the bottom."""

    def __init__(self, out: TextIO) -> None:
        # a daemon without a terminal does not pay for rich
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        self._text = Text
        self._console = Console(file=out, force_terminal=True, highlight=False)
        # transient: the status line goes at the end. The standard streams belong to others and are not redirected.
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def draw(self, frame: _Frame) -> None:
        self._live.start()
        status = self._text(frame.status, style="bright_black", no_wrap=True, overflow="crop")
        self._live.update(status, refresh=True)
        if frame.line is None:
            return
        clock = datetime.fromisoformat(frame.line.at).astimezone().strftime("%H:%M:%S")
        kind = (f"{frame.line.kind:<10}", _STYLES.get(frame.line.kind, ""))
        line = self._text.assemble((clock, "bright_black"), " ", kind, " ", frame.line.text)
        self._console.print(line, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()


def _described(checkpoint: CheckpointObject) -> str:
    sealed = f"#{checkpoint['number']} {checkpoint['trigger']}"
    if checkpoint["failed"] is not None:
        return f"{sealed} failed: {checkpoint['failed']}"
    changed = checkpoint["changed"]
    parts = [sealed, f"+{changed['added']} ~{changed['modified']} -{changed['removed']}", short(checkpoint["id"])]
    if checkpoint["name"] is not None:
        parts.append(f'"{checkpoint["name"]}"')
    if checkpoint["late"]:
        parts.append("late")
    if not checkpoint["complete"]:
        parts.append(f"incomplete: {checkpoint['gap'] or 'unknown cause'}")
    return " ".join(parts)
