"""Which jobs the daemon has, and how often each is done."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from openoxide.daemon.operations.checking import check_slice
from openoxide.daemon.operations.expiring import expire_by_time
from openoxide.daemon.operations.pruning import prune_store
from openoxide.daemon.scheduler import Job

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

HOUR_S = 3_600
DAY_S = 24 * HOUR_S


def jobs(service: Service) -> list[Job]:
    """The jobs of a service. Full passes are the heartbeat's: their time goes by what each tree costs."""
    return [
        Job("expire", HOUR_S, partial(expire_by_time, service)),
        # what a day has made old; a limit that was met asks for its bytes sooner than that
        Job("prune", 6 * HOUR_S, partial(prune_store, service)),
        Job("check", DAY_S, partial(check_slice, service)),
        Job("fold_wal", HOUR_S // 4, service.timeline.database.fold_beside),
    ]
