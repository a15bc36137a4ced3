"""The program as the shell sees it: streams that break, odd locales, and what it loads before it does anything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.answers import checkpoint, status
from tests.cli.harness import ENTRY, ROOT

PYTHON = [sys.executable, *ENTRY]
HEAVY = {"typer", "rich", "dataclasses", "inspect", "argparse", "pathlib", "subprocess", "http", "asyncio", "logging"}


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # it hides what is left in a buffer at the end


def test_a_reader_that_went_away_is_no_error(daemon):
    daemon.answers["cat"] = b"x" * 4_000_000

    with subprocess.Popen([*PYTHON, "cat", "1", "f"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        program.stdout.read(10)
        program.stdout.close()
        complaint = program.stderr.read()

    assert (program.returncode, complaint) == (0, b"")


@pytest.mark.parametrize("length", [1, 2_000])
@pytest.mark.parametrize("line", [["log"], ["log", "--json"]])
def test_the_exit_code_stays_the_commands_when_nobody_reads(daemon, line, length):
    daemon.answers["log"] = {"ok": True, "items": [checkpoint(name="n" * 200)] * length}
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run([*PYTHON, *line], stdout=writer, stderr=subprocess.PIPE, check=False)

    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(("line", "said"), [(["log"], b"cannot be written"), (["log", "--json"], b"")])
def test_an_answer_that_cannot_be_written_is_a_failure(daemon, line, said):
    daemon.answers["log"] = {"ok": True, "items": [checkpoint()]}

    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PYTHON, *line], stdout=full, stderr=subprocess.PIPE, check=False)

    assert done.returncode == 1
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_closed_standard_output_is_a_failure(daemon):
    daemon.answers["log"] = {"ok": True, "items": []}

    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *PYTHON, "log"], stderr=subprocess.PIPE, check=False)

    assert (done.returncode, done.stderr) == (1, b"oxide-ctl: standard output is closed\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_large_answer_arrives_whole(daemon, unbuffered):
    daemon.answers["cat"] = os.urandom(1 << 20) * 3

    done = subprocess.run(
        [*PYTHON, "cat", "1", "f"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        check=True,
    )

    assert done.stdout == daemon.answers["cat"]


@pytest.mark.parametrize("line", ["log", "cat 1 f"])
def test_a_closed_standard_error_takes_no_answer_away(daemon, line):
    daemon.answers |= {"log": {"ok": True, "items": [checkpoint()], "next": "more"}, "cat": b"bytes"}

    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *PYTHON, *line.split()], stdout=subprocess.PIPE, check=False
    )

    assert done.returncode == 0
    assert done.stdout


def test_a_name_that_the_locale_cannot_spell_is_escaped(daemon):
    daemon.answers["log"] = {
        "ok": True,
        "items": [checkpoint(name="na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{SNOWMAN}")],
    }

    done = subprocess.run(
        [*PYTHON, "log"], stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True
    )

    assert rb"na\xefve \u2603" in done.stdout


def modules_after(*arguments: str) -> set[str]:
    """What the command loads."""
    program = (
        "import sys; before = set(sys.modules); from openoxide.cli.entry import main; "
        f"main({arguments!r}); print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("line", ["status", "--json status", "log --limit 3", "checkpoint -m x"])
def test_a_hot_command_loads_neither_typer_nor_anything_else_that_is_heavy(daemon, line):
    daemon.answers |= {
        "status": status(),
        "log": {"ok": True, "items": []},
        "checkpoint": {"ok": True, **checkpoint()},
    }

    assert modules_after(*line.split()) & HEAVY == set()
    assert len(daemon.requests) == 1


def test_only_the_module_of_the_command_is_loaded(daemon):
    daemon.answers["status"] = status()

    loaded = {name for name in modules_after("status") if name.startswith("openoxide.cli.commands.")}

    assert loaded == {"openoxide.cli.commands.status"}


def test_help_loads_no_command():
    loaded = modules_after("--help")

    assert "typer" in loaded
    assert {name for name in loaded if name.startswith("openoxide.cli.commands.")} == set()
    assert "rich" not in loaded
