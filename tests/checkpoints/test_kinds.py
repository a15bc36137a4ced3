"""The 35 kinds that other tools were measured with, in three modes: a declared session, scope ``all``, ``--exact``.

A tree is built, checkpointed, changed from outside as a shell would, and rewound once for each mode. Each kind is then
judged by itself, against descriptions of the tree that share no code with the product.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from openoxide.daemon.protocol import entry_path
from tests.kit import Description, diff_trees, tree_of, wait_until
from tests.kit.box import Box

OLD_NS = 1_577_836_800_123_456_789  # in 2020: no clock gives it by chance
STAGING = ".openoxide-staging"
LISTS = ("restored", "removed", "merged", "kept", "conflicts", "skipped", "changed_since")

UNICODE_1, UNICODE_2 = "café.txt".encode(), "日本語.txt".encode()
SPACE, LATIN_1, NEWLINE = b"a name with space.txt", b"caf\xe9.txt", b"new\nline.txt"
USER = b"user_after.txt"
NOT_RECORDED = (b".git", b"nested/.git", b"target")

Tree = dict[bytes, Description]

COMMITTED = {
    b".gitignore": b".env\n*.local\n*.o\ntarget/\n",
    b"tracked.txt": b"v1\n",
    b"run.sh": b"#!/bin/sh\n",
    b"binary.bin": random.Random(1).randbytes(4096),
    b"crlf.txt": b"one\r\ntwo\r\n",
    UNICODE_1: b"two letters, three bytes\n",
    UNICODE_2: b"wide\n",
    SPACE: b"space\n",
    b"d/inner.txt": b"inner\n",
    b"old_name.txt": b"renamed\n",
    b"untouched.txt": b"nobody writes here\n",
}
UNCOMMITTED = {
    b"tracked.txt": b"v2, not committed\n",
    b"staged.txt": b"staged, then edited\n",
    b"untracked.txt": b"mine\n",
    b"secret.key": b"secret\n",
    b".env": b"TOKEN=1\n",
    b"notes.local": b"ignored, and nowhere else\n",
    b"main.o": random.Random(2).randbytes(2000),
    b"target/app": b"skipped\n",
    b"three.bin": random.Random(3).randbytes(3 << 20),
    b"twelve.bin": random.Random(12).randbytes(12 << 20),
    b"hard_a.txt": b"one inode\n",
    b"linked.txt": b"its twin lies outside\n",
    LATIN_1: b"latin-1\n",
    NEWLINE: b"newline\n",
}
EDITED = [
    b"tracked.txt", b"crlf.txt", UNICODE_1, SPACE, b"staged.txt", b"untracked.txt", b"secret.key", b".env", b"main.o",
    b"target/app", b"three.bin", b"hard_a.txt", b"linked.txt", LATIN_1, NEWLINE, b"nested/file.txt",
]  # fmt: skip
DELETED = [b"binary.bin", b"dangling", b"notes.local", b"twelve.bin", b"link", UNICODE_2]
NEW = [b"new.txt", b"fresh/deep/new.txt", b"new.local"]


class Mode(Enum):
    SESSION = "session"
    ALL = "all"
    EXACT = "exact"


def git(root: Path, *arguments: str) -> str:
    # optional locks: a status that refreshes the index would be a change of ours
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(["git", "-C", root, *arguments], env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def commit_all(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")


def at(root: Path, name: bytes) -> Path:
    return root / os.fsdecode(name)


def write(root: Path, files: dict[bytes, bytes]) -> None:
    for name, content in files.items():
        at(root, name).parent.mkdir(parents=True, exist_ok=True)
        at(root, name).write_bytes(content)


def build(root: Path) -> None:
    write(root, COMMITTED)
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("tracked.txt")
    (root / "dangling").symlink_to("/nowhere/at/all")
    commit_all(root)
    write(root, {b"staged.txt": b"staged\n"})
    git(root, "add", "staged.txt")
    write(root, UNCOMMITTED)
    (root / "secret.key").chmod(0o600)
    (root / "hard_b.txt").hardlink_to(root / "hard_a.txt")
    (root.parent / "twin.txt").hardlink_to(root / "linked.txt")
    (root / "empty").mkdir()
    write(root / "nested", {b"file.txt": b"in another repository\n"})
    commit_all(root / "nested")
    for path, what in tree_of(root, skip={b".git"}).items():
        if what[0] == "file":
            os.utime(at(root, path), ns=(OLD_NS, OLD_NS))


def act(root: Path) -> None:
    """What the agent does: everything but to one file."""
    write(root, dict.fromkeys(EDITED, b"by the agent\n"))
    for name in DELETED:
        at(root, name).unlink()
    (root / "link").write_bytes(b"no link any more\n")
    (root / "run.sh").chmod(0o644)
    (root / "secret.key").chmod(0o644)
    shutil.rmtree(root / "d")
    (root / "d").write_bytes(b"no directory any more\n")
    (root / "old_name.txt").rename(root / "new_name.txt")
    (root / "empty").rmdir()
    write(root, dict.fromkeys(NEW, b"made by the agent\n"))


Identity = tuple[int, int, int]


def identities(root: Path, paths: Iterable[bytes]) -> dict[bytes, Identity]:
    found = ((path, at(root, path).lstat()) for path in paths)
    return {
        path: (seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns)
        for path, seen in found
        if not stat.S_ISDIR(seen.st_mode)
    }


@dataclass(frozen=True, kw_only=True)
class Run:
    """One rewind. ``then`` is the tree at the checkpoint, ``now`` before the rewind, ``undone`` after the undo."""

    mode: Mode
    root: Path
    then: Tree
    now: Tree
    after: Tree
    undone: Tree
    identities_now: dict[bytes, Identity]
    identities_after: dict[bytes, Identity]
    answer: dict[str, Any]
    git_status: str

    def listed(self, path: bytes) -> dict[str, str]:
        """In which lists of the answer ``path`` stands, each with the reason."""
        return {name: e.get("reason", "") for name in LISTS for e in self.answer[name] if entry_path(e) == path}


def settled(root: Path, skip: Collection[bytes] = ()) -> Tree:
    """The tree once the staging folder is gone: it is deleted in the background."""
    wait_until(lambda: not (root / STAGING).exists(), 30)
    return tree_of(root, skip)


def changed_between(box: Box, mode: Mode) -> tuple[str, Tree]:
    """Checkpoint, let the agent and then the user work; the checkpoint's name, and the tree at it."""
    if mode is Mode.SESSION:
        box.call("turn_begin", agent="claude", session="S", prompt="P")
        name = "turn:-1"
    else:
        name = box.checkpoint()["id"]
    then = tree_of(box.root)
    act(box.root)
    if mode is Mode.SESSION:
        box.call("turn_end", agent="claude", session="S")
    write(box.root, {USER: b"the user's own work\n"})
    return name, then


