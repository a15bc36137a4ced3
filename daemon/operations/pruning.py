"""``prune``: free the bytes that nothing needs any more, by hand and by the clock."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from openoxide.checkpoints import expiry
from openoxide.checkpoints.forecast import Forecast, forecast
from openoxide.checkpoints.prunable import Room
from openoxide.checkpoints.prune import Prune, Pruned
from openoxide.daemon.operations.breathing import Breath
from openoxide.daemon.protocol.health import PruneAnswer
from openoxide.daemon.requests import Request, flag
from openoxide.daemon.reserve import RESERVE_BYTES
from openoxide.errors import ConflictError
from openoxide.paths import Home

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

# a restore of a large tree may take longer; what it may need is left to the next prune
DRAIN_SECONDS = 30
TELL_EVERY = 1_000
_OF_THE_WAL = ("timeline.db-wal", "timeline.db-shm")


def prune(service: Service, request: Request, report: Reporter) -> PruneAnswer:
    """``prune``. A dry run writes nothing; the rest counts what the files of the home really gave back."""
    if flag(request, "dry_run"):
        return _forecast(service, report)
    before = _blocks(service.home)
    pruned = prune_store(service, report)
    return {
        "ok": True,
        "dry_run": False,
        "freed_bytes": max(0, before - _blocks(service.home)),
        "versions": pruned.versions,
        "contents": pruned.contents,
        "packs": pruned.packs_deleted + pruned.packs_rewritten,
        "damaged": pruned.damaged,
        "lacking_bytes": pruned.lacking_bytes,
        "notes": pruned.notes,
    }


def prune_store(service: Service, report: Reporter | None = None) -> Pruned:
    """What the scheduler calls. Raises ConflictError while another prune is at work."""
    blobs = service.timeline.blobs
    if not blobs.pruning.acquire(blocking=False):
        raise ConflictError("a prune is at work already", hint="wait for its end")
    had_reserve = bool(service.reserve.size_bytes)
    try:
        return Prune(
            database=service.timeline.database,
            blobs=blobs,
            now_ms=service.clock.now_ms(),
            clock_trusted=service.clock_mark.look().trusted,
            given_up=_given_up(service),
            room=room_of(service),
            breathe=_breathing(service, report),
            drained=lambda: blobs.leases.drained(DRAIN_SECONDS, service.stop_requested.is_set),
        ).run()
    finally:
        # what it took it has given back by what it freed, unless somebody else came first
        if had_reserve:
            service.reserve.make(RESERVE_BYTES)
        blobs.pruning.release()


def room_of(service: Service) -> Room:
    """What is free on the disk of the store, and the reserve, which what frees more than it takes may use."""
    return Room(
        lambda: expiry.disk_of(service.home.blobs).free_bytes,
        lambda: service.reserve.size_bytes,
        service.reserve.release,
    )


def _breathing(service: Service, report: Reporter | None) -> Callable[[], None]:
    blobs, done = service.timeline.blobs, count(1)
    breathe = Breath("prune", service.stop_requested.is_set, lambda: blobs.is_adding)

    def tell() -> None:
        breathe()
        # a daemon that tells nothing for long counts as one that hangs (daemon.caller)
        if (number := next(done)) % TELL_EVERY == 0 and report is not None:
            report({"stage": "pruning", "done": number, "total": number, "bytes": 0})

    return tell


def _given_up(service: Service) -> dict[int, int]:
    with service.timeline.database.looking() as db:
        return expiry.fine_given_up(db)


def forecast_of(service: Service, report: Reporter | None, *, without_trash: bool = False) -> Forecast:
    """What a prune would free now."""
    return forecast(
        service.timeline.database,
        service.timeline.blobs,
        service.clock.now_ms(),
        clock_trusted=service.clock_mark.look().trusted,
        given_up=_given_up(service),
        room=room_of(service),
        breathe=_breathing(service, report),
        without_trash=without_trash,
    )


def _forecast(service: Service, report: Reporter) -> PruneAnswer:
    found = forecast_of(service, report)
    return {
        "ok": True,
        "dry_run": True,
        "freed_bytes": found.freed_bytes,
        "versions": found.versions,
        "contents": found.contents,
        "packs": found.packs,
        "damaged": 0,
        "lacking_bytes": found.lacking_bytes,
        "notes": list(found.notes),
    }


def _blocks(home: Home) -> int:
    """What the store takes on the disk, in bytes."""
    size = 0
    for directory, _, names in os.walk(home.folder):
        for name in names:
            # they come and go, and free nothing: the WAL is written over
            if name == home.reserve.name or name in _OF_THE_WAL:
                continue
            try:
                size += os.lstat(os.path.join(directory, name)).st_blocks * 512
            except FileNotFoundError:  # a pack that was dropped, a copy that came to its end
                continue
    return size
