"""Shadow git, as agents keep their checkpoints with it: a repository elsewhere whose work tree is the project."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from measuring import Spent, run
from product import bare_environ

AUTHOR = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Author",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_COMMITTER_NAME": "Author",
    "GIT_COMMITTER_EMAIL": "author@example.org",
}


class ShadowGit:
    """A shadow repository of the tree ``root``, made in ``folder``. git's own defaults but for ``settings``, and no
    surprise gc.
    """

    def __init__(self, folder: Path, root: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.store = folder / "shadow.git"
        self._root = root
        own = {"GIT_DIR": str(self.store), "GIT_WORK_TREE": str(root)}
        self.environ = {**bare_environ(folder), **AUTHOR, **own}
        self._snapshots = 0
        self.git("init", "--quiet")
        for key, value in {"gc.auto": "0", **settings}.items():
            self.git("config", key, value)

    def git(self, *arguments: str) -> Spent:
        return run(["git", *arguments], self.environ, self._root)

    def snapshot(self, only: Path | None = None) -> tuple[Spent, str]:
        """The four commands of a snapshot, and the commit; ``only`` is the one file that changed, where that is known."""
        added = self.git("add", "--all") if only is None else self.git("add", "--", str(only))
        tree = self.git("write-tree")
        commit = self.git("commit-tree", "-m", "checkpoint", tree.output.strip())
        name = commit.output.strip()
        self._snapshots += 1
        return added + tree + commit + self.git("update-ref", f"refs/checkpoints/{self._snapshots}", name), name

    def restore(self, commit: str) -> Spent:
        """Bring the whole work tree back to ``commit``. git does not wait for the disk."""
        return self.git("restore", f"--source={commit}", "--worktree", "--", ".")

    def regular_files(self, commit: str) -> int:
        """How many files ``commit`` holds, links left out."""
        return sum(line.startswith("100") for line in self.git("ls-tree", "-r", commit).output.splitlines())


def make_project_repository(root: Path, folder: Path) -> None:
    """Make ``root`` a repository with one commit, as nearly every project is: each checkpoint notes its position."""
    environ = {**bare_environ(folder), **AUTHOR}
    run(["git", "init", "--quiet"], environ, root)
    run(["git", "commit", "--quiet", "--allow-empty", "--message", "first"], environ, root)
