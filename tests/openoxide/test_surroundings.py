"""What /proc and the environment say about where a process runs."""

from __future__ import annotations

import os
import sys

import pytest

from openoxide.surroundings import Side, file_system, reach, side, this_side, type_in

FILTERED = "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\n"


@pytest.mark.parametrize(
    ("environ", "mark", "texts", "expected"),
    [
        ({}, "", {}, Side()),
        ({}, "docker", {}, Side(container="docker")),
        ({"container": "flatpak"}, "", {}, Side(container="flatpak")),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "docker", {}, Side(container="kubernetes")),
        ({"REMOTE_CONTAINERS": "true"}, "docker", {}, Side(container="dev container")),
        ({"CODESPACES": "true"}, "", {}, Side(container="dev container")),
        ({}, "", {"1/cgroup": "0::/system.slice/containerd.service/x"}, Side(container="containerd")),
        ({}, "", {"1/cgroup": "0::/init.scope"}, Side()),
        ({}, "", {"sys/kernel/osrelease": "4.4.0-19041-Microsoft"}, Side(wsl="WSL 1")),
        ({}, "", {"sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2"}, Side(wsl="WSL 2")),
        ({}, "", {"self/status": FILTERED}, Side(sandbox=True)),
        ({}, "", {"self/status": FILTERED.replace("1", "0")}, Side()),
        ({"SSH_CONNECTION": "a 1 b 2"}, "", {}, Side(ssh=True)),
    ],
)
def test_a_side_is_told_by_its_marks(environ, mark, texts, expected):
    assert side(environ, mark, texts) == expected


MOUNTS = """22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:5 / /mnt/c rw - 9p drvfs rw
31 22 0:6 / /home/u/my\\040work rw shared:7 master:1 - nfs4 server:/x rw
32 22 0:7 / /home rw - btrfs /dev/sdb rw
33 22 0:8 / /home rw - xfs /dev/sdc rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/mnt", "ext4"),
        ("/mnt/c", "9p"),
        ("/mnt/c/src", "9p"),
        ("/mnt/cd", "ext4"),
        ("/home/u/my work/a", "nfs4"),
        ("/home/u", "xfs"),
    ],
)
def test_the_innermost_mount_tells_the_type(path, kind):
    assert type_in(MOUNTS, path) == kind


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [("nfs4", "network"), ("fuse.sshfs", "network"), ("9p", "host_share"), ("tmpfs", "memory"), ("overlay", "overlay"),
     ("ext4", ""), ("", "")],
)  # fmt: skip
def test_a_type_has_a_meaning(kind, meaning):
    assert reach(kind) == meaning


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc elsewhere")
def test_this_very_process_can_be_told():
    assert this_side(os.environ).world
    assert file_system("/proc") == "proc"


def test_without_files_in_proc_nothing_is_known():
    assert type_in("", "/x") == ""
