"""Leases: what had begun is waited for, what began later is not."""

from __future__ import annotations

import threading

from openoxide.checkpoints.leases import Leases


def test_nobody_is_waited_for_where_nobody_reads():
    leases = Leases()
    assert leases.drained(0)
    with leases.holding():
        pass
    assert leases.drained(0)


def test_ones_own_lease_is_not_waited_for():
    leases = Leases()
    with leases.holding():
        assert leases.drained(0)


def held(leases, until):
    """A thread that holds a lease until the event is set."""
    begun = threading.Event()

    def hold():
        with leases.holding():
            begun.set()
            until.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert begun.wait(20)
    return thread


def test_one_that_does_not_end_is_told():
    leases, end = Leases(), threading.Event()
    thread = held(leases, end)
    assert not leases.drained(0)
    assert not leases.drained(600, is_ending=lambda: True)
    end.set()
    thread.join()
    assert leases.drained(0)


def test_one_that_began_later_is_not_waited_for():
    leases, end, end_later = Leases(), threading.Event(), threading.Event()
    first, later = held(leases, end), []

    def go_on():
        if not later:
            later.append(held(leases, end_later))
            end.set()
        return False

    assert leases.drained(600, is_ending=go_on)
    end_later.set()
    for thread in (first, *later):
        thread.join()
