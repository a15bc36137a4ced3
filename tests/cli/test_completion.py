"""Completion in real shells, and what it asks the daemon; a shell that is not installed is skipped by name."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openoxide.cli import app, catalogue, completion
from openoxide.errors import NotFoundError
from tests.cli.answers import checkpoint
from tests.cli.harness import ENTRY, ROOT
from tests.cli.test_streams import HEAVY, modules_after

SHELLS = ("bash", "zsh", "fish")
READY = "ready"
COMPLETED = "completed"
INSERT_ALL = "\x1b*"  # readline's own: every completion at once
COMPLETE, LIST = "\x14", "\x0c"  # Ctrl-T and Ctrl-L, as bound below

BEGIN = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
SETUP = {
    "bash": "PS1=rea''dy; source completion",
    # zsh completes nothing while more is typed, so it tells when it is done
    "zsh": """
        bindkey -e; autoload -U compinit; compinit -D -u; source completion
        tell() { zle -R; print -n comple''ted >/dev/tty }
        complete-all() { zle complete-word; tell }; zle -N complete-all; bindkey '^T' complete-all
        list-all() { zle list-choices; tell }; zle -N list-all; bindkey '^L' list-all
        PS1=rea''dy""",
}


def installed_shell(name: str) -> str:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    return name


@pytest.fixture
def folder(tmp_path, daemon, run, monkeypatch) -> Path:
    """A working directory whose PATH has an `oxide-ctl`, with a daemon that knows three checkpoints."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "oxide-ctl"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {" ".join(ENTRY)} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    known(daemon, checkpoint(number=42), checkpoint(number=41, name="works"), checkpoint(number=7, name="two words"))
    return tmp_path


def known(daemon, *items) -> None:
    def log(request, _report):
        return {"ok": True, "items": [item for item in items if item["name"] or not request["named"]]}

    daemon.routes["log"] = log


class Typist:
    """A shell on a terminal, whose `oxide-ctl` notes its words instead of running (completion calls the program)."""

    def __init__(self, shell: str, folder: Path, script: str) -> None:
        (folder / "completion").write_text(script)
        self._words = folder / "words"
        process, self._terminal = pty.fork()
        if process == 0:
            os.execvp(BEGIN[shell][0], BEGIN[shell])
        self._process = process
        self.seen = ""
        note = f"oxide-ctl() {{ printf '%s\\n' \"$@\" >{self._words}; }}"
        os.write(self._terminal, f"{note}; {SETUP[shell]}\n".encode())
        self._read_until(READY)

    def type(self, text: str) -> str:
        """What is on the screen when the shell has read ``text``, Return and exit."""
        self.seen = ""
        os.write(self._terminal, f"oxide-ctl {text}".encode())
        if text.endswith((COMPLETE, LIST)):
            self._read_until(COMPLETED)
        os.write(self._terminal, b"\nexit\n")
        self._read_until(None)
        os.waitpid(self._process, 0)
        os.close(self._terminal)
        return self.seen

    @property
    def words(self) -> list[str]:
        """The words `oxide-ctl` was called with at last; not every way of completing adds the slash of a folder."""
        return [word.removesuffix("/") for word in self._words.read_text().splitlines()]

    def _read_until(self, text: str | None) -> None:
        while text is None or text not in self.seen:
            try:
                read = os.read(self._terminal, 65_536)
            except OSError:  # Linux says EIO at the end
                return
            if not read:
                return
            self.seen += read.decode("utf-8", "replace")


@pytest.fixture
def script(run):
    def script(shell: str) -> str:
        return run("completion", shell).text

    return script


ALL = [
    ("turn ", ["turn", "begin", "end"]),
    ("projects ", ["projects", "move", "join"]),
    ("projects m", ["projects", "move"]),
    ("projects --", ["projects", "--json", "--help"]),
    ("conf", ["config"]),
    ("status ", ["status", "--json", "--help"]),
    ("diff 1 2 --", ["diff", "1", "2", "--stat", "--name-status", "--patch", "--json", "--help"]),
    ("rewind 1 --scope ", ["rewind", "1", "--scope", "turn", "session", "all"]),
    ("rewind 1 --scope=se", ["rewind", "1", "--scope=session"]),
    ("config get retention.tt", ["config", "get", "retention.ttl_days"]),
    ("show ", ["show", "last", "turn:-1", "works", "two words", "42", "41", "7"]),
    ("-q diff 1 tur", ["-q", "diff", "1", "turn:-1"]),
    ("rewind turn:", ["rewind", "turn:-1"]),
    ("forget 1 2 wo", ["forget", "1", "2", "works"]),
    ("log --since=la", ["log", "--since=last"]),
    ("show two", ["show", "two words"]),
    ("cat last src/m", ["cat", "last", "src/main.py"]),
    ("diff 1 -- sr", ["diff", "1", "--", "src"]),
    ("-C src cat last m", ["-C", "src", "cat", "last", "main.py"]),
    ("-C sr", ["-C", "src"]),
]


@pytest.mark.parametrize(("line", "words"), ALL, ids=[line for line, _ in ALL])
def test_bash_completes(folder, script, line, words):
    shell = Typist(installed_shell("bash"), folder, script("bash"))

    screen = shell.type(line + INSERT_ALL)

    assert shell.words == words, screen


