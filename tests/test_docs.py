"""What the documents say can be tried: commands and options exist, the exit codes are the real ones, links resolve."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from openoxide.errors import EXIT_CODES, EXIT_DONE, EXIT_INTERRUPTED, EXIT_PARTIAL

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("systemd/*.md")])
WITHOUT_COMMAND = {"--version", "--help"}


class Example(NamedTuple):
    """One ``oxide-ctl`` command line as a document shows it."""

    document: str
    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command, of one word or two, behind the global options; empty if there is none."""
        words = [word for word in re.sub(r"-C \S+", "", " ".join(self.words)).split() if not word.startswith("-")]
        return next((name for name in (" ".join(words[:2]), *words[:1]) if name in commands()), " ".join(words[:1]))

    @property
    def options(self) -> set[str]:
        """The long options, global ones included; nothing behind a lone ``--``."""
        words = self.words[: self.words.index("--")] if "--" in self.words else self.words
        return {word.split("=")[0] for word in words if word.startswith("--")}


def examples(document: Path) -> list[Example]:
    """Every command line in code, fenced or inline; words in capitals and brackets are placeholders."""
    text = document.read_text("utf-8")
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    lines = [line for block in fenced for line in block.splitlines()] + inline
    name = str(document.relative_to(ROOT))
    return [Example(name, words) for line in lines for words in command_lines(line)]


def command_lines(line: str) -> list[tuple[str, ...]]:
    """The words behind each ``oxide-ctl`` of a shell line, up to where the shell's own syntax goes on."""
    code = line.partition(" #")[0]
    found = re.findall(r"(?:^|[\s(/])oxide-ctl\s+([^|;&)]*)", code)
    return [tuple(shlex.split(_closed(arguments.strip()))) for arguments in found if arguments.strip()]


def _closed(arguments: str) -> str:
    """Without the quote that closes a string in which the whole command stands."""
    last = arguments[-1]
    return arguments[:-1] if last in "\"'" and arguments.count(last) % 2 else arguments


EXAMPLES = sorted({example for document in DOCUMENTS for example in examples(document)})


@cache
def help_text(*command: str) -> str:
    """What ``oxide-ctl COMMAND --help`` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "openoxide.cli.entry", *command, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def help_section(title: str) -> str:
    """The lines below ``title`` in the root help."""
    return help_text().split(f"\n{title}:\n")[1].split("\n\n")[0]


@cache
def commands() -> set[str]:
    """The names in the command table of the root help; a name may have two words."""
    return set(re.findall(r"^  ([a-z]+(?:[ -][a-z]+)?)  ", help_section("Commands"), re.MULTILINE))


def test_examples_are_found():
    assert {example.command for example in EXAMPLES} >= {"watch", "checkpoint", "rewind", "undo"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.document}: {' '.join(example.words)}")
def test_a_documented_command_exists_with_its_options(example):
    if not example.command:
        assert example.options <= WITHOUT_COMMAND
        return

    assert example.command in commands()
    known = help_text() + help_text(*example.command.split())
    assert [option for option in example.options if not re.search(rf"(?<![\w-]){option}\b", known)] == []


def test_every_command_is_documented():
    shown = {example.command for example in EXAMPLES}

    assert commands() - shown == set()


def test_the_picture_of_the_readme_is_made_by_its_script_and_light(tmp_path):
    fresh = tmp_path / "terminal.svg"
    subprocess.run([sys.executable, ROOT / "docs/images/make_terminal.py", fresh], check=True)

    for picture in (fresh, ROOT / "docs/images/terminal.svg"):
        text = picture.read_text("utf-8")
        assert len(text) < 60_000
        assert "rewound" in text
        assert "undone" in text
        assert str(Path(tempfile.gettempdir())) not in text
        assert "url(http" not in text
    assert re.search(r"!\[[^\]]{40,}\]\(docs/images/terminal\.svg\)", (ROOT / "README.md").read_text("utf-8"))


def exit_code_table() -> dict[int, set[str]]:
    """Code to kinds, as docs/scripting.md has them."""
    section = (ROOT / "docs/scripting.md").read_text("utf-8").split("## Exit codes")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| [^|]+ \|([^|]*)\|$", section, re.MULTILINE)
    return {int(code): set(re.findall(r"`(\w+)`", kinds)) for code, kinds in rows}


def test_the_table_of_exit_codes_is_that_of_the_code():
    real: dict[int, set[str]] = {EXIT_DONE: set(), EXIT_PARTIAL: set(), EXIT_INTERRUPTED: set()}
    for cls, code in EXIT_CODES.items():
        real.setdefault(code, set()).add(cls.kind)

    assert exit_code_table() == real


def test_the_help_names_the_same_exit_codes():
    listed = {int(code) for code in re.findall(r"^  (\d+) ", help_section("Exit status"), re.MULTILINE)}

    assert listed == exit_code_table().keys()


def anchors(document: Path) -> set[str]:
    """The anchors that a reader's page has for the headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_links_inside_the_repository_resolve(document):
    text = re.sub(r"`[^`\n]*`", "", document.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target
