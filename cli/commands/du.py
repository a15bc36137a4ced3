"""What is stored where."""

from __future__ import annotations

import sys

from openoxide.cli import usage
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE


def du(cli: Cli) -> int:
    """Show what is stored where: the home by kind, each worktree, its growth, its largest paths and patterns (-v: all of them).

    Example: oxide-ctl -v du
    """
    answer = cli.client.du()
    cli.out.answer(answer, lambda: usage.du(answer, verbose=cli.out.verbose, bar=_bar(cli)))
    return EXIT_DONE


def _bar(cli: Cli) -> str:
    """What bars are drawn of; nothing where no person looks."""
    if not cli.out.on_terminal:
        return ""
    return "\N{FULL BLOCK}" if "utf" in (sys.stdout.encoding or "").lower() else "#"
