"""The live timeline: plain lines as they are, and the terminal view through a real pseudo-terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from openoxide.daemon.protocol import Progress
from openoxide.daemon.protocol.checkpoints import CheckpointObject
from openoxide.daemon.terminal import WAITING_FRAMES, Timeline

DEADLINE_SECONDS = 30


class StoppedClock:
    def now_ms(self) -> int:
        return 1_795_961_100_000  # 2026-11-29T14:05:00Z

    def boot_ms(self) -> int:
        return 0

    def boot_id(self) -> str:
        return "boot"

    def synchronised(self) -> bool:
        return False


def sealed(**fields: object) -> CheckpointObject:
    checkpoint = {
        "id": "kxyzpqrsklmnopqr", "number": 12, "seq": 40, "created_at": "2026-11-29T14:05:00.000Z", "expires_at": None,
        "trigger": "quiet", "name": None, "pinned": False, "complete": True, "late": False, "gap": "", "agent": None,
        "session": None, "prompt": None, "changed": {"added": 1, "modified": 2, "removed": 0}, "skipped": 0,
        "manifest_hash": "", "failed": None,
    }  # fmt: skip
    return CheckpointObject(**{**checkpoint, **fields})  # type: ignore[typeddict-item]


def progress(stage: str, done: int, total: int) -> Progress:
    return {"stage": stage, "done": done, "total": total, "bytes": 0}


def plain(*events: tuple) -> list[str]:
    """The lines that ``(method, arguments...)`` leave, without the time where it is the clock's."""
    out = io.StringIO()
    with Timeline(out, tty=False, clock=StoppedClock()) as timeline:
        for name, *arguments in events:
            getattr(timeline, name)(*arguments)
    lines = out.getvalue().splitlines(keepends=True)
    assert all(line.endswith("\n") for line in lines)
    return [line.removesuffix("\n") for line in lines]


AT = "2026-11-29T14:05:00.000Z"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (("started", "/srv/x", "/run/oxided.sock"), f"{AT} watching /srv/x socket /run/oxided.sock"),
        (("checkpoint", sealed(), "/srv/x"), f"{AT} checkpoint #12 quiet +1 ~2 -0 kxyzpqrs"),
        (
            ("checkpoint", sealed(created_at="2026-11-29T14:04:59.125Z", trigger="manual", name="green"), "/srv/x"),
            '2026-11-29T14:04:59.125Z checkpoint #12 manual +1 ~2 -0 kxyzpqrs "green"',
        ),
        (("checkpoint", sealed(late=True), "/srv/x"), f"{AT} checkpoint #12 quiet +1 ~2 -0 kxyzpqrs late"),
        (
            ("checkpoint", sealed(complete=False, gap="overflow"), "/srv/x"),
            f"{AT} checkpoint #12 quiet +1 ~2 -0 kxyzpqrs incomplete: overflow",
        ),
        (("checkpoint", sealed(failed="disk full"), "/srv/x"), f"{AT} checkpoint #12 quiet failed: disk full"),
        (("operation", "rewind kxyz: 3 restored"), f"{AT} operation rewind kxyz: 3 restored"),
        (("gap", "overflow"), f"{AT} gap overflow"),
        (("stopped", "SIGTERM"), f"{AT} stopped SIGTERM"),
        (("operation", "a\nb\x1b[2J\u202e\udcff"), f"{AT} operation a\\x0ab\\x1b[2J\\u202e\\xff"),
        (("checkpoint", sealed(name="\x9b1m", late=True), "/"), f'{AT} checkpoint #12 quiet +1 ~2 -0 kxyzpqrs "\\x9b1m" late'),
        (("totals", 3, 4_000), None),
    ],
)  # fmt: skip
def test_an_event_is_one_plain_line(event: tuple, line: str | None) -> None:
    assert plain(event) == ([] if line is None else [line])


def test_a_checkpoint_names_its_worktree_where_there_are_several() -> None:
    lines = plain(
        ("started", "/a", "/s"), ("checkpoint", sealed(), "/a"), ("started", "/b", "/s"), ("checkpoint", sealed(), "/b")
    )
    assert [line.endswith(" in /b") for line in lines] == [False, False, False, True]


def test_a_capture_has_a_plain_line_at_the_begin_and_the_end_of_each_stage() -> None:
    steps = [("list", 0, 0), ("list", 10, 0), ("hash", 0, 30), ("hash", 20, 30), ("hash", 30, 30), ("hash", 30, 30)]
    lines = plain(*(("capturing", progress(*step)) for step in steps))
    assert lines == [f"{AT} capturing {text}" for text in ("list 0", "hash 0/30", "hash 30/30")]


