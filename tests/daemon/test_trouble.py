"""Bad input gets a clear answer and costs nothing: places, checkpoints and paths that are not what they should be."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openoxide.errors import AmbiguousError, OpenOxideError
from tests.daemon.trouble import (
    STAGING,
    isolated,
    paths,
    phases,
    refused,
    sealed,
    settled,
    skips,
    unprivileged,
    write,
)
from tests.kit import diff_trees, tree_of, wait_until
from tests.kit.box import NO_QUIET, Box


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as made:
        yield made


@pytest.fixture
def watched(box: Box) -> Box:
    write(box.root / "file", "first")
    box.watch()
    return box


# Places that are no project


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with things that are no projects, and a home directory with one that is."""
    folder = tmp_path / "places"
    write(folder / "users" / "me" / "project" / "file", "mine")
    write(folder / "file", "no directory")
    os.mkfifo(folder / "fifo")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "to_home").symlink_to("users/me")
    monkeypatch.setenv("HOME", str(folder / "users" / "me"))
    return folder


@pytest.mark.parametrize("allow_broad", [False, True])
@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("file", "is not a directory"),
        ("fifo", "is not a directory"),
        ("missing", "does not exist"),
        ("file/below", "does not exist"),
        ("dangling", "does not exist"),
        ("loop", "does not exist"),
        ("x" * 300, "does not exist"),
        ("\x1b[31m\udcff\n", "does not exist"),
    ],
    ids=["file", "fifo", "missing", "below a file", "dangling link", "loop", "too long", "odd name"],
)
def test_what_is_no_directory_is_not_watched(box, places, place, says, allow_broad):
    with refused(box, "usage", f"{places / place} {says}", places):
        box.call("watch", path=str(places / place), allow_broad=allow_broad)
    assert box.call("projects")["items"] == []


@pytest.mark.parametrize("path", ["", "relative", "./relative", "/nul\0byte"])
def test_a_path_that_names_no_place_is_refused(box, path):
    with refused(box, "usage", path if "relative" in path else "path is"):
        box.call("watch", path=path)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")
@pytest.mark.parametrize("allow_broad", [False, True])
@pytest.mark.parametrize("place", ["/proc", "/proc/self/fdinfo"])
def test_what_the_kernel_makes_up_is_not_watched(box, place, allow_broad):
    with refused(box, "refused", "the kernel makes what is in it"):
        box.call("watch", path=place, allow_broad=allow_broad)


@pytest.mark.parametrize("place", ["users/me", "users/me/../me/.", "to_home", "users", "", "/"])
def test_the_home_directory_and_what_holds_it_are_not_watched(tmp_path, places, place):
    # should / be watched after all, the test records no more than its first level
    skip_all = replace(NO_QUIET, extra_skip=("*",))
    with Box(tmp_path, capture=skip_all) as box:
        with refused(box, "refused", os.path.realpath(places / place), places) as caught:
            box.call("watch", path=str(places / place))
        assert "--allow-broad" in caught.value.hint
        assert box.call("projects")["items"] == []


@pytest.mark.parametrize("place", ["users/me", "users"])
def test_the_home_directory_is_watched_when_that_is_meant(box, places, place):
    before = tree_of(places)
    answer = box.call("watch", path=str(places / place), allow_broad=True)
    assert (answer["root"], answer["files"]) == (str(places / place), 1)
    assert diff_trees(before, tree_of(places)) == []


@pytest.mark.parametrize("allow_broad", [False, True])
@pytest.mark.parametrize("inner", ["", "blobs"])
def test_the_store_itself_is_never_watched(box, inner, allow_broad):
    with refused(box, "refused", str(box.home.folder / inner)):
        box.call("watch", path=str(box.home.folder / inner), allow_broad=allow_broad)
    assert box.call("projects")["items"] == []


def test_a_home_inside_the_project_is_never_recorded_and_never_touched(tmp_path):
    with Box(tmp_path, root=tmp_path) as box:
        box.home.lock.touch()  # a daemon has it; it is one of the two files that tell a home
        write(tmp_path / "file", "first")
        box.watch()
        then = tree_of(tmp_path, skip={b"home"})
        assert skips(box) == {b"home": "openoxide"}
        write(tmp_path / "file", "second")
        write(tmp_path / "new", "new")
        store = box.home.timeline_db.stat().st_ino

        answer = box.rewind("last", exact=True)

        assert (paths(answer["restored"]), paths(answer["removed"])) == ([b"file"], [b"new"])
        assert diff_trees(then, settled(tmp_path, skip={b"home"})) == []
        assert box.home.timeline_db.stat().st_ino == store


