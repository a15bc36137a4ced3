"""config.toml: what is not written is the default, what is wrong is refused by name."""

from __future__ import annotations

from dataclasses import fields

import pytest

from openoxide.errors import FailedError, UsageError
from openoxide.settings import CaptureSettings, RetentionSettings, Settings, ThinSettings, load_settings


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
            "[retention]\ntrash_days = 1\nquota_bytes = 2\ntotal_quota_bytes = 3\nmin_free_bytes = 4",
            Settings(retention=RetentionSettings(trash_days=1, quota_bytes=2, total_quota_bytes=3, min_free_bytes=4)),
        ),
        (
            "[retention.thin]\nhourly_days = 30",
            Settings(retention=RetentionSettings(thin=ThinSettings(hourly_days=30))),
        ),
        (
            "[capture]\nmax_file_bytes = 1\nignored_file_bytes = 2\n[retention]\nttl_days = 7",
            Settings(
                capture=CaptureSettings(max_file_bytes=1, ignored_file_bytes=2), retention=RetentionSettings(ttl_days=7)
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
        ("a = 1", "unknown section [a]"),
        ("capture = 1", "unknown section [capture]"),
        ("[web]\nport = 1", "unknown section [web]"),
        ("[capture]\nquiet = 1", "unknown key capture.quiet"),
        ("[capture]\nquiet_ms = -1", "capture.quiet_ms = -1 is not a whole number of 0 or more"),
        ('[capture]\nquiet_ms = "2s"', "capture.quiet_ms = '2s' is not a whole number of 0 or more"),
        ("[capture]\nquiet_ms = 1.5", "capture.quiet_ms = 1.5 is not a whole number of 0 or more"),
        ("[capture]\nquiet_ms = true", "capture.quiet_ms = True is not a whole number of 0 or more"),
        ("[capture]\nquiet_ms = [1]", "capture.quiet_ms = [1] is not a whole number of 0 or more"),
        ("[capture]\nextra_skip = 1", "capture.extra_skip = 1 is not a list of names"),
        ('[capture]\nextra_skip = "a"', "capture.extra_skip = 'a' is not a list of names"),
        ("[capture]\nextra_skip = [1]", "capture.extra_skip = [1] is not a list of names"),
        ("[retention]\nttl_days = 1979-05-27", "retention.ttl_days"),
        ("[retention]\nttl_days = 36501", "a whole number of 0 or more, up to 36500"),
        ("[capture]\nquiet_ms = 1000000000001", "capture.quiet_ms = 1000000000001 is not"),
        ("retention = 1", "unknown section [retention]"),
        ("[retention.thin]\nhourly = 1", "unknown key retention.thin.hourly"),
        ("[retention]\nthin = 1", "retention.thin = 1 is not a table"),
        (
            "retention.thin.all_days = -1",
            "retention.thin.all_days = -1 is not a whole number of 0 or more, up to 36500",
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