def test_text_that_the_terminal_s_encoding_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    with Timeline(out, tty=False, clock=StoppedClock()) as timeline:
        timeline.operation("é \u4e2d")
    assert raw.getvalue() == f"{AT} operation \\xe9 \\u4e2d\n".encode()


def test_nothing_is_drawn_after_the_end() -> None:
    assert plain(("stopped", "done"), ("operation", "late"), ("close",)) == [f"{AT} stopped done"]


def test_threads_share_a_timeline_without_mixing_lines() -> None:
    out = io.StringIO()
    with Timeline(out, tty=False, clock=StoppedClock()) as timeline:

        def work(name: str) -> None:
            for number in range(50):
                timeline.operation(f"{name} {number}")

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
    lines = out.getvalue().splitlines()
    assert len(lines) == 200
    for name in "abcd":
        assert [line for line in lines if f" {name} " in line] == [f"{AT} operation {name} {n}" for n in range(50)]


def test_a_reader_that_stands_still_does_not_hold_up_the_daemon_and_is_told() -> None:
    reader, writer = os.pipe()
    many = WAITING_FRAMES + 2_000
    with os.fdopen(writer, "w") as out, os.fdopen(reader, "rb") as read:
        timeline = Timeline(out, tty=False, clock=StoppedClock())
        for number in range(many):
            timeline.operation(f"{number} " + "x" * 200)
        lines: list[bytes] = []
        collector = threading.Thread(target=lambda: lines.extend(iter(read.readline, b"")))
        collector.start()
        timeline.close()
        out.close()
        collector.join(DEADLINE_SECONDS)
    missed = sum(int(match[1]) for line in lines if (match := re.search(rb"missed ([0-9]+) lines", line)))
    assert missed > 0
    assert sum(b" operation " in line for line in lines) + missed == many


def test_the_end_does_not_wait_for_a_reader_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openoxide.daemon.terminal.CLOSE_SECONDS", 0.01)
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as out:
        timeline = Timeline(out, tty=False)
        for number in range(WAITING_FRAMES + 2_000):
            timeline.operation(f"{number} " + "x" * 200)
        timeline.stopped("SIGTERM")
        os.close(reader)  # frees the thread that draws: nobody reads any more
        with pytest.raises(BrokenPipeError):
            print("x", file=out, flush=True)
        with suppress(BrokenPipeError):
            out.close()


@pytest.mark.parametrize("tty", [False, True])
def test_a_terminal_that_is_gone_ends_the_view_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tty: bool) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    master, slave = pty.openpty()
    out = os.fdopen(slave, "w")
    timeline = Timeline(out, tty=tty)
    os.close(master)
    for number in range(10):
        timeline.operation(f"{number}")
    timeline.stopped("hang-up")
    with pytest.raises(OSError):  # noqa: PT011 - that the terminal was really gone
        print("x", file=out, flush=True)
    with pytest.raises(OSError):  # noqa: PT011
        out.close()


class Screen:
    """What a terminal would show: as much of one as the view uses, and anything else is an error."""

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0
        self.cursor = True

    def feed(self, text: str) -> None:
        for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+|\x1b", text):
            self._take(token)

    def _take(self, token: str) -> None:
        if token == "\r":
            self.column = 0
        elif token == "\n":
            self.row += 1
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif token == "\x1b[2K":
            self.lines[self.row] = ""
        elif token == "\x1b[1A":
            self.row -= 1
        elif token in ("\x1b[?25l", "\x1b[?25h"):
            self.cursor = token.endswith("h")
        elif not token.startswith("\x1b"):
            self.lines[self.row] = self.lines[self.row][: self.column].ljust(self.column) + token
            self.column += len(token)
        else:
            assert re.fullmatch(r"\x1b\[[0-9;]*m", token), f"unexpected control {token!r}"


