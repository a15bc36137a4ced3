"""The lab sees every call and stops it where it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import get_args

import pytest

from tests.faults.lab import Lab, Mode, Outcome, shim
from tests.kit import tree_of

FREEING = {"unlink", "unlinkat", "remove", "rmdir"}
SINCE_LINUX_6_6 = {"lchmod", "fchmodat2"}
# What tree_of does not show without times: nothing changes, or only times, owners and extended attributes do.
INVISIBLE = {"fsync", "fdatasync", "syncfs", "ioctl", "chown", "lchown", "fchown", "fchownat"}
INVISIBLE |= {"utime", "utimes", "lutimes", "futimes", "futimesat", "utimensat", "futimens"}
INVISIBLE |= {"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"}
BY_DESCRIPTOR = {"write", "writev", "pwrite", "pwritev", "pwritev2", "sendfile", "copy_file_range", "splice", "ioctl"}
BY_DESCRIPTOR |= {"fsync", "fdatasync", "ftruncate", "fallocate", "posix_fallocate", "fchmod", "fchown", "futimes"}
BY_DESCRIPTOR |= {"futimens", "fsetxattr", "fremovexattr"}
THROUGH_LINKS = {
    "open",
    "openat",
    "openat2",
    "__open_2",
    "__openat_2",
    "creat",
    "truncate",
    "chmod",
    "fchmodat",
    "fchmodat2",
}
THROUGH_LINKS |= {"chown", "fchownat", "utime", "utimes", "futimesat", "utimensat", "setxattr", "removexattr"}
# Where a torn write of every_call.py begins, and what it leaves there: half of its bytes.
TORN = {
    "write": (0, b"abcd"),
    "writev": (0, b"abcde"),
    "pwrite": (3, b"abcd"),
    "pwritev": (3, b"abcde"),
    "pwritev2": (3, b"abcde"),
    "sendfile": (0, b"ABCDEFGHIJ"),
    "copy_file_range": (0, b"ABCDEFGHIJ"),
    "splice": (0, b"pipe"),
}


@pytest.fixture(scope="module")
def shim_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def lab(shim_file: Path, root: Path, tmp_path: Path) -> Lab:
    return _lab(shim_file, root, tmp_path)


def _lab(shim_file: Path, root: Path, tmp_path: Path, **settings: bool | str) -> Lab:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return Lab(shim_file, [root], scratch, **settings)


def _python(script: str, *arguments: Path | str) -> list[str | Path]:
    return [sys.executable, "-c", script, *arguments]


def _calls(outcome: Outcome) -> list[str]:
    return [line.split(" ", 2)[2] for line in outcome.trace]


class EveryCall:
    """The runs of every_call.py, one a mode, each in a folder of its own."""

    def __init__(self, shim_file: Path, base: Path) -> None:
        self.base = base
        self.shim = shim_file
        self.numbers = base / "numbers.json"
        self.numbers.write_text(json.dumps(_system_calls()), "ascii")
        self.counted = self._run("count", None)
        self.names = [line.split()[1] for line in self.counted.stdout.decode().splitlines()]
        self.runs = {mode: self._run(mode, mode) for mode in get_args(Mode)}

    def _run(self, name: str, mode: Mode | None) -> Outcome:
        folder = self.base / name
        folder.mkdir()
        lab = _lab(self.shim, folder, self.base, armed=False)
        command = [sys.executable, "-m", "tests.faults.every_call", folder, self.numbers]
        outcome = lab.run([*command, "--restart"], mode=mode, at=1) if mode else lab.count(command)
        assert outcome.status == 0, outcome.stderr.decode()
        return outcome

    def endings(self, mode: Mode) -> list[tuple[str, str]]:
        """Name and ending of each call."""
        return [tuple(line.split(" ", 2)[1:]) for line in self.runs[mode].stdout.decode().splitlines()]

    def pristine(self, name: str) -> dict[bytes, tuple]:
        return _timeless(self.base / name / "pristine")

    def trees(self, name: str) -> list[dict[bytes, tuple]]:
        """What each call left in its folder; times apart, since they differ from run to run."""
        return [_timeless(self.base / name / f"{position:03d}") for position in range(len(self.names))]


def _timeless(folder: Path) -> dict[bytes, tuple]:
    return {path: (*what[:2], what[3]) if what[0] == "file" else what for path, what in tree_of(folder).items()}


def _system_calls() -> dict[str, int]:
    """What this machine's C library headers say; no table of ours could be right for each machine."""
    with tempfile.NamedTemporaryFile("w", suffix=".h") as header:
        header.write("#include <sys/syscall.h>\n")
        header.flush()
        compiler = os.environ.get("CC", "cc")
        defines = subprocess.run(
            [compiler, "-E", "-dM", header.name], check=True, capture_output=True, text=True
        ).stdout
    found = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", defines)}
    return {"openat2": 437, "fchmodat2": 452, **found}


