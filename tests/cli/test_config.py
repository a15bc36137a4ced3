"""``config`` as a program: answers, exit codes, the editor, and what it says of a daemon that runs."""

from __future__ import annotations

import pytest

from openoxide.settings import NOT_BUILT, Settings, flat, load_settings

TTL = {
    "key": "retention.ttl_days",
    "value": 30,
    "default": 30,
    "set": False,
    "source": "default",
    "allowed": "a whole number of days from 1 to 36500, or 0 (for ever)",
}


@pytest.fixture
def home(openoxide_home, monkeypatch):
    monkeypatch.setenv("OPENOXIDE_NO_AUTOSTART", "1")
    openoxide_home.mkdir()
    return openoxide_home


@pytest.fixture
def editor(monkeypatch, tmp_path):
    """Makes a shell line the editor; ``$1`` is the file."""

    def editor(line: str, variable: str = "EDITOR") -> None:
        script = tmp_path / "my editor"
        script.write_text(f"#!/bin/sh\n{line}\n")
        script.chmod(0o755)
        monkeypatch.setenv(variable, f"'{script}' --wait")

    return editor


def test_every_setting_is_listed_with_its_default(run, home):
    (home / "config.toml").write_text("[retention]\nttl_days = 90\n")

    items = run("--json", "config", "list").json["items"]

    assert {item["key"]: item["default"] for item in items} == {
        key: list(value) if isinstance(value, tuple) else value for key, value in flat(Settings()).items()
    }
    assert [item for item in items if item["set"]] == [TTL | {"value": 90, "set": True, "source": "file", "in_use": 90}]
    shown = run("config", "list").text.splitlines()
    assert [line.split() for line in shown if "ttl_days" in line] == [
        ["retention.ttl_days", "90d", "file", "(default", "30d)"]
    ]
    assert ["retention.quota_bytes", "0", "(no", "limit)", "default"] in [line.split() for line in shown]


@pytest.mark.parametrize("taken", [None, "[retention]\nttl_days = 45\n"])
def test_a_value_that_waits_for_a_restart_is_listed_with_the_one_in_use(run, daemon, openoxide_home, taken):
    """Whether the daemon that runs started with a file, or without one."""
    if taken:
        (openoxide_home / "config.toml.used").write_text(taken)
    (openoxide_home / "config.toml").write_text("[retention]\nttl_days = 90\n")
    in_use = 45 if taken else 30

    ended = run("config", "list")
    items = {item["key"]: item for item in run("--json", "config", "list").json["items"]}

    (line,) = [line for line in ended.text.splitlines() if "ttl_days" in line]
    assert line.endswith(f"(default 30d) (in use until a restart: {in_use}d)")
    assert "oxide-ctl stop" in ended.complaint
    assert {key: item["in_use"] for key, item in items.items() if item["in_use"] != item["value"]} == {
        "retention.ttl_days": in_use
    }
    (openoxide_home / "config.toml.used").write_text((openoxide_home / "config.toml").read_text())
    assert "in use until" not in run("config", "list").text


def test_get_prints_the_value_alone(run, home):
    assert run("config", "get", "retention.ttl_days").text == "30\n"
    assert run("--json", "config", "get", "capture.extra_skip").json["value"] == []


def test_set_says_what_was_and_what_is(run, home):
    ended = run("--json", "config", "set", "capture.max_file_bytes", "20MB")

    assert ended.json == {
        "ok": True,
        "key": "capture.max_file_bytes",
        "value": 20_000_000,
        "default": 100 << 20,
        "set": True,
        "source": "file",
        "allowed": "a whole number of bytes from 1024 to 1099511627776 (1KiB to 1TiB)",
        "previous": 100 << 20,
        "restart_needed": False,
    }
    assert run("config", "set", "retention.ttl_days", "2w").text == "retention.ttl_days = 14d  (was 30d)\n"
    assert run("config", "set", "capture.extra_skip", "*.log", "data/").code == 0
    assert load_settings(home / "config.toml").capture.extra_skip == ("*.log", "data/")


