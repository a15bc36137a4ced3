"""Whole screens of the command line, compared with the files in ``golden/``.

``GOLDEN=update make test ARGS=tests/cli/test_golden.py`` writes them anew; what then differs is read as a diff.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.golden_machine import Sealed, sealed_machine, write

GOLDEN = Path(__file__).with_name("golden")
UPDATE = os.environ.get("GOLDEN") == "update"

WINDOW = "--agent codex --session s1 --prompt p1"


def begin(machine: Sealed) -> None:
    write(machine.project / "src" / "cart.py", "def total(items):\n    return sum(items)\n")
    write(machine.project / "src" / "old.py", "print('old')\n")
    write(machine.project / "README.md", "# Shop\n")
    write(machine.project / ".gitignore", "build/\n")
    write(machine.project / "build" / "out.bin", "x" * 10)


def hurt(machine: Sealed) -> None:
    write(machine.project / "src" / "cart.py", "def total(items):\n    return 0\n")
    write(machine.project / "src" / "new\x1b[31m.py", "print('new')\n")
    (machine.project / "src" / "old.py").unlink()


def write_more(machine: Sealed) -> None:
    write(machine.project / "notes.txt", "agent\n")


def mend(machine: Sealed) -> None:
    write(machine.project / "notes.txt", "agent\nme\n")


def carry_away(machine: Sealed) -> None:
    machine.project.rename(machine.project.with_name("store"))


def add_secret(machine: Sealed) -> None:
    write(machine.project.parent / "then" / ".env", "TOKEN=x\n")
    write(machine.project.parent / "then" / "build" / "out.bin", "x" * 10)


def watch_another(machine: Sealed) -> None:
    assert machine.ran("watch", "../then").code == 0


def leave_a_key(machine: Sealed) -> None:
    write(machine.project.with_name("store") / "key.pem", "a key that was committed to nothing\n")
    assert machine.ran("checkpoint").code == 0


def remove_it(machine: Sealed) -> None:
    (machine.project.with_name("store") / "key.pem").unlink()


def open_to_others(machine: Sealed) -> None:
    machine.home.chmod(0o755)


def lose_a_pack(machine: Sealed) -> None:
    (machine.home / "blobs" / "00000001.pack").rename(machine.home.parent / "lost")


def bring_it_back(machine: Sealed) -> None:
    (machine.home.parent / "lost").rename(machine.home / "blobs" / "00000001.pack")


Step = tuple[str, str] | Callable[[Sealed], None]
IN_COLOUR = "-in-colour"  # what a screen is called that was taken on a terminal

STORY: list[Step] = [
    ("help", "--help"),
    ("help-rewind", "rewind --help"),
    ("help-turn", "turn --help"),
    ("version", "--version"),
    ("no-command", ""),
    ("unknown-command", "rewnd"),
    ("unknown-option", "log --lmit 3"),
    ("misplaced-option", "log -C src"),
    ("missing-argument", "show"),
    ("not-built", "prune"),
    ("status-nothing", "status"),
    ("projects-nothing", "projects"),
    ("not-watched", "log"),
    begin,
    ("watch", "watch"),
    ("watch-again", "watch"),
    ("watch-again-dry-run", "watch --dry-run"),
    ("checkpoint", "checkpoint -m before-agent"),
    ("checkpoint-name-taken", "checkpoint -m before-agent"),
    hurt,
    ("diff", "diff before-agent"),
    ("diff-stat", "diff before-agent --stat"),
    ("diff-patch", "diff before-agent --patch"),
    ("diff-verbose", "-v diff before-agent"),
    ("diff-in-colour", "diff before-agent"),
    ("diff-patch-in-colour", "diff before-agent --patch"),
    ("checkpoint-quiet", "-q checkpoint"),
    ("show", "show last"),
    ("show-json", "show last --json"),
    ("log", "log"),
    ("log-named", "log --named"),
    ("log-in-colour", "log"),
    ("show-in-colour", "show last"),
    ("not-found", "show nowhere"),
    ("not-found-json", "show nowhere --json"),
    ("outside", "cat last ../elsewhere"),
    ("pin", "pin before-agent"),
    ("name", "name last works"),
    ("history", "history src/cart.py"),
    ("history-deleted", "history --deleted"),
    ("history-search", "history --search total"),
    ("rewind-dry-run", "rewind before-agent --dry-run"),
    ("rewind-exact-dry-run", "rewind before-agent --exact --dry-run"),
    ("rewind-dry-run-in-colour", "rewind before-agent --exact --dry-run"),
    ("rewind-without-yes", "rewind before-agent"),
    ("rewind", "rewind before-agent --yes"),
    ("operations", "operations"),
    ("undo-dry-run", "undo --dry-run"),
    ("undo", "undo --yes"),
    ("redo", "redo --yes"),
    ("operations-undone", "operations"),
    ("undo-too-many", "undo 9 --yes"),
    ("turn-begin", f"turn begin {WINDOW}"),
    write_more,
    ("tool-begin", f"tool begin {WINDOW} --tool t1"),
    ("tool-end", "tool end --agent codex --session s1 --tool t1"),
    ("turn-end", f"turn end {WINDOW}"),
    mend,
    ("rewind-conflict", "rewind turn:-1 --yes"),
    ("restore", "restore before-agent --to ../then"),
    ("forget", "forget 1 --yes"),
    ("forget-kept", "forget before-agent --yes"),
    ("log-all", "log --all"),
    ("unforget", "unforget 1"),
    ("expire-dry-run", "expire --dry-run"),
    ("status", "status"),
    ("status-in-colour", "status"),
    ("projects", "projects"),
    ("du", "du"),
    ("prune-dry-run", "prune --dry-run"),
    ("prune-without-yes", "prune"),
    ("check", "check --read-data"),
    lose_a_pack,
    ("check-damaged", "check"),
    bring_it_back,
    ("doctor", "doctor"),
    open_to_others,
    ("doctor-finding", "doctor"),
    ("doctor-finding-in-colour", "doctor"),
    ("doctor-fix", "doctor --fix"),
    ("pause", "pause --for 1h"),
    ("status-paused", "status"),
    ("checkpoint-paused", "checkpoint"),
    ("unpause", "unpause"),
    ("projects-join-itself", "projects join . ."),
    ("projects-move-still-there", "projects move . ../then"),
    carry_away,
    ("projects-move", "projects move ../shop ."),
    ("projects-moved", "projects"),
    add_secret,
    ("watch-dry-run", "watch ../then --dry-run"),
    watch_another,
    ("projects-join", "projects join . ../then"),
    ("backup", "backup ../disk"),
    ("backup-again", "backup ../disk --dry-run"),
    ("restore-home-dry-run", "restore-home ../disk --home ../other --dry-run"),
    ("restore-home-without-yes", "restore-home ../disk --home ../other"),
    ("config-list", "config list"),
    ("config-unknown", "config get capture.quite_ms"),
    ("completion-without-shell", "completion"),
    leave_a_key,
    ("purge-refused", "purge key.pem --yes"),
    remove_it,
    ("purge-dry-run", "purge key.pem --dry-run"),
    ("purge", "purge key.pem --yes"),
    ("unwatch-history", "unwatch --delete-history"),
    ("unwatch", "unwatch"),
    ("uninstall-dry-run", "uninstall --dry-run"),
    ("uninstall-without-yes", "uninstall"),
]
NAMES = [step[0] for step in STORY if not callable(step)]


@pytest.fixture(scope="module")
def screens(tmp_path_factory) -> dict[str, str]:
    """What each command of the story left on the screen."""
    found: dict[str, str] = {}
    with sealed_machine(tmp_path_factory.mktemp("golden")) as machine:
        for step in STORY:
            if callable(step):
                step(machine)
            else:
                found[step[0]] = machine.screen(*shlex.split(step[1]), on_terminal=step[0].endswith(IN_COLOUR))
    if UPDATE:
        shutil.rmtree(GOLDEN, ignore_errors=True)
        GOLDEN.mkdir()
        for name, text in found.items():
            (GOLDEN / f"{name}.txt").write_text(text)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_screen_is_as_it_was(screens, name):
    assert screens[name] == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_screen_is_plain_text(screens, name):
    assert all(char.isprintable() or char == "\n" for char in screens[name])


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("help")])
def test_help_fits_a_terminal(screens, name):
    assert [line for line in screens[name].splitlines() if len(line) > 80] == []


def test_every_golden_file_belongs_to_a_screen(screens):
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(NAMES)
