"""Backup programs as peers. Neither knows ``.gitignore``: what the others leave out is excluded by name."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from measuring import Spent
from peers import Peer

RESTIC, BORG = "restic", "borg"
EXCLUDED = ("node_modules", "__pycache__", ".git")
AT_ONCE = 500  # files named on one command line


class Restic(Peer):
    """restic with a repository on the same disk; its cache in HOME is not counted as its store."""

    def begin(self) -> None:
        self.environ |= {"RESTIC_REPOSITORY": str(self.store), "RESTIC_PASSWORD": "not secret"}
        self.command("restic", "--quiet", "init")

    def snapshot(self) -> tuple[Spent, str]:
        excluded = [f"--exclude={name}" for name in EXCLUDED]
        spent = self.command("restic", "backup", "--quiet", "--json", *excluded, str(self.case.tree))
        return spent, json.loads(spent.output.splitlines()[-1])["snapshot_id"]

    def restore(self, name: str, files: Sequence[Path]) -> Spent:
        total = Spent(wall_s=0, cpu_s=0)
        for start in range(0, len(files), AT_ONCE):
            wanted = [f"--include={_literal(self.case.tree / file)}" for file in files[start : start + AT_ONCE]]
            total += self.command("restic", "--quiet", "restore", name, "--target", "/", *wanted)
        return total

    def names_between(self, a: str, b: str) -> tuple[Spent, int]:
        spent = self.command("restic", "diff", a, b)
        return spent, len(re.findall(r"^[-+MTU]+ +/", spent.output, re.MULTILINE))


def _literal(path: Path) -> str:
    return re.sub(r"([*?\[\\])", r"\\\1", str(path))


class Borg(Peer):
    """borg without encryption, with the same compression as ours."""

    def begin(self) -> None:
        self.environ |= {"BORG_REPO": str(self.store), "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
        self.command("borg", "init", "--encryption", "none")
        self._states = 0

    def snapshot(self) -> tuple[Spent, str]:
        self._states += 1
        name = f"state{self._states}"
        excluded = [word for folder in EXCLUDED for word in ("--exclude", f"**/{folder}")]
        return self.command("borg", "create", "--compression", "zstd,1", *excluded, f"::{name}", "."), name

    def restore(self, name: str, files: Sequence[Path]) -> Spent:
        patterns = self.case.folder / "patterns"
        patterns.write_text("".join(f"+ pf:{file}\n" for file in files) + "- re:.\n", "utf-8")
        return self.command("borg", "extract", "--patterns-from", str(patterns), f"::{name}")

    def names_between(self, a: str, b: str) -> tuple[Spent, int]:
        spent = self.command("borg", "diff", f"::{a}", b)
        return spent, len(spent.output.splitlines())