def test_a_daemon_that_runs_has_to_be_started_again(run, daemon):
    as_text = run("config", "set", "retention.ttl_days", "60")

    assert (as_text.code, "oxide-ctl stop" in as_text.complaint) == (0, True)
    assert run("--json", "config", "set", "retention.ttl_days", "61").json["restart_needed"] is True
    assert run("--json", "config", "set", "retention.ttl_days", "61").json["restart_needed"] is False


@pytest.mark.parametrize(
    ("line", "code", "kind"),
    [
        ("set retention.ttl_days 36h", 2, "usage"),
        ("set retention.ttl_days", 2, "usage"),
        ("set nonsense 1", 2, "usage"),
        ("get retention.ttl", 2, "usage"),
        ("get", 2, "usage"),
        ("put a 1", 2, "usage"),
        *((f"set {key} 1", 1, "failed") for key in sorted(NOT_BUILT)[:2]),
    ],
)
def test_what_cannot_be_set_is_refused(run, home, line, code, kind):
    ended = run("--json", "config", *line.split())

    assert (ended.code, ended.json["error"]["kind"]) == (code, kind)
    assert not (home / "config.toml").exists()


def test_a_similar_key_is_named(run, home):
    assert "did you mean retention.ttl_days" in run("config", "get", "retention.ttl").complaint


def test_a_file_that_is_wrong_is_never_overwritten(run, home):
    (home / "config.toml").write_text("[capture")

    for line in ("list", "get retention.ttl_days", "set retention.ttl_days 3"):
        assert run("config", *line.split()).code == 2
    assert (home / "config.toml").read_text() == "[capture"


@pytest.mark.parametrize("variable", ["VISUAL", "EDITOR"])
def test_the_editor_gets_a_copy(run, home, editor, variable):
    editor('[ "$1" = --wait ] && echo "[retention]\nttl_days = 5" > "$2"', variable)

    ended = run("config", "edit")

    assert (ended.code, ended.text) == (0, "config.toml is changed\n")
    assert load_settings(home / "config.toml").retention.ttl_days == 5


def test_nothing_typed_is_nothing_changed(run, home, editor):
    editor("echo from the editor")

    assert run("--json", "config", "edit").json == {
        "ok": True,
        "path": str(home / "config.toml"),
        "changed": False,
        "restart_needed": False,
    }
    assert [path.name for path in home.iterdir()] == []


@pytest.mark.parametrize(
    ("line", "code"), [('echo "[capture" > "$2"', 2), ("exit 3", 1), ('echo "[capture]" > "$2"; exit 1', 1)]
)
def test_what_goes_wrong_in_the_editor_changes_nothing(run, home, editor, line, code):
    editor(line)

    ended = run("--json", "config", "edit")

    assert (ended.code, ended.json["ok"], (home / "config.toml").exists()) == (code, False, False)


@pytest.mark.parametrize("named", ["/no/such/editor", "'"])
def test_an_editor_that_is_not_there_is_told(run, home, monkeypatch, named):
    monkeypatch.setenv("EDITOR", named)

    ended = run("config", "edit")

    assert (ended.code, "cannot be started" in ended.complaint) == (1, True)
    assert "hint: set VISUAL or EDITOR" in ended.complaint


