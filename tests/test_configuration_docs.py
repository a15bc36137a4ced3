"""docs/configuration.md has every key, its default, its bounds and its why as the code has them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from openoxide.knobs import KNOBS, allowed, spelled
from openoxide.settings import Settings, flat, parse_settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"


def row(key: str, default: int | tuple[str, ...]) -> str:
    knob = KNOBS[key]
    shown = f"0 ({knob.zero})" if knob.zero and not default else spelled(key, default) or "none"
    why = knob.why + ("; one for all projects" if knob.whole else "")
    return f"| `{key}` | {shown} | {allowed(key)} | {why} |"


def test_the_table_of_keys_is_that_of_the_code():
    table = re.findall(r"^\| `.*", PAGE.read_text("utf-8"), re.MULTILINE)

    assert table == [row(key, default) for key, default in flat(Settings()).items()]


def test_each_file_that_is_shown_is_a_right_one():
    shown = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)

    assert shown
    for text in shown:
        settings = parse_settings(text, PAGE)
        assert all(settings.of(os.fsencode(root)) != settings for root in settings.projects)
