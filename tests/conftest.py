"""No test sees the user's home, time zone, git identity or a running daemon of theirs.

Each test gets a HOME and an OPENOXIDE_HOME of its own, outside its ``tmp_path`` so that a test may watch that folder.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: the machine's load is no property of the code.
settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.load_profile("ci")

# PYTHONDONTWRITEBYTECODE: without it a program under test compiles the product once and not at each of a thousand starts.
INHERITED = ("OPENOXIDE_", "XDG_", "GIT_", "NO_COLOR", "FORCE_COLOR", "PYTHONDONTWRITEBYTECODE")
SEALED = {
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Author",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_COMMITTER_NAME": "Author",
    "GIT_COMMITTER_EMAIL": "author@example.org",
}


def pytest_configure() -> None:
    for name in [name for name in os.environ if name.startswith(INHERITED)]:
        del os.environ[name]
    os.environ.update(SEALED)
    sys.dont_write_bytecode = False
    time.tzset()
    # a shell starts its background jobs with SIGINT ignored, and so would every program be that a test starts
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """The same one for each test: a daemon sets its own, also one that runs in the process of the tests."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def _new_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes folders, each with a number of its own. ``mktemp`` finds a free one by a look at all that thousands of tests
    have made.
    """
    numbers, base = itertools.count(), tmp_path_factory.mktemp("t", numbered=False)

    def new(name: str) -> Path:
        folder = base / f"{name}-{next(numbers)}"
        folder.mkdir(mode=0o700)
        return folder

    return new


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, _new_folder: Callable[[str], Path]) -> Path:
    """The test's own folder, with a path that is no longer than that of pytest's: sockets are made in it."""
    return _new_folder(re.sub(r"\W", "_", request.node.name)[:24])


@pytest.fixture(autouse=True)
def openoxide_home(_new_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own OPENOXIDE_HOME, not made yet; HOME is the folder around it."""
    user = _new_folder("user")
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("OPENOXIDE_HOME", str(user / ".openoxide"))
    return user / ".openoxide"


@pytest.fixture
def shared() -> Path:
    """The folder beside the checkout that holds the real agents and sample files; without it the test is skipped."""
    folder = Path(os.environ.get("OXIDE_SHARED", ""))
    if not os.environ.get("OXIDE_SHARED") or not folder.is_dir():
        pytest.skip("OXIDE_SHARED names no folder with the agents' clients")
    return folder.resolve()
