"""The arrows between the rooms hold, and the contracts that say so would notice if they did not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONTRACTS = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}

VIOLATIONS = [
    ("layers", "checkpoints/model.py", "import openoxide.daemon.protocol"),
    ("layers", "checkpoints/store.py", "import openoxide.sessions"),
    ("layers", "memory/__init__.py", "import openoxide.checkpoints.model"),
    ("layers", "openoxide/db.py", "import openoxide.checkpoints.model"),
    ("layers", "openoxide/errors.py", "import openoxide.paths"),
    ("layers", "openoxide/newcomer.py", "NOTHING = None"),
    ("agents", "agents/__init__.py", "import openoxide.memory"),
    ("payloads", "agents/claude.py", "import time"),
    ("hook", "cli/hook.py", "import openoxide.errors"),
    ("hook", "cli/hook.py", "import socket"),
    ("cli", "cli/entry.py", "import openoxide.daemon.watcher"),
    ("cli", "cli/entry.py", "import openoxide.checkpoints.model"),
    ("client", "daemon/client.py", "import openoxide.checkpoints.model"),
    ("client", "daemon/launch.py", "import openoxide.daemon.server"),
    ("pure", "checkpoints/plan.py", "import time"),
    ("pure", "checkpoints/diff.py", "import openoxide.checkpoints.store"),
    ("notes", "memory/editing.py", "import os"),
    ("notes", "memory/lint.py", "import openoxide.memory.topics"),
    ("apscheduler", "daemon/server.py", "import apscheduler.job"),
    ("blake3", "checkpoints/packs.py", "import blake3"),
    ("peewee", "checkpoints/packs.py", "import peewee"),
    ("rich", "daemon/server.py", "import rich.table"),
    ("tomlkit", "cli/entry.py", "import tomlkit"),
    ("typer", "daemon/server.py", "import typer"),
    ("watchdog", "daemon/server.py", "import watchdog.events"),
    ("zstandard", "checkpoints/store.py", "import zstandard"),
]


def lint_imports(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """import-linter on the project in ``folder``, whose package it takes from the working directory."""
    program = "from importlinter.cli import lint_imports_command as check; check()"
    command = [sys.executable, "-c", program, "--no-cache", "--no-logo", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_contract_is_kept():
    done = lint_imports(ROOT)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The rooms and their links, to be broken."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for room in [path.parent for path in ROOT.glob("*/__init__.py")]:
        shutil.copytree(room, tmp_path / room.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize(("contract", "module", "line"), VIOLATIONS)
def test_a_forbidden_import_breaks_its_contract(copy, contract, module, line):
    with (copy / module).open("a", encoding="utf-8") as text:
        text.write(f"\n{line}\n")

    done = lint_imports(copy, "--contract", contract)

    assert done.returncode == 1
    assert "Contracts: 0 kept, 1 broken." in done.stdout


def test_every_third_party_has_a_home():
    required = {re.split(r"[^\w-]", requirement)[0] for requirement in PROJECT["project"]["dependencies"]}

    assert required <= CONTRACTS.keys()
