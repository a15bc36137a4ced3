"""What a user or an attacker has put where the staging folder belongs: refused or left alone, and never followed."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from openoxide.errors import OpenOxideError, RefusedError
from tests.kit import diff_trees, tree_of
from tests.races.canary import Print, Site, print_of, stored_secrets
from tests.races.interleaving import at, meanwhile
from tests.races.looking import STAGING, wait_until_swept

HANGS_AFTER_S = 5


def staging_is_a_link(site: Site) -> None:
    (site.root / STAGING).symlink_to(site.canary / "src")


def staging_is_a_dangling_link(site: Site) -> None:
    (site.root / STAGING).symlink_to(site.canary / "not-there")


def staging_is_a_link_in_two_steps(site: Site) -> None:
    (site.parking / "hop").symlink_to(site.canary)
    (site.root / STAGING).symlink_to(site.parking / "hop")


def staging_is_a_file(site: Site) -> None:
    (site.root / STAGING).write_text("mine\n")


def staging_is_a_foreign_folder(site: Site) -> None:
    (site.root / STAGING / "mine").mkdir(parents=True)
    (site.root / STAGING / "mine" / "file").write_text("mine\n")
    (site.root / STAGING / "link").symlink_to(site.canary / "src/a")


def staging_belongs_to_another_user(site: Site) -> None:
    (site.root / STAGING).mkdir()
    os.chown(site.root / STAGING, 12_345, 12_345)


def ignore_file_is_a_link(site: Site) -> None:
    (site.root / STAGING).mkdir()
    (site.root / STAGING / ".gitignore").symlink_to(site.canary / "empty")


def ignore_file_is_a_dangling_link(site: Site) -> None:
    (site.root / STAGING).mkdir()
    (site.root / STAGING / ".gitignore").symlink_to(site.canary / "not-there")


def ignore_file_is_a_hard_link(site: Site) -> None:
    (site.root / STAGING).mkdir()
    os.link(site.canary / "empty", site.root / STAGING / ".gitignore")


@pytest.mark.parametrize("exact", [False, True], ids=["all", "exact"])
@pytest.mark.parametrize(
    "plant",
    [
        staging_is_a_link, staging_is_a_dangling_link, staging_is_a_link_in_two_steps, staging_is_a_file,
        staging_is_a_foreign_folder, staging_belongs_to_another_user, ignore_file_is_a_link,
        ignore_file_is_a_dangling_link,
        ignore_file_is_a_hard_link,
    ],
)  # fmt: skip
def test_what_has_the_name_of_the_staging_folder_is_left_alone(site, plant, exact):
    if plant is staging_belongs_to_another_user and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    site.edit("edited")
    edited = tree_of(site.root)
    plant(site)
    before, planted = _without_links(print_of(site.canary)), tree_of(site.root)

    with suppress(OpenOxideError):
        site.box.rewind(site.base, scope="all", exact=exact)
    wait_until_swept(site.box)

    assert _without_links(print_of(site.canary)) == before
    name = os.fsencode(STAGING)
    mine = {path for path in planted if path.startswith(name + b"/") and path != name + b"/.gitignore"}
    now = tree_of(site.root)
    assert {path: now.get(path) for path in mine} == {path: planted[path] for path in mine}
    assert diff_trees({p: w for p, w in now.items() if not p.startswith(name)}, site.tree) == [] or all(
        now[path] == edited[path] for path in edited
    )
    _clear(site.root / STAGING)
    site.box.rewind(site.base, scope="all", exact=exact)
    assert diff_trees(site.tree, tree_of(site.root, skip={name})) == []
    assert stored_secrets(site.box) == []


def _without_links(print_: Print) -> Print:
    """A hard link inside the project is the project's: when it goes, the number of links outside changes, nothing else."""
    return {path: (mode, size, mtime, content) for path, (mode, _, _, size, mtime, _, content) in print_.items()}


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def test_a_fifo_in_a_foreign_staging_folder_does_not_hang_the_rewind(site):
    (site.root / STAGING).mkdir()
    os.mkfifo(site.root / STAGING / ".gitignore")
    site.edit("edited")
    ended = threading.Event()

    def rewind() -> None:
        with suppress(OpenOxideError):
            site.box.rewind(site.base, scope="all")
        ended.set()

    thread = threading.Thread(target=rewind)
    thread.start()
    in_time = ended.wait(HANGS_AFTER_S)
    if not in_time:
        os.close(os.open(site.root / STAGING / ".gitignore", os.O_RDONLY | os.O_NONBLOCK))
    thread.join()
    assert in_time


def test_a_staging_folder_that_vanished_in_the_middle_does_not_block_the_worktree(site):
    """Whatever became of the operation, a later rewind must be possible, after settling it if need be."""
    for point in range(1, 700, 50):
        site.edit(f"edited {point}")
        with meanwhile(lambda: shutil.rmtree(site.root / STAGING, ignore_errors=True), at(point)):
            assert _rewind_and_settle(site) == "", f"gone at step {point}"


def _rewind_and_settle(site: Site) -> str:
    """Why the worktree cannot be rewound any more, empty if it can."""
    with suppress(OpenOxideError):
        site.box.rewind(site.base, scope="all")
    for action in ("continue", "abort"):
        with suppress(OpenOxideError):
            site.box.call("settle", action=action)
    try:
        site.box.rewind(site.base, scope="all", exact=True)
    except OpenOxideError as error:
        return f"{error.kind}: {error}"
    return "" if diff_trees(site.tree, tree_of(site.root, skip={os.fsencode(STAGING)})) == [] else "tree differs"


def test_a_staging_folder_that_is_refused_says_what_to_do(site):
    staging_is_a_link(site)
    site.edit("edited")
    with pytest.raises(RefusedError, match=STAGING) as refused:
        site.box.rewind(site.base, scope="all")
    assert "move it away" in refused.value.hint


def test_a_restart_after_a_refused_rewind_finds_nothing_to_settle(site):
    staging_is_a_link(site)
    site.edit("edited")
    with suppress(RefusedError):
        site.box.rewind(site.base, scope="all")
    (phases,) = {item["phase"] for item in site.box.call("operations")["items"]}
    site.box.stop()
    site.box.start()
    assert (site.box.checkpoint()["complete"], phases) == (True, "undone")