@pytest.fixture(scope="module")
def every_call(shim_file: Path, tmp_path_factory: pytest.TempPathFactory) -> EveryCall:
    base = tmp_path_factory.mktemp("every-call")
    try:
        os.setxattr(base, "user.probe", b"1")
    except OSError as error:
        pytest.skip(f"{base} takes no extended attributes of users: {error.strerror}")
    return EveryCall(shim_file, base)


def test_each_call_is_counted_once_and_under_its_name(every_call):
    assert [line.split()[2] for line in every_call.counted.trace] == every_call.names
    assert every_call.counted.calls == len(every_call.names)


def test_no_hook_is_left_untried(every_call, shim_file):
    listing = subprocess.run(["nm", "-D", "--defined-only", shim_file], check=True, capture_output=True, text=True)
    hooks = {line.split()[2] for line in listing.stdout.splitlines()}
    large_file_names = {name for name in hooks if "64" in name}
    assert hooks - large_file_names - {"syscall", "dlsym", "fault_shim_again"} == set(every_call.names) - {"fchmodat2"}


@pytest.mark.parametrize("mode", ["kill", "killafter", "torn"])
def test_each_call_can_be_the_last(every_call, mode):
    assert [ending for _, ending in every_call.endings(mode)] == ["signal 9"] * len(every_call.names)
    assert every_call.runs[mode].faults == len(every_call.names)


@pytest.mark.parametrize(("mode", "error"), [("eio", "errno 5"), ("enospc", "errno 28"), ("sticky", "errno 28")])
def test_each_call_can_fail(every_call, mode, error):
    spared = FREEING if mode != "eio" else set()
    expected = [(name, "done" if name in spared else error) for name in every_call.names]
    assert every_call.endings(mode) == expected
    assert every_call.runs[mode].faults == sum(ending == error for _, ending in expected)


@pytest.mark.parametrize("mode", ["kill", "eio", "enospc"])
def test_a_call_that_goes_wrong_changes_nothing(every_call, mode):
    spared = FREEING if mode == "enospc" else set()
    pristine = every_call.pristine(mode)
    for name, tree in zip(every_call.names, every_call.trees(mode), strict=True):
        assert (tree == pristine) == (name not in spared), name


def test_killafter_carries_the_call_out(every_call):
    pristine = every_call.pristine("killafter")
    assert every_call.trees("killafter") == every_call.trees("count")
    changed = {n for n, tree in zip(every_call.names, every_call.trees("killafter"), strict=True) if tree != pristine}
    assert changed - SINCE_LINUX_6_6 == set(every_call.names) - INVISIBLE - SINCE_LINUX_6_6


def test_torn_leaves_half_of_a_write_and_nothing_of_other_calls(every_call):
    pristine = every_call.pristine("torn")
    kind, mode, before = pristine[b"file"]
    for name, tree in zip(every_call.names, every_call.trees("torn"), strict=True):
        at, half = TORN.get(name, (0, b""))
        after = before[:at] + half + before[at + len(half) :]
        assert tree == {**pristine, b"file": (kind, mode, after)}, name


