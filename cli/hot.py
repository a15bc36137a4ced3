"""The fast parser: what scripts and hooks call often starts without typer, which takes several interpreter starts.

It understands plain spellings only. Whatever it is not sure of (help, abbreviations, bundled letters, a missing or odd
value, an unknown word) it leaves to typer by returning None, and so all errors are typer's too. A test holds its table
against the signatures typer reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from openoxide.cli.context import Call, Options

GLOBAL_FLAGS = {"--json": "as_json", "-q": "quiet", "-v": "verbose"}  # accepted anywhere before a --
FLAG, TEXT, NUMBER = "flag", "text", "number"


class Option(NamedTuple):
    """An option: the body's keyword for it, and FLAG, TEXT, NUMBER or the words it takes."""

    keyword: str
    takes: str | tuple[str, ...] = TEXT
    required: bool = False


class Positional(NamedTuple):
    """An argument without a name."""

    keyword: str
    takes: str | tuple[str, ...] = TEXT
    required: bool = True


class Command(NamedTuple):
    """What a command takes. ``paths``: also paths after ``--``. ``given``: without one of these keywords whoever
    typed the command can wait for typer: it asks a question, or needs typer itself.
    """

    options: Mapping[str, Option] = {}
    positionals: tuple[Positional, ...] = ()
    paths: bool = False
    given: frozenset[str] = frozenset()


_DECIDED = frozenset({"yes", "dry_run"})
_STEPS = Command(
    positionals=(Positional("steps", NUMBER, required=False),),
    options={"--yes": Option("yes", FLAG), "--dry-run": Option("dry_run", FLAG)},
    given=_DECIDED,
)
_WINDOW = {"--agent": Option("agent", required=True), "--session": Option("session", required=True)}
_TOOL = {**_WINDOW, "--tool": Option("tool", required=True)}

# what a script, a hook or a prompt calls often, and watch, which stands at the begin of all (docs/design.md, 10)
TABLE = {
    "watch": Command(
        positionals=(Positional("path", required=False),),
        options={"--dry-run": Option("dry_run", FLAG), "--allow-broad": Option("allow_broad", FLAG)},
    ),
    "status": Command(),
    "checkpoint": Command(options={"-m": Option("name"), "--pin": Option("pin", FLAG)}),
    "log": Command(
        options={
            "--limit": Option("limit", NUMBER),
            "--all": Option("include_all", FLAG),
            "--named": Option("named", FLAG),
            "--session": Option("session"),
            "--since": Option("since"),
        }
    ),
    "show": Command(positionals=(Positional("checkpoint"),)),
    "pin": Command(positionals=(Positional("checkpoint"),)),
    "unpin": Command(positionals=(Positional("checkpoint"),)),
    "name": Command(positionals=(Positional("checkpoint"), Positional("text"))),
    "diff": Command(
        positionals=(Positional("old"), Positional("new", required=False)),
        options={
            "--stat": Option("stat", FLAG),
            "--name-status": Option("name_status", FLAG),
            "--patch": Option("patch", FLAG),
        },
        paths=True,
    ),
    "history": Command(
        positionals=(Positional("path", required=False),),
        options={
            "--deleted": Option("deleted", FLAG),
            "--search": Option("search"),
            "--binary": Option("binary", FLAG),
            "--limit": Option("limit", NUMBER),
        },
        paths=True,
    ),
    "cat": Command(positionals=(Positional("checkpoint"), Positional("file"))),
    "rewind": Command(
        positionals=(Positional("checkpoint", required=False),),
        options={
            "--code": Option("code", FLAG),
            "--conversation": Option("conversation", FLAG),
            "--both": Option("both", FLAG),
            "--summarize-from": Option("summarize_from", FLAG),
            "--summarize-up-to": Option("summarize_up_to", FLAG),
            "--memory": Option("memory", FLAG),
            "--no-memory": Option("no_memory", FLAG),
            "--scope": Option("scope", ("turn", "session", "all")),
            "--exact": Option("exact", FLAG),
            "--conflict": Option("conflict", ("keep", "merge", "overwrite")),
            "--dry-run": Option("dry_run", FLAG),
            "--yes": Option("yes", FLAG),
            "--touch": Option("touch", FLAG),
            "--partial": Option("in_part", FLAG),
            "--turn": Option("turn"),
            "--only": Option("only", FLAG),
            "--continue": Option("go_on", FLAG),
            "--abort": Option("abort", FLAG),
        },
        paths=True,
        given=_DECIDED,
    ),
    "undo": _STEPS,
    "redo": _STEPS,
    "turn begin": Command(options={**_WINDOW, "--prompt": Option("prompt", required=True)}),
    "turn end": Command(options={**_WINDOW, "--prompt": Option("prompt")}),
    "tool begin": Command(options={**_TOOL, "--prompt": Option("prompt")}),
    "tool end": Command(options=_TOOL),
    "completion": Command(
        positionals=(Positional("shell", ("bash", "zsh", "fish"), required=False),),
        options={"--checkpoints": Option("checkpoints", FLAG)},
        given=frozenset({"checkpoints"}),
    ),
}


