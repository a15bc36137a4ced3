"""Completion scripts: one table of what stands where, made from the catalogue and typer's definitions, in each shell's
own program (``shells/``), which walks over it.

A row is ``command|word|takes|text``. The word is a command, an option, the number of an argument, ``*`` for all further
ones, or ``--`` for the paths after it. It takes ``command`` (more words), ``flag``, ``text``, ``checkpoint``, ``path``,
``directory``, or ``=`` and the words to choose from.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from shlex import quote
from typing import Any, Literal, NamedTuple

from openoxide.cli import app, catalogue
from openoxide.settings import Settings, flat

Shell = Literal["bash", "zsh", "fish"]

_ARGUMENTS = {
    "CKPT": "checkpoint",
    "A": "checkpoint",
    "B": "checkpoint",
    "PATH": "path",
    "DIR": "directory",
    "KEY": f"={' '.join(flat(Settings()))}",
}
_OPTIONS = {"WHEN": "checkpoint", "DIR": "directory", "PATH": "directory"}


class Row(NamedTuple):
    """What may stand at one place."""

    command: str
    word: str
    takes: str
    text: str


def script(shell: Shell) -> str:
    """The completion script for ``shell``."""
    table = "\n".join("|".join(row) for row in rows())
    program = files("openoxide.cli").joinpath("shells", f"completion.{shell}").read_text("utf-8")
    return program.replace("@ROWS@", fish_quoted(table) if shell == "fish" else quote(table))


def rows() -> Iterator[Row]:
    """The whole table: the words before a command, the commands, and what each of them takes."""
    for spelled, text in catalogue.GLOBAL_OPTIONS.items():
        option, _, value = spelled.partition(" ")
        yield Row("", option, _OPTIONS[value] if value else "flag", text)
    yield from _commands()
    for name in catalogue.COMMANDS:
        yield from _parameters(name)


def _commands() -> Iterator[Row]:
    groups = dict.fromkeys(name.partition(" ")[0] for name in catalogue.COMMANDS if " " in name)
    for group in groups:
        if group not in catalogue.COMMANDS:
            yield Row("", group, "command", " or ".join(catalogue.subcommands(group)))
    for name, entry in catalogue.COMMANDS.items():
        before, _, word = name.rpartition(" ")
        yield Row(before, word, "command", entry.summary)


def _parameters(name: str) -> Iterator[Row]:
    declared = app.declared(name)
    number = 0
    for parameter in declared.params:
        if parameter.param_type_name == "option":
            if not parameter.hidden:
                yield from (Row(name, option, _option(parameter), parameter.help) for option in parameter.opts)
            continue
        number += 1
        yield Row(name, "*" if parameter.nargs == -1 else str(number), _argument(name, parameter), parameter.help or "")
    yield from (Row(name, option, "flag", catalogue.GLOBAL_OPTIONS[option]) for option in ("--json", "--help"))
    if app.takes_paths(name):
        yield Row(name, "--", "path", "only these paths")


def _option(parameter: Any) -> str:
    return "flag" if parameter.is_flag else _choices(parameter) or _OPTIONS.get(parameter.metavar, "text")


def _argument(name: str, parameter: Any) -> str:
    if name == "unforget":
        return "text"  # what is in trash is not offered
    return _choices(parameter) or _ARGUMENTS.get((parameter.metavar or "").removesuffix("..."), "text")


def _choices(parameter: Any) -> str:
    choices = parameter.type_descriptor.choices
    return f"={' '.join(choices)}" if choices else ""


def fish_quoted(text: str) -> str:
    """``text`` as one word of fish, which escapes inside single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
