"""Taking everything of ours away, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from openoxide import removal
from openoxide.cli import reports
from openoxide.cli.confirm import PLAN_HINT, need_terminal, need_yes
from openoxide.cli.context import Cli
from openoxide.daemon.protocol import PathEntry, path_entry
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL, StoreDamagedError
from openoxide.paths import Home, home_from

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.health import UninstallAnswer


def uninstall(
    cli: Cli,
    *,
    keep_history: Annotated[bool, typer.Option("--keep-history", help="keep the store and config.toml")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be removed")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Stop the daemon and remove the home with all history, and our folders in watched trees. Projects stay as they are.

    Example: oxide-ctl uninstall --dry-run
    """
    home = home_from(os.environ)
    planned = removal.plan(home, keep_history=keep_history)
    if not dry_run and not yes:
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(reports.uninstall(_answer(home, planned, dry_run=True)))
        need_yes(cli.out, "remove it? this cannot be undone" if not keep_history else "remove it?")
    answer = _answer(home, planned, dry_run=dry_run)
    if planned.removed:
        cli.client.runs()  # one that is there and does not answer ends the command here, with nothing done
        if home.timeline_db.exists():  # else no daemon must be started, which would make a store
            _leave_trees(cli, answer, keep_history=keep_history)
        answer["stopped"] = not dry_run and cli.stop_daemon()
    if not dry_run:
        _add(home, answer, removal.remove(home, keep_history=keep_history))
    cli.out.answer(answer, lambda: reports.uninstall(answer))
    return EXIT_PARTIAL if any(entry.get("reason") != removal.NOT_OURS for entry in answer["left"]) else EXIT_DONE


def _answer(home: Home, planned: removal.Removal, *, dry_run: bool) -> UninstallAnswer:
    """The answer before anything was done: in a dry run what would be, else nothing yet."""
    answer: UninstallAnswer = {
        "ok": True,
        "dry_run": dry_run,
        "home": path_entry(os.fsencode(home.folder))["path"],
        "stopped": False,
        "removed": [],
        "kept": [],
        "left": [],
        "freed_bytes": 0,
        "notes": [],
        "package": f"{sys.executable} -m pip uninstall openoxide",
    }
    if dry_run:
        _add(home, answer, planned)
    return answer


def _add(home: Home, answer: UninstallAnswer, done: removal.Removal) -> None:
    answer["removed"] += _sized(home, done.removed)
    answer["kept"] += _sized(home, done.kept)
    answer["left"] += [path_entry(_inside(home, name), reason) for name, reason in done.left.items()]
    answer["freed_bytes"] += sum(done.removed.values())


def _sized(home: Home, names: Mapping[str, int]) -> list[PathEntry]:
    return [path_entry(_inside(home, name), size_bytes=size) for name, size in names.items()]


def _inside(home: Home, name: str) -> bytes:
    return os.fsencode(home.folder / name)


def _leave_trees(cli: Cli, answer: UninstallAnswer, *, keep_history: bool) -> None:
    """Has the daemon remove its folders in watched trees. Only a store that no daemon can open is removed without that:
    any other failure may hide an interrupted operation, which the store is needed for.
    """
    try:
        trees = cli.client.leave(keep_history=keep_history, dry_run=answer["dry_run"])
    except StoreDamagedError as error:
        answer["notes"].append(f"staging folders in watched trees were not looked for: {error.message}")
    else:
        answer["removed"] += trees["removed"]
        answer["left"] += trees["left"]