class Terminal:
    """The far end of a pseudo-terminal, collecting what arrives."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.raw = ""
        self.arrived = threading.Condition()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        try:
            while chunk := os.read(self.master, 1 << 16):
                with self.arrived:
                    self.raw += chunk.decode()
                    self.arrived.notify_all()
        except OSError:
            pass  # EIO: every holder of the slave is gone

    def wait_until(self, shows: Callable[[Screen], bool]) -> Screen:
        with self.arrived:
            assert self.arrived.wait_for(lambda: shows(self.screen()), DEADLINE_SECONDS), self.raw
            return self.screen()

    def screen(self) -> Screen:
        screen = Screen()
        screen.feed(self.raw)
        return screen

    def ended(self) -> Screen:
        self.reader.join(DEADLINE_SECONDS)
        os.close(self.master)
        return self.screen()


@contextmanager
def terminal_file(terminal: Terminal):
    with os.fdopen(terminal.slave, "w") as out:
        yield out


@pytest.fixture(autouse=True)
def capable_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def test_on_a_terminal_the_newest_line_stands_above_a_status_line_that_goes_at_the_end() -> None:
    lines = [
        "14:05:00 watching   /srv/x socket /run/s",
        "14:05:00 checkpoint #12 quiet +1 ~2 -0 kxyzpqrs",
        "14:05:00 operation  [red]undo[/red] \\x1b[2J :smile:",
        "14:05:00 capturing  hash 20/30",
    ]
    terminal = Terminal()
    with terminal_file(terminal) as out, Timeline(out, tty=True, clock=StoppedClock()) as timeline:
        timeline.started("/srv/x", "/run/s")
        timeline.totals(11, 34 << 20)
        timeline.checkpoint(sealed(), "/srv/x")
        timeline.operation("[red]undo[/red] \x1b[2J :smile:")
        timeline.capturing(progress("hash", 20, 30))
        shown = terminal.wait_until(lambda screen: len(screen.lines) == 5 and screen.lines[4].endswith("20/30"))
        assert shown.lines == [*lines, "watching /srv/x | 12 checkpoints | store 34.0 MiB | capturing hash 20/30"]
        assert not shown.cursor
    ended = terminal.ended()
    assert [line for line in ended.lines if line] == lines
    assert (ended.row, ended.column, ended.cursor) == (4, 0, True)


def test_a_long_status_is_cut_to_the_width_and_a_long_line_is_not() -> None:
    terminal = Terminal()
    with terminal_file(terminal) as out, Timeline(out, tty=True, clock=StoppedClock()) as timeline:
        timeline.started("/" + "d" * 200, "/run/s")
        shown = terminal.wait_until(lambda screen: "d" * 200 in screen.lines[0] and screen.lines[-1] != "")
    assert shown.lines[1:] == [("watching /" + "d" * 200)[:80]]
    terminal.ended()


def test_the_terminal_s_settings_are_not_touched() -> None:
    terminal = Terminal()
    with terminal_file(terminal) as out:
        before = termios.tcgetattr(out)
        with Timeline(out, tty=True) as timeline:
            timeline.operation("x")
        assert termios.tcgetattr(out) == before
    terminal.ended()


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False)])
def test_no_color_leaves_text_only(monkeypatch: pytest.MonkeyPatch, no_color: str | None, coloured: bool) -> None:
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    terminal = Terminal()
    with terminal_file(terminal) as out, Timeline(out, tty=True) as timeline:
        timeline.started("/srv/x", "/run/s")
        timeline.gap("overflow")
    terminal.ended()
    assert "overflow" in terminal.raw
    assert bool(re.search(r"\x1b\[[0-9;]*m", terminal.raw)) is coloured


def test_a_dumb_terminal_gets_lines_without_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    with terminal_file(terminal) as out, Timeline(out, tty=True, clock=StoppedClock()) as timeline:
        timeline.gap("overflow")
    assert terminal.ended().lines == ["14:05:00 gap        overflow", ""]
    assert "\x1b" not in terminal.raw


CHILD = """
import sys
from openoxide.daemon.terminal import Timeline
with Timeline(sys.stdout, tty=sys.stdout.isatty()) as timeline:
    timeline.started("/srv/x", "/run/s")
    sys.stdin.readline()
    raise {error}
"""


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit(3)", "RuntimeError('broken')"])
def test_whatever_ends_the_program_the_cursor_comes_back(error: str) -> None:
    terminal = Terminal()
    child = subprocess.Popen(
        (sys.executable, "-c", CHILD.format(error=error)),
        stdin=subprocess.PIPE, stdout=terminal.slave, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    os.close(terminal.slave)
    assert not terminal.wait_until(lambda screen: screen.lines[-1].startswith("watching /srv/x | 0")).cursor
    child.communicate(b"\n", timeout=DEADLINE_SECONDS)
    assert child.returncode != 0
    assert terminal.ended().cursor


def test_rich_is_not_loaded_without_a_terminal() -> None:
    code = (
        "import io, sys; from openoxide.daemon.terminal import Timeline; Timeline(io.StringIO(), tty=False).stopped('x'); "
        "sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run((sys.executable, "-c", code), cwd=Path(__file__).parents[2], check=False).returncode == 0
