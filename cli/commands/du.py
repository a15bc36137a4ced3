"""What is stored where."""

from __future__ import annotations

from openoxide.cli import usage
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE


def du(cli: Cli) -> int:
    """Show what is stored where: the parts of the home, each worktree, its growth and its largest paths (-v: all of them).

    Example: oxide-ctl -v du
    """
    answer = cli.client.du()
    cli.out.answer(answer, lambda: usage.du(answer, verbose=cli.out.verbose))
    return EXIT_DONE