def globals_first(arguments: Sequence[str]) -> list[str]:
    """``arguments`` with every ``--json``, ``-q`` and ``-v`` before a ``--`` moved to the front, where both parsers look
    for them.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = [word for word in GLOBAL_FLAGS if word in arguments[:end]]
    return given + [word for word in arguments[:end] if word not in GLOBAL_FLAGS] + list(arguments[end:])


def split_paths(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before the first ``--`` and after it."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


class _UnsureError(Exception):
    """Typer has to look at it."""


def parse(arguments: Sequence[str]) -> Call | None:
    """The call that ``arguments`` (after :func:`globals_first`) spell, None where typer has to look."""
    options, rest = _global_options(list(arguments))
    for words in (1, 2):
        name = " ".join(rest[:words])
        if name in TABLE:
            try:
                return Call(name, options, _values(TABLE[name], rest[words:]))
            except _UnsureError:
                return None
    return None


def _global_options(rest: list[str]) -> tuple[Options, list[str]]:
    """The options before the command; at one it does not know it stops, and no command begins with a hyphen."""
    values: dict[str, Any] = {}
    while rest:
        if rest[0] in GLOBAL_FLAGS:
            values[GLOBAL_FLAGS[rest.pop(0)]] = True
        elif rest[0] == "-C" and len(rest) > 1 and not rest[1].startswith("-"):
            values["directory"] = rest[1]
            del rest[:2]
        else:
            break
    return Options(**values), rest


def _values(command: Command, rest: list[str]) -> dict[str, Any]:
    """The body's keywords for the words after the command; what was not typed is left out."""
    paths: dict[str, Any] = {}
    if command.paths:
        rest, paths["paths"] = split_paths(rest)
    values, words = _options(command.options, rest)
    required = {option.keyword for option in command.options.values() if option.required}
    required |= {positional.keyword for positional in command.positionals if positional.required}
    if len(words) > len(command.positionals):
        raise _UnsureError
    for positional, word in zip(command.positionals, words, strict=False):
        values[positional.keyword] = _value(positional.takes, word)
    if not required <= values.keys() or (command.given and not command.given & values.keys()):
        raise _UnsureError
    return values | paths


def _options(known: Mapping[str, Option], rest: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The options among ``rest`` and the words that are none."""
    values: dict[str, Any] = {}
    words = []
    remaining = iter(rest)
    for word in remaining:
        if not word.startswith("-"):
            words.append(word)
            continue
        name, equals, attached = word.partition("=")
        option = known.get(name)
        if option is None or option.keyword in values or (equals and not name.startswith("--")):
            raise _UnsureError
        if option.takes != FLAG:
            # a missing value becomes "-", which is refused: the error is typer's to word
            values[option.keyword] = _value(option.takes, attached if equals else next(remaining, "-"))
        elif equals:
            raise _UnsureError
        else:
            values[option.keyword] = True
    return values, words


def _value(takes: str | tuple[str, ...], word: str) -> str | int:
    """``word`` as the value of an option or argument."""
    if word.startswith("-"):
        raise _UnsureError
    if takes == NUMBER:
        if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word) > 0):
            raise _UnsureError
        return int(word)
    if takes != TEXT and word not in takes:
        raise _UnsureError
    return word
