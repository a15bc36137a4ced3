"""The command line in process and as a program, a daemon with canned answers, and the real one."""

from __future__ import annotations

import importlib
import os
import shutil
import site
import socket
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openoxide import __version__
from openoxide.cli.entry import main
from openoxide.daemon.server import Server
from tests.cli.harness import ROOT, Canned, Ended, Machine, Terminal

NAMES = (
    "status watch unwatch projects checkpoint log show diff cat restore rewind settle turn_begin turn_end tool_begin "
    "tool_end undo redo operations stop pin unpin name forget unforget expire purge history du survey pause unpause "
    "projects_move projects_join doctor check prune leave hook backup memory_index memory_context memory_topics "
    "memory_read memory_read_version memory_save memory_edit memory_delete memory_rename memory_search memory_history "
    "memory_blame memory_revert memory_promote memory_lint memory_tool"
).split()


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ended]:
    """Runs `oxide-ctl` in this process, without a terminal."""

    def run(*arguments: str) -> Ended:
        capfdbinary.readouterr()
        code = main(arguments)
        out, err = capfdbinary.readouterr()
        return Ended(code=code, out=out, err=err)

    return run


@pytest.fixture
def daemon(openoxide_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canned]:
    """A daemon with canned answers on this test's socket; the command line never starts another."""
    monkeypatch.setenv("OPENOXIDE_NO_AUTOSTART", "1")
    openoxide_home.mkdir()
    canned = Canned(openoxide_home)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(openoxide_home / "oxided.sock"))
    listener.listen()
    routes = {name: partial(canned.handle, name) for name in NAMES}
    server = Server(listener, routes, __version__)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield canned
    server.close(drain_ms=5_000)
    thread.join()


@pytest.fixture
def in_japan() -> Iterator[None]:
    """This process lives nine hours east of UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def terminal(tmp_path: Path) -> Callable[..., Terminal]:
    """Starts `oxide-ctl` on a terminal of its own."""

    def start(*arguments: str, stdin: int | None = None) -> Terminal:
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
        return Terminal(arguments, environ, tmp_path, stdin)

    return start


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that finds this checkout without the caller's PYTHONPATH, as the daemon that a command starts does."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    others = "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    (packages / "checkout.pth").write_text(f"{others}{ROOT}\n")
    return folder / "bin" / "python"


@pytest.fixture
def machine(installed: Path, tmp_path: Path) -> Iterator[Machine]:
    """A machine with an empty project; its daemon is stopped at the end."""
    short = Path(tempfile.mkdtemp(prefix="oxide-"))  # a socket's path may only be 107 bytes long
    project = tmp_path / "project"
    project.mkdir()
    machine = Machine(installed, short / "home", project)
    yield machine
    stopped = machine.run("stop")
    shutil.rmtree(short)
    assert stopped.code == 0, stopped


@pytest.fixture
def clients(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package that runs real agents against a scripted model."""
    monkeypatch.syspath_prepend(str(shared / "clients"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return importlib.import_module("agent_clients")


@pytest.fixture
def project(machine: Machine) -> Path:
    """The machine's project, watched: a file in a folder, a script, an empty folder and a link."""
    root = machine.project
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("one\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "empty").mkdir()
    (root / "link").symlink_to("src/a.py")
    machine.json("watch")
    return root
