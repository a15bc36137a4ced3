"""Whatever is typed: no traceback, an exit code of the table, and with --json one object on standard output."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openoxide.cli import app, catalogue, hot
from tests.cli.golden_machine import Sealed, sealed_machine, write
from tests.kit import effort

VALUES = [
    "1", "#2", "0", "-1", "99999999999", "last", "last~1", "turn:-1", "turn:p1", "@10m", "@", "@25:99", "named", "nowhere", "",
    "-", "--", "src/a.py", "..", ".", "session", "merge", "capture.quiet_ms", "30d", "\x1b[31m", "\udcff", "\N{SNOWMAN}",
    "x" * 300,
]  # fmt: skip
# `stop` would end the machine, and a broad tree is the whole of this one
LEFT_OUT = {"stop", "--allow-broad"}
WORDS = {word for name in catalogue.COMMANDS for word in name.split()} | {"pause", "memory", "rewnd"}
# no slash: what is typed must not lead out of the machine
ODD = st.text(st.characters(exclude_characters="/\0", exclude_categories=[]), max_size=5)


def options(name: str) -> list[str]:
    return [option for parameter in app.declared(name).params for option in parameter.opts if option.startswith("-")]


@st.composite
def lines(draw) -> list[str]:
    """A command, mostly with options of its own and values that could be meant; sometimes anything."""
    name = draw(st.sampled_from(sorted(catalogue.COMMANDS.keys() - LEFT_OUT)))
    own = st.sampled_from([*options(name), "--json", "--help", "--yes"])
    word = st.one_of(own, st.sampled_from(VALUES), st.sampled_from(sorted(WORDS)), ODD)
    before = draw(st.lists(st.sampled_from(["--json", "-q", "-v", "-C", ".", "--version", "--nonsense"]), max_size=2))
    first = draw(st.sampled_from([name.split(), name.split(), name.split(), [], ["odd"]]))
    line = [*before, *first, *draw(st.lists(word, max_size=5))]
    return [word for word in line if word not in LEFT_OUT]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    with sealed_machine(tmp_path_factory.mktemp("any")) as machine, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDITOR", "true")
        write(machine.project / "src" / "a.py", "one\n")
        machine.ran("watch")
        machine.ran("checkpoint", "-m", "named")
        yield machine


@given(lines())
@settings(max_examples=effort(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_line_ends_in_good_order(machine: Sealed, line):
    ended = machine.ran(*line)

    assert ended.code in catalogue.EXIT_STATUS
    assert b"Traceback" not in ended.out + ended.err
    assert b"internal error" not in ended.out + ended.err
    if hot.globals_first(line)[:1] == ["--json"] and not ("cat" in line and ended.code == 0):
        (answer,) = ended.out.decode().splitlines()
        assert json.loads(answer)["ok"] is (ended.code in {0, 3})
