"""A history follows the directory that somebody says it belongs to, and no other."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from openoxide.checkpoints.model import Worktree
from openoxide.checkpoints.tree import RootIdentity, identity_of
from openoxide.daemon.operations.likeness import Traces, likeness
from openoxide.daemon.operations.moving import that_moved
from openoxide.errors import AmbiguousError, NotFoundError, RefusedError, RootVanishedError, UsageError
from tests.kit import tree_of
from tests.kit.box import Box


@pytest.fixture
def box(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "src").mkdir()
        (box.root / "src" / "a").write_text("one")
        (box.root / "b").write_text("kept")
        box.watch()
        box.checkpoint("before")
        yield box


@pytest.fixture
def new(box):
    return box.root.with_name("new")


def move(box, old, new, **options):
    return box.call("projects_move", old=str(old), new=str(new), **options)


def names(box, root):
    return [item["name"] for item in box.call("log", path=str(root))["items"]]


def roots(box):
    return {item["root"]: item["watching"] for item in box.call("projects")["items"]}


def status_of(box, root):
    return next(w for w in box.call("status")["worktrees"] if w["root"] == str(root))


def test_a_renamed_directory_keeps_its_history_and_is_watched(box, new):
    box.root.rename(new)

    answer = move(box, box.root, new)

    assert (answer["old_root"], answer["root"], answer["dropped_checkpoints"]) == (str(box.root), str(new), 0)
    assert roots(box) == {str(new): True}
    assert names(box, new) == ["before", None]
    (new / "src" / "a").write_text("two")
    assert box.call("checkpoint", path=str(new))["changed"]["modified"] == 1
    box.call("rewind", path=str(new), checkpoint="before", exact=True)
    assert (new / "src" / "a").read_text() == "one"
    assert status_of(box, new)["complete"] is True


def test_what_differs_in_a_copy_is_one_checkpoint(box, new):
    shutil.copytree(box.root, new)
    shutil.rmtree(box.root)
    (new / "b").write_text("changed on the way")

    changed = move(box, box.root, new)["checkpoint"]["changed"]

    assert changed["modified"] >= 1
    assert box.call("cat", path=str(new), checkpoint="before", file=str(new / "b")) == b"kept"


def test_the_daemon_that_comes_next_watches_the_new_root(box, new):
    box.root.rename(new)
    move(box, box.root, new)
    box.stop()
    (new / "c").write_text("x")

    box.start()

    box.call("checkpoint", path=str(new))
    assert names(box, new)[-2:] == ["before", None]
    assert roots(box) == {str(new): True}


def test_a_tree_that_is_still_there_needs_a_yes(box, new):
    shutil.copytree(box.root, new)

    with pytest.raises(RefusedError) as caught:
        move(box, box.root, new)

    assert (caught.value.details, "--yes" in caught.value.hint) == ({"still_there": True}, True)
    assert roots(box) == {str(box.root): True}
    move(box, box.root, new, yes=True)
    assert roots(box) == {str(new): True}
    with pytest.raises(NotFoundError):
        box.checkpoint()


def test_who_waited_for_the_old_root_does_not_record_it(box, new):
    (watched,) = box.service.all_watched()
    shutil.copytree(box.root, new)
    move(box, box.root, new, yes=True)
    before = box.service.timeline.head(1).seq
    (box.root / "other").write_text("x")

    for record in (watched.record, lambda: watched.full_pass(None), lambda: box.service.attach(watched)):
        with pytest.raises(NotFoundError):
            record()

    assert box.service.timeline.head(1).seq == before


def test_a_link_left_behind_is_no_tree(box, new):
    box.root.rename(new)
    box.root.symlink_to(new)

    assert move(box, box.root, new)["root"] == str(new)


def test_a_directory_made_anew_gets_the_history_of_the_one_before(box):
    box.root.rename(box.root.with_name("aside"))  # not deleted: the new one would get its inode number
    box.root.mkdir()
    (box.root / "b").write_text("again")

    changed = move(box, box.root, box.root)["checkpoint"]["changed"]

    assert (changed["modified"], changed["removed"]) == (1, 2)
    assert names(box, box.root)[1:] == ["before", None]


def test_a_directory_made_anew_is_not_the_one_before(box):
    shutil.rmtree(box.root)  # on many file systems the new one gets its inode number
    box.root.mkdir()
    if not identity_of(str(box.root).encode()).birth_ns:
        pytest.skip("this file system does not tell when a directory was made")
    with pytest.raises(RootVanishedError):
        box.checkpoint()

    assert box.watch()["lookalikes"] == [{"root": str(box.root), "reason": "recreated"}]


def test_watching_a_directory_made_anew_says_how_to_join_it(box):
    box.root.rename(box.root.with_name("aside"))
    box.root.mkdir()

    likely = box.watch()["lookalikes"]

    assert likely == [{"root": str(box.root), "reason": "recreated"}]
    answer = move(box, box.root, box.root)
    assert (answer["dropped_checkpoints"], roots(box)) == (1, {str(box.root): True})
    assert names(box, box.root)[1:] == ["before", None]


def test_a_first_capture_at_the_new_root_makes_room(box, new):
    box.root.rename(new)
    assert box.call("watch", path=str(new))["lookalikes"] == [{"root": str(box.root), "reason": "same_directory"}]

    answer = move(box, box.root, new)

    assert (answer["dropped_checkpoints"], roots(box), names(box, new)) == (1, {str(new): True}, ["before", None])


def more_checkpoints(box, new):
    box.call("checkpoint", path=str(new))


def changes_since(_box, new):
    (new / "since").write_text("x")


def unwatched(box, new):
    box.call("unwatch", path=str(new))


@pytest.mark.parametrize("history", [more_checkpoints, changes_since, unwatched])
def test_a_history_of_its_own_stays_in_the_way(box, new, history):
    box.root.rename(new)
    box.call("watch", path=str(new))
    history(box, new)
    before = roots(box), names(box, new)

    with pytest.raises(RefusedError) as caught:
        move(box, box.root, new)

    assert "unwatch --delete-history" in caught.value.hint
    assert (roots(box), names(box, new)) == before
    assert status_of_all_is_well(box)


def status_of_all_is_well(box):
    return all(w["state"] in ("watching", "capturing", "paused") for w in box.call("status")["worktrees"])


def test_another_directory_that_stood_there_keeps_its_history(box, new):
    new.mkdir()
    (new / "theirs").write_text("x")
    box.call("watch", path=str(new))
    new.rename(new.with_name("aside"))
    box.root.rename(new)

    move(box, box.root, new)

    assert sorted((i["root"], i["watching"], i["checkpoints"]) for i in box.call("projects")["items"]) == [
        (str(new), False, 1),
        (str(new), True, 2),
    ]
    assert names(box, new) == ["before", None]


def test_who_moved_it_hears_how_far_it_is_and_gets_a_checkpoint_of_their_own(box, new):
    shutil.copytree(box.root, new)
    shutil.rmtree(box.root)
    (new / "b").write_text("changed on the way")
    for number in range(600):  # enough for another thread to come first
        (new / f"{number}").touch()
    box.call("watch", path=str(new))
    box.progress.clear()

    sealed = move(box, box.root, new)["checkpoint"]

    assert (sealed["trigger"], sealed["changed"]["added"]) == ("manual", 600)
    assert box.progress[-1]["stage"] == "files"


def another_in_its_place(box):
    """A second tree where the first was watched, watched too; where the first one is."""
    aside = box.root.rename(box.root.with_name("aside"))
    box.root.mkdir()
    (box.root / "other").write_text("x")
    box.watch()
    box.checkpoint("of the second")
    return aside


def test_the_directory_itself_tells_which_history_moved(box, new):
    another_in_its_place(box).rename(new)

    move(box, box.root, new)

    assert names(box, new) == ["before", None]
    assert names(box, box.root) == ["of the second", None]
    assert roots(box) == {str(box.root): True, str(new): True}


def test_which_history_a_copy_has_is_asked(box, new):
    shutil.copytree(another_in_its_place(box), new)

    with pytest.raises(AmbiguousError) as caught:
        move(box, box.root, new)

    first, second = caught.value.details["candidates"]
    assert (first["reason"], first["checkpoints"], second["reason"]) == ("gone", 2, "still there")
    assert f"--history {first['id']} (gone" in caught.value.hint
    assert names(box, box.root) == ["of the second", None]
    with pytest.raises(NotFoundError):
        move(box, box.root, new, history=99)
    move(box, box.root, new, history=first["id"])
    assert names(box, new)[-2:] == ["before", None]


@pytest.mark.parametrize(
    ("known", "wanted", "chosen"),
    [
        ([7], None, 0),
        ([7, 8], None, None),
        ([7, 5], None, 1),
        ([5, 5], None, None),
        ([5, 7], 2, 1),
        ([5, 7], 3, None),
    ],
)
def test_only_what_tells_decides(known, wanted, chosen):
    trees = [
        Worktree(id=number, project="p", root=b"/old", kind="code", dev=1, ino=ino, birth_ns=0, watching=number == 2)
        for number, ino in enumerate(known, 1)
    ]

    assert that_moved(trees, RootIdentity(1, 5, 0), wanted) == (None if chosen is None else trees[chosen])


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("unknown", "there", NotFoundError),
        ("project", "missing", UsageError),
        ("project", "file", UsageError),
        ("project", "home", RefusedError),
        ("project", "project", UsageError),
    ],
)
def test_what_cannot_be_moved_is_said(box, old, new, error):
    folder = box.root.parent
    (folder / "there").mkdir()
    (folder / "file").touch()

    with pytest.raises(error):
        move(box, folder / old, folder / new)

    assert roots(box) == {str(box.root): True}


def interrupt(box):
    """Leaves the operation as one whose exchange was cut off: nothing of it was done."""
    box.rewind("before")
    box.stop()
    with box.service.timeline.database.__class__(box.home.timeline_db).writing() as db:
        db.execute_sql("update operation set phase = 'interrupted'")
    box.start()


def test_a_copy_of_an_interrupted_operation_is_refused(box, new):
    (box.root / "b").write_text("changed")
    interrupt(box)
    shutil.copytree(box.root, new)
    shutil.rmtree(box.root)

    with pytest.raises(RefusedError) as caught:
        move(box, box.root, new)

    assert "interrupted" in caught.value.message
    assert roots(box) == {str(box.root): True}


def test_two_worktrees_become_one_project_with_two_histories(box, new):
    new.mkdir()
    (new / "n").write_text("x")
    other = box.call("watch", path=str(new))

    answer = box.call("projects_join", a=str(box.root), b=str(new))

    assert answer["roots"] == [str(box.root), str(new)]
    assert {item["project"] for item in box.call("projects")["items"]} == {answer["project"]}
    assert answer["project"] != other["project"]
    assert (names(box, box.root), names(box, new)) == (["before", None], [None])
    assert {w["project"] for w in box.call("status")["worktrees"]} == {answer["project"]}


def test_joining_takes_the_whole_project_along(box, tmp_path):
    others = [tmp_path / name for name in ("x", "y")]
    for other in others:
        other.mkdir()
        box.call("watch", path=str(other))
    box.call("projects_join", a=str(others[0]), b=str(others[1]))

    answer = box.call("projects_join", a=str(box.root), b=str(others[1]))

    assert answer["roots"] == [str(box.root), *map(str, others)]


@pytest.mark.parametrize(("a", "b", "error"), [("project", "project", UsageError), ("project", "other", NotFoundError)])
def test_what_cannot_be_joined_is_said(box, a, b, error):
    with pytest.raises(error):
        box.call("projects_join", a=str(box.root.parent / a), b=str(box.root.parent / b))


def test_a_project_that_is_gone_is_said_to_be_where_it_may_be(box, new):
    box.root.rename(new)
    box.call("watch", path=str(new))

    gone, _ = box.call("projects")["items"]

    assert (gone["gone"], gone["lookalikes"]) == (True, [{"root": str(new), "reason": "same_directory"}])
    box.call("projects_join", a=str(box.root), b=str(new))
    assert box.call("projects")["items"][0]["lookalikes"] == []


def git(root, *words):
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


@pytest.mark.parametrize("origin", ["", "https://example.org/app.git"])
def test_a_repository_is_known_by_what_git_says(tmp_path, origin):
    with Box(tmp_path) as box:
        git(box.root, "init", "-q")
        if origin:
            git(box.root, "remote", "add", "origin", origin)
        (box.root / "a").write_text("x")
        git(box.root, "add", ".")
        git(box.root, "commit", "-qm", "one")
        box.watch()
        new = tmp_path / "new"
        if origin:
            git(tmp_path, "init", "-q", str(new))
            git(new, "remote", "add", "origin", origin)
        else:
            shutil.copytree(box.root, new)
            git(new, "commit", "-q", "--allow-empty", "-m", "two")
        shutil.rmtree(box.root)

        (likely,) = box.call("survey", path=str(new))["lookalikes"]

        assert likely["reason"] == ("same_origin" if origin else "same_head")


OLD = Traces(
    root=b"/old", device_and_inode=(1, 2), names=frozenset({b"a", b"b"}), heads=frozenset({"c0ffee"}), origin="o"
)


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        (Traces(root=b"/old", device_and_inode=(1, 9), names=frozenset()), "recreated"),
        (Traces(root=b"/n", device_and_inode=(1, 2), names=frozenset({b"a"})), "same_directory"),
        (Traces(root=b"/n", device_and_inode=(1, 2), names=frozenset({b"x", b"y"})), ""),
        (Traces(root=b"/n", device_and_inode=(3, 2), names=frozenset({b"a", b"b"})), ""),
        (Traces(root=b"/n", device_and_inode=(3, 4), names=frozenset(), heads=frozenset({"c0ffee"})), "same_head"),
        (Traces(root=b"/n", device_and_inode=(3, 4), names=frozenset(), origin="o"), "same_origin"),
        (Traces(root=b"/n", device_and_inode=(3, 4), names=frozenset(), origin="p", heads=frozenset({"other"})), ""),
    ],
)
def test_likeness_needs_a_reason(there, reason):
    assert likeness(OLD, there) == reason


def test_nothing_in_common_is_no_likeness():
    plain = Traces(root=b"/old", device_and_inode=(1, 2), names=frozenset())

    assert likeness(plain, Traces(root=b"/n", device_and_inode=(1, 2), names=frozenset())) == ""


def test_looking_changes_nothing_in_the_tree(box, new):
    box.root.rename(new)
    before = tree_of(new)

    box.call("projects")
    box.call("survey", path=str(new))

    assert tree_of(new) == before


def test_a_directory_that_took_the_place_of_the_root_is_told_from_one_not_looked_at_yet(box):
    box.stop()
    shutil.rmtree(box.root)
    box.root.mkdir()
    box.start()

    assert status_of(box, box.root)["reason"] == "another directory has taken the place of the root"
    (problem,) = [found for found in box.call("doctor")["problems"] if found["kind"] == "root_gone"]
    assert f"`oxide-ctl projects move {box.root} {box.root}`" in problem["hint"]
    with pytest.raises(RootVanishedError) as caught:
        box.checkpoint()
    assert f"`oxide-ctl projects move {box.root} {box.root}`" in caught.value.hint


@pytest.mark.parametrize("stands", ["nothing", "file", "directory"])
def test_a_copy_is_written_to_the_root_only_where_nothing_stands(box, stands):
    shutil.rmtree(box.root)
    if stands == "file":
        box.root.write_text("x")
    elif stands == "directory":
        box.root.mkdir()

    if stands == "nothing":
        assert box.call("restore", checkpoint="last", to=str(box.root))["notes"]
        assert (box.root / "src" / "a").read_text() == "one"
    else:
        with pytest.raises(RefusedError):
            box.call("restore", checkpoint="last", to=str(box.root))