# Checkpoints that are none


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nonesuch", "not_found"),
        ("zzzzzzzz", "not_found"),
        ("999", "not_found"),
        ("#999", "not_found"),
        ("last~50", "not_found"),
        ("turn:-1", "not_found"),
        ("turn:nonesuch", "not_found"),
        ("@2h", "not_found"),
        ("@", "usage"),
        ("@25:00", "usage"),
        ("@2999-01-01", "usage"),
        ("turn:", "usage"),
        ("-x", "usage"),
        ("\udcff", "usage"),
        ("\x1b[2J", "usage"),
    ],
)
@pytest.mark.parametrize("act", ["rewind", "show", "restore"])
def test_an_unknown_checkpoint_is_named_and_nothing_is_done(watched, tmp_path, act, name, kind):
    write(watched.root / "file", "second")
    naming = {"999": "#999", "last~50": "50 before", "turn:-1": "turn 1 back", "@2h": "kept of"}.get(
        name, repr(name) if kind == "usage" else name.removeprefix("turn:")
    )
    with refused(watched, kind, naming) as caught:
        watched.call(act, checkpoint=name, to=str(tmp_path / "copy"))
    assert caught.value.hint
    assert not (tmp_path / "copy").exists()


def test_an_ambiguous_checkpoint_is_refused_with_the_candidates(watched):
    while len({name[0] for name in sealed(watched)}) == len(sealed(watched)):
        watched.checkpoint()
    first = [name[0] for name in sealed(watched)]
    letter = next(letter for letter in first if first.count(letter) > 1)
    fitting = {name for name in sealed(watched) if name.startswith(letter)}
    write(watched.root / "file", "second")

    with refused(watched, "ambiguous", repr(letter)) as caught:
        watched.rewind(letter, exact=True)

    assert isinstance(caught.value, AmbiguousError)
    candidates = caught.value.details["candidates"]
    assert {candidate["id"] for candidate in candidates} == fitting
    assert all(f"#{candidate['number']}" in caught.value.message for candidate in candidates)


@pytest.mark.parametrize("action", ["continue", "abort"])
def test_with_nothing_interrupted_there_is_nothing_to_settle(watched, action):
    with refused(watched, "not_found", "no interrupted operation"):
        watched.call("settle", action=action)


@pytest.mark.parametrize("act", ["undo", "redo"])
def test_with_nothing_done_there_is_nothing_to_reverse(watched, act):
    with refused(watched, "not_found", f"nothing to {act}"):
        watched.call(act)


def test_a_place_that_is_not_watched_is_named(box, tmp_path):
    with refused(box, "not_found", str(box.root)) as caught:
        box.checkpoint()
    assert f"oxide-ctl watch {box.root}" in caught.value.hint


# Paths that lie outside


def rewinding(box: Box, tmp_path: Path, path: str) -> Any:
    return box.rewind("1", paths=[path])


def restoring(box: Box, tmp_path: Path, path: str) -> Any:
    return box.call("restore", checkpoint="1", to=str(tmp_path / "copy"), paths=[path])


def printing(box: Box, tmp_path: Path, path: str) -> Any:
    return box.call("cat", checkpoint="1", file=path)


def comparing(box: Box, tmp_path: Path, path: str) -> Any:
    return box.call("diff", a="1", paths=[path])


ACTS = [rewinding, restoring, printing, comparing]
OUTSIDE = ["../secret", "sub/../../secret", "{tmp}/secret", "{tmp}/project_twin/file", "/etc/passwd", ".."]


@pytest.fixture
def walled(watched: Box, tmp_path: Path) -> Box:
    """A project beside which there are things to keep out of."""
    write(tmp_path / "secret", "secret")
    write(tmp_path / "project_twin" / "file", "another project's")
    write(watched.root / "sub" / "inner", "inner")
    (watched.root / "escape").symlink_to(tmp_path)
    watched.checkpoint()
    write(watched.root / "file", "second")
    return watched


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("act", ACTS)
def test_a_path_outside_the_worktree_is_refused(walled, tmp_path, act, path):
    path = path.format(tmp=tmp_path)
    with refused(walled, "usage", f"{path} is outside the worktree {walled.root}", tmp_path / "project_twin"):
        act(walled, tmp_path, path)
    assert (tmp_path / "secret").read_text() == "secret"
    assert (walled.root / "file").read_text() == "second"


