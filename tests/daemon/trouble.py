"""What the tests of trouble share: a refusal that must cost nothing, and processes that may do less or see other mounts."""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import os
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from openoxide.daemon.protocol import PathEntry, entry_path
from openoxide.errors import OpenOxideError
from tests.kit import Description, diff_trees, tree_of, wait_until
from tests.kit.box import Box

STAGING = ".openoxide-staging"
SWEPT_LATER = (STAGING.encode(),)
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_CAPABILITY_VERSION = 0x20080522


def paths(entries: Iterable[PathEntry]) -> list[bytes]:
    return [entry_path(entry) for entry in entries]


def reasons(entries: Iterable[PathEntry]) -> dict[bytes, str]:
    return {entry_path(entry): entry.get("reason", "") for entry in entries}


def skips(box: Box, checkpoint: Any = "last") -> dict[bytes, str]:
    """What ``checkpoint`` does not hold, and why not."""
    return reasons(box.call("show", checkpoint=str(checkpoint))["skipped_paths"])


def settled(root: Path, skip: Collection[bytes] = ()) -> dict[bytes, Description]:
    """The tree once the staging folder is gone: it is deleted in the background."""
    wait_until(lambda: not (root / STAGING).exists(), 30)
    return tree_of(root, skip)


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def sealed(box: Box) -> list[str]:
    """The checkpoints of every project, by id."""
    roots = [item["root"] for item in box.call("projects")["items"] if item["watching"]]
    return [item["id"] for root in roots for item in box.call("log", path=root)["items"]]


def phases(box: Box) -> list[str]:
    """How far each operation got, newest first."""
    return [item["phase"] for item in box.call("operations")["items"]]


@contextmanager
def refused(
    box: Box, kind: str, naming: str, root: Path | None = None
) -> Iterator[pytest.ExceptionInfo[OpenOxideError]]:
    """What the block does fails with ``kind``, names the object, and costs no file and no checkpoint."""
    tree, checkpoints = tree_of(root or box.root, SWEPT_LATER), sealed(box)
    with pytest.raises(OpenOxideError) as caught:
        yield caught
    assert (caught.value.kind, naming in caught.value.message) == (kind, True), repr(caught.value)
    assert diff_trees(tree, tree_of(root or box.root, SWEPT_LATER)) == []
    assert set(checkpoints) <= set(sealed(box))


# Tests in a process of their own

Test = Callable[..., None]


def _in_child(prepare: Callable[[], None], test: Test) -> Test:
    """``test`` runs in a fork, after ``prepare``; what it raises is a failure here."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        context = multiprocessing.get_context("fork")  # a spawned one could not read an interpreter below /root
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_reporting, args=(theirs, prepare, functools.partial(test, *arguments, **named)))
        child.start()
        theirs.close()
        try:
            failure = ours.recv()
        except EOFError:
            failure = "the process ended without a word"
        child.join()
        if failure:
            pytest.fail(failure, pytrace=False)

    return run


def _reporting(parent: Connection, prepare: Callable[[], None], test: Callable[[], None]) -> None:
    try:
        prepare()
        test()
    except BaseException:  # noqa: BLE001 - all that a test can raise is told to the process that waits
        parent.send(traceback.format_exc())
    else:
        parent.send("")


def isolated(test: Test) -> Test:
    """``test`` runs in a process of its own: what it breaks breaks there."""
    return _in_child(lambda: None, test)


def unprivileged(test: Test) -> Test:
    """``test`` runs as an ordinary owner of its files: permission bits hold for it, also where root runs the tests."""
    return pytest.mark.skipif(sys.platform != "linux" and not os.geteuid(), reason="root here")(
        _in_child(_drop_capabilities, test)
    )


def _drop_capabilities() -> None:
    if os.geteuid() == 0:
        header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
        assert ctypes.CDLL(None).capset(header, bytes(24)) == 0


def with_own_mounts(test: Test) -> Test:
    """``test`` may mount what nobody else sees: see :func:`small_disk`."""
    return pytest.mark.skipif(not _may_unshare(), reason="no mount table of one's own here")(_in_child(_unshare, test))


def _may_unshare() -> bool:
    if sys.platform != "linux":
        return False
    options = "-m" if os.geteuid() == 0 else "-Urm"
    return subprocess.run(["unshare", options, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0


def _unshare() -> None:
    user = os.geteuid()
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)) != 0:
        raise OSError("unshare failed")
    if user:
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def small_disk(folder: Path, size: str) -> Path:
    """A file system of ``size`` at ``folder``, gone with the process."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    return folder


def fill(folder: Path) -> Path:
    """A file that takes all the space left beside it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        while _written(file.fileno()):
            pass
    return ballast


def _written(descriptor: int) -> bool:
    try:
        os.write(descriptor, bytes(4096))
    except OSError:
        return False
    return True
