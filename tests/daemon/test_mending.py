"""``repair`` against each damage that ``check`` knows: afterwards the store is sound or says exactly what is lost, and what was
sound before is the same, byte by byte.
"""

from __future__ import annotations

import os
import shutil

import pytest

from openoxide.daemon.mending import repair
from openoxide.paths import Home
from tests.daemon.test_checking import DAMAGES, FILES, damage, filled, looked_at


@pytest.fixture(autouse=True, scope="module")
def _as_the_daemon_has_it():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    with filled(folder) as box:
        pass
    return box.home.folder


@pytest.fixture
def home(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "home", copy_function=shutil.copy2)
    return Home(tmp_path / "home")


def mended(home, *, dry_run=False):
    return repair(home, dry_run=dry_run, report=lambda _: None)


def kinds(home):
    return {problem["kind"] for problem in looked_at(home, read_data=True)["problems"]}


@pytest.mark.parametrize("name", DAMAGES)
def test_after_a_repair_of_rows_a_check_finds_nothing_but_marks(home, name):
    damage(home, DAMAGES[name][0])

    answer = mended(home)

    assert answer["needed"]
    assert kinds(home) <= {"lost"}
