"""The rooms lie at the top level and are imported through one relative link each; the wheel holds files, not links."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "openoxide"
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent not in (PACKAGE, ROOT / "tests"))


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_its_relative_link(room):
    assert (PACKAGE / room).is_symlink()
    assert os.readlink(PACKAGE / room) == f"../{room}"


def test_no_link_leads_anywhere_else():
    assert sorted(path.name for path in PACKAGE.iterdir() if path.is_symlink()) == ROOMS


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_built_from_the_source_distribution_imports(tmp_path):
    wheel = build(checkout(tmp_path / "checkout"), tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")

    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"openoxide"}
    assert {f"openoxide/{room}/__init__.py" for room in ROOMS} | {"openoxide/py.typed"} <= set(names)
    assert {f"openoxide/cli/shells/completion.{shell}" for shell in ("bash", "zsh", "fish")} <= set(names)
    assert import_everything(tmp_path / "site") > len(ROOMS)


def checkout(copy: Path) -> Path:
    """The tree without what the tools left in it: a build writes into its source."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
    return shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)


def build(source: Path, dist: Path) -> Path:
    """The wheel; without options ``build`` makes it from the source distribution, not from the tree."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", dist, source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(dist.glob("*.tar.gz"))) == 1
    (wheel,) = dist.glob("*.whl")
    return wheel


def import_everything(site: Path) -> int:
    """Import each module below ``site`` in a process of its own; how many there are."""
    program = f"""
import importlib, pkgutil, openoxide
assert openoxide.__file__.startswith({str(site)!r}), openoxide.__file__
modules = [module.name for module in pkgutil.walk_packages(openoxide.__path__, "openoxide.")]
for name in modules:
    importlib.import_module(name)
print(len(modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=site.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