SEEN = [
    pytest.param("os.mkdir(root + '/../root/./a/')", ["mkdir a"], id="dots and a slash at the end"),
    pytest.param("os.mkdir(outside + '/to-root/a')", ["mkdir a"], id="through a linked folder"),
    pytest.param("os.truncate(outside + '/to-file', 0)", ["truncate file"], id="through a linked file"),
    pytest.param(
        "os.close(os.open(outside + '/to-file', os.O_TRUNC | os.O_RDWR))", ["open file"], id="opened by a link"
    ),
    pytest.param("os.chdir(root); os.mkdir('a')", ["mkdir a"], id="from the working directory"),
    pytest.param("os.mkdir('a', dir_fd=os.open(root, os.O_RDONLY))", ["mkdirat a"], id="from a descriptor"),
    pytest.param("os.rename(root + '/file', outside + '/a')", ["rename file"], id="moved out"),
    pytest.param("os.rename(outside + '/thing', root + '/a')", ["rename a"], id="moved in"),
    pytest.param("os.rmdir(root + '/folder')", ["rmdir folder"], id="an empty folder"),
    pytest.param("os.mkdir(root + '/a\\n\\\\b')", ["mkdir a\\x0a\\x5cb"], id="a name with a line end"),
    pytest.param("os.mkdir(root + '/a\\u2028b')", ["mkdir a\u2028b"], id="a name with a separator"),
    pytest.param("os.mkdir(os.fsencode(root) + b'/\\xff')", ["mkdir \udcff"], id="a name that is no text"),
    pytest.param("os.utime(root, ns=(1, 1))", ["utimensat "], id="the root itself"),
    pytest.param("open(root + '/file').read(); os.stat(root); os.listdir(root)", [], id="reads"),
    pytest.param("os.close(os.open(root + '/file', os.O_RDWR))", [], id="opened to write"),
    pytest.param("os.mkdir(root + '-elsewhere')", [], id="a name that begins like the root"),
    pytest.param("os.mkdir(outside + '/a'); os.rename(outside + '/a', outside + '/b')", [], id="elsewhere"),
    pytest.param("os.truncate(root + '/to-outside', 0)", [], id="a link that leads out"),
    pytest.param(
        "with suppress(OSError): os.open(outside + '/to-file', os.O_TRUNC | os.O_RDWR | os.O_NOFOLLOW)",
        [],
        id="a link that is refused",
    ),
    pytest.param(
        "fcntl.ioctl(os.open(root + '/file', os.O_RDONLY), termios.FIONREAD, bytes(4))", [], id="a question by ioctl"
    ),
    pytest.param("os.write(1, b'x'); os.write(os.pipe()[1], b'x')", [], id="pipes and standard output"),
]


@pytest.mark.parametrize(("script", "seen"), SEEN)
def test_a_call_counts_by_where_the_kernel_would_make_it(lab, root, tmp_path, script, seen):
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "file").write_text("text")
    (root / "folder").mkdir()
    (outside / "thing").write_text("text")
    (outside / "to-root").symlink_to(root)
    (outside / "to-file").symlink_to(root / "file")
    (root / "to-outside").symlink_to(outside / "thing")
    imports = "import fcntl, os, sys, termios\nfrom contextlib import suppress\nroot, outside = sys.argv[1:]\n"
    outcome = lab.count(_python(imports + script, root, outside))
    assert (outcome.status, outcome.stderr) == (0, b"")
    assert [call.replace(f"{root}/", "", 1).replace(str(root), "", 1) for call in _calls(outcome)] == seen


def test_a_call_counts_through_a_link_exactly_when_the_kernel_follows_it(every_call, root, tmp_path):
    """The links lie outside the root and lead to a file in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    lab = _lab(every_call.shim, root, tmp_path, armed=False)
    command = [sys.executable, "-m", "tests.faults.every_call", folder, every_call.numbers]
    outcome = lab.run([*command, "--restart", "--links-to", root / "linked"], mode="eio", at=1)
    lines = [line.split(" ", 2) for line in outcome.stdout.decode().splitlines()]
    assert {name for _, name, ending in lines if ending == "errno 5"} == BY_DESCRIPTOR | THROUGH_LINKS
    missed = [name for _, name, ending in lines if ending != "errno 5" and name in BY_DESCRIPTOR | THROUGH_LINKS]
    assert missed == ["open", "open"], "with O_EXCL, and without a name"


def test_a_place_too_deep_to_name_is_counted(shim_file, root, tmp_path):
    script = """
import os, sys
from tests.faults.crashkit import arm
here = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(20):
    os.mkdir("d" * 250, dir_fd=here)
    here = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
arm()
os.mkdir("new", dir_fd=here)
"""
    outcome = _lab(shim_file, root, tmp_path, armed=False).count(_python(script, root))
    assert (_calls(outcome), outcome.stderr) == (["mkdirat ?/new"], b"")


def test_sqlite_is_seen(lab, root):
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE t (x)')"
    seen = _calls(lab.count(_python(script, root / "rows.db")))
    assert {f"pwrite {root}/rows.db", f"fdatasync {root}/rows.db", f"unlink {root}/rows.db-journal"} <= set(seen)


def test_all_processes_of_a_run_count_together(lab, root):
    script = """
import os, subprocess, sys
os.mkdir(sys.argv[1] + "/a")
if not os.fork():
    os.setsid()
    os.mkdir(sys.argv[1] + "/b")
    os._exit(0)
