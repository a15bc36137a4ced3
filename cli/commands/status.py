"""The daemon and what it knows."""

from __future__ import annotations

from openoxide.cli import colours, render
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE


def status(cli: Cli) -> int:
    """Show the daemon, its health, each worktree with its gaps, the next expiry and interrupted operations; with -v also
    the jobs that it does by the clock.

    Example: oxide-ctl status
    """
    answer = cli.client.status()
    cli.out.answer(answer, lambda: render.status(answer, cli.now, verbose=cli.out.verbose), colours.STATUS)
    return EXIT_DONE


def stop(cli: Cli) -> int:
    """Stop a daemon that was started on demand.

    Example: oxide-ctl stop
    """
    stopped = cli.stop_daemon()
    cli.out.answer(
        {"ok": True, "stopped": stopped}, lambda: "the daemon stopped" if stopped else "no daemon is running"
    )
    return EXIT_DONE
