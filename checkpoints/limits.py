"""Which limits the settings and the disk set. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from openoxide.checkpoints import unheld
from openoxide.checkpoints.policy import Cause, Disk, Limit, Tree


def limits(
    trees: Mapping[int, Tree], total_quota_bytes: int, min_free_bytes: int, disk: Disk
) -> tuple[list[Limit], list[str]]:
    """The limits that may be exceeded, and in words those that cannot be held by anybody."""
    quotas: defaultdict[str, list[int]] = defaultdict(list)
    for tree in trees.values():
        quotas[tree.project].append(tree.retention.quota_bytes)
    # the worktrees of a project may have settings of their own: the widest holds, and 0 is none
    found = [Limit(Cause.QUOTA, max(each), project) for project, each in sorted(quotas.items()) if all(each)]
    if total_quota_bytes:
        found.append(Limit(Cause.TOTAL_QUOTA, total_quota_bytes))
    lacking = min_free_bytes - disk.free_bytes
    if min_free_bytes >= disk.size_bytes and min_free_bytes:
        return found, [unheld.no_such_disk(min_free_bytes, disk.size_bytes)]
    return ([*found, Limit(Cause.MIN_FREE, lacking)] if lacking > 0 else found), []