@pytest.mark.parametrize("act", ACTS)
def test_what_is_seen_through_a_link_never_was_in_the_worktree(walled, tmp_path, act):
    with refused(walled, "not_found", "escape/secret"):
        act(walled, tmp_path, "escape/secret")


def test_nothing_is_reached_through_a_link(walled, tmp_path):
    outside = tree_of(tmp_path, skip={b"project", b"home"})
    walled.rewind("1", paths=["escape", "file"])
    assert (walled.root / "file").read_text() == "first"
    assert diff_trees(outside, tree_of(tmp_path, skip={b"project", b"home"})) == []


def test_a_link_itself_can_be_named(walled, tmp_path):
    (walled.root / "escape").unlink()
    assert paths(walled.rewind("last", paths=["escape"])["restored"]) == [b"escape"]
    assert (walled.root / "escape").readlink() == tmp_path


@pytest.mark.parametrize("path", ["nonesuch", "sub/nonesuch", "fil"])
def test_a_rewind_of_a_path_that_never_was_is_refused(walled, path):
    with refused(walled, "not_found", path):
        walled.rewind("1", paths=[path])


# Roots that go, change and come back

NEEDS_THE_ROOT: dict[str, dict[str, Any]] = {
    "checkpoint": {},
    "rewind": {"checkpoint": "1"},
    "diff": {"a": "1"},
    "turn_begin": {"agent": "claude", "session": "S", "prompt": "P"},
}


def state_of(box: Box) -> dict[str, Any]:
    (worktree,) = box.call("status")["worktrees"]
    return dict(worktree)


@pytest.mark.parametrize("act", NEEDS_THE_ROOT)
def test_a_root_that_vanished_is_named_and_its_history_stays(watched, tmp_path, act):
    watched.root.rename(tmp_path / "away")

    with refused(watched, "root_vanished", str(watched.root), tmp_path / "away"):
        watched.call(act, **NEEDS_THE_ROOT[act])

    assert watched.call("cat", checkpoint="1", file="file") == b"first"
    assert not watched.root.exists()
    wait_until(lambda: (state_of(watched)["state"], state_of(watched)["complete"]) == ("paused", False), 30)


def test_a_root_that_came_back_goes_on_and_nothing_counts_as_deleted(watched, tmp_path):
    watched.root.rename(tmp_path / "away")
    wait_until(lambda: state_of(watched)["state"] == "paused", 30)
    write(tmp_path / "away" / "meanwhile", "written while nobody looked")
    (tmp_path / "away").rename(watched.root)

    assert not watched.checkpoint()["complete"]
    wait_until(lambda: watched.checkpoint()["complete"], 30)

    assert watched.call("cat", checkpoint="last", file="meanwhile") == b"written while nobody looked"
    assert {item["changed"]["removed"] for item in watched.call("log")["items"]} == {0}
    assert state_of(watched)["state"] == "watching"


@pytest.mark.parametrize("act", NEEDS_THE_ROOT)
def test_a_root_that_was_replaced_is_not_taken_for_the_old_one(watched, tmp_path, act):
    watched.root.rename(tmp_path / "away")
    write(watched.root / "other", "another project")

    with refused(watched, "root_vanished", f"{watched.root} is not the directory that was watched") as caught:
        watched.call(act, **NEEDS_THE_ROOT[act])

    assert "oxide-ctl watch" in caught.value.hint
    assert watched.call("cat", checkpoint="1", file="file") == b"first"


def test_a_replaced_root_is_shown_as_paused(watched, tmp_path):
    watched.root.rename(tmp_path / "away")
    watched.root.mkdir()
    wait_until(lambda: state_of(watched)["state"] == "paused", 4)