@pytest.fixture(scope="module", params=list(Mode), ids=lambda mode: mode.value)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    mode = request.param
    with Box(tmp_path_factory.mktemp("kinds")) as box:
        build(box.root)
        box.watch()
        name, then = changed_between(box, mode)
        now = tree_of(box.root)
        identities_now = identities(box.root, now)
        scope = "session" if mode is Mode.SESSION else "all"
        answer = box.rewind(name, scope=scope, exact=mode is Mode.EXACT)
        after = settled(box.root)
        identities_after = identities(box.root, after)
        git_status = git(box.root, "status", "--porcelain", "--", "staged.txt")
        box.call("undo")
        undone = settled(box.root)
    return Run(
        mode=mode,
        root=box.root,
        then=then,
        now=now,
        after=after,
        undone=undone,
        identities_now=identities_now,
        identities_after=identities_after,
        answer=answer,
        git_status=git_status,
    )


# What can become of a kind


def comes_back(run: Run, path: bytes) -> None:
    assert run.now.get(path) != run.then[path], "the agent changed it"
    assert run.after.get(path) == run.then[path]
    assert list(run.listed(path)) == ["restored"]


def is_removed(run: Run, path: bytes) -> None:
    assert path not in run.then
    assert path in run.now
    assert path not in run.after
    assert list(run.listed(path)) == ["removed"]


