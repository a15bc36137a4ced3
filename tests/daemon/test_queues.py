"""Whoever came first goes first, and keys do not wait for one another."""

from __future__ import annotations

import threading

from openoxide.daemon.queues import Queues
from tests.kit import wait_until


def test_those_who_wait_go_in_the_order_in_which_they_came():
    queues, went, threads = Queues(), [], []

    def go(number):
        with queues.turn("s"):
            went.append(number)

    with queues.turn("s"):
        for number in range(20):
            threads.append(threading.Thread(target=go, args=(number,)))
            threads[-1].start()
            wait_until(lambda: len(queues._waiting["s"]) == len(threads) + 1, 10)
        with queues.turn("other"):
            assert went == []
    for thread in threads:
        thread.join()

    assert went == list(range(20))
    assert queues._waiting == {}
