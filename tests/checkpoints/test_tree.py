"""A worktree through its descriptor: nothing is reached through a link, with openat2 and without."""

from __future__ import annotations

import errno
import os
import shutil
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints import tree as tree_module
from openoxide.checkpoints.model import RACY_NS, StatIdentity, join, split, sqlite_base
from openoxide.checkpoints.tree import MAX_OPEN_FOLDERS, RootIdentity, Tree, identity, identity_of, open_beneath
from openoxide.errors import RootVanishedError
from tests.kit import effort

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
REFUSED = OSError  # which one says so is each way's own affair


@pytest.fixture(params=["openat2", "walk"])
def way(request, monkeypatch):
    """Both ways of opening; the kernel's is there on every Linux since 5.6."""
    if request.param == "walk":
        monkeypatch.setattr(tree_module, "_has_openat2", False)
    return request.param


@pytest.fixture
def root(tmp_path):
    """A tree beside a secret, with links of every kind that lead there."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "e" / "f").write_text("inside")
    (root / "absolute").symlink_to(tmp_path / "outside")
    (root / "relative").symlink_to("../outside")
    (root / "d" / "up").symlink_to("..")
    (root / "inner").symlink_to("d")
    (root / "loop").symlink_to("loop")
    (root / "to_file").symlink_to("d/e/f")
    return root


@pytest.fixture
def tree(root, way):
    with Tree(os.fsencode(root)) as tree:
        yield tree


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


WAYS_OUT = [
    b"absolute/secret",
    b"relative/secret",
    b"d/up/d/e/f",
    b"inner/e/f",
    b"loop/x",
    b"to_file",
    b"absolute",
    b"d/e/f/x",
    b"gone/x",
]


@pytest.mark.parametrize("path", WAYS_OUT)
def test_no_file_is_opened_through_a_link_or_out_of_the_tree(tree, path):
    before = open_descriptors()
    with pytest.raises(REFUSED) as caught:
        tree.open_file(path)
    assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.ENOENT}
    assert open_descriptors() == before, "a descriptor leaked"


@pytest.mark.parametrize("path", [path for path in WAYS_OUT if path not in (b"to_file", b"absolute")])
def test_nothing_stands_behind_a_link(tree, path):
    assert tree.lstat(path) is None


@pytest.mark.parametrize(
    "directory", [b"absolute", b"relative", b"inner", b"loop", b"d/up", b"d/up/d", b"to_file", b"gone"]
)
def test_no_folder_is_opened_through_a_link(tree, directory):
    with pytest.raises(REFUSED):
        tree.folder(directory)


@pytest.mark.parametrize("path", [b"..", b"../outside", b"d/../../outside", b"/", b"/etc", b"", b"absolute", b"d/up"])
def test_no_path_leads_out_of_the_tree(tree, way, path, request):
    """Such paths never come from a timeline that is sound."""
    with pytest.raises(REFUSED):
        os.close(open_beneath(tree.fd, path, FOLDER))


def test_what_is_in_the_tree_is_reached(tree, root):
    fd = tree.open_file(b"d/e/f")
    assert os.read(fd, 100) == b"inside"
    os.close(fd)
    assert tree.lstat(b"d/e/f").st_ino == (root / "d/e/f").stat().st_ino
    assert tree.lstat(b"").st_ino == root.stat().st_ino
    assert tree.lstat(b"to_file").st_ino == os.lstat(root / "to_file").st_ino
    assert tree.readlink(b"d/up") == b".."
    assert [name for name, _ in tree.entries(b"d")] == [b"e", b"up"]
    assert [name for name, _ in tree.entries(b"")] == [b"absolute", b"d", b"inner", b"loop", b"relative", b"to_file"]


@pytest.mark.parametrize("path", [b"gone", b"gone/x", b"d/e/f/x", b"d/gone"])
def test_what_is_not_there_is_none(tree, path):
    assert tree.lstat(path) is None


def test_a_folder_that_moved_away_is_known_for_it(tree, root):
    fd = tree.folder(b"d/e")
    assert tree.is_folder(b"d/e", fd)
    assert tree.is_folder(b"", tree.fd)
    os.rename(root / "d" / "e", root / "moved")
    assert not tree.is_folder(b"d/e", fd)
    (root / "d" / "e").mkdir()
    assert not tree.is_folder(b"d/e", fd), "another one has its name now"
    tree.forget_folders()
    assert tree.is_folder(b"d/e", tree.folder(b"d/e"))


def test_few_folders_are_kept_open(root, way):
    for number in range(MAX_OPEN_FOLDERS + 20):
        (root / f"{number}").mkdir()
        (root / f"{number}" / "f").touch()
    before = open_descriptors()
    with Tree(os.fsencode(root)) as tree:
        for _ in range(2):
            for number in range(MAX_OPEN_FOLDERS + 20):
                assert tree.lstat(b"%d/f" % number) is not None
                assert tree.lstat(b"0/f") is not None
        assert open_descriptors() <= before + 1 + MAX_OPEN_FOLDERS
    assert open_descriptors() == before


def test_a_fifo_that_took_a_files_place_does_not_block(tree, root):
    os.mkfifo(root / "pipe")
    os.close(tree.open_file(b"pipe"))


def test_a_socket_cannot_be_opened(tree, root, monkeypatch):
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        with pytest.raises(OSError, match="No such device"):
            tree.open_file(b"s")


def test_a_tree_may_be_deeper_than_a_path_is_long(root, way):
    """openat2 takes no path of more than 4,096 bytes; a walk does."""
    here = os.open(root, FOLDER)
    for _ in range(30):
        os.mkdir(b"d" * 200, dir_fd=here)
        inner = os.open(b"d" * 200, FOLDER, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open(b"f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    deep = b"/".join([b"d" * 200] * 30)
    with Tree(os.fsencode(root)) as tree:
        assert tree.lstat(deep + b"/f") is not None
        assert [name for name, _ in tree.entries(deep)] == [b"f"]


def test_a_filter_that_forbids_openat2_is_met_once(root, monkeypatch):
    """Container run-times answer EPERM or ENOSYS; the number of a call that no kernel has stands for them."""
    monkeypatch.setattr(tree_module, "_OPENAT2", 100_000)
    monkeypatch.setattr(tree_module, "_has_openat2", True)
    with Tree(os.fsencode(root)) as tree:
        assert tree.lstat(b"d/e/f") is not None
        assert tree.lstat(b"inner/e/f") is None
    assert tree_module._has_openat2 is False


names = st.sampled_from([b"a", b"b", b"l", b"m"])
paths = st.lists(names, min_size=1, max_size=4).map(b"/".join)
made = st.lists(
    st.tuples(paths, st.sampled_from(["file", "folder", "a", "b", "a/b", "..", "/", "../outside"])), max_size=8
)


@settings(max_examples=effort(60))
@given(made, st.lists(paths, min_size=1, max_size=8))
def test_both_ways_give_the_same_answers(tmp_path_factory, made, asked):
    root = os.fsencode(tmp_path_factory.mktemp("ways") / "root")
    os.mkdir(root)
    for path, what in made:
        place = root + b"/" + path
        if os.path.lexists(place) or not os.path.isdir(os.path.dirname(place)):
            continue
        if what == "file":
            open(place, "xb").close()
        elif what == "folder":
            os.mkdir(place)
        else:
            os.symlink(what, place)
    assert answers(root, asked, walk=False) == answers(root, asked, walk=True)
    shutil.rmtree(root)


def answers(root: bytes, asked: list[bytes], *, walk: bool) -> list[object]:
    before = tree_module._has_openat2
    tree_module._has_openat2 = not walk
    try:
        with Tree(root) as tree:
            return [(inode_of(tree.lstat, path), inode_of(tree.folder, path)) for path in asked]
    finally:
        tree_module._has_openat2 = before


def inode_of(look, path: bytes) -> int | None:
    """The inode that is reached, None if it is refused."""
    try:
        found = look(path)
    except REFUSED:
        return None
    return os.fstat(found).st_ino if isinstance(found, int) else found.st_ino if found else None


class TestRoot:
    def test_the_directory_that_was_watched_is_accepted(self, root):
        with Tree(os.fsencode(root), identity_of(os.fsencode(root))):
            pass

    def test_another_directory_of_that_name_is_not(self, root):
        before = open_descriptors()
        known = identity_of(os.fsencode(root))
        os.rename(root, root.with_name("moved"))
        root.mkdir()
        with pytest.raises(RootVanishedError, match="is not the directory that was watched"):
            Tree(os.fsencode(root), known)
        assert open_descriptors() == before

    @pytest.mark.parametrize("name", ["gone", "d/e/f", "loop"])
    def test_what_is_no_directory_has_vanished(self, root, name):
        with pytest.raises(RootVanishedError, match="cannot be opened"):
            Tree(os.fsencode(root / name))

    def test_a_device_makes_a_difference(self, root):
        known = identity_of(os.fsencode(root))
        with pytest.raises(RootVanishedError):
            Tree(os.fsencode(root), RootIdentity(known.dev + 1, known.ino))


def stat_identity(**more: int) -> StatIdentity:
    values = {"dev": 1, "ino": 2, "size": 3, "mtime_ns": 10**9, "ctime_ns": 10**9, "mode": 0o100644, **more}
    return StatIdentity(**values)


@pytest.mark.parametrize("field", ["dev", "ino", "size", "mtime_ns", "ctime_ns", "mode"])
def test_an_entry_is_the_same_if_all_of_its_stat_is(field):
    assert stat_identity().same_entry(stat_identity(nlink=3, read_at_ns=5))
    assert not stat_identity().same_entry(stat_identity(**{field: 7}))


@pytest.mark.parametrize(
    ("age_ns", "racy"), [(-1, True), (0, True), (RACY_NS, True), (RACY_NS + 1, False), (10**12, False)]
)
@pytest.mark.parametrize("changed", ["mtime_ns", "ctime_ns"])
def test_a_stat_of_something_that_changed_just_now_proves_nothing(age_ns, racy, changed):
    read_at = 5 * 10**12 + 1
    old = dict.fromkeys(("mtime_ns", "ctime_ns"), 1)
    assert stat_identity(**{**old, changed: read_at - age_ns}, read_at_ns=read_at).racy is racy


@pytest.mark.parametrize(
    ("age_ns", "racy"), [(0, True), (1_999_999_999, True), (2_000_000_001, False), (10**12, False)]
)
def test_where_times_are_whole_seconds_it_proves_nothing_for_longer(age_ns, racy):
    """ext4 with inodes of 128 bytes, HFS+; FAT has two seconds."""
    changed = 5 * 10**12
    identity = stat_identity(mtime_ns=changed, ctime_ns=changed, read_at_ns=changed + age_ns)
    assert identity.racy is racy


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (RootIdentity(1, 2, 3), True),
        (RootIdentity(1, 2), True),
        (RootIdentity(1, 2, 4), False),
        (RootIdentity(1, 9, 3), False),
        (RootIdentity(9, 2, 3), False),
    ],
)
def test_a_directory_is_itself_as_far_as_is_known(other, same):
    assert RootIdentity(1, 2, 3).same_as(other) is same
    assert other.same_as(RootIdentity(1, 2, 3)) is same


def test_a_directory_made_anew_with_the_inode_number_of_the_old_one_is_another(root):
    known = identity_of(os.fsencode(root))
    if not known.birth_ns:
        pytest.skip("this file system does not tell when a directory was made")

    with pytest.raises(RootVanishedError, match="is not the directory that was watched"):
        Tree(os.fsencode(root), RootIdentity(known.dev, known.ino, known.birth_ns - 1))


def test_the_identity_of_a_stat_has_the_links_of_files_only(root):
    os.link(root / "d/e/f", root / "twin")
    assert identity(os.stat(root / "twin"), 5).nlink == 2
    assert identity(os.stat(root / "d"), 5).nlink == 1
    assert identity(os.stat(root / "twin"), 5).read_at_ns == 5


@pytest.mark.parametrize(
    ("path", "parts"), [(b"", (b"", b"")), (b"a", (b"", b"a")), (b"a/b", (b"a", b"b")), (b"a/b/c", (b"a/b", b"c"))]
)
def test_paths_are_taken_apart_and_put_together(path, parts):
    assert split(path) == parts
    assert join(*parts) == path


@pytest.mark.parametrize(
    ("path", "base"),
    [
        (b"x.db-wal", b"x.db"),
        (b"d/x-shm", b"d/x"),
        (b"x-journal", b"x"),
        (b"x-wal-wal", b"x-wal"),
        (b"x.db", None),
        (b"d/-wal", None),
        (b"x-WAL", None),
        (b"", None),
    ],
)
def test_a_side_file_names_its_database(path, base):
    assert sqlite_base(path) == base
