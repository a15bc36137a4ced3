"""Where a command acts, and how the paths that were typed reach the daemon."""

from __future__ import annotations

import re
import shlex

import pytest

from openoxide.cli.output import Output
from openoxide.errors import NotFoundError
from tests.cli.answers import rewound


def test_paths_are_relative_to_the_directory_of_the_option(run, daemon, tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").touch()
    monkeypatch.chdir(tmp_path)
    daemon.answers["cat"] = b""

    run("-C", "sub", "cat", "1", "x")
    run("-C", "sub/file", "cat", "1", "x")
    run("cat", "1", "sub/./x")

    assert [request["file"] for _, request in daemon.requests] == [str(tmp_path / "sub" / "x")] * 3
    assert [request["path"] for _, request in daemon.requests] == [
        str(tmp_path / "sub"),
        str(tmp_path / "sub" / "file"),
        str(tmp_path),
    ]


def test_a_directory_of_the_option_that_is_gone_still_has_a_place(run, daemon, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    daemon.answers["restore"] = {"ok": True, "to": "", "written": [], "skipped": [], "notes": []}

    run("-C", "gone", "restore", "1", "--to", "../gone", "--", "src/a")

    ((_, request),) = daemon.requests
    assert (request["path"], request["to"]) == (f"{tmp_path}/gone",) * 2
    assert request["paths"] == [f"{tmp_path}/gone/src/a"]


def test_links_and_odd_bytes_travel_as_they_were_typed(run, daemon, tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    daemon.answers["cat"] = b""

    run("-C", "link", "cat", "1", "a\udcff\nb")

    assert daemon.requests[0][1]["file"] == f"{tmp_path}/link/a\udcff\nb"


def test_a_working_directory_that_is_gone_is_named(run, daemon, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    daemon.answers["log"] = {"ok": True, "items": []}

    ended = run("log")

    assert ended.code == 2
    assert "working directory" in ended.complaint
    assert run("-C", "/", "log").code == 0


@pytest.mark.parametrize(
    ("text", "proposed"),
    [
        ("`oxide-ctl undo` takes it back", "`oxide-ctl -C 'my app' undo` takes it back"),
        ("run `oxide-ctl stop`, then this again", "run `oxide-ctl stop`, then this again"),
        ("`oxide-ctl -C /a log` and `oxide-ctl --help`", "`oxide-ctl -C /a log` and `oxide-ctl --help`"),
        ("nothing to type", "nothing to type"),
    ],
)
def test_a_proposed_command_acts_on_the_same_project(text, proposed):
    assert Output(directory="my app").proposed(text) == proposed
    assert Output().proposed(text) == text


def test_notes_errors_and_answers_propose_what_can_be_pasted(run, daemon):
    daemon.answers["rewind"] = [{**rewound(restored=[{"path": "a"}]), "hint": "`oxide-ctl rewind 2 -- a`"}]
    daemon.answers["show"] = NotFoundError("there is none", hint="`oxide-ctl log` lists them")

    done = run("-C", "a b", "rewind", "1", "--yes")
    failed = run("-C", "a b", "show", "1")

    assert "`oxide-ctl -C 'a b' undo` takes it back" in done.text
    assert "hint: `oxide-ctl -C 'a b' rewind 2 -- a`" in done.complaint
    assert "hint: `oxide-ctl -C 'a b' log` lists them" in failed.complaint


def test_a_proposal_works_where_it_was_made(machine, project, tmp_path):
    (project / "src" / "a.py").unlink()
    machine.json("checkpoint")
    here = {"cwd": tmp_path}

    (line,) = re.findall("`([^`]+)`", machine.run("-C", "project/src", "history", "--deleted", **here).complaint)
    words = shlex.split(line)[1:]
    words[words.index("--") : words.index("--")] = ["--yes"]
    done = machine.run(*words, **here)

    assert (done.code, (project / "src" / "a.py").read_text()) == (0, "one\n")
    (undo,) = re.findall("`([^`]+)`", done.text)
    assert machine.run(*shlex.split(undo)[1:], "--yes", **here).code == 0
    assert not (project / "src" / "a.py").exists()
