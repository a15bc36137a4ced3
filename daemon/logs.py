"""The daemon's log: JSON lines for machines, plain lines for a terminal, never an environment or a file's content.

The file of an on-demand daemon is bounded and readable by its user only; a daemon in the foreground logs to standard
error, where whoever started it keeps the log.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from openoxide.clock import rfc3339
from openoxide.daemon.protocol import printable

LEVEL_VARIABLE = "OPENOXIDE_LOG"
LEVELS = ("debug", "info", "warning", "error")
FILE_BYTES = 1 << 20
FILES_KEPT = 3


def configure(environ: Mapping[str, str], folder: Path | None) -> None:
    """Log into ``oxided.log`` in ``folder``, which also becomes standard error; without ``folder`` to standard error."""
    handler = _stderr_handler() if folder is None else _file_handler(folder)
    # The other libraries keep to warnings: peewee's debug lines hold the values of every query, and so file contents
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    named = environ.get(LEVEL_VARIABLE) or "info"
    level = named.lower() if named.lower() in LEVELS else "info"
    logging.getLogger("openoxide").setLevel(level.upper())
    if level != named.lower():
        logging.getLogger(__name__).warning("%s=%s is none of %s", LEVEL_VARIABLE, named, ", ".join(LEVELS))


class JsonLines(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": rfc3339(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


class PlainLines(logging.Formatter):
    """For a terminal: nothing that was logged can move its cursor."""

    def format(self, record: logging.LogRecord) -> str:
        lines = [f"{rfc3339(int(record.created * 1000))} {record.levelname.lower()} {record.getMessage()}"]
        if record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        return "\n".join(printable(line) for line in lines)


class _OwnFile(RotatingFileHandler):
    """Private from the first byte, and what the interpreter itself reports lands in the file of the day."""

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o600)
        os.fchmod(descriptor, 0o600)
        os.dup2(descriptor, 2)
        return open(descriptor, "a", encoding=self.encoding, errors=self.errors)


def _file_handler(folder: Path) -> logging.Handler:
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / "oxided.log"
    handler = _OwnFile(path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(JsonLines())
    return handler


def _stderr_handler() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainLines() if sys.stderr.isatty() else JsonLines())
    return handler
