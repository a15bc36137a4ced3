"""config.toml: what is not written is the default, what is wrong is refused by name."""

from __future__ import annotations

import os
from dataclasses import fields

import pytest

from openoxide.errors import FailedError, UsageError
from openoxide.knobs import KNOBS, allowed
from openoxide.settings import (
    MOST_BYTES,
    CaptureSettings,
    MemorySettings,
    RetentionSettings,
    Settings,
    ThinSettings,
    fits,
    flat,
    load_settings,
)


def test_without_a_file_everything_is_the_default(tmp_path):
    assert load_settings(tmp_path / "config.toml") == Settings()


@pytest.mark.parametrize(
    ("document", "settings"),
    [
        ("", Settings()),
        ("[capture]\n", Settings()),
        ("[retention]\nttl_days = 0", Settings(retention=RetentionSettings(ttl_days=0))),
        ("[capture]\nquiet_ms = 50", Settings(capture=CaptureSettings(quiet_ms=50))),
        ('capture.extra_skip = ["*.log", "data/"]', Settings(capture=CaptureSettings(extra_skip=("*.log", "data/")))),
        ("[capture]\nextra_skip = []", Settings()),
        ("[retention.thin]\n", Settings()),
        (
            "[retention]\ntrash_days = 1\nquota_bytes = 2000000\ntotal_quota_bytes = 3000000\nmin_free_bytes = 4",
            Settings(
                retention=RetentionSettings(
                    trash_days=1, quota_bytes=2_000_000, total_quota_bytes=3_000_000, min_free_bytes=4
                )
            ),
        ),
        (
            "[retention.thin]\nhourly_days = 30",
            Settings(retention=RetentionSettings(thin=ThinSettings(hourly_days=30))),
        ),
        (
            "[capture]\nmax_file_bytes = 2048\nignored_file_bytes = 2\n[retention]\nttl_days = 7",
            Settings(
                capture=CaptureSettings(max_file_bytes=2048, ignored_file_bytes=2),
                retention=RetentionSettings(ttl_days=7),
            ),
        ),
    ],
)
def test_what_is_written_replaces_a_default(tmp_path, document, settings):
    path = tmp_path / "config.toml"
    path.write_text(document)
    assert load_settings(path) == settings


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ("[capture", "not valid TOML"),
        pytest.param("a = " + "[" * 20_000, "not valid TOML", id="brackets in brackets"),
        pytest.param(f"[retention]\nttl_days = {'9' * 10_000}", "not valid TOML", id="a number of 10,000 digits"),
        ("a = 1", "unknown section [a]"),
        ("capture = 1", "capture = 1 is not a table"),
        ("[web]\nport = 1", "unknown section [web]"),
        ("[capture]\nquiet = 1", "unknown key capture.quiet"),
        ("[capture]\nquiet_ms = -1", "capture.quiet_ms = -1 is not a whole number of ms from 50 to 3600000"),
        ('[capture]\nquiet_ms = "2s"', "capture.quiet_ms = '2s' is not a whole number of ms from 50 to 3600000"),
        ("[capture]\nquiet_ms = 1.5", "capture.quiet_ms = 1.5 is not a whole number of ms from 50 to 3600000"),
        ("[capture]\nquiet_ms = true", "capture.quiet_ms = True is not a whole number of ms from 50 to 3600000"),
        ("[capture]\nquiet_ms = [1]", "capture.quiet_ms = [1] is not a whole number of ms from 50 to 3600000"),
        ("[capture]\nextra_skip = 1", "capture.extra_skip = 1 is not a list of up to 1000 patterns of one line"),
        ('[capture]\nextra_skip = "a"', "capture.extra_skip = 'a' is not a list of up to 1000 patterns of one line"),
        ("[capture]\nextra_skip = [1]", "capture.extra_skip = [1] is not a list of up to 1000 patterns of one line"),
        ("[retention]\nttl_days = 1979-05-27", "retention.ttl_days"),
        ("[retention]\nttl_days = 36501", "a whole number of days from 1 to 36500, or 0 (for ever)"),
        ("[capture]\nquiet_ms = 1000000000001", "capture.quiet_ms = 1000000000001 is not"),
        ("retention = 1", "retention = 1 is not a table"),
        ("[retention.thin]\nhourly = 1", "unknown key retention.thin.hourly"),
        ("[retention]\nthin = 1", "retention.thin = 1 is not a table"),
        (
            "retention.thin.all_days = -1",
            "retention.thin.all_days = -1 is not a whole number of days from 0 to 36500",
        ),
        ("[summarizer]\ncommand = 'x'", "section [summarizer] is not built yet"),
    ],
)
def test_what_is_wrong_is_refused_by_name(tmp_path, document, named):
    path = tmp_path / "config.toml"
    path.write_text(document)
    with pytest.raises(UsageError) as caught:
        load_settings(path)
    assert named in caught.value.message
    assert caught.value.message.startswith(str(path))
    assert caught.value.hint


