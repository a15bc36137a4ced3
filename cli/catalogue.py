"""Every command that exists: where its body is and what it does in a line; and what the contract names but is not built.

Read by both parsers and by the help of the root, so that neither imports a command to list it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from openoxide.cli.output import PROGRAM


class Entry(NamedTuple):
    """A command's module below ``cli/commands``, its body there, and its line in the list of commands."""

    module: str
    body: str
    summary: str


COMMANDS = {
    "watch": Entry("watch", "watch", "watch a directory tree and seal its first checkpoint"),
    "unwatch": Entry("watch", "unwatch", "stop watching it"),
    "pause": Entry("pausing", "pause", "record nothing for a while"),
    "unpause": Entry("pausing", "unpause", "go on recording"),
    "stop": Entry("status", "stop", "stop a daemon that was started on demand"),
    "projects": Entry("projects", "projects", "list all known worktrees"),
    "projects move": Entry("projects", "move", "let a history follow a directory that was moved"),
    "projects join": Entry("projects", "join", "declare two worktrees one project"),
    "du": Entry("du", "du", "show what is stored where, and for what"),
    "check": Entry("check", "check", "look whether the store holds what it says"),
    "repair": Entry("repair", "repair", "mend what check finds, and mark what is lost"),
    "backup": Entry("backup", "backup", "copy the home into a folder, or bring such a copy up to date"),
    "restore-home": Entry("backup", "restore_home", "make a home out of a backup"),
    "prune": Entry("prune", "prune", "free what nothing needs any more"),
    "config list": Entry("config", "list_all", "list the settings, and where each comes from"),
    "config get": Entry("config", "get", "print one setting"),
    "config set": Entry("config", "change", "change one setting"),
    "config unset": Entry("config", "unset", "take one setting out of config.toml"),
    "config edit": Entry("config", "edit", "edit config.toml; it is checked before it is used"),
    "status": Entry("status", "status", "show the health of the daemon and of each worktree"),
    "doctor": Entry("doctor", "doctor", "look for what is wrong, and say what to do"),
    "checkpoint": Entry("checkpoint", "checkpoint", "seal a checkpoint now"),
    "log": Entry("checkpoint", "log", "list checkpoints, newest first"),
    "show": Entry("checkpoint", "show", "show one checkpoint"),
    "pin": Entry("keeping", "pin", "keep a checkpoint for good"),
    "unpin": Entry("keeping", "unpin", "let a pinned checkpoint expire again"),
    "name": Entry("keeping", "name", "name a checkpoint"),
    "forget": Entry("forgetting", "forget", "move checkpoints to trash"),
    "unforget": Entry("forgetting", "unforget", "take them back out of trash"),
    "expire": Entry("forgetting", "expire", "let go what has expired, now"),
    "purge": Entry("purge", "purge", "remove contents everywhere, for good"),
    "diff": Entry("diff", "diff", "compare two checkpoints, or one with the worktree"),
    "cat": Entry("diff", "cat", "print a file as it was"),
    "history": Entry("history", "history", "list versions of a path, what vanished, or where a text stood"),
    "restore": Entry("restore", "restore", "copy a checkpoint out into another directory"),
    "rewind": Entry("rewind", "rewind", "bring the worktree back to a checkpoint"),
    "undo": Entry("undo", "undo", "take back the last operations"),
    "redo": Entry("undo", "redo", "do again what undo took back"),
    "operations": Entry("undo", "operations", "list rewinds, undos and redos"),
    "memory index": Entry("memory", "index", "print what an agent is given of MEMORY.md"),
    "memory context": Entry("memory", "context", "print what an agent gets at the start of a session"),
    "memory topics": Entry("memory", "topics", "list the topics of the memory"),
    "memory read": Entry("memory", "read", "print a file of the memory"),
    "memory save": Entry("memory", "save", "let a topic hold a text"),
    "memory edit": Entry("memory", "edit", "replace, insert or append in a file of the memory"),
    "memory delete": Entry("memory", "delete", "move a file of the memory to its trash"),
    "memory rename": Entry("memory", "rename", "give a file of the memory another name"),
    "memory search": Entry("memory", "search", "find words in the memory"),
    "memory history": Entry("memory", "history", "list versions of the memory, and who wrote them"),
    "memory blame": Entry("memory", "blame", "tell for each line who wrote it"),
    "memory revert": Entry("memory", "revert", "bring a file of the memory back"),
    "memory promote": Entry("memory", "promote", "make the notes of a worktree the project's"),
    "memory lint": Entry("memory", "lint", "look for what is wrong with the memory"),
    "uninstall": Entry("uninstall", "uninstall", "remove everything of ours"),
    "turn begin": Entry("windows", "turn_begin", "declare that an agent's turn begins"),
    "turn end": Entry("windows", "turn_end", "declare that it ended"),
    "tool begin": Entry("windows", "tool_begin", "declare that an agent's tool call begins"),
    "tool end": Entry("windows", "tool_end", "declare that it ended"),
    "completion": Entry("completion", "completion", "print the completion script of a shell"),
}

NOT_BUILT = frozenset("resume fork export import share sessions agents service".split())

EXIT_STATUS = {
    0: "done",
    1: "failed",
    2: "wrong usage",
    3: "done in part, details in the answer",
    4: "conflict: the whole operation refused, nothing changed",
    5: "not found, or ambiguous",
    6: "the daemon cannot be reached or started",
    7: "the store is damaged",
    8: "refused for safety, or for want of a yes",
    130: "interrupted",
}

GLOBAL_OPTIONS = {
    "-C PATH": "act on the project that PATH is in (default: the working folder)",
    "--json": "print one JSON object",
    "-q": "print less: of watch and checkpoint the id alone, no notes",
    "-v": "print more: whole lists, who wrote what",
    "--version": "print the version",
    "--help": "print this text, or after a command what that command takes",
}
BEFORE_THE_COMMAND = frozenset({"-C", "--version"})


def body(command: str) -> Callable[..., int]:
    """The function that carries ``command`` out and returns the exit code."""
    entry = COMMANDS[command]
    function: Callable[..., int] = getattr(import_module(f"openoxide.cli.commands.{entry.module}"), entry.body)
    return function


def subcommands(group: str) -> list[str]:
    """The second words of the commands that begin with ``group``."""
    return [name.removeprefix(f"{group} ") for name in COMMANDS if name.startswith(f"{group} ")]


def root_help() -> str:
    """What `--help` without a command prints."""
    sections = {
        "Commands": {name: entry.summary for name, entry in COMMANDS.items()},
        "Options, -C before the command": GLOBAL_OPTIONS,
        "Exit status": {str(code): meaning for code, meaning in EXIT_STATUS.items()},
    }
    lines = [f"Usage: {PROGRAM} [OPTIONS] COMMAND [ARGUMENTS]"]
    for title, rows in sections.items():
        width = max(map(len, rows))
        lines += ["", f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in rows.items())]
    return "\n".join(lines)
