"""What a path argument names: a place of the timeline, told by its spelling and not by what stands there today."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openoxide.daemon.requests import inside
from openoxide.errors import UsageError


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A worktree whose links lead out of it and about in it, and what lies beside it."""
    base = tmp_path.resolve()
    (base / "root" / "folder").mkdir(parents=True)
    (base / "root" / "folder" / "file").touch()
    (base / "root" / "out").symlink_to(base)
    (base / "root" / "about").symlink_to("folder")
    (base / "root" / "here").symlink_to(".")
    (base / "roots_twin").mkdir()
    (base / "root_link").symlink_to("root")
    (base / "folder_link").symlink_to("root/folder")
    (base / "file_link").symlink_to("root/folder/file")
    (base / "base_link").symlink_to(".")
    return base


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ("x", "x"),
        ("./x//y/.", "x/y"),
        ("x/../y", "y"),
        (".", ""),
        ("{base}/root", ""),
        ("//{base}/root/x", "x"),
        # links in the worktree: as they were spelled
        ("out", "out"),
        ("out/x", "out/x"),
        ("out/root/x", "out/root/x"),
        ("out/../x", "x"),
        ("about/file", "about/file"),
        ("here", "here"),
        ("here/out/x", "here/out/x"),
        ("{base}/root/out/x", "out/x"),
        # ways into it from outside: resolved until they are in
        ("{base}/root_link", ""),
        ("{base}/root_link/x", "x"),
        ("{base}/root_link/out/x", "out/x"),
        ("../root_link/out", "out"),
        ("{base}/folder_link", "folder"),
        ("{base}/folder_link/gone/x", "folder/gone/x"),
        ("{base}/base_link/root/out/x", "out/x"),
        ("{base}/base_link/root_link/about", "about"),
        ("{base}/root_link/../root/x", "x"),
    ],
)
def test_a_path_inside_is_taken_as_it_is_spelled(base, named, path):
    assert inside(os.fsencode(base / "root"), named.format(base=base)) == os.fsencode(path)


@pytest.mark.parametrize(
    "named",
    ["..", "../x", "x/../../y", "out/../../x", "/", "//", "{base}", "{base}/roots_twin/x", "{base}/base_link/x",
     "{base}/root_link/../x", "{base}/file_link", "{base}/nowhere/root/x"],
)  # fmt: skip
def test_a_path_outside_is_refused(base, named):
    with pytest.raises(UsageError, match="is outside the worktree"):
        inside(os.fsencode(base / "root"), named.format(base=base))


@pytest.mark.parametrize(("named", "path"), [("/", b""), ("/etc/x", b"etc/x"), ("//etc", b"etc"), ("../x", b"x")])
def test_below_the_file_system_s_root_nothing_is_outside(named, path):
    assert inside(b"/", named) == path