def is_kept(run: Run, path: bytes) -> None:
    assert path not in run.then
    assert run.after[path] == run.now[path]
    assert run.listed(path) == {"kept": "newer"}


def is_no_concern(run: Run, path: bytes) -> None:
    assert run.after[path] == run.now[path]
    assert run.listed(path) == {}


def keeps_inode_and_times(run: Run, path: bytes) -> None:
    is_no_concern(run, path)
    assert run.identities_after[path] == run.identities_now[path]
    assert run.after[path][2] == OLD_NS


def has_its_old_mtime(run: Run, path: bytes) -> None:
    assert run.now[path][2] != OLD_NS
    assert run.after[path][2] == OLD_NS


def has_mode_0600(run: Run, path: bytes) -> None:
    assert (run.now[path][1], run.after[path][1]) == (0o644, 0o600)


def is_a_file_of_its_own(run: Run, path: bytes) -> None:
    """A hard link is not kept, on purpose (cli.md, decided point 3): its twin is not ours to change."""
    comes_back(run, path)
    twin = run.root.parent / "twin.txt"
    assert run.identities_now[path][0] == twin.stat().st_ino
    assert run.identities_after[path][0] != twin.stat().st_ino
    assert (twin.read_bytes(), twin.stat().st_mtime_ns) == (run.now[path][3], run.now[path][2])


def is_am_in_the_index(run: Run, path: bytes) -> None:
    assert run.git_status == f"AM {os.fsdecode(path)}\n"


Verdict = Callable[[Run, bytes], None]
BACK = (comes_back, comes_back, comes_back)
NEWER = (is_removed, is_kept, is_removed)

ROWS: list[tuple[str, bytes, tuple[Verdict, Verdict, Verdict]]] = [
    # what, where, and what becomes of it with a session, with scope all, exact
    ("tracked file edit (uncommitted v2 kept)", b"tracked.txt", BACK),
    ("exec bit", b"run.sh", BACK),
    ("symlink replaced by file", b"link", BACK),
    ("dangling symlink deleted", b"dangling", BACK),
    ("binary deleted", b"binary.bin", BACK),
    ("CRLF file", b"crlf.txt", BACK),
    ("unicode name 1", UNICODE_1, BACK),
    ("unicode name 2", UNICODE_2, BACK),
    ("name with space", SPACE, BACK),
    ("dir replaced by file", b"d/inner.txt", BACK),
    ("renamed file back", b"old_name.txt", BACK),
    ("staged+edited", b"staged.txt", BACK),
    ("untracked edit", b"untracked.txt", BACK),
    ("untracked 0600 (content)", b"secret.key", BACK),
    (".env ignored edit", b".env", BACK),
    ("ignored file deleted", b"notes.local", BACK),
    ("ignored build output", b"main.o", BACK),
    ("empty dir deleted", b"empty", BACK),
    ("3 MB untracked", b"three.bin", BACK),
    ("12 MB untracked deleted", b"twelve.bin", BACK),
    ("hardlinked content", b"hard_a.txt", BACK),
    ("latin-1 byte name", LATIN_1, BACK),
    ("newline in name", NEWLINE, BACK),
    ("nested git repo file", b"nested/file.txt", BACK),
    ("agent new file removed", b"new.txt", NEWER),
    ("agent new nested file removed", b"fresh/deep/new.txt", NEWER),
    ("renamed target removed", b"new_name.txt", NEWER),
    ("agent new ignored file removed", b"new.local", NEWER),
    ("empty parent dirs of new files removed", b"fresh", NEWER),
    ("mode 0600 kept", b"secret.key", (has_mode_0600,) * 3),
    ("mtime of restored file", b"tracked.txt", (has_its_old_mtime,) * 3),
    ("mtime of untouched file", b"untouched.txt", (keeps_inode_and_times,) * 3),
    ("hard link kept", b"linked.txt", (is_a_file_of_its_own,) * 3),
    ("USER file made after ckpt survives", USER, (is_no_concern, is_kept, is_removed)),
    ("git index: staged.txt still AM", b"staged.txt", (is_am_in_the_index,) * 3),
]