def test_what_is_far_too_large_is_not_read(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("#" * MOST_BYTES)
    assert load_settings(path) == Settings()
    os.truncate(path, 1 << 40)  # more than any memory holds
    with pytest.raises(FailedError, match="no settings have so many"):
        load_settings(path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(b"# \xff\xfe")
    with pytest.raises(UsageError, match="not valid TOML"):
        load_settings(path)


def test_what_cannot_be_read_is_told(tmp_path):
    with pytest.raises(FailedError, match="cannot be read"):
        load_settings(tmp_path)


@pytest.mark.parametrize("section", [CaptureSettings, RetentionSettings, ThinSettings])
def test_every_key_carries_its_unit_or_is_a_list_or_a_table(section):
    for key in fields(section):
        assert key.name.endswith(("_bytes", "_ms", "_days", "_files")) or key.name in ("extra_skip", "thin")


def test_a_project_has_its_own_and_the_rest_from_all(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        "[retention]\nttl_days = 90\ntrash_days = 3\n"
        '[project."/src/a".retention]\nttl_days = 7\nthin = { all_days = 5 }\n[project."/src/b"]\n'
    )

    settings = load_settings(path)

    assert (settings.of(b"/src/a").retention.ttl_days, settings.of(b"/src/a").retention.trash_days) == (7, 3)
    assert settings.of(b"/src/a").retention.thin == ThinSettings(all_days=5)
    assert settings.of(b"/src/a").capture == CaptureSettings()
    for other in (b"/src/b", b"/src/a/inner", b"/src", b"/src/a\xff"):
        assert settings.of(other).retention == RetentionSettings(ttl_days=90, trash_days=3)


def test_a_worktree_without_a_word_of_its_own_has_that_of_its_project():
    given = {"/a": "separate", "/b": "staged"}
    projects = {root: {"memory.worktrees": value} for root, value in given.items()} | {"/c": {}}
    settings = Settings(memory=MemorySettings(worktrees="shared"), projects=projects)

    assert settings.worktrees_of(b"/b", b"/a") == "staged"
    assert settings.worktrees_of(b"/c", b"/a") == "separate"
    assert settings.worktrees_of(b"/c", b"/c") == "shared"
    assert settings.worktrees_of(b"/a", b"/c") == "separate"


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ("project = 1", "project = 1 is not a table"),
        ('[project]\n"/p" = 1', "project.'/p' = 1 is not a table"),
        ("[project.p.retention]\nttl_days = 7", "project 'p' is not the absolute path of a root"),
        ('[project."/p/"]', "project '/p/' is not the absolute path of a root"),
        ('[project."/p".retention]\nttl_days = -1', "project '/p': retention.ttl_days = -1 is not a whole number"),
        ('[project."/p".retention]\nttl = 1', "project '/p': unknown key retention.ttl"),
        ('[project."/p".web]', "project '/p': unknown section [web]"),
        ('[project."/p".memory]\npolicy = "x"', "project '/p': key memory.policy is not built yet"),
        (
            '[project."/p".memory]\nworktrees = "none"',
            "memory.worktrees = 'none' is not one of shared, separate, staged",
        ),
        ('[project."/p".memory]\nworktrees = 1', "memory.worktrees = 1 is not one of shared, separate, staged"),
        ('[project."/p".retention]\nmin_free_bytes = 1', "project '/p': retention.min_free_bytes is one for all"),
    ],
)
def test_what_is_wrong_with_a_project_is_refused_by_its_name(tmp_path, document, named):
    path = tmp_path / "config.toml"
    path.write_text(document)
    with pytest.raises(UsageError) as caught:
        load_settings(path)
    assert named in caught.value.message
    assert caught.value.message.startswith(str(path))
    assert caught.value.hint


def test_each_key_is_told_of_and_its_default_is_allowed():
    assert set(flat(Settings())) == set(KNOBS)
    for key, value in flat(Settings()).items():
        assert fits(key, value), key


@pytest.mark.parametrize("key", [key for key, value in flat(Settings()).items() if isinstance(value, int)])
def test_the_bounds_of_a_key_are_what_it_takes(key):
    knob = KNOBS[key]
    assert fits(key, knob.least)
    assert fits(key, knob.most)
    assert not fits(key, knob.most + 1)
    assert not fits(key, -1)
    assert fits(key, 0) == (knob.least == 0 or bool(knob.zero))
    assert str(knob.least) in allowed(key)
    assert str(knob.most) in allowed(key)


@pytest.mark.parametrize("item", ["", "a\nb", "a\rb", "a\0b", "\udcff", "x" * 4_097])
def test_a_pattern_is_one_line_of_text(item):
    assert not fits("capture.extra_skip", ("fine", item))
