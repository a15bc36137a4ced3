"""What is said about git after a rewind: nothing where HEAD stayed, else what git will show and how to look at it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from openoxide.checkpoints.gitposition import moved_since, read_git
from openoxide.checkpoints.model import GitPosition

A, B = "a" * 40, "b" * 40
MAIN, TOPIC = GitPosition(head=A, branch="main"), GitPosition(head=B, branch="topic")
LONG_A, LONG_B = A[:10], B[:10]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (MAIN, MAIN, ""),
        (GitPosition(), GitPosition(), ""),
        (GitPosition(branch="main"), GitPosition(branch="topic"), ""),
        (GitPosition(head=A, branch="main", origin="x"), MAIN, ""),
        (
            MAIN, TOPIC,
            (f"HEAD moved from {LONG_A} (main) to {LONG_B} (topic): git will show the rewound files as changes against "
            f"{LONG_B}; `git diff {LONG_B}` shows them and `git status` what git does not track, "
            f"`git log {LONG_A}...{LONG_B}` the commits between"),
        ),
        (
            GitPosition(head=A), GitPosition(head=B),
            (f"HEAD moved from {LONG_A} to {LONG_B}: git will show the rewound files as changes against {LONG_B}; "
            f"`git diff {LONG_B}` shows them and `git status` what git does not track, "
            f"`git log {LONG_A}...{LONG_B}` the commits between"),
        ),
        (
            GitPosition(branch="main"), MAIN,
            (f"HEAD moved from no commit (main) to {LONG_A} (main): git will show the rewound files as changes against "
            f"{LONG_A}; `git diff {LONG_A}` shows them and `git status` what git does not track"),
        ),
        (
            MAIN, GitPosition(branch="fresh"),
            (f"HEAD was at {LONG_A} (main) and is at no commit (fresh): git will show the rewound files as new; "
            "`git status` shows them"),
        ),
        (
            MAIN, GitPosition(head=A, branch="topic"),
            (f"HEAD switched from {LONG_A} (main) to {LONG_A} (topic), the same commit: git compares the rewound files "
            "with it as before; `git status` shows them"),
        ),
    ],
)  # fmt: skip
def test_what_git_will_say_is_told_when_head_moved(old: GitPosition, new: GitPosition, sentence: str) -> None:
    assert moved_since(old, new) == sentence


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commands_it_names_run_also_after_a_reset(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(("git", *arguments), cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    git("commit", "-q", "--allow-empty", "-m", "two")
    old = read_git(tmp_path)
    git("reset", "-q", "--hard", "HEAD~1")
    (tmp_path / "came-back").write_text("not known to git\n")
    commands = moved_since(old, read_git(tmp_path)).split("`")[1::2]
    assert [command.split()[:2] for command in commands] == [["git", "diff"], ["git", "status"], ["git", "log"]]
    assert ["came-back" in git(*command.split()[1:]) for command in commands] == [False, True, False]
    assert git(*commands[2].split()[1:])