def test_without_a_terminal_somebody_has_to_name_the_editor(run, home, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", " ")

    ended = run("config", "edit")

    assert (ended.code, "neither VISUAL nor EDITOR" in ended.complaint) == (8, True)
    assert list(home.iterdir()) == []


def test_a_size_that_no_large_unit_holds_is_said_as_people_read_it_too(run):
    shown = run("config", "set", "retention.total_quota_bytes", "79761806336").text
    assert "retention.total_quota_bytes = 77892389KiB (74.3 GiB)" in shown


def test_unset_brings_the_default_back(run, home):
    run("config", "set", "retention.ttl_days", "90")

    ended = run("config", "unset", "retention.ttl_days")

    assert (ended.code, ended.text) == (0, "retention.ttl_days = 30d  (was 90d)\n")
    assert run("--json", "config", "unset", "retention.ttl_days").json == {
        "ok": True,
        **TTL,
        "previous": 30,
        "restart_needed": False,
    }
    assert run("config", "unset", "retention.ttl").code == 2


def test_zero_says_what_it_means(run, home):
    assert run("config", "set", "retention.ttl_days", "0").text == "retention.ttl_days = 0 (for ever)  (was 30d)\n"
    assert run("config", "get", "retention.ttl_days").text == "0\n"


class TestOfAProject:
    @pytest.fixture
    def shop(self, daemon, tmp_path, monkeypatch):
        """Two trees that are known, one in the other; the working folder is below both."""
        (tmp_path / "src" / "shop" / "cart").mkdir(parents=True)
        roots = [str(tmp_path / "src"), str(tmp_path / "src" / "shop"), str(tmp_path / "src" / "sho")]
        daemon.answers["projects"] = {"ok": True, "items": [{"root": root} for root in roots]}
        monkeypatch.chdir(tmp_path / "src" / "shop" / "cart")
        return roots[1]

    def test_it_is_the_innermost_that_is_meant(self, run, shop, openoxide_home):
        changed = run("--json", "config", "set", "retention.ttl_days", "90d", "--project").json

        assert (changed["root"], changed["value"], changed["source"], changed["previous"]) == (shop, 90, "project", 30)
        settings = load_settings(openoxide_home / "config.toml")
        assert (settings.retention.ttl_days, settings.of(shop.encode()).retention.ttl_days) == (30, 90)
        assert run("config", "get", "retention.ttl_days", "--project").text == "90\n"
        assert run("config", "get", "retention.ttl_days").text == "30\n"

    def test_another_is_named_with_c(self, run, shop, tmp_path):
        ended = run("-C", str(tmp_path / "src"), "config", "set", "capture.quiet_ms", "1s", "--project")

        assert ended.text == f"capture.quiet_ms = 1s in {tmp_path / 'src'}  (was 2s)\n"

    def test_lists_say_where_a_value_is_from(self, run, shop):
        run("config", "set", "retention.ttl_days", "90d", "--project")
        run("config", "set", "capture.quiet_ms", "1s")

        own = run("--json", "config", "list", "--project").json
        sources = {item["key"]: item["source"] for item in own["items"] if item["source"] != "default"}
        assert (own["root"], sources) == (shop, {"retention.ttl_days": "project", "capture.quiet_ms": "file"})
        whole = run("--json", "config", "list").json
        assert [(p["root"], [item["key"] for item in p["items"]]) for p in whole["projects"]] == [
            (shop, ["retention.ttl_days"])
        ]
        assert run("config", "list").text.splitlines()[-2:] == [
            shop,
            "  retention.ttl_days  90d  project  (default 30d)",
        ]

    def test_unset_leaves_what_counts_for_all(self, run, shop):
        run("config", "set", "retention.ttl_days", "60d")
        run("config", "set", "retention.ttl_days", "90d", "--project")

        assert run("--json", "config", "unset", "retention.ttl_days", "--project").json["value"] == 60

    @pytest.mark.parametrize(
        ("line", "code", "says"),
        [
            ("-C / config set retention.ttl_days 90d --project", 5, "not in a project that is known"),
            ("config set retention.min_free_bytes 1GB --project", 2, "is one for all projects"),
            ("config set retention.ttl 90d --project", 2, "there is no setting"),
        ],
    )
    def test_what_is_nobody_s_own_is_refused(self, run, shop, openoxide_home, line, code, says):
        ended = run(*line.split())

        assert (ended.code, says in ended.complaint) == (code, True), ended
        assert not (openoxide_home / "config.toml").exists()
