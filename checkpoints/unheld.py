"""Limits that cannot be held, in words: which one, why, and what would hold. Pure."""

from __future__ import annotations

import shlex

from openoxide.knobs import size

_MIB = 1 << 20


def quota(root: str, most_bytes: int, why: str, least_bytes: int, would_do_bytes: int) -> str:
    """``why``: what takes ``least_bytes`` and never goes. ``root``: of which project; empty where it is all of them.
    ``would_do_bytes``: what holds all that never goes, and what is not recorded for the quota as well.
    """
    key = "retention.quota_bytes" if root else "retention.total_quota_bytes"
    of = f" of {root}" if root else ""
    where = f"-C {shlex.quote(root)} config set --project" if root else "config set"
    raised = f"`oxide-ctl {where} {key} {-(-would_do_bytes // _MIB)}MiB`"
    name = key.removeprefix("retention.")
    return f"{name}{of} is {size(most_bytes)}, and {why} {size(least_bytes)}: {raised} would do"


def min_free(lacking_bytes: int, may_go_bytes: int) -> str:
    """What may go would not give as much as is lacking."""
    return f"min_free_bytes lacks {size(lacking_bytes)}, and all that may be forgotten takes {size(may_go_bytes)}"


def no_such_disk(least_bytes: int, disk_bytes: int) -> str:
    """More is to be free than the disk has."""
    return f"min_free_bytes is {size(least_bytes)}, and the disk has {size(disk_bytes)}"