os.wait()
subprocess.run(["mkdir", sys.argv[1] + "/c"], check=True)
"""
    outcome = lab.count(_python(script, root))
    assert _calls(outcome) == [f"mkdir {root}/{name}" for name in "abc"]
    assert [line.split()[0] for line in outcome.trace] == ["1", "2", "3"]
    assert len({line.split()[1] for line in outcome.trace}) == 3


def test_a_fault_meets_only_the_process_that_makes_the_call(lab, root):
    script = """
import subprocess, sys
ended = [subprocess.run(["mkdir", f"{sys.argv[1]}/{name}"], check=False).returncode for name in "abc"]
print(ended)
"""
    outcome = lab.run(_python(script, root), mode="kill", at=2)
    assert (outcome.stdout, outcome.status) == (b"[0, -9, 0]\n", 0)
    assert (outcome.calls, outcome.faults, outcome.call) == (3, 1, f"mkdir {root}/b")


def test_a_full_disk_stays_full_but_lets_go_of_files(lab, root):
    (root / "old").write_text("text")
    script = """
import os, sys
os.chdir(sys.argv[1])
for call in (lambda: os.mkdir("a"), lambda: os.mkdir("b"), lambda: os.unlink("old"), lambda: os.mkdir("c")):
    try:
        call()
    except OSError as error:
        print(error.errno)
"""
    outcome = lab.run(_python(script, root), mode="sticky", at=2)
    assert outcome.stdout.split() == [b"28", b"28"]
    assert sorted(os.listdir(root)) == ["a"]
    assert (outcome.calls, outcome.faults) == (3, 2)


def test_nothing_counts_before_the_worker_arms(shim_file, root, tmp_path):
    script = """
import os, sys
from tests.faults.crashkit import ack, arm
os.mkdir(sys.argv[1] + "/set-up")
ack("set up")
arm()
os.mkdir(sys.argv[1] + "/a")
"""
    outcome = _lab(shim_file, root, tmp_path, armed=False).run(_python(script, root), mode="kill", at=1)
    assert (outcome.status, outcome.acknowledged, outcome.call) == (-9, ["set up"], f"mkdir {root}/a")
    assert os.listdir(root) == ["set-up"]


def test_programs_that_are_not_meant_do_not_count(shim_file, root, tmp_path):
    script = tmp_path / "change.py"
    script.write_text("import os, sys\nos.mkdir(sys.argv[1])\n")
    both = 'for name; do "$PYTHON" "$SCRIPT" "$name"; done'
    lab = _lab(shim_file, root, tmp_path, only=f"{script} {root}/second")
    env = {"PYTHON": sys.executable, "SCRIPT": str(script)}
    outcome = lab.count(["sh", "-c", both, "-", root / "first", root / "second"], env)
    assert _calls(outcome) == [f"mkdir {root}/second"]
    assert sorted(os.listdir(root)) == ["first", "second"]


DETACHES = """
import os, signal, sys
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
print(os.getpid(), flush=True)
print("still here", file=open(sys.argv[1], "w"), flush=True)
signal.pause()
"""


def test_nothing_survives_a_run_not_even_what_detached_itself(lab, root, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    outcome = lab.count(["sh", "-c", '"$1" -c "$2" "$3"; read line <"$3"', "-", sys.executable, DETACHES, fifo])
    assert outcome.status == 0
    assert not Path(f"/proc/{int(outcome.stdout)}").exists()


def test_processes_from_before_a_run_are_left_alone(lab, root):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        lab.count(["mkdir", root / "a"])
        assert bystander.poll() is None
        bystander.communicate(b"\n")
    assert bystander.returncode == 0


def test_a_run_that_hangs_is_ended_and_says_so(lab):
    outcome = lab.count(_python("import os, signal; print(os.getpid(), flush=True); signal.pause()"), timeout=2)
    assert outcome.status is None
    assert not Path(f"/proc/{int(outcome.stdout)}").exists()


def test_a_line_without_its_end_acknowledges_nothing(lab):
    outcome = lab.count(_python("print('ACK one'); print('noise ACK two'); print('ACK three', end='')"))
    assert outcome.acknowledged == ["one"]


@pytest.mark.parametrize("name", ["a:b", "."])
def test_a_root_that_cannot_be_told_apart_is_refused(shim_file, tmp_path, name):
    with pytest.raises(ValueError, match="cannot be a root"):
        Lab(shim_file, [tmp_path / name], tmp_path / "scratch")


def test_an_unknown_mode_is_refused(lab):
    with pytest.raises(ValueError, match="'maim'"):
        lab.run(["true"], mode="maim", at=1)
