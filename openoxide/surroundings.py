"""Where a process runs (container, WSL, sandbox) and on what kind of file system a path lies. Guesses from what is there.

The decisions are pure functions over the text of files in /proc, which tests write themselves; elsewhere than on Linux
there is none, and nothing is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

CONTAINER_MARKS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
_CGROUPS = re.compile(r"docker|kubepods|containerd|libpod|lxc")
_DEVELOPMENT = ("CODESPACES", "REMOTE_CONTAINERS", "DEVCONTAINER")

NETWORK, HOST_SHARE, MEMORY, OVERLAY = "network", "host_share", "memory", "overlay"
KERNEL_KINDS = frozenset(
    "proc sysfs devtmpfs devpts cgroup cgroup2 securityfs debugfs tracefs bpf configfs fusectl mqueue hugetlbfs pstore "
    "efivarfs binfmt_misc autofs rpc_pipefs nsfs selinuxfs nfsd".split()
)
"""Types of file systems whose files are no one's work."""
_KINDS = {
    **dict.fromkeys("nfs nfs4 cifs smb3 smbfs ncpfs afs ceph glusterfs lustre fuse.sshfs fuse.rclone fuse.s3fs".split(), NETWORK),
    **dict.fromkeys("9p drvfs virtiofs vboxsf prl_fs fuse.grpcfuse fuse.osxfs fuse.vmhgfs-fuse fakeowner".split(), HOST_SHARE),
    **dict.fromkeys("tmpfs ramfs".split(), MEMORY),
    **dict.fromkeys("overlay aufs fuse.fuse-overlayfs".split(), OVERLAY),
}  # fmt: skip


class Side(NamedTuple):
    """Where a process runs. ``container`` and ``wsl`` are empty outside; ``world`` names what it can see of others: two
    processes with another one see other processes, and maybe other files under the same path.
    """

    container: str = ""
    wsl: str = ""
    sandbox: bool = False
    ssh: bool = False
    world: str = ""


def this_side(environ: Mapping[str, str]) -> Side:
    """Where this very process runs."""
    marks = [name for mark, name in CONTAINER_MARKS.items() if os.path.exists(mark)]
    texts = {name: _read(f"/proc/{name}") for name in ("1/cgroup", "sys/kernel/osrelease", "self/status")}
    return side(environ, marks[0] if marks else "", texts, _world())


def side(environ: Mapping[str, str], mark: str, texts: Mapping[str, str], world: str = "") -> Side:
    """What the environment, a container's mark and the files ``1/cgroup``, ``sys/kernel/osrelease`` and ``self/status`` in
    /proc say. Pure.
    """
    release, status = texts.get("sys/kernel/osrelease", "").lower(), texts.get("self/status", "")
    # a guess: with cgroup v2 a container may read no more than "0::/" there, so the marks come first
    found = _CGROUPS.search(texts.get("1/cgroup", ""))
    container = mark or environ.get("container", "") or (found[0] if found else "")
    # over what was found before: a pod's containers have marks of docker or containerd as well
    if "KUBERNETES_SERVICE_HOST" in environ:
        container = "kubernetes"
    if any(environ.get(name) for name in _DEVELOPMENT):
        container = "dev container"
    # WSL 2 before its kernel had that suffix says "microsoft-standard", WSL 1 just "Microsoft"
    wsl = ("WSL 2" if "wsl2" in release or "standard" in release else "WSL 1") if "microsoft" in release else ""
    # both: a container's default filter comes without NoNewPrivs (proc_pid_status(5))
    filtered = re.search(r"^Seccomp:\s*2$", status, re.MULTILINE) and re.search(
        r"^NoNewPrivs:\s*1$", status, re.MULTILINE
    )
    return Side(
        container=container, wsl=wsl, sandbox=bool(filtered), ssh=bool(environ.get("SSH_CONNECTION")), world=world
    )


def file_system(path: str) -> str:
    """The type of the file system that holds ``path``, empty where it is not known."""
    return type_in(_read("/proc/self/mountinfo"), os.path.realpath(path))


def type_in(mountinfo: str, path: str) -> str:
    """The type of the last of the innermost mounts that hold ``path``, an absolute one without links. Pure."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        # the number of fields before the hyphen varies (proc_pid_mountinfo(5))
        fields, _, tail = line.partition(" - ")
        words = fields.split(" ")
        if len(words) < 5 or not tail:
            continue
        point = _unescaped(words[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # >= and not >: of several mounts on one point the last one is seen
        if inside and len(point) >= len(best):
            best, kind = point, tail.split(" ")[0]
    return kind


def reach(kind: str) -> str:
    """What a type of file system means for us: NETWORK, HOST_SHARE (of a host outside this system), MEMORY, OVERLAY, or
    empty: nothing that is known to matter. Pure.
    """
    return _KINDS.get(kind, "")


def _unescaped(point: str) -> str:
    # spaces, tabs, newlines and backslashes stand there as octal escapes
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)


def _world() -> str:
    try:
        # the first pid namespace has the same number on every machine: the boot id tells them apart
        return f"{os.readlink('/proc/self/ns/pid')} {_read('/proc/sys/kernel/random/boot_id').strip()}"
    except OSError:
        return ""


def _read(name: str) -> str:
    try:
        # a mount point may have any bytes, and one such line must not hide the others
        with open(name, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
