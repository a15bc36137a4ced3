"""A real project damaged the way shells do it, rewound, and the rewind undone; each time every byte is compared.

Downloads a source distribution from the package index, so it needs one; without it the exit status is 75. Everything,
the store included, lies in a temporary folder that is removed at the end.

    python benchmarks/demo.py [REQUIREMENT]
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

REQUIREMENT = "flask==3.1.3"
NO_INDEX = 75  # EX_TEMPFAIL: nothing was tried, so nothing failed
STAGING = ".openoxide-staging"  # emptied in the background after a rewind has answered; no part of the tree
DAMAGE = (
    ("an edit in every module", "find src -name '*.py' -exec sed -i.orig 's/self/this/g' {} +"),
    ("a folder gone", "rm -rf docs"),
    ("a folder moved", "mv tests checks"),
    ("modes changed", "chmod 600 pyproject.toml && chmod 755 src/*/*.py"),
    ("a new file, an empty folder, a link", "mkdir -p notes/empty && seq 1000 > notes/plan && ln -s plan notes/link"),
    ("a file replaced by a folder", "rm README.md && mkdir README.md && echo hidden > README.md/inside"),
    ("a file emptied, one appended to", ": > LICENSE.txt && echo done >> pyproject.toml"),
)

Entry = tuple[str, int, str, int]
Tree = dict[str, Entry]


class Tool:
    """``oxide-ctl`` on one tree, with a home of its own."""

    def __init__(self, root: Path, home: Path) -> None:
        self.command = [str(Path(sys.executable).with_name("oxide-ctl")), "-C", str(root), "--json"]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENOXIDE_")}
        self.environ = {**inherited, "OPENOXIDE_HOME": str(home)}

    def __call__(self, *arguments: str) -> dict[str, Any]:
        """The answer of one command; ends the demo when it fails."""
        began = time.monotonic()
        done = self.run(*arguments)
        took_ms = (time.monotonic() - began) * 1000
        shown = "$ oxide-ctl " + " ".join(arguments)
        if done.returncode:
            raise SystemExit(f"{shown}\nexit status {done.returncode}\n{done.stdout}{done.stderr}")
        print(f"{shown:<60}{took_ms:8.0f} ms")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command, whatever comes of it."""
        command = [*self.command, *arguments]
        return subprocess.run(
            command, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )


def main(arguments: list[str]) -> int:
    """Run the demo; 0 when every comparison held."""
    requirement = arguments[0] if arguments else REQUIREMENT
    with tempfile.TemporaryDirectory(prefix="openoxide-demo-") as scratch:
        folder = Path(scratch)
        root = fetch(requirement, folder)
        if root is None:
            return NO_INDEX
        tool = Tool(root, folder / "home")
        try:
            return show(tool, root, folder)
        finally:
            tool.run("stop")


def fetch(requirement: str, folder: Path) -> Path | None:
    """The unpacked source distribution, or None when no index gives it."""
    options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, requirement]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    archives = list(folder.glob("*.tar.gz"))
    if done.returncode or not archives:
        print(f"{done.stderr}\nno package index gives {requirement}, so there is nothing to show", file=sys.stderr)
        return None
    project = folder / "project"
    project.mkdir()
    subprocess.run(["tar", "-xzf", str(archives[0]), "-C", str(project)], check=True)
    return next(project.iterdir())


def show(tool: Tool, root: Path, folder: Path) -> int:
    """Checkpoint, damage, rewind, undo; the exit status."""
    watched = tool("watch")
    print(f"  {root.name}: {watched['files']} files, {watched['bytes']:,} bytes, {watched['skipped']} left out")
    sealed = tool("checkpoint", "-m", "before-the-agent")
    before = keep(root, folder / "before")
    for what, command in DAMAGE:
        subprocess.run(["sh", "-c", command], cwd=root, check=True)
        print(f"  {what}: {command}")
    damaged = keep(root, folder / "damaged")
    print(f"  {len(unequal(before, damaged))} of {len(before | damaged)} paths differ from the checkpoint now")

    rewound = tool("rewind", sealed["id"], "--exact", "--yes")
    parts = ("restored", "removed", "conflicts", "kept", "skipped")
    counts = ", ".join(f"{len(rewound[part])} {part}" for part in parts)
    print(f"  {counts}, {rewound['untouched']} untouched")
    back = verdict("the tree is the one that the checkpoint saw", before, read(root))

    undone = tool("undo", "--yes")
    print(f"  {len(undone['restored'])} restored, {len(undone['removed'])} removed")
    forth = verdict("the tree is the damaged one again", damaged, read(root))
    return 0 if back and forth else 1


def keep(root: Path, copy: Path) -> Tree:
    """A copy of the tree that OpenOxide had no part in, as it reads back."""
    subprocess.run(["cp", "-a", str(root), str(copy)], check=True)
    return read(copy)


def read(root: Path) -> Tree:
    """Everything below ``root``."""
    tree: Tree = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != STAGING]
        for name in folders + files:
            path = Path(folder, name)
            tree[str(path.relative_to(root))] = entry(path)
    return tree


def entry(path: Path) -> Entry:
    """Kind, mode, content and mtime; the last is no part of the state of a folder or a link."""
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return ("link", 0, str(path.readlink()), 0)
    if stat.S_ISDIR(status.st_mode):
        return ("folder", mode, "", 0)
    return ("file", mode, sha256(path.read_bytes()).hexdigest(), status.st_mtime_ns)


def unequal(one: Tree, other: Tree) -> list[str]:
    """The paths that are not the same in both."""
    return sorted(path for path in one | other if one.get(path) != other.get(path))


def verdict(claim: str, expected: Tree, found: Tree) -> bool:
    """Print whether the trees are equal, and where they are not."""
    wrong = unequal(expected, found)
    print(f"  {'NO' if wrong else 'yes'}: {claim} ({len(expected)} paths compared, {len(wrong)} differ)")
    for path in wrong[:20]:
        print(f"    {path}: expected {expected.get(path)}, found {found.get(path)}")
    return not wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