def test_a_replaced_root_that_is_watched_again_is_a_worktree_of_its_own(watched, tmp_path):
    watched.root.rename(tmp_path / "away")
    write(watched.root / "other", "another project")

    answer = watched.watch()

    assert answer["created"]
    assert (answer["checkpoint"]["number"], answer["files"]) == (1, 1)
    old, new = watched.call("projects")["items"]
    assert (old["watching"], old["checkpoints"], new["watching"], new["project"] == old["project"]) == (
        False,
        1,
        True,
        False,
    )
    shutil.rmtree(watched.root)
    (tmp_path / "away").rename(watched.root)
    assert watched.watch()["worktree"] == 1
    assert watched.call("cat", checkpoint="1", file="file") == b"first"


@isolated
def test_a_root_that_is_missing_when_the_daemon_starts_goes_on_when_it_is_back(tmp_path):
    box = Box(tmp_path)
    write(box.root / "file", "first")
    box.watch()
    box.stop()
    box.root.rename(tmp_path / "away")
    box.start()
    with pytest.raises(OpenOxideError, match=str(box.root)):
        box.checkpoint()
    (tmp_path / "away").rename(box.root)

    with box:
        assert box.checkpoint()["changed"] == {"added": 0, "modified": 0, "removed": 0}


@unprivileged
def test_a_root_that_may_not_be_read_is_named_and_not_registered(tmp_path):
    shut = write(tmp_path / "shut" / "file", "first").parent
    shut.chmod(0)
    with Box(tmp_path) as box:
        with refused(box, "root_vanished", str(shut)):
            box.call("watch", path=str(shut))
        assert box.call("projects")["items"] == []


@unprivileged
def test_a_root_that_may_not_be_written_is_told_apart_from_the_store(tmp_path):
    with Box(tmp_path) as box:
        write(box.root / "file", "first")
        box.watch()
        write(box.root / "file", "second")
        box.root.chmod(0o555)
        with refused(box, "failed", str(box.root)):
            box.rewind("1")


# Git goes its own way


def git(root: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(["git", "-C", root, *arguments], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(root: Path, content: str) -> str:
    write(root / "file", content)
    git(root, "add", "-A")
    git(root, "commit", "-qm", content)
    return git(root, "rev-parse", "HEAD")


def committing(root: Path) -> str:
    return commit(root, "second")


def switching(root: Path) -> str:
    git(root, "switch", "-qc", "other")
    return commit(root, "on the other branch")


@pytest.mark.parametrize("move", [committing, switching])
def test_a_rewind_across_a_move_of_head_touches_only_files_and_names_the_command(box, move: Callable[[Path], str]):
    git(box.root, "init", "-qb", "main")
    first = commit(box.root, "first")
    box.watch()
    second = move(box.root)
    write(box.root / "staged", "staged")
    git(box.root, "add", "staged")
    repository = tree_of(box.root / ".git")

    answer = box.rewind("1", exact=True)

    settled(box.root)
    assert diff_trees(repository, tree_of(box.root / ".git")) == []
    assert (box.root / "file").read_text() == "first"
    assert f"`git diff {second[:10]}`" in answer["git_note"]
    assert first[:10] in answer["git_note"]
    assert git(box.root, "diff", "--name-only", second[:10]) == "file"
    assert box.call("cat", checkpoint=answer["pre_rewind_checkpoint"]["id"], file="staged") == b"staged"


@pytest.fixture(params=["file", "link"])
def occupied(request: pytest.FixtureRequest, watched: Box, tmp_path: Path) -> Box:
    """A project where something of the user's has the name of the staging folder."""
    write(watched.root / "file", "second")
    if request.param == "file":
        write(watched.root / STAGING, "the user's")
    else:
        (tmp_path / "elsewhere").mkdir()
        (watched.root / STAGING).symlink_to(tmp_path / "elsewhere")
    return watched


def test_something_else_in_the_place_of_the_staging_folder_is_named_and_left(occupied):
    with refused(occupied, "refused", str(occupied.root / STAGING)):
        occupied.rewind("1")
    (occupied.root / STAGING).unlink()
    assert paths(occupied.rewind("1")["restored"]) == [b"file"]


def test_a_rewind_that_could_not_stage_stands_in_nobodys_way(occupied):
    with refused(occupied, "refused", str(occupied.root / STAGING)):
        occupied.rewind("1")
    left = phases(occupied)
    occupied.stop()
    occupied.start()
    assert occupied.checkpoint()["changed"]["modified"] == 0
    assert left == ["undone"]