@pytest.mark.parametrize(("path", "becomes"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_each_kind_is_right(run: Run, path: bytes, becomes: tuple[Verdict, Verdict, Verdict]):
    becomes[list(Mode).index(run.mode)](run, path)


def below(path: bytes, folders: Iterable[bytes]) -> bool:
    return any(path == folder or path.startswith(folder + b"/") for folder in folders)


def expected(mode: Mode, then: Tree, now: Tree) -> Tree:
    """What a rewind has to leave, from the trees alone: the checkpoint, with what the mode has to leave alone."""
    newer = {Mode.SESSION: {USER}, Mode.ALL: now.keys() - then.keys(), Mode.EXACT: set()}[mode]
    stays = {path for path in now if path in newer or below(path, NOT_RECORDED)}
    return {path: what for path, what in then.items() if not below(path, NOT_RECORDED)} | {p: now[p] for p in stays}


def test_the_whole_tree_is_as_expected(run):
    assert diff_trees(expected(run.mode, run.then, run.now), run.after) == []
    assert (run.answer["conflicts"], run.answer["merged"], run.answer["changed_since"]) == ([], [], [])


def test_the_agent_changed_every_recorded_file_but_one(run):
    """Else a rewind that did too little would pass."""
    files = {path for path, what in run.then.items() if what[0] == "file" and not below(path, NOT_RECORDED)}
    assert {path for path in files if run.now.get(path) == run.then[path]} == {b".gitignore", b"untouched.txt"}


def test_git_is_not_touched(run):
    repositories = (b".git", b"nested/.git")
    now = {path: what for path, what in run.now.items() if below(path, repositories)}
    assert b".git/index" in now
    assert b"nested/.git/HEAD" in now
    assert diff_trees(now, {path: what for path, what in run.after.items() if below(path, repositories)}) == []
    assert {p: run.identities_now[p] for p in now if p in run.identities_now} == {
        p: i for p, i in run.identities_after.items() if below(p, repositories)
    }


def test_unchanged_files_keep_inode_and_times(run):
    unchanged = {path for path in run.identities_now if run.after.get(path) == run.now[path]}
    assert {b"untouched.txt", b".gitignore", b"target/app"} <= unchanged
    assert {p: run.identities_after[p] for p in unchanged} == {p: run.identities_now[p] for p in unchanged}


def test_undo_brings_back_the_tree_of_the_agent(run):
    assert diff_trees(run.now, run.undone) == []


# Six more cases in which others lost data


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as made:
        yield made


def test_a_directory_that_became_a_link_to_outside_leads_no_write_there(box, tmp_path):
    write(box.root, {b"d/inner.txt": b"inside\n", b"d/deep/more.txt": b"inside\n"})
    write(tmp_path / "outside", {b"inner.txt": b"outside\n"})
    box.watch()
    then, outside = tree_of(box.root), tree_of(tmp_path / "outside")
    shutil.rmtree(box.root / "d")
    (box.root / "d").symlink_to(tmp_path / "outside")

    box.rewind("last", exact=True)

    assert diff_trees(then, settled(box.root)) == []
    assert diff_trees(outside, tree_of(tmp_path / "outside")) == []


@pytest.mark.parametrize("exact", [False, True])
def test_a_file_that_an_uncommitted_ignore_rule_protects_stays(box, exact):
    write(box.root, {b".gitignore": b"*.log\n"})
    commit_all(box.root)
    write(box.root, {b".gitignore": b"*.log\ndata/\n", b"data/precious.csv": b"1;2\n"})
    box.watch()
    then, was = tree_of(box.root, skip={b".git"}), identities(box.root, [b"data/precious.csv"])
    git(box.root, "checkout", "-q", "--", ".gitignore")

    box.rewind("last", exact=exact)

    assert diff_trees(then, settled(box.root, skip={b".git"})) == []
    assert identities(box.root, [b"data/precious.csv"]) == was


def test_a_note_comes_back_although_the_agent_made_it_ignored(box):
    write(box.root, {b".gitignore": b"*.log\n", b"note.txt": b"mine, untracked\n"})
    box.watch()
    then = tree_of(box.root)
    write(box.root, {b".gitignore": b"*.log\nnote.txt\n", b"note.txt": b"by the agent\n"})

    box.rewind("last")

    assert diff_trees(then, settled(box.root)) == []


def test_a_nested_repository_without_a_commit_is_recorded_as_it_is(box):
    git(box.root, "init", "-q")
    box.watch()
    write(box.root, {b"child/file.txt": b"first\n"})
    git(box.root / "child", "init", "-q")
    checkpoint = box.checkpoint()
    then = tree_of(box.root)
    write(box.root, {b"child/file.txt": b"second\n"})

    assert checkpoint["changed"] == {"added": 2, "modified": 0, "removed": 0}
    box.rewind(checkpoint["id"])

    assert diff_trees(then, settled(box.root)) == []


def test_a_stale_index_lock_stops_nothing_and_stays(box):
    write(box.root, {b"file.txt": b"first\n"})
    commit_all(box.root)
    write(box.root, {b".git/index.lock": b""})
    box.watch()
    then = tree_of(box.root)
    write(box.root, {b"file.txt": b"second\n"})

    answer = box.rewind("last")

    assert [entry["path"] for entry in answer["restored"]] == ["file.txt"]
    assert answer["pre_rewind_checkpoint"]["changed"]["modified"] == 1
    assert diff_trees(then, settled(box.root)) == []


def one_after_the_other(box: Box) -> None:
    for session in ("A", "B"):
        box.call("turn_begin", agent="claude", session=session, prompt=f"of {session}")
        write(box.root, {f"{session}.txt".encode(): b"edited\n", b"both.txt": f"by {session}\n".encode()})
        box.call("turn_end", agent="claude", session=session)


def interleaved(box: Box) -> None:
    """Both turns are open all the time; tool calls tell who writes, once each session has declared one."""
    for session in ("A", "B"):
        box.call("turn_begin", agent="claude", session=session, prompt=f"of {session}")
    for session in ("A", "B"):
        box.call("tool_begin", agent="claude", session=session, tool="Read")
        box.call("tool_end", agent="claude", session=session, tool="Read")
    for session in ("A", "B"):
        box.call("tool_begin", agent="claude", session=session, tool="Bash")
        write(box.root, {f"{session}.txt".encode(): b"edited\n", b"both.txt": f"by {session}\n".encode()})
        box.call("tool_end", agent="claude", session=session, tool="Bash")


@pytest.mark.parametrize("work", [one_after_the_other, interleaved])
def test_taking_back_one_session_leaves_the_other_alone(box, work):
    write(box.root, {b"A.txt": b"first\n", b"B.txt": b"first\n", b"both.txt": b"first\n"})
    box.watch()
    then = tree_of(box.root)
    work(box)
    now = tree_of(box.root)

    answer = box.rewind("turn:of A", scope="session")

    assert diff_trees({**now, b"A.txt": then[b"A.txt"]}, settled(box.root)) == []
    assert [entry["path"] for entry in answer["restored"]] == ["A.txt"]
    assert [(entry["path"], entry["reason"]) for entry in answer["conflicts"]] == [("both.txt", "changed_later")]
