"""Changing ``config.toml``: what is kept, what is refused, and that a file is never half of one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide import config
from openoxide.errors import ConflictError, FailedError, RefusedError, UsageError
from openoxide.knobs import KNOBS, spelled
from openoxide.paths import Home
from openoxide.settings import NOT_BUILT, Settings, flat, load_settings

WRITTEN = """\
# my own words
[retention]   # keep it long
ttl_days = 90

[capture]
# noisy
extra_skip = [
  "*.log",  # logs
]
quiet_ms = 500
"""


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return Home(folder)


@pytest.mark.parametrize(
    ("key", "words", "value"),
    [
        ("retention.ttl_days", ["30"], 30),
        ("retention.ttl_days", ["30d"], 30),
        ("retention.ttl_days", ["2w"], 14),
        ("capture.quiet_ms", ["500"], 500),
        ("capture.quiet_ms", ["500ms"], 500),
        ("capture.quiet_ms", ["2s"], 2_000),
        ("capture.full_pass_ms", ["10m"], 600_000),
        ("capture.max_file_bytes", ["20MB"], 20_000_000),
        ("capture.max_file_bytes", ["20 mb"], 20_000_000),
        ("capture.max_file_bytes", ["1GiB"], 1 << 30),
        ("capture.max_file_bytes", ["7000B"], 7_000),
        ("capture.ignored_tree_files", ["12"], 12),
        ("capture.extra_skip", ["*.log", "data/"], ("*.log", "data/")),
        ("capture.extra_skip", [""], ()),
    ],
)
def test_a_value_is_stored_in_the_unit_of_its_key(home, key, words, value):
    before, after = config.change(home, key, words)

    assert (before.value, before.given) == (flat(Settings())[key], False)
    assert (after.value, after.given, after.default) == (value, True, before.value)
    assert flat(load_settings(home.config))[key] == value
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600
    assert os.listdir(home.folder) == ["config.toml"]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("capture.max_file_bytes", 100 << 20, "100MiB"),
        ("capture.max_file_bytes", 20_000_000, "20MB"),
        ("capture.max_file_bytes", 1_025, "1025B"),
        ("capture.max_file_bytes", 0, "0"),
        ("capture.quiet_ms", 2_000, "2s"),
        ("capture.quiet_ms", 1_500, "1500ms"),
        ("capture.full_pass_ms", 600_000, "10m"),
        ("retention.ttl_days", 14, "14d"),
        ("capture.ignored_tree_files", 2_000, "2000"),
        ("capture.extra_skip", ("*.log", "data/"), "*.log data/"),
    ],
)
def test_a_value_is_spelled_in_the_largest_unit_that_holds_it(key, value, text):
    assert spelled(key, value) == text


NUMBERS = [key for key, value in flat(Settings()).items() if isinstance(value, int)]
IN_BOUNDS = st.sampled_from(NUMBERS).flatmap(
    lambda key: st.tuples(st.just(key), st.integers(KNOBS[key].least, KNOBS[key].most))
)


@given(IN_BOUNDS)
def test_what_is_spelled_is_taken_back(pair):
    key, value = pair
    assert config.parse_value(key, [spelled(key, value)]) == value


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("retention.ttl_days", ["36h"]),
        ("retention.ttl_days", ["36501"]),
        ("retention.ttl_days", ["-1"]),
        ("retention.ttl_days", [""]),
        ("retention.ttl_days", ["1.5d"]),
        ("retention.ttl_days", ["1", "2"]),
        ("retention.ttl_days", ["30MB"]),
        ("capture.max_file_bytes", ["2s"]),
        ("capture.max_file_bytes", ["999999999TB"]),
        ("capture.max_file_bytes", ["\N{ARABIC-INDIC DIGIT THREE}"]),
        ("capture.ignored_tree_files", ["2k"]),
        ("memory.worktrees", ["none"]),
        ("memory.worktrees", ["1"]),
        ("memory.worktrees", ["shared", "staged"]),
        ("capture.quiet", ["2s"]),
        ("capture", ["2s"]),
        ("", ["2s"]),
    ],
)
def test_what_is_no_value_is_refused_and_nothing_is_written(home, key, words):
    with pytest.raises(UsageError) as raised:
        config.change(home, key, words)
    assert raised.value.hint
    assert not home.config.exists()


@pytest.mark.parametrize("key", sorted(NOT_BUILT))
def test_a_key_that_nothing_honours_is_not_accepted(home, key):
    with pytest.raises(FailedError, match=f"{key} is not built yet"):
        config.change(home, key, ["1"])
    with pytest.raises(FailedError, match=f"{key} is not built yet"):
        config.entry(home, key)


@pytest.mark.parametrize(
    ("key", "words", "old", "new"),
    [
        ("retention.ttl_days", ["30d"], "ttl_days = 90", "ttl_days = 30"),
        ("capture.quiet_ms", ["2s"], "quiet_ms = 500", "quiet_ms = 2000"),
        ("retention.thin.all_days", ["2d"], "90\n\n[capture]", "90\n\n[retention.thin]\nall_days = 2\n[capture]"),
        ("capture.max_interval_ms", ["9s"], "quiet_ms = 500\n", "quiet_ms = 500\nmax_interval_ms = 9000\n"),
    ],
)
def test_comments_and_order_stay(home, key, words, old, new):
    home.config.write_text(WRITTEN)

    config.change(home, key, words)

    assert home.config.read_text() == WRITTEN.replace(old, new)


@pytest.mark.parametrize(
    "text",
    [
        "capture.quiet_ms = 500\n",
        "capture = { quiet_ms = 500 }\n",
        "[capture]\r\nquiet_ms = 500\r\n",
        "[capture]\nquiet_ms = 0x500 # hex",
        "[retention]\n[capture]\n'quiet_ms' = 500",
        "[retention]\nthin = { hourly_days = 8 }\n",
        "retention.thin.hourly_days = 8\n",
    ],
)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("capture.quiet_ms", 700),
        ("capture.max_file_bytes", 8_000),
        ("retention.ttl_days", 9),
        ("retention.thin.all_days", 6),
    ],
)
def test_every_way_to_write_a_table_is_understood(home, text, key, value):
    home.config.write_bytes(text.encode())
    before = flat(load_settings(home.config))

    config.change(home, key, [str(value)])

    assert flat(load_settings(home.config)) == {**before, key: value}


@given(st.lists(IN_BOUNDS, max_size=6))
def test_settings_are_what_was_set_last(tmp_path_factory, changes):
    home = Home(tmp_path_factory.mktemp("home"))
    home.config.write_text(WRITTEN)
    expected = flat(load_settings(home.config))
    for key, value in changes:
        config.change(home, key, [str(value)])
        expected[key] = value
        assert flat(load_settings(home.config)) == expected
    assert [line for line in WRITTEN.splitlines() if line.lstrip().startswith("#")] == [
        line for line in home.config.read_text().splitlines() if line.lstrip().startswith("#")
    ]


@pytest.mark.parametrize(
    "text", [b"[capture", b"[web]\nport = 1\n[capture]\n", b"# \xff", b"[capture]\nquiet_ms = 'x'\n"]
)
def test_a_file_that_is_wrong_is_left_as_it_is(home, text):
    home.config.write_bytes(text)

    with pytest.raises(UsageError):
        config.change(home, "retention.ttl_days", ["30"])
    with pytest.raises(UsageError):
        config.entries(home)
    assert home.config.read_bytes() == text


def test_nothing_is_written_through_a_link(home, tmp_path):
    (tmp_path / "mine").write_text(WRITTEN)
    home.config.symlink_to(tmp_path / "mine")

    assert config.entry(home, "retention.ttl_days").value == 90
    with pytest.raises(RefusedError):
        config.change(home, "retention.ttl_days", ["30"])
    with pytest.raises(RefusedError):
        config.edit(home, lambda copy: copy.write_text(""))
    assert (tmp_path / "mine").read_text() == WRITTEN
    assert home.config.is_symlink()


def test_what_a_killed_run_left_is_in_nobodys_way(home):
    (home.folder / "config.toml.new").write_text("half a f")

    config.change(home, "retention.ttl_days", ["30"])

    assert os.listdir(home.folder) == ["config.toml"]


def test_a_home_that_does_not_exist_is_made_for_its_owner_alone(tmp_path):
    home = Home(tmp_path / "a" / "home")

    config.change(home, "retention.ttl_days", ["30"])

    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700


def test_two_at_a_time_lose_nothing(home):
    def value(key: str) -> int:
        return KNOBS[key].least + 7

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: config.change(home, key, [str(value(key))]), NUMBERS * 3))

    found = flat(load_settings(home.config))
    assert {key: found[key] for key in NUMBERS} == {key: value(key) for key in NUMBERS}


class TestEditing:
    def test_what_is_valid_takes_the_place(self, home):
        home.config.write_text(WRITTEN)

        assert config.edit(home, lambda copy: copy.write_text(copy.read_text().replace("90", "7")) and None)

        assert home.config.read_text() == WRITTEN.replace("90", "7")
        assert os.listdir(home.folder) == ["config.toml"]

    def test_who_has_no_file_gets_one_with_the_defaults_as_comments(self, home):
        seen = []

        assert not config.edit(home, lambda copy: seen.append(copy.read_text()))

        assert not home.config.exists()
        assert tomllib.loads(seen[0]) == {"capture": {}, "memory": {}, "retention": {"thin": {}}}
        uncommented = seen[0].replace("# ", "").partition("\n")[2]
        home.config.write_text(uncommented)
        assert load_settings(home.config) == Settings()

    @pytest.mark.parametrize("text", [b"[capture", b"# \xff", b"[capture]\nquiet = 1", b"[memory]\npolicy = 1"])
    def test_what_is_not_valid_is_kept_beside_the_file(self, home, text):
        home.config.write_text(WRITTEN)

        with pytest.raises(UsageError) as raised:
            config.edit(home, lambda copy: copy.write_bytes(text) and None)

        assert home.config.read_text() == WRITTEN
        assert str(home.rejected_config) in raised.value.hint
        assert home.rejected_config.read_bytes() == text

    def test_a_file_that_is_wrong_can_be_mended(self, home):
        home.config.write_text("[capture")

        assert config.edit(home, lambda copy: copy.write_text(copy.read_text() + "]\n") and None)

        assert home.config.read_text() == "[capture]\n"

    def test_what_somebody_else_changed_meanwhile_is_not_overwritten(self, home):
        def both(copy: Path) -> None:
            copy.write_text("[capture]\nquiet_ms = 100\n")
            config.change(home, "retention.ttl_days", ["30"])

        with pytest.raises(ConflictError) as raised:
            config.edit(home, both)

        assert flat(load_settings(home.config))["retention.ttl_days"] == 30
        assert str(home.rejected_config) in raised.value.hint

    def test_an_editor_that_leaves_nothing_behind_changes_nothing(self, home):
        home.config.write_text(WRITTEN)

        with pytest.raises(FailedError, match="no regular file"):
            config.edit(home, lambda copy: copy.unlink())

        assert home.config.read_text() == WRITTEN
        assert os.listdir(home.folder) == ["config.toml"]

    def test_a_folder_in_its_place_is_told(self, home):
        home.config.mkdir()
        for act in (lambda: config.edit(home, lambda _: None), lambda: config.entries(home)):
            with pytest.raises(FailedError, match="cannot be read"):
                act()

    @pytest.mark.parametrize("typed", [False, True])
    def test_an_editor_that_fails_changes_nothing(self, home, typed):
        def fail(copy: Path) -> None:
            if typed:
                copy.write_text("[capture]\n")
            raise FailedError("the editor ended with 1", hint="?")

        with pytest.raises(FailedError):
            config.edit(home, fail)

        assert not home.config.exists()
        assert home.rejected_config.exists() is typed

    def test_only_the_last_rejected_text_is_kept(self, home, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        (tmp_path / "temporary").mkdir()
        for text in ("[first", "[second"):
            with pytest.raises(UsageError):
                config.edit(home, lambda copy, text=text: copy.write_text(text) and None)

        assert home.rejected_config.read_text() == "[second"
        assert stat.S_IMODE(home.rejected_config.stat().st_mode) == 0o600
        assert os.listdir(home.folder) == ["config.toml.rejected"]
        assert os.listdir(tmp_path / "temporary") == []

    def test_what_cannot_be_kept_in_the_home_stays_where_it_was_written(self, home):
        home.rejected_config.mkdir()

        with pytest.raises(UsageError) as raised:
            config.edit(home, lambda copy: copy.write_text("[wrong") and None)

        copy = Path(raised.value.hint.rpartition(" ")[2])
        assert copy.read_text() == "[wrong"
        shutil.rmtree(copy.parent)

    def test_what_was_typed_stays_where_it_is_while_the_home_is_gone(self, home):
        def write(copy: Path) -> None:
            copy.write_text("[wrong")
            home.folder.rmdir()
            home.folder.touch()

        with pytest.raises(UsageError) as raised:
            config.edit(home, write)

        copy = Path(raised.value.hint.rpartition(" ")[2])
        assert copy.read_text() == "[wrong"
        shutil.rmtree(copy.parent)

    @pytest.mark.parametrize("left", ["directory", "fifo", "link", "no folder"])
    def test_what_is_no_regular_file_is_told_and_never_followed(self, home, tmp_path, left):
        (tmp_path / "mine").write_text("[capture]\n")

        def leave(copy: Path) -> None:
            copy.unlink()
            match left:
                case "directory":
                    copy.mkdir()
                case "fifo":
                    os.mkfifo(copy)
                case "link":
                    copy.symlink_to(tmp_path / "mine")
                case _:
                    copy.parent.rmdir()

        with pytest.raises(FailedError, match="no regular file"):
            config.edit(home, leave)

        assert os.listdir(home.folder) == []
        assert (tmp_path / "mine").read_text() == "[capture]\n"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_told_without_waiting(home, make):
    make(home.config)
    for act in (
        lambda: config.entries(home),
        lambda: config.entry(home, "retention.ttl_days"),
        lambda: config.change(home, "retention.ttl_days", ["3"]),
        lambda: config.edit(home, lambda _: None),
    ):
        with pytest.raises(FailedError, match="cannot be read"):
            act()


@pytest.mark.parametrize(
    ("key", "typed", "takes"),
    [
        ("retention.ttl_days", "36501d", "days from 1 to 36500, or 0 (for ever)"),
        ("capture.quiet_ms", "999999999d", "ms from 50 to 3600000 (50ms to 1h)"),
        ("capture.quiet_ms", "0", "ms from 50 to 3600000 (50ms to 1h)"),
        ("retention.quota_bytes", "5", "bytes from 1000000 to 1000000000000000 (1MB to 1000TB), or 0 (no limit)"),
    ],
)
def test_a_number_out_of_bounds_is_blamed_itself(home, key, typed, takes):
    with pytest.raises(UsageError) as raised:
        config.change(home, key, [typed])

    assert (repr(typed) in raised.value.message, raised.value.hint) == (True, f"it takes a whole number of {takes}")
    assert str(home.config) not in raised.value.message


class TestOfAProject:
    """``root`` names one."""

    ROOT = "/src/my shop"

    @pytest.fixture
    def written(self, home):
        home.config.write_text(WRITTEN)
        return home

    def test_what_it_has_of_its_own_comes_before_what_counts_for_all(self, written):
        before, after = config.change(written, "retention.ttl_days", ["7d"], self.ROOT)

        assert (before.value, before.source, after.value, after.source) == (90, "file", 7, "project")
        assert config.entry(written, "retention.ttl_days").value == 90
        assert config.entry(written, "retention.ttl_days", "/src/my").value == 90
        found = {entry.key: entry.source for entry in config.entries(written, self.ROOT)}
        assert {source: [key for key in found if found[key] == source] for source in ("file", "project")} == {
            "file": ["capture.quiet_ms", "capture.extra_skip"],
            "project": ["retention.ttl_days"],
        }

    def test_the_rest_of_the_file_stays(self, written):
        config.change(written, "retention.thin.all_days", ["7d"], self.ROOT)
        config.change(written, "capture.extra_skip", ["*.iso"], self.ROOT)

        assert written.config.read_text() == WRITTEN + (
            '\n[project."/src/my shop".retention.thin]\nall_days = 7\n'
            '\n[project."/src/my shop".capture]\nextra_skip = ["*.iso"]\n'
        )
        assert {root: {entry.key: entry.value for entry in own} for root, own in config.overrides(written).items()} == {
            self.ROOT: {"retention.thin.all_days": 7, "capture.extra_skip": ("*.iso",)}
        }

    @pytest.mark.parametrize("key", ["retention.total_quota_bytes", "retention.min_free_bytes"])
    def test_what_is_one_for_the_whole_home_is_nobody_s_own(self, home, key):
        for act in (lambda: config.change(home, key, ["2GB"], self.ROOT), lambda: config.unset(home, key, self.ROOT)):
            with pytest.raises(UsageError, match="is one for all projects"):
                act()
        assert not home.config.exists()

    @pytest.mark.parametrize("root", ["src", "/src/", "/src/../src", "/a\nb", "/a\udcff", ""])
    def test_a_root_that_cannot_be_found_again_is_not_written(self, home, root):
        with pytest.raises(FailedError, match="cannot be named"):
            config.change(home, "retention.ttl_days", ["7d"], root)
        assert not home.config.exists()


class TestUnset:
    def test_the_default_counts_again_and_the_rest_stays(self, home):
        home.config.write_text(WRITTEN)

        before, after = config.unset(home, "retention.ttl_days")

        assert (before.value, before.source, after.value, after.source) == (90, "file", 30, "default")
        assert home.config.read_text() == WRITTEN.replace("ttl_days = 90\n", "")

    def test_of_a_project_what_counts_for_all_counts_again(self, home):
        home.config.write_text(WRITTEN)
        config.change(home, "retention.ttl_days", ["7"], "/p")

        before, after = config.unset(home, "retention.ttl_days", "/p")

        assert (before.value, after.value, after.source) == (7, 90, "file")

    @pytest.mark.parametrize("root", [None, "/p"])
    @pytest.mark.parametrize("text", [None, "", WRITTEN, '[project."/p".capture]\n'])
    def test_what_is_not_there_is_no_change(self, home, text, root):
        if text is not None:
            home.config.write_text(text)

        before, after = config.unset(home, "retention.trash_days", root)

        assert before == after
        assert (home.config.read_text() if home.config.exists() else None) == text

    def test_a_key_that_is_not_known_is_refused(self, home):
        with pytest.raises(UsageError, match="there is no setting"):
            config.unset(home, "retention.ttl")


ROOTS = st.sampled_from([None, "/p", "/p/q", "/with 'quotes' and \"these\"", "/caf\N{LATIN SMALL LETTER E WITH ACUTE}"])


@given(st.lists(st.tuples(IN_BOUNDS, ROOTS, st.booleans()), max_size=8))
def test_any_changes_leave_what_a_dictionary_would(tmp_path_factory, changes):
    home = Home(tmp_path_factory.mktemp("home"))
    home.config.write_text(WRITTEN)
    expected: dict[str | None, dict[str, object]] = {
        None: {"retention.ttl_days": 90, "capture.extra_skip": ("*.log",), "capture.quiet_ms": 500}
    }
    for (key, value), root, keep in changes:
        if root is not None and KNOBS[key].whole:
            continue
        own = expected.setdefault(root, {})
        if keep:
            config.change(home, key, [str(value)], root)
            own[key] = value
        else:
            config.unset(home, key, root)
            own.pop(key, None)
    for root, own in expected.items():
        holding = flat(Settings()) | expected[None] | own
        assert {entry.key: entry.value for entry in config.entries(home, root)} == holding
        settings = load_settings(home.config)
        assert flat(settings if root is None else settings.of(os.fsencode(root))) == holding


@pytest.mark.parametrize(
    ("text", "key", "root", "left"),
    [
        ("[retention]\nttl_days = 3\n", "retention.ttl_days", None, "\n"),
        ("[retention.thin]\nall_days = 3\n", "retention.thin.all_days", None, "\n"),
        ("# mine\n[retention]\nttl_days = 3\n# why\n", "retention.ttl_days", None, "# mine\n[retention]\n# why\n"),
        (
            "[retention]\nttl_days = 3\ntrash_days = 2\n",
            "retention.ttl_days",
            None,
            "[retention]\ntrash_days = 2\n",
        ),
        ('[project."/p".retention]\nttl_days = 3\n', "retention.ttl_days", "/p", "\n"),
    ],
)
def test_no_empty_table_is_left(home, text, key, root, left):
    home.folder.mkdir(exist_ok=True)
    home.config.write_text(text)
    config.unset(home, key, root)
    assert home.config.read_text() == left


@pytest.mark.parametrize(
    ("key", "similar"),
    [
        ("retention.ttl", ["retention.ttl_days"]),
        ("ttl_days", ["retention.ttl_days"]),
        ("retention.quota_byte", ["retention.quota_bytes"]),
        ("retention.nothing", []),
        ("capture.x", []),
    ],
)
def test_only_what_is_spelled_alike_is_proposed(key, similar):
    with pytest.raises(UsageError) as raised:
        config.require_known(key)
    assert [word for word in raised.value.hint.replace("?", "").split() if "." in word] == similar
