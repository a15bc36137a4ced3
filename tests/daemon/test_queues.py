"""Whoever began first goes first, whatever the order in which they come; keys do not wait for one another."""

from __future__ import annotations

import threading

import pytest

from openoxide.daemon.queues import Queues
from tests.kit import wait_until

HANG_SECONDS = 30


class Walkers:
    """Threads that go through a queue and note it."""

    def __init__(self):
        self.queues, self.went, self._threads = Queues(), [], []

    def come(self, began, grace_seconds=0.0):
        def go():
            with self.queues.turn("s", began, grace_seconds):
                self.went.append(began)

        self._threads.append(threading.Thread(target=go))
        self._threads[-1].start()
        wait_until(lambda: self._arrived() or not self._threads[-1].is_alive(), HANG_SECONDS)

    def _arrived(self):
        queue = self.queues._queues.get("s")
        return queue and len(queue.waiting) + len(self.went) >= len(self._threads)

    def gone(self):
        for thread in self._threads:
            thread.join()
        assert self.queues._queues == {}
        return self.went


@pytest.mark.parametrize("came", [range(10), range(10, 0, -1), [3, 1, 2, 1]])
def test_those_who_wait_go_in_the_order_in_which_they_began(came):
    walkers = Walkers()

    with walkers.queues.turn("s", 0):
        for began in came:
            walkers.come(began)
        with walkers.queues.turn("other", 99):
            assert walkers.went == []

    assert walkers.gone() == sorted(came)


def test_one_with_a_grace_lets_an_older_one_pass_that_comes_in_it():
    walkers = Walkers()

    walkers.come(2, grace_seconds=HANG_SECONDS / 10)
    walkers.come(3)
    walkers.come(1)

    assert walkers.gone() == [1, 2, 3]


def test_who_fails_lets_the_next_one_go():
    walkers = Walkers()

    def fail():
        with walkers.queues.turn("s", 0):
            walkers.come(1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert walkers.gone() == [1]
