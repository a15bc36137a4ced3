"""Making room by hand: what can be taken back goes now, beside what goes anyway. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openoxide.checkpoints.policy import Cause, Plan, Tree, Why


def emptied(found: Plan, trees: Mapping[int, Tree]) -> Plan:
    """``found``, and all that is in trash already leaves the store; nothing more is kept for the fine window. What goes to
    trash by ``found`` stays there for its time.
    """
    trash = [id_ for id_, why in found.keep.items() if why is Why.IN_TRASH]
    return replace(
        found,
        keep={id_: why for id_, why in found.keep.items() if why is not Why.IN_TRASH},
        release={**found.release, **dict.fromkeys(trash, Cause.EMPTIED)},
        fine={worktree: tree.fine[1] for worktree, tree in trees.items() if tree.fine[0] < tree.fine[1]},
    )
