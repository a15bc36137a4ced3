"""Standard output is the answer, as text or as one JSON object; standard error is everything else.

A reader that goes away (`oxide-ctl log | head`) is no error: the rest is dropped and the exit code stays the command's.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TextIO

from openoxide.cli import colours
from openoxide.cli.units import localised
from openoxide.daemon.protocol import printable
from openoxide.errors import FailedError, OpenOxideError, error_object, exit_code

PROGRAM = "oxide-ctl"
_PLAIN: colours.Palette = {}
_ACTS_ON_A_PROJECT = f"`{PROGRAM} (?!-|stop|status|projects|config|doctor|repair|backup|restore-home|uninstall)"


class Output:
    """The two streams of one command, and the questions asked on a terminal."""

    def __init__(
        self, *, as_json: bool = False, quiet: bool = False, verbose: bool = False, directory: str | None = None
    ) -> None:
        self._directory = directory
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose

    def answer(self, answer: Mapping[str, Any], text: Callable[[], str], palette: colours.Palette = _PLAIN) -> None:
        """The command's answer; ``text`` is only called when people read it, and gets its colours from ``palette``."""
        self.show(json.dumps(answer) if self.as_json else text(), palette)

    def show(self, text: str, palette: colours.Palette = _PLAIN) -> None:
        """Lines on standard output, if there are any."""
        if palette and self.on_terminal and colours.wanted():
            text = colours.paint(text, palette)
        if text:
            self.raw((text + "\n").encode(getattr(sys.stdout, "encoding", "utf-8"), "backslashreplace"))

    def raw(self, data: bytes) -> None:
        """Bytes on standard output, as they are."""
        _write(sys.stdout, data)

    def note(self, text: str) -> None:
        """A warning or hint for people; ``-q`` and ``--json`` leave it out."""
        if text and not self.quiet and not self.as_json:
            _complain(self.proposed(localised(text)))

    def hint(self, text: str) -> None:
        """What can be done next, as a note; nothing where ``text`` is empty."""
        self.note(f"hint: {printable(text)}" if text else "")

    def fail(self, error: OpenOxideError) -> int:
        """Reports ``error``; returns its exit code."""
        if self.as_json:
            with suppress(FailedError):  # standard output itself may be what failed; the exit code still tells
                self.show(json.dumps({"ok": False, "error": error_object(error)}))
        else:
            _complain(self.proposed(localised(error_text(error))))
        return exit_code(error)

    def proposed(self, text: str) -> str:
        """``text`` with the commands in it as they can be pasted: with the ``-C`` that this one was typed with."""
        if not self._directory:
            return text
        import shlex  # noqa: PLC0415 no hot command needs it

        placed = f"`{PROGRAM} -C {shlex.quote(printable(self._directory))} "
        return re.sub(_ACTS_ON_A_PROJECT, lambda _: placed, text)

    @property
    def may_ask(self) -> bool:
        """Whether somebody is there to answer a question."""
        return not self.as_json and _is_terminal(sys.stdin) and _is_terminal(sys.stdout)

    @property
    def on_terminal(self) -> bool:
        """Whether the answer goes straight to a person's screen."""
        return not self.as_json and _is_terminal(sys.stdout)

    @property
    def shows_progress(self) -> bool:
        """Whether progress bars are wanted."""
        return not self.as_json and not self.quiet and _is_terminal(sys.stderr)

    def ask(self, question: str) -> str:
        """What is typed in answer to ``question``; nothing at end of input. The question stands on standard output,
        the one stream besides the input that is known to be a terminal.
        """
        self.raw(f"{question} ".encode())
        return sys.stdin.readline().strip()

    def agreed(self, question: str) -> bool:
        """Whether the answer to ``question`` was yes; no answer is a no."""
        return self.ask(f"{question} [y/N]").lower() in ("y", "yes")


def error_text(error: OpenOxideError) -> str:
    """``error`` as people read it: what failed, what it concerns, what to do next."""
    lines = [f"{PROGRAM}: {_lines(error.message)}"]
    lines += [
        f"  {_named(item)}" for key in ("candidates", "paths", "conflicts") for item in error.details.get(key) or ()
    ]
    if error.hint:
        lines.append(f"hint: {_lines(error.hint)}")
    return "\n".join(lines)


def _named(item: Any) -> str:
    """A candidate or a path, given as text or as an object with one of the names an answer gives things."""
    if not isinstance(item, dict):
        return printable(str(item))
    words = [str(item[key]) for key in ("path", "reason", "id", "name", "created_at") if item.get(key)]
    number = [f"#{item['number']}"] if "number" in item else []
    return printable("  ".join(number + words))


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def _complain(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _write(stream: TextIO | None, data: bytes) -> None:
    if stream is None:
        raise FailedError("standard output is closed")
    try:
        # text that was printed before must not come after what goes into the buffer below it
        stream.flush()
        rest = memoryview(data)
        while rest:  # with PYTHONUNBUFFERED the buffer is the file itself, which may take a part only
            rest = rest[stream.buffer.write(rest) :]
        stream.buffer.flush()
    except OSError as error:
        # What is still buffered would fail once more, with a traceback, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise FailedError(f"standard output cannot be written: {error.strerror}") from error
