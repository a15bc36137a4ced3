"""Which jobs the daemon has, and how often each is done."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from openoxide.daemon.operations.expiring import expire_by_time
from openoxide.daemon.scheduler import Job

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

HOUR_S = 3_600


def jobs(service: Service) -> list[Job]:
    """The jobs of a service. What is not in here is not done by itself: a prune, slices of a check, of a full pass and of a
    vacuum have their place after the expire, whose work they go on with.
    """
    return [
        Job("expire", HOUR_S, partial(expire_by_time, service)),
        Job("fold_wal", HOUR_S // 4, service.timeline.database.fold_wal),
    ]
