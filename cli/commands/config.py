"""The settings: read and changed in the file, whether a daemon runs or not."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from openoxide import config
from openoxide.cli.context import Cli
from openoxide.cli.render import table
from openoxide.daemon.protocol import printable
from openoxide.errors import EXIT_DONE, DaemonUnreachableError, FailedError, RefusedError
from openoxide.paths import home_from
from openoxide.settings import Value

if TYPE_CHECKING:
    import typer

EDITOR_HINT = "set VISUAL or EDITOR to an editor that is installed"
RESTART = "the daemon that runs takes it up when it is started again: `oxide-ctl stop`, the next command starts it"


def list_all(cli: Cli) -> int:
    """List every setting with its value, as `config set` takes it; those that stand in config.toml are marked with a *.

    Example: oxide-ctl config list
    """
    home = home_from(os.environ)
    found = config.entries(home)
    answer = {"ok": True, "path": printable(str(home.config)), "items": [_object(item) for item in found]}
    cli.out.answer(answer, lambda: table([_row(item) for item in found]))
    return EXIT_DONE


def get(cli: Cli, *, key: Annotated[str, typer.Argument(metavar="KEY", help="such as capture.quiet_ms")]) -> int:
    """Print the value of one setting, in the unit that its name ends in.

    Example: oxide-ctl config get retention.ttl_days
    """
    found = config.entry(home_from(os.environ), key)
    cli.out.answer({"ok": True, **_object(found)}, lambda: _text(found.value))
    return EXIT_DONE


def change(
    cli: Cli,
    *,
    key: Annotated[str, typer.Argument(metavar="KEY", help="such as retention.ttl_days")],
    words: Annotated[list[str], typer.Argument(metavar="VALUE...", help="30d, 20MB, 2GiB, 500ms; or a list's items")],
) -> int:
    """Change one setting; comments and order of config.toml stay as they are. KB, MB, GB count by 1000, KiB, MiB, GiB by 1024.

    Example: oxide-ctl config set capture.max_file_bytes 200MB
    """
    before, after = config.change(home_from(os.environ), key, words)
    restart = before.value != after.value and _runs(cli)
    answer = {"ok": True, **_object(after), "previous": before.value, "restart_needed": restart}
    cli.out.answer(answer, lambda: f"{key} = {_spelled(after)}  (was {_spelled(before)})")
    cli.out.note(RESTART if restart else "")
    return EXIT_DONE


def edit(cli: Cli) -> int:
    """Edit config.toml with $VISUAL or $EDITOR. It is a copy that is edited, and only a valid one takes its place.

    Example: oxide-ctl config edit
    """
    home = home_from(os.environ)
    changed = config.edit(home, partial(_run_editor, _editor(cli), as_json=cli.out.as_json))
    restart = changed and _runs(cli)
    answer = {"ok": True, "path": printable(str(home.config)), "changed": changed, "restart_needed": restart}
    cli.out.answer(answer, lambda: "config.toml is changed" if changed else "nothing was changed")
    cli.out.note(RESTART if restart else "")
    return EXIT_DONE


def _runs(cli: Cli) -> bool:
    """Whether a daemon has the settings as they were; one that does not answer has them too."""
    try:
        return cli.client.runs()
    except DaemonUnreachableError:
        return True


def _editor(cli: Cli) -> list[str]:
    """The words that start the editor."""
    named = next((named for variable in ("VISUAL", "EDITOR") if (named := os.environ.get(variable, "").strip())), None)
    if named is None and not cli.out.may_ask:
        hint = "name one, or use `oxide-ctl config set KEY VALUE`"
        raise RefusedError("there is no terminal for an editor, and neither VISUAL nor EDITOR is set", hint=hint)
    try:
        return shlex.split(named or "vi")
    except ValueError as error:
        raise FailedError(f"the editor {named!r} cannot be started: {error}", hint=EDITOR_HINT) from error


def _run_editor(words: list[str], copy: Path, *, as_json: bool) -> None:
    try:
        # with --json standard output is the answer's alone
        code = subprocess.run([*words, str(copy)], check=False, stdout=sys.stderr if as_json else None).returncode
    except OSError as error:
        why = error.strerror or error
        raise FailedError(f"the editor {words[0]!r} cannot be started: {why}", hint=EDITOR_HINT) from error
    if code:
        raise FailedError(f"the editor {words[0]!r} ended with {code}", hint="config.toml is as it was")


def _object(item: config.Entry) -> dict[str, Any]:
    return {"key": item.key, "value": item.value, "default": item.default, "set": item.given}


def _row(item: config.Entry) -> tuple[str, ...]:
    default = "" if item.value == item.default else f"(default {printable(config.spelled(item.key, item.default))})"
    return ("*" if item.given else " ", item.key, _spelled(item), default)


def _spelled(item: config.Entry) -> str:
    return printable(config.spelled(item.key, item.value))


def _text(value: Value) -> str:
    return printable(" ".join(value)) if isinstance(value, tuple) else str(value)
