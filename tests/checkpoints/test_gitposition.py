"""Git's files are read as git itself reads them: every real case is compared with what git says."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.gitposition import common_dir, read_git, without_userinfo
from openoxide.checkpoints.model import GitPosition

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
A, B = "a" * 40, "b" * 40
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(("git", *IDENTITY, *arguments), cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "commit", "-q", "--allow-empty", "-m", "change")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    commit(root)
    return root


def says_git(root: Path) -> GitPosition:
    head = subprocess.run(
        ("git", "rev-parse", "-q", "--verify", "HEAD"), cwd=root, capture_output=True, text=True, check=False
    )
    branch = subprocess.run(
        ("git", "symbolic-ref", "-q", "--short", "HEAD"), cwd=root, capture_output=True, text=True, check=False
    )
    url = subprocess.run(
        ("git", "config", "--local", "remote.origin.url"), cwd=root, capture_output=True, text=True, check=False
    )
    return GitPosition(head=head.stdout.strip(), branch=branch.stdout.strip(), origin=url.stdout.strip())


def by_hand(root: Path, **files: str | bytes) -> Path:
    """A repository as files: ``HEAD``, ``config``, ``packed_refs`` or any path with ``__`` for a slash."""
    for name, content in {"HEAD": "ref: refs/heads/main\n", **files}.items():
        path = root / ".git" / name.replace("packed_refs", "packed-refs").replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def change_branch_name(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "feature/é-1.x")
    commit(root)


def pack_refs(root: Path) -> None:
    for number in range(20):
        git(root, "tag", "-m", "annotated", f"main{number}")
        git(root, "branch", f"main{number}", "HEAD")
    git(root, "pack-refs", "--all")
    assert not (root / ".git/refs/heads/main").exists()


def loose_over_packed(root: Path) -> None:
    git(root, "pack-refs", "--all")
    commit(root)


def detach(root: Path) -> None:
    commit(root)
    git(root, "checkout", "-q", "--detach", "HEAD~1")


def unborn(root: Path) -> None:
    git(root, "checkout", "-q", "--orphan", "fresh")


def branch_that_is_a_symref(root: Path) -> None:
    git(root, "branch", "real")
    git(root, "symbolic-ref", "refs/heads/alias", "refs/heads/real")
    (root / ".git/HEAD").write_text("ref: refs/heads/alias\n", "ascii")


def head_that_is_a_link(root: Path) -> None:
    (root / ".git/HEAD").unlink()
    (root / ".git/HEAD").symlink_to("refs/heads/main")


def bare_with_a_worktree_around_it(root: Path) -> None:
    git(root, "config", "core.bare", "true")


def several_remotes(root: Path) -> None:
    git(root, "remote", "add", "upstream", "https://example.org/upstream.git")
    git(root, "remote", "add", "origin", "https://example.org/first.git")


def origin_that_needs_quotes(root: Path) -> None:
    git(root, "config", "remote.origin.url", '/srv/a "b" #1; \\x')


@needs_git
@pytest.mark.parametrize(
    "prepare",
    [
        change_branch_name, pack_refs, loose_over_packed, detach, unborn, head_that_is_a_link,
        bare_with_a_worktree_around_it, several_remotes, origin_that_needs_quotes,
    ],
)  # fmt: skip
def test_a_repository_is_read_as_git_reads_it(repository: Path, prepare) -> None:
    prepare(repository)
    assert read_git(repository) == read_git(os.fsencode(repository)) == says_git(repository)
    assert common_dir(repository) == os.fsencode(repository / ".git")


@needs_git
def test_a_branch_that_is_another_name_of_a_branch_has_its_commit(repository: Path) -> None:
    branch_that_is_a_symref(repository)
    assert read_git(repository) == GitPosition(head=says_git(repository).head, branch="alias")


@needs_git
def test_a_sha256_repository_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256")
    head = commit(tmp_path)
    assert len(head) == 64
    assert read_git(tmp_path) == GitPosition(head=head, branch="main")


@needs_git
def test_a_worktree_has_its_own_head_and_the_common_dir_of_its_repository(repository: Path) -> None:
    git(repository, "remote", "add", "origin", "https://example.org/x.git")
    linked = repository.parent / "linked"
    git(repository, "worktree", "add", "-q", "-b", "topic", str(linked))
    commit(linked)
    assert read_git(linked) == says_git(linked)
    assert read_git(linked).head != read_git(repository).head
    assert common_dir(linked) == common_dir(repository)


@needs_git
def test_a_submodule_is_a_repository_of_its_own(repository: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    commit(library)
    git(repository, "submodule", "--quiet", "add", str(library), "inner")
    assert read_git(repository / "inner") == says_git(repository / "inner")
    assert read_git(repository / "inner").origin == str(library)
    assert common_dir(repository / "inner") == os.fsencode(repository / ".git/modules/inner")


@needs_git
def test_worktrees_around_a_bare_repository_are_one_project(repository: Path) -> None:
    hub = repository.parent / "hub"
    git(repository, "clone", "-q", "--bare", str(repository), str(hub / ".bare"))
    (hub / ".git").write_text("gitdir: ./.bare\n", "ascii")
    git(hub, "worktree", "add", "-q", "-b", "topic", str(hub / "topic"))
    assert common_dir(hub) == common_dir(hub / "topic") == os.fsencode(hub / ".bare")
    assert read_git(hub / "topic") == says_git(hub / "topic")


def link_to_it(folder: Path, trusted: Path) -> None:
    (folder / ".git").symlink_to(trusted / ".git")


def file_that_names_it(folder: Path, trusted: Path) -> None:
    (folder / ".git").write_text(f"gitdir: {trusted}/.git\n", "ascii")


def file_that_names_its_worktree(folder: Path, trusted: Path) -> None:
    (folder / ".git").write_text(f"gitdir: {trusted}/.git/worktrees/linked\n", "ascii")


def commondir_that_names_it(folder: Path, trusted: Path) -> None:
    by_hand(folder, commondir=f"{trusted}/.git\n", gitdir=f"{folder}/.git\n")


@needs_git
@pytest.mark.parametrize(
    "forge", [link_to_it, file_that_names_it, file_that_names_its_worktree, commondir_that_names_it]
)
def test_a_tree_does_not_join_a_project_by_pointing_at_it(repository: Path, forge) -> None:
    git(repository, "worktree", "add", "-q", str(repository.parent / "linked"))
    stranger = repository.parent / "stranger"
    stranger.mkdir()
    forge(stranger, repository)
    assert common_dir(stranger) is None


@needs_git
def test_reading_changes_nothing(repository: Path) -> None:
    def listing() -> list[tuple[str, int, int]]:
        return [(str(path), path.lstat().st_mtime_ns, path.lstat().st_ino) for path in sorted(repository.rglob("*"))]

    before = listing()
    read_git(repository)
    common_dir(repository)
    assert listing() == before


@needs_git
def test_no_token_of_the_origin_is_kept(repository: Path) -> None:
    git(repository, "remote", "add", "origin", "https://user:ghp_s3cret@example.org:8443/team/x.git")
    assert read_git(repository).origin == "https://example.org:8443/team/x.git"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://example.org/x.git", "https://example.org/x.git"),
        ("https://SECRET@example.org/x.git", "https://example.org/x.git"),
        ("https://u:SECRET@example.org", "https://example.org"),
        ("https://u:SEC@RET@example.org/x", "https://example.org/x"),
        ("https://u:SEC/RET@example.org/x", ""),
        ("https://u:1/SECRET@example.org/x", ""),
        ("https://u:1?SECRET@example.org/x", ""),
        ("https://u:SECRET", ""),
        ("https://example.org/x?private_token=SECRET#SECRET", "https://example.org/x"),
        ("ssh://git:SECRET@[2001:db8::1]:22/x", "ssh://[2001:db8::1]:22/x"),
        ("git@example.org:team/x.git", "example.org:team/x.git"),
        ("git@[2001:db8::1]:x", "[2001:db8::1]:x"),
        ("u:SECRET@example.org:x", "example.org:x"),
        ("u:SECRET@example.org", ""),
        ("u:SEC/RET@example.org:x", ""),
        ("SECRET@example.org/x", ""),
        ("ext::ssh -i SECRET %S example.org", ""),
        ("codecommit::eu-west-1://SECRET@x", ""),
        ("file:///srv/x.git", "file:///srv/x.git"),
        ("/srv/a@b:c.git", "/srv/a@b:c.git"),
        ("../x@y", "../x@y"),
        ("x.git", "x.git"),
        ("", ""),
    ],
)
def test_an_origin_keeps_its_place_and_loses_its_secrets(url: str, kept: str) -> None:
    assert without_userinfo(url) == kept
    assert "SEC" not in kept


@pytest.mark.parametrize(
    ("config", "origin"),
    [
        ('[remote "origin"]\n\turl = /srv/x\n', "/srv/x"),
        ('[REMOTE "origin"] URL=/srv/x # why\n', "/srv/x"),
        ('[remote "origin"]\n url = /srv/\\\nx\n', "/srv/x"),
        ('[remote "origin"]\r\n\turl = /srv/x\r\n', "/srv/x"),
        ('[remote "origin"]\n url = "/srv/ x" ; why\n', "/srv/ x"),
        ('[remote "origin"]\n url = /srv/x\n url = /srv/y\n', "/srv/x"),
        ('[remote "Origin"]\n url = /srv/y\n[remote "origin"]\n url = /srv/x\n', "/srv/x"),
        ('[remote "other"]\n url = /srv/y\n', ""),
        ('# [remote "origin"]\n# ] url = /srv/y\n', ""),
        ('[remote "origin"]\n url\n', ""),
        ('[remote "origin"]\n pushurl = /srv/y\n', ""),
        ('[remote "origin"]\n url = /srv/a\\nb\n', ""),
        ('[remote "origin"]\n url = /srv/x\n' + "#" * (256 << 10), ""),
        ('[remote "origin"]\n url = /srv/' + "x" * 5_000, ""),
        ("\xff[[[\n", ""),
    ],
)
def test_the_origin_is_found_in_every_spelling_of_the_config(tmp_path: Path, config: str, origin: str) -> None:
    assert read_git(by_hand(tmp_path, config=config)) == GitPosition(branch="main", origin=origin)


@pytest.mark.parametrize(
    ("files", "position"),
    [
        ({"refs__heads__main": A + "\n"}, GitPosition(head=A, branch="main")),
        ({"HEAD": "ref:refs/heads/main", "refs__heads__main": A}, GitPosition(head=A, branch="main")),
        (
            {"packed_refs": f"# pack-refs with: peeled\n{A} refs/heads/main2\n{B} refs/heads/main\n"},
            GitPosition(head=B, branch="main"),
        ),
        ({"packed_refs": f"{A} refs/heads/main"}, GitPosition(branch="main")),
        ({"packed_refs": f"^{A} refs/heads/main\n"}, GitPosition(branch="main")),
        ({"packed_refs": f"{A} refs/heads/a\n" * 22_000 + f"{A} refs/heads/main\n"}, GitPosition(branch="main")),
        ({"packed_refs": f"{A} refs/heads/main\n" + f"{A} refs/tags/a\n" * 22_000}, GitPosition(head=A, branch="main")),
        ({"HEAD": A + "\n"}, GitPosition(head=A)),
        ({"HEAD": A[:39] + "\n"}, GitPosition()),
        ({"HEAD": A.upper() + "\n"}, GitPosition()),
        ({"HEAD": ""}, GitPosition()),
        ({"HEAD": "ref: refs/heads/.invalid\n", "reftable__tables.list": "x"}, GitPosition()),
        ({"HEAD": "ref: refs/heads/main\n", "reftable__tables.list": "x"}, GitPosition(branch="main")),
        ({"HEAD": "ref: refs/remotes/origin/x\n", "refs__remotes__origin__x": A}, GitPosition(head=A)),
        ({"HEAD": "ref: refs/heads/../../secret\n", "secret": A, "refs__heads__x": A}, GitPosition()),
        ({"HEAD": "ref: /etc/passwd\n"}, GitPosition()),
        ({"HEAD": "ref: refs/heads/a\nb\n"}, GitPosition()),
        ({"HEAD": "ref: refs/heads/\x1b[31m\n"}, GitPosition()),
        ({"HEAD": b"ref: refs/heads/\xff\n"}, GitPosition(branch="\\xff")),
        ({"HEAD": "ref: refs/heads/main\n" + "x" * 5_000}, GitPosition()),
        ({"HEAD": "ref: refs/heads/main\0"}, GitPosition()),
        ({"refs__heads__main": "ref: refs/heads/main\n"}, GitPosition(branch="main")),
        ({"refs__heads__main": "not a commit\n"}, GitPosition(branch="main")),
        ({"refs__heads__main__deeper": A}, GitPosition(branch="main")),
        ({"commondir": "/nowhere\n", "refs__heads__main": A}, GitPosition(head=A, branch="main")),
    ],
)  # fmt: skip
def test_odd_and_broken_files_give_what_can_be_known(
    tmp_path: Path, files: dict[str, str | bytes], position: GitPosition
) -> None:
    assert read_git(by_hand(tmp_path, **files)) == position


@pytest.mark.parametrize(
    "dot_git",
    [
        b"",
        b"gitdir: ",
        b"gitdir: /nowhere\n",
        b"gitdir: a\0b\n",
        b"elsewhere\n",
        b"gitdir: .\n",
        b"gitdir: .git\n",
        b"x" * 9_000,
        b"\xff",
    ],
)
def test_a_git_file_that_leads_nowhere_is_no_repository(tmp_path: Path, dot_git: bytes) -> None:
    (tmp_path / ".git").write_bytes(dot_git)
    assert read_git(tmp_path) == GitPosition()
    assert common_dir(tmp_path) is None


def test_a_folder_without_git_is_no_repository(tmp_path: Path) -> None:
    assert read_git(tmp_path) == read_git(tmp_path / "missing") == GitPosition()
    assert common_dir(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert read_git(tmp_path) == GitPosition()
    assert common_dir(tmp_path) is None


@pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs", "refs/heads/main", "commondir"])
def test_a_pipe_in_the_place_of_a_file_does_not_block(tmp_path: Path, name: str) -> None:
    path = by_hand(tmp_path) / ".git" / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    assert read_git(tmp_path).head == ""


def test_a_device_in_the_place_of_a_file_is_not_read(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    os.write(master, b'[remote "origin"] url = /srv/x\n')
    (by_hand(tmp_path) / ".git/config").symlink_to(os.ttyname(slave))
    assert read_git(tmp_path).origin == ""
    os.close(slave)
    os.close(master)


def test_a_way_back_that_is_no_path_confirms_nothing(tmp_path: Path) -> None:
    other = by_hand(tmp_path / "other", config="[core]\n worktree = a\0b\n", objects__x="")
    by_hand(tmp_path / "other", worktrees__w__HEAD=A, worktrees__w__commondir="../..\n", worktrees__w__gitdir="a\0b\n")
    project = tmp_path / "project"
    project.mkdir()
    for place in (".git", ".git/worktrees/w"):
        (project / ".git").write_text(f"gitdir: {other}/{place}\n", "ascii")
        assert common_dir(project) is None


FILE = st.binary(max_size=200) | st.sampled_from(
    [b"ref: refs/heads/x\n", A.encode(), b"gitdir: ..\n", b'[remote "origin"]\nurl = a@b:c\n']
)


@given(head=FILE, config=FILE, packed_refs=FILE, commondir=FILE, gitdir=FILE)
def test_no_content_makes_reading_fail(tmp_path_factory: pytest.TempPathFactory, **files: bytes) -> None:
    files["HEAD"] = files.pop("head")
    root = by_hand(tmp_path_factory.mktemp("tree"), **files)
    (root / ".git/objects").mkdir()
    position = read_git(root)
    assert all("\n" not in field for field in (position.head, position.branch, position.origin))
    common_dir(root)


@given(st.binary(max_size=300))
def test_no_git_file_makes_reading_fail(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / ".git").write_bytes(b"gitdir: " + content)
    read_git(root)
    common_dir(root)