@pytest.mark.parametrize(("line", "words"), ALL, ids=[line for line, _ in ALL])
def test_zsh_completes(folder, script, line, words):
    shell = Typist(installed_shell("zsh"), folder, script("zsh"))
    typed = line.split()
    several = len(words) > max(len(typed), 1) and words != typed

    screen = shell.type(line + (LIST if line.endswith((" ", "--")) else COMPLETE))

    offered = words[len(typed) - line.endswith("--") :] if several else []
    assert [word for word in offered if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", screen)] == [], screen
    if not offered:
        assert shell.words == words, screen


@pytest.mark.parametrize(("line", "words"), ALL, ids=[line for line, _ in ALL])
def test_fish_completes(folder, script, line, words):
    (folder / "completion").write_text(script("fish"))
    program = f"source completion; complete -C {completion.fish_quoted('oxide-ctl ' + line)}; echo in $PWD"

    done = subprocess.run(
        [installed_shell("fish"), "--no-config", "-c", program], capture_output=True, text=True, check=True
    )

    *rows, ended_in = done.stdout.splitlines()
    assert ended_in == f"in {folder}"
    offered = [row.split("\t")[0].removesuffix("/") for row in rows]
    assert sorted(offered) == sorted(words[len(line.split(" ")) - 1 :]), done


def test_every_command_and_option_is_in_the_table():
    rows = {(row.command, row.word): row for row in completion.rows()}

    for name in catalogue.COMMANDS:
        group, _, word = name.rpartition(" ")
        assert rows[group, word].takes == "command"
        options = {
            option for parameter in app.declared(name).params for option in parameter.opts if not hidden(parameter)
        }
        assert {option for option in options if option.startswith("-")} <= {word for at, word in rows if at == name}
    assert {option.split()[0] for option in catalogue.GLOBAL_OPTIONS} <= {word for at, word in rows if at == ""}


def test_a_command_with_subcommands_declares_its_own_parameters_and_theirs():
    assert app.declared("projects").params == []
    assert [parameter.metavar for parameter in app.declared("projects join").params] == ["A", "B"]


def hidden(parameter) -> bool:
    return bool(getattr(parameter, "hidden", False))


@pytest.mark.parametrize(
    ("metavar", "takes"), [("CKPT", {"checkpoint", "text"}), ("PATH", {"path", "directory"}), ("DIR", {"directory"})]
)
def test_what_is_called_so_is_completed_so(metavar, takes):
    rows = {(row.command, row.word): row.takes for row in completion.rows()}
    found = set()
    for name in catalogue.COMMANDS:
        for number, parameter in enumerate(
            (p for p in app.declared(name).params if p.param_type_name == "argument"), 1
        ):
            if (parameter.metavar or "").removesuffix("...") == metavar:
                found.add(rows.get((name, str(number))) or rows[name, "*"])

    assert found <= takes


def test_no_row_holds_what_parts_rows():
    assert [
        row for row in completion.rows() if any(set(cell) & {"|", "\n"} for cell in row[:3]) or "\n" in row.text
    ] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_one_json_object_too(run, shell):
    answer = run("--json", "completion", shell).json

    assert answer["shell"] == shell
    assert run("completion", shell).text == answer["script"]


def test_without_a_shell_it_is_wrong_usage(run):
    assert run("completion").code == 2
    assert run("completion", "csh").code == 2


def test_checkpoints_are_offered_with_what_they_are(daemon, run):
    known(daemon, checkpoint(name="a"), checkpoint(name="-b"), checkpoint(name="c\x1b"))

    words = [line.split("\t") for line in run("completion", "--checkpoints").text.splitlines()]

    assert [word for word, _ in words] == ["last", "turn:-1", "a", "42", "42", "42"]
    assert words[2][1].endswith(", manual, +3 ~1 -0")


@pytest.mark.parametrize("answer", [NotFoundError("not watched"), {"ok": True, "items": []}])
def test_where_nothing_is_watched_nothing_is_complained_about(daemon, run, answer):
    daemon.answers["log"] = answer
    ended = run("completion", "--checkpoints")

    assert (ended.code, ended.err) == (0, b"")


def test_completion_starts_no_daemon(run, openoxide_home):
    ended = run("completion", "--checkpoints")

    assert (ended.code, ended.out, ended.err) == (0, b"", b"")
    assert not openoxide_home.exists()


def test_what_a_shell_waits_for_loads_nothing_heavy(daemon, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    known(daemon, checkpoint(name="a"))

    assert modules_after("completion", "--checkpoints") & HEAVY == set()


def test_what_a_real_daemon_knows_is_offered_and_a_stopped_one_stays_stopped(machine, project):
    sealed = machine.json("checkpoint", "-m", "works")

    lines = machine.run("completion", "--checkpoints", cwd=project / "src").text.splitlines()

    words = [line.split("\t")[0] for line in lines]
    assert words == ["last", "turn:-1", "works", str(sealed["number"]), *map(str, range(sealed["number"] - 1, 0, -1))]
    machine.json("stop")
    assert machine.run("completion", "--checkpoints").out == b""
    assert machine.json("stop")["stopped"] is False
