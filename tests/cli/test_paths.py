"""Where a command acts, and how the paths that were typed reach the daemon."""

from __future__ import annotations


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
