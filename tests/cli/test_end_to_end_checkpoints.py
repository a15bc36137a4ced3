"""The contract against the real daemon: sealing, naming and looking."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime, timedelta

from tests.cli.contract import CHECKPOINT, IDENT, TIME, TURN, paths, sealed
from tests.kit import diff_trees, tree_of


def test_a_checkpoint_has_every_field(machine, project):
    (project / "new").write_text("x")
    (project / "src" / "a.py").write_text("two\n")
    (project / "run.sh").unlink()

    answer = machine.json("checkpoint", "-m", "before it", "--pin")

    assert answer.keys() >= CHECKPOINT
    assert IDENT.fullmatch(answer["id"])
    assert TIME.fullmatch(answer["created_at"])
    assert (answer["name"], answer["pinned"], answer["trigger"]) == ("before it", True, "manual")
    assert (answer["complete"], answer["late"]) == (True, False)
    assert answer["changed"] == {"added": 1, "modified": 1, "removed": 1}


def test_one_that_is_not_pinned_expires(machine, project):
    assert TIME.fullmatch(sealed(machine)["expires_at"])


def test_a_checkpoint_is_sealed_also_where_nothing_changed(machine, project):
    first, second = sealed(machine), sealed(machine)

    assert second["number"] > first["number"]
    assert second["manifest_hash"] == first["manifest_hash"]
    assert second["changed"] == {"added": 0, "modified": 0, "removed": 0}


def test_quiet_checkpoint_prints_an_id_that_names_it(machine, project):
    ended = machine.run("-q", "checkpoint")

    assert machine.json("show", ended.text.strip())["id"] == ended.text.strip()


def test_a_name_that_means_something_else_is_wrong_usage(machine, project):
    for name in ("42", "last", "last~2", "@2h", "turn:x", "", "a\nb"):
        assert machine.failure("checkpoint", "-m", name, code=2)["kind"] == "usage", name


def test_log_is_newest_first_and_can_be_cut(machine, project):
    numbers = [sealed(machine)["number"] for _ in range(3)]

    items = machine.json("log")["items"]
    assert [item["number"] for item in items][:3] == numbers[::-1]
    assert all(item.keys() >= CHECKPOINT for item in items)
    assert [item["number"] for item in machine.json("log", "--limit", "2")["items"]] == numbers[:0:-1]
    assert [item["number"] for item in machine.json("log", "--all", "--limit", "1")["items"]] == numbers[2:]


def test_log_can_be_asked_by_session_and_time(machine, project):
    turn = machine.json("turn", "begin", *TURN)["checkpoint"]["number"]
    machine.json("turn", "end", *TURN)

    numbers = [item["number"] for item in machine.json("log", "--session", "s1")["items"]]
    assert turn in numbers
    assert machine.json("log", "--session", "other")["items"] == []
    assert turn in [item["number"] for item in machine.json("log", "--since", "@1h")["items"]]
    assert machine.failure("log", "--since", "@someday", code=2)["kind"] == "usage"


def test_log_can_be_cut_to_what_has_a_name(machine, project):
    first, _, last = sealed(machine, "one"), sealed(machine), sealed(machine, "two")

    items = machine.json("log", "--named")["items"]

    assert [(item["id"], item["name"]) for item in items] == [(last["id"], "two"), (first["id"], "one")]
    page = machine.json("log", "--named", "--limit", "1")
    assert ([item["id"] for item in page["items"]], page["next"]) == ([last["id"]], str(last["number"]))


def test_a_time_is_read_in_the_caller_s_zone_whatever_the_daemon_s_is(machine):
    """Nine hours east the clock shows what for the daemon is still to come, five hours west what is long past."""
    machine.run("watch", TZ="UTC0")
    first, second = sealed(machine), sealed(machine)

    for zone, hours in (("JST-9", 9), ("EST5", -5)):
        for one in (first, second):
            local = datetime.fromisoformat(one["created_at"]) + timedelta(hours=hours)
            text = f"@{local.replace(tzinfo=None).isoformat(timespec='milliseconds')}"
            shown = machine.run("--json", "show", text, TZ=zone)
            assert shown.json["id"] == one["id"], shown
            since = machine.run("--json", "log", "--since", text.removeprefix("@"), TZ=zone)
            assert [item["id"] for item in since.json["items"]][-1] == one["id"], since


def test_show_tells_changes_writers_git_and_skips(machine):
    subprocess.run(["git", "init", "-q", "-b", "main", machine.project], check=True)
    (machine.project / "node_modules").mkdir()
    (machine.project / "node_modules" / "x.js").touch()
    machine.json("watch")
    (machine.project / "new").touch()

    answer = machine.json("show", str(sealed(machine)["number"]))

    assert answer.keys() >= CHECKPOINT | {"git", "writers", "skipped_paths"}
    assert answer["git"]["branch"] == "main"
    assert paths(answer["changes"]) == ["new"]
    assert [(writer["certainty"], writer["paths"]) for writer in answer["writers"]] == [("unknown", 1)]
    reasons = {entry["path"].rstrip("/"): entry["reason"] for entry in answer["skipped_paths"]}
    assert (reasons[".git"], reasons["node_modules"]) == ("vcs", "dependencies")
    assert answer["skipped"] == len(answer["skipped_paths"])


def test_each_way_to_name_a_checkpoint(machine, project):
    one, two, three = (sealed(machine, name) for name in ("one", "two", "three"))
    turn = machine.json("turn", "begin", *TURN)["checkpoint"]
    machine.json("turn", "end", *TURN)
    last = sealed(machine)

    for spelling, expected in {
        str(one["number"]): one,
        f"#{two['number']}": two,
        three["id"]: three,
        two["id"][:15]: two,
        "one": one,
        "last": last,
        "@0s": last,
        "turn:-1": turn,
        "turn:p1": turn,
    }.items():
        assert machine.json("show", spelling)["id"] == expected["id"], spelling


def test_an_ambiguous_name_comes_with_its_candidates(machine, project):
    ids = [sealed(machine)["id"] for _ in range(17)]  # one letter more than there are

    first = next(letter for letter in "klmnopqrstuvwxyz" if sum(name.startswith(letter) for name in ids) > 1)
    error = machine.failure("show", first, code=5)

    assert error["kind"] == "ambiguous"
    assert {candidate["id"] for candidate in error["candidates"]} >= {name for name in ids if name.startswith(first)}


def test_what_does_not_exist_is_not_found_and_what_can_name_nothing_is_wrong_usage(machine, project):
    for name in ("999", "last~999", "nobody", "turn:nothing", "turn:-9", "kkkkkkkkkkkkkkkk"):
        assert machine.failure("show", name, code=5)["kind"] == "not_found", name
    for name in ("@nonsense", "turn:", "@25:99"):
        assert machine.failure("show", name, code=2)["kind"] == "usage", name


def test_outside_of_what_is_watched_nothing_is_found(machine):
    for line in ("checkpoint", "log", "show 1", "diff 1", "rewind 1 --yes", "undo --yes", "operations"):
        assert machine.failure(*line.split(), code=5)["kind"] == "not_found", line


def test_the_option_names_the_project(machine, project, tmp_path):
    ended = machine.run("--json", "-C", str(project / "src"), "checkpoint", cwd=tmp_path)

    assert (ended.code, ended.json["ok"]) == (0, True)


def test_diff_compares_two_checkpoints_or_one_with_the_worktree(machine, project):
    before = sealed(machine)
    (project / "src" / "a.py").write_text("two\n")
    (project / "new").write_text("x")
    (project / "empty").rmdir()
    (project / "link").unlink()
    (project / "link").mkdir()
    after = sealed(machine)

    items = machine.json("diff", before["id"], after["id"])["items"]
    assert {item["path"]: item["status"] for item in items} == {"empty": "D", "link": "T", "new": "A", "src/a.py": "M"}
    assert all(item.keys() >= {"path", "status", "old", "new", "writer", "certainty"} for item in items)
    changed = next(item for item in items if item["path"] == "src/a.py")
    assert changed["old"].keys() >= {"kind", "mode", "size_bytes", "hash"}
    assert changed["old"]["hash"] != changed["new"]["hash"]
    assert (changed["new"]["kind"], changed["new"]["size_bytes"]) == ("file", 4)
    assert machine.json("diff", before["id"])["items"] == items
    assert paths(machine.json("diff", after["id"], before["id"])["items"]) == paths(items)
    assert paths(machine.json("diff", before["id"], "--", "src", "new")["items"]) == ["new", "src/a.py"]
    assert machine.json("diff", after["id"])["items"] == []


def test_diff_as_text_has_three_styles(machine, project):
    before = sealed(machine)
    (project / "src" / "a.py").write_text("two\n")

    assert machine.run("diff", before["id"]).text == "M  src/a.py\n"
    assert "4 B -> 4 B" in machine.run("diff", before["id"], "--stat").text
    assert "-one\n+two\n" in machine.run("diff", before["id"], "--patch").text


def test_cat_prints_the_bytes_of_then(machine, project):
    content = bytes(range(256)) * 1_000
    (project / "src" / "bin").write_bytes(content)
    before = sealed(machine)["id"]
    (project / "src" / "bin").unlink()

    ended = machine.run("cat", before, "src/bin")
    assert (ended.code, ended.out, ended.err) == (0, content, b"")
    assert machine.run("cat", before, "bin", cwd=project / "src").out == content
    assert machine.failure("cat", before, "absent", code=5)["kind"] == "not_found"
    assert machine.run("cat", before, "src").code in (2, 5)


def test_a_path_outside_the_worktree_is_wrong_usage(machine, project):
    sealed(machine)

    for line in (
        "cat last ../x",
        "cat last /etc/passwd",
        "diff last -- ..",
        "rewind last --yes -- /etc",
        "restore last --to x -- /etc",
    ):
        assert machine.failure(*line.split(), code=2)["kind"] == "usage", line
        assert not (project / "x").exists()


def test_restore_copies_out_and_touches_nothing(machine, project, tmp_path):
    before = sealed(machine)["id"]
    then = tree_of(project, skip={b".openoxide-staging"})
    (project / "src" / "a.py").write_text("two\n")
    now = tree_of(project, skip={b".openoxide-staging"})

    answer = machine.json("restore", before, "--to", str(tmp_path / "out"))

    assert set(paths(answer["written"])) >= {"src/a.py", "run.sh", "empty", "link"}
    assert diff_trees(then, tree_of(tmp_path / "out")) == []
    assert diff_trees(now, tree_of(project, skip={b".openoxide-staging"})) == []


def test_restore_takes_paths_and_refuses_a_folder_that_holds_something(machine, project, tmp_path):
    before = sealed(machine)["id"]
    out = tmp_path / "out"
    machine.json("restore", before, "--to", str(out), "--", "src/a.py")
    assert tree_of(out, skip={b".openoxide-staging"}).keys() == {b"src", b"src/a.py"}
    (out / "mine").write_text("mine")

    assert machine.failure("restore", before, "--to", str(out), code=4)["kind"] == "conflict"
    assert tree_of(out, skip={b".openoxide-staging"}).keys() == {b"src", b"src/a.py", b"mine"}
    machine.json("restore", before, "--to", str(out), "--force")
    assert (out / "mine").read_text() == "mine"
    assert (out / "run.sh").exists()


def test_restore_says_which_of_the_paths_it_was_given_it_has_not(machine, project, tmp_path):
    before = sealed(machine)
    (project / "later").write_text("x")
    sealed(machine)
    out = str(tmp_path / "out")

    assert (
        "nope never was"
        in machine.failure("restore", before["id"], "--to", out, "--", "src", "nope", code=5)["message"]
    )
    assert not (tmp_path / "out").exists()
    answer = machine.json("restore", before["id"], "--to", out, "--", "src", "later")
    assert answer["notes"] == [f"later is not in checkpoint #{before['number']}"]
    assert (tmp_path / "out" / "src" / "a.py").exists()


# a byte order mark, Windows line ends, a form feed, colours, a zero-width space, a line separator
ODD = "\ufeffone\r\nold\r\n\x0c\x1b[1mbold\u200b\u2028end\r\n".encode()


def test_a_patch_is_one_that_git_applies(machine, project, tmp_path):
    (project / "text").write_text("one\ntwo\n")
    (project / "crlf").write_bytes(ODD)
    (project / "tool").write_text("#!/bin/sh\n")
    (project / "blank").touch()
    (project / "gone").write_text("gone\n")
    (project / "pointer").symlink_to("text")
    (project / "was link").symlink_to("text")
    (project / "was folder").mkdir()
    first = str(sealed(machine)["number"])
    (project / "text").write_text("one\n2\n")
    (project / "text").chmod(0o755)
    (project / "crlf").write_bytes(ODD.replace(b"old", b"new"))
    (project / "tool").chmod(0o755)
    (project / "tool").write_text("#!/bin/bash\n")
    (project / "blank").chmod(0o755)
    (project / "gone").unlink()
    (project / "pointer").unlink()
    (project / "pointer").symlink_to("tool")
    (project / "was link").unlink()
    (project / "was link").write_text("file\n")
    (project / "was folder").rmdir()
    (project / "was folder").write_text("file\n")
    (project / "new link").symlink_to("nowhere")
    (project / "new folder").mkdir()
    (project / "new folder" / "empty").touch()
    second = str(sealed(machine)["number"])
    for number in (first, second):
        machine.json("restore", number, "--to", str(tmp_path / number))

    patch = machine.run("diff", first, second, "--patch")
    (tmp_path / first / "was folder").rmdir()  # git keeps no folders, and the patch says nothing of them
    applied = subprocess.run(["git", "apply"], cwd=tmp_path / first, input=patch.out, check=False, capture_output=True)

    assert applied.returncode == 0, (applied.stderr, patch.text)
    made = content_of(tmp_path / first)
    assert made == content_of(tmp_path / second)
    assert (made["pointer"], made["new link"]) == ("tool", "nowhere")


def content_of(folder):
    """Every file and link below ``folder`` with what git would keep of it."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(folder))] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found
