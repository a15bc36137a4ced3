"""The settings: read and changed in the file, whether a daemon runs or not."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from openoxide import config
from openoxide.cli.context import Cli
from openoxide.cli.render import table
from openoxide.daemon.protocol import printable
from openoxide.errors import EXIT_DONE, DaemonUnreachableError, FailedError, NotFoundError, RefusedError
from openoxide.knobs import KNOBS, allowed, size, spelled
from openoxide.paths import home_from
from openoxide.settings import Value

if TYPE_CHECKING:
    import typer

EDITOR_HINT = "set VISUAL or EDITOR to an editor that is installed"
OWN_HELP = "of the project that the working folder (-C) is in, and of no other"
RESTART = "the daemon that runs takes it up when it is started again: `oxide-ctl stop`, the next command starts it"
# of a number with its unit
_MOST_DIGITS = 8


def list_all(cli: Cli, *, project: Annotated[bool, typer.Option("--project", help=OWN_HELP)] = False) -> int:
    """List every setting with its value, as `config set` takes it, and where that is from: default, file or project.

    Example: oxide-ctl config list --project
    """
    home, root = home_from(os.environ), _root(cli, project=project)
    found = config.entries(home, root)
    waiting = _waiting(cli, found, config.taken(home, root))
    answer: dict[str, Any] = {
        "ok": True,
        "path": printable(str(home.config)),
        "items": [{**_object(item), "in_use": waiting.get(item.key, item.value)} for item in found],
        **_named(root),
    }
    own = {}
    if root is None:
        own = config.overrides(home)
        answer["projects"] = [
            {**_named(other), "items": [_object(item) for item in items]} for other, items in own.items()
        ]
    cli.out.answer(answer, lambda: _listed(found, own, waiting))
    cli.out.note(RESTART if waiting else "")
    return EXIT_DONE


def _waiting(cli: Cli, found: list[config.Entry], taken: Mapping[str, Value]) -> dict[str, Value]:
    """What a daemon that runs goes by, where it is not what the file says by now."""
    others = {item.key: taken[item.key] for item in found if taken.get(item.key, item.value) != item.value}
    return others if others and _runs(cli) else {}


def _listed(found: list[config.Entry], own: dict[str, list[config.Entry]], waiting: Mapping[str, Value]) -> str:
    lines = [table([_row(item, waiting.get(item.key)) for item in found])]
    for root, items in own.items():
        lines += ["", printable(root), table([_row(item) for item in items])]
    return "\n".join(lines)


def get(
    cli: Cli,
    *,
    key: Annotated[str, typer.Argument(metavar="KEY", help="such as capture.quiet_ms")],
    project: Annotated[bool, typer.Option("--project", help=OWN_HELP)] = False,
) -> int:
    """Print the value of one setting, in the unit that its name ends in.

    Example: oxide-ctl config get retention.ttl_days
    """
    config.require_known(key)
    root = _root(cli, project=project)
    found = config.entry(home_from(os.environ), key, root)
    cli.out.answer({"ok": True, **_object(found), **_named(root)}, lambda: _text(found.value))
    return EXIT_DONE


def change(
    cli: Cli,
    *,
    key: Annotated[str, typer.Argument(metavar="KEY", help="such as retention.ttl_days")],
    words: Annotated[list[str], typer.Argument(metavar="VALUE...", help="30d, 20MB, 2GiB, 500ms; or a list's items")],
    project: Annotated[bool, typer.Option("--project", help=OWN_HELP)] = False,
) -> int:
    """Change one setting; comments and order of config.toml stay as they are. KB, MB, GB count by 1000, KiB, MiB, GiB by 1024.

    Example: oxide-ctl config set capture.max_file_bytes 200MB
    """
    config.require_known(key)
    root = _root(cli, project=project)
    return _changed(cli, root, config.change(home_from(os.environ), key, words, root))


def unset(
    cli: Cli,
    *,
    key: Annotated[str, typer.Argument(metavar="KEY", help="such as retention.ttl_days")],
    project: Annotated[bool, typer.Option("--project", help=OWN_HELP)] = False,
) -> int:
    """Take one setting out of config.toml: its default counts again, and for a project what counts for all.

    Example: oxide-ctl config unset retention.ttl_days
    """
    config.require_known(key)
    root = _root(cli, project=project)
    return _changed(cli, root, config.unset(home_from(os.environ), key, root))


def _changed(cli: Cli, root: str | None, states: tuple[config.Entry, config.Entry]) -> int:
    before, after = states
    restart = before.value != after.value and _runs(cli)
    answer = {"ok": True, **_object(after), **_named(root), "previous": before.value, "restart_needed": restart}
    where = f" in {printable(root)}" if root is not None else ""
    cli.out.answer(answer, lambda: f"{after.key} = {_spelled(after)}{where}  (was {_spelled(before)})")
    cli.out.note(RESTART if restart else "")
    return EXIT_DONE


def _root(cli: Cli, *, project: bool) -> str | None:
    """The root of the project that is meant, as the daemon knows it; None for what counts for all."""
    if not project:
        return None
    here = os.path.realpath(cli.path)
    # the text of a root that is not printable is no path any more, and cannot be named in config.toml either
    roots: list[str] = [item["root"] for item in cli.client.projects()["items"]]
    holding = [root for root in roots if here == root or here.startswith(root.rstrip("/") + "/")]
    if not holding:
        hint = "`oxide-ctl projects` shows what is; choose one with -C"
        raise NotFoundError(f"{cli.path} is not in a project that is known", hint=hint)
    return max(holding, key=len)


def _named(root: str | None) -> dict[str, str]:
    return {} if root is None else {"root": printable(root)}


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
    return {
        "key": item.key,
        "value": item.value,
        "default": item.default,
        "set": item.given,
        "source": item.source,
        "allowed": allowed(item.key),
    }


def _row(item: config.Entry, in_use: Value | None = None) -> tuple[str, ...]:
    default = "" if item.value == item.default else f"(default {_shown(item.key, item.default)})"
    still = "" if in_use is None else f"(in use until a restart: {_shown(item.key, in_use)})"
    return (f"  {item.key}", _spelled(item), item.source, f"{default} {still}".strip())


def _spelled(item: config.Entry) -> str:
    return _shown(item.key, item.value)


def _shown(key: str, value: Value) -> str:
    """``30d``, ``0 (no limit)``: what people read, and may type up to the bracket."""
    text = printable(spelled(key, value))
    beside = KNOBS[key].zero if value == 0 else ""
    # exact, and nobody reads it: 77892389KiB
    if key.endswith("_bytes") and isinstance(value, int) and len(text) > _MOST_DIGITS:
        beside = size(value)
    return text + (f" ({beside})" if beside else "")


def _text(value: Value) -> str:
    return printable(" ".join(value)) if isinstance(value, tuple) else str(value)
