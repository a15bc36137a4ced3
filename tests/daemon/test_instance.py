from __future__ import annotations

import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import openoxide
from openoxide.daemon.client import Client
from openoxide.daemon.instance import acquire
from openoxide.daemon.protocol import MAX_SOCKET_PATH
from openoxide.errors import AlreadyRunningError, DaemonUnreachableError, FailedError, RefusedError
from openoxide.paths import Home

ROOT = Path(openoxide.__file__).parents[1]
NOBODY = 65534
ANSWER_SECONDS = 60
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user or mount")

# Says what became of `acquire`, then holds the home until its standard input ends.
HOLDER = """
import os, sys
from pathlib import Path
from openoxide.daemon.instance import acquire
from openoxide.errors import AlreadyRunningError, OpenOxideError
from openoxide.paths import Home
if sys.argv[2:]:
    os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
sys.stdin.readline()
try:
    instance = acquire(Home(Path(sys.argv[1])))
except AlreadyRunningError as error:
    print(error.kind, error.details["pid"], flush=True)
except OpenOxideError as error:
    print(error.kind, error.message, flush=True)
else:
    instance.listen()
    print("won", os.getpid(), flush=True)
sys.stdin.read()
"""


# Fails unless the call reached a daemon, which here hangs up.
CALL = """
import sys
from openoxide.daemon.client import Client
from openoxide.errors import DaemonUnreachableError
try:
    Client(sys.argv[1], autostart=False).status()
except DaemonUnreachableError as error:
    sys.exit("closed the connection" not in error.message)
"""


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def holder(home: Home, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.folder), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> list[str]:
    """The first line of ``process``, in words."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], ANSWER_SECONDS)
    assert ready, "the process said nothing"
    return process.stdout.readline().split(maxsplit=1)


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def leave_stale_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))


def test_everything_in_the_home_is_private_whatever_the_umask(home):
    os.umask(0)
    instance = acquire(home)
    with instance.listen():
        (home.folder / "made by a library").touch()
        assert mode(home.folder) == 0o700
        assert {name: oct(mode(home.folder / name)) for name in os.listdir(home.folder)} == dict.fromkeys(
            ["oxided.lock", "oxided.sock", "made by a library"], "0o600"
        )
    instance.close()


@pytest.mark.parametrize("before", [0o755, 0o777, 0o500])
def test_the_mode_of_an_existing_home_becomes_0700(home, before):
    home.folder.mkdir()
    home.folder.chmod(before)
    home.lock.touch() if before & 0o200 else None
    acquire(home).close()
    assert mode(home.folder) == 0o700


def test_a_lock_file_that_others_could_read_becomes_private(home):
    home.folder.mkdir()
    home.lock.touch()
    home.lock.chmod(0o644)
    acquire(home).close()
    assert mode(home.lock) == 0o600


def test_a_second_daemon_is_told_the_pid_of_the_first(home):
    instance = acquire(home)
    with pytest.raises(AlreadyRunningError, match=str(os.getpid())) as caught:
        acquire(home)
    assert caught.value.details == {"pid": os.getpid()}
    instance.close()


def test_of_twenty_daemons_started_at_once_exactly_one_wins_and_the_others_name_it(home):
    racers = [holder(home) for _ in range(20)]
    try:
        for racer in racers:
            go(racer)
        outcomes = [said(racer) for racer in racers]
        winners = [pid.strip() for kind, pid in outcomes if kind == "won"]
        assert len(winners) == 1
        assert {(kind, pid.strip()) for kind, pid in outcomes if kind != "won"} == {("already_running", winners[0])}
    finally:
        for racer in racers:
            end(racer)


def test_a_killed_daemon_leaves_nothing_that_stops_the_next_one(home):
    killed = holder(home)
    go(killed)
    assert said(killed)[0] == "won"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert home.socket.is_socket()

    instance = acquire(home)
    with instance.listen() as listener:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(home.socket))
            listener.accept()[0].close()
        assert home.lock.read_text("ascii").strip() == str(os.getpid())
    instance.close()


def test_the_pid_of_a_daemon_that_is_gone_is_never_named(home):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    instance = acquire(home)
    home.lock.write_bytes(gone.stdout)
    with pytest.raises(AlreadyRunningError, match="not known"):
        acquire(home)
    instance.close()


def test_a_stale_socket_is_replaced(home):
    home.folder.mkdir()
    leave_stale_socket(home.socket)
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(home.socket))
    instance = acquire(home)
    with instance.listen(), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(home.socket))
    instance.close()


def test_the_socket_of_a_living_daemon_is_not_touched_by_a_loser(home):
    instance = acquire(home)
    with instance.listen(), socket.socket(socket.AF_UNIX) as client:
        with pytest.raises(AlreadyRunningError):
            acquire(home)
        client.connect(str(home.socket))
    instance.close()


def a_file(path: Path) -> None:
    path.write_text("precious")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link_to_a_socket(path: Path) -> None:
    leave_stale_socket(path.parent.with_name("elsewhere.sock"))
    path.symlink_to("../elsewhere.sock")


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [a_file, a_folder, a_link_to_a_socket, a_fifo])
def test_what_is_no_socket_is_never_removed_from_the_sockets_path(home, make):
    home.folder.mkdir()
    make(home.socket)
    before = home.socket.lstat()
    instance = acquire(home)
    with pytest.raises(RefusedError, match="is not a socket"):
        instance.listen()
    instance.close()
    assert home.socket.lstat() == before


def test_close_removes_the_socket_and_gives_the_home_back(home):
    instance = acquire(home)
    instance.listen().close()
    instance.close()
    assert not home.socket.exists()
    assert home.lock.read_text("ascii") == ""
    acquire(home).close()


def test_closing_twice_gives_nothing_of_the_next_holder_away(home):
    first = acquire(home)
    first.listen().close()
    first.close()
    second = acquire(home)
    with second.listen():
        first.close()
        assert home.socket.is_socket()
        with pytest.raises(AlreadyRunningError):
            acquire(home)
    second.close()


def test_close_leaves_a_socket_that_somebody_put_in_place_of_ours(home):
    instance = acquire(home)
    with instance.listen():
        home.socket.rename(home.folder / "moved")
        leave_stale_socket(home.socket)
        instance.close()
    assert home.socket.is_socket()


def test_close_works_when_the_home_was_deleted(home):
    instance = acquire(home)
    with instance.listen():
        for name in os.listdir(home.folder):
            (home.folder / name).unlink()
        home.folder.rmdir()
    instance.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/fd leads to folders on Linux only")
def test_a_socket_path_longer_than_the_kernels_limit_works_at_both_ends(tmp_path):
    home = Home(tmp_path / ("long" * 20) / ("longer" * 20))
    assert len(bytes(home.socket)) > MAX_SOCKET_PATH
    client = Client(str(home.socket), autostart=False, timeout_seconds=ANSWER_SECONDS)
    with pytest.raises(DaemonUnreachableError, match="no daemon listens"):
        client.status()
    instance = acquire(home)
    with instance.listen() as listener:
        assert home.socket.is_socket()
        listener.settimeout(ANSWER_SECONDS)
        process = subprocess.Popen([sys.executable, "-c", CALL, str(home.socket)], env={"PYTHONPATH": str(ROOT)})
        for _ in range(2):  # what only reads is asked again of a daemon that hung up
            listener.accept()[0].close()
        assert process.wait(ANSWER_SECONDS) == 0
    instance.close()
    assert not home.socket.exists()


def test_a_home_that_is_a_file_is_named_in_the_error(home):
    home.folder.write_text("")
    with pytest.raises(FailedError, match=str(home.folder)):
        acquire(home)


def test_a_lock_that_is_a_link_is_not_followed(home, tmp_path):
    home.folder.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    home.lock.symlink_to(victim)
    with pytest.raises(FailedError):
        acquire(home)
    assert victim.read_text() == "precious"


def test_a_home_may_be_a_link_to_a_folder_of_ones_own(home, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    home.folder.symlink_to(tmp_path / "elsewhere")
    instance = acquire(home)
    instance.listen().close()
    assert mode(tmp_path / "elsewhere") == 0o700
    instance.close()


@needs_root
def test_a_home_of_another_user_is_refused_and_nothing_is_left_in_it(home):
    home.folder.mkdir(mode=0o755)
    os.chown(home.folder, NOBODY, NOBODY)
    with pytest.raises(RefusedError, match="belongs to another user"):
        acquire(home)
    assert os.listdir(home.folder) == []
    assert mode(home.folder) == 0o755


@needs_root
def test_a_link_to_a_folder_of_another_user_is_refused(home, tmp_path):
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", NOBODY, NOBODY)
    home.folder.symlink_to(tmp_path / "theirs")
    with pytest.raises(RefusedError):
        acquire(home)
    assert os.listdir(tmp_path / "theirs") == []


@needs_root
def test_a_link_that_another_user_could_point_elsewhere_is_refused(home, tmp_path):
    (tmp_path / "ours").mkdir()
    home.folder.symlink_to(tmp_path / "ours")
    os.chown(home.folder, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(RefusedError):
        acquire(home)


@needs_root
def test_a_home_that_cannot_be_made_is_read_only(home):
    process = holder(home, str(NOBODY))
    go(process)
    assert said(process)[0] == "store_read_only"
    end(process)


@needs_root
def test_a_home_on_a_disk_mounted_read_only_is_read_only(home):
    home.folder.mkdir(mode=0o700)
    script = 'mount -t tmpfs none "$1" && chmod 700 "$1" && mount -o remount,ro "$1" && exec "$2" -c "$3" "$1"'
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(home.folder), sys.executable, HOLDER],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    go(process)
    kind, message = said(process)
    assert (kind, str(home.folder) in message) == ("store_read_only", True)
    end(process)
