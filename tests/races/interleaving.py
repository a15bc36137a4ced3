"""Somebody else's change at a chosen step of the product's own code: the same race each time it is run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

EXCHANGING = ("apply.py", "exchange.py", "staging.py", "syscalls.py")
ALL = (*EXCHANGING, "capture.py", "reading.py", "tree.py")


class Step(NamedTuple):
    """One thing that the product did: ``event`` is ``call``, ``return``, ``c_call``, ``c_return`` or ``c_exception``."""

    number: int
    event: str
    function: str


Chosen = Callable[[Step], bool]


class Steps:
    """Counts what some modules do, and calls ``act`` at the steps that ``chosen`` picks."""

    def __init__(self, act: Callable[[], None], chosen: Chosen, modules: tuple[str, ...]) -> None:
        self._act = act
        self._modules = tuple(f"/{name}" for name in modules)
        self._chosen = chosen
        self.count = 0

    def step(self, frame: FrameType, event: str, _arg: object) -> None:
        if not frame.f_code.co_filename.endswith(self._modules):
            return
        if event.startswith("c_") and frame.f_code.co_name == "_lease_refusal":
            return  # it holds a lease: an open of ours would wait for this very thread to give it back
        self.count += 1
        if self._chosen(Step(self.count, event, frame.f_code.co_name)):
            sys.setprofile(None)
            try:
                self._act()
            finally:
                sys.setprofile(self.step)


@contextmanager
def meanwhile(act: Callable[[], None], chosen: Chosen, modules: tuple[str, ...] = EXCHANGING) -> Iterator[Steps]:
    """What this thread does inside is interleaved with ``act``."""
    steps = Steps(act, chosen, modules)
    sys.setprofile(steps.step)
    try:
        yield steps
    finally:
        sys.setprofile(None)


def never(_: Step) -> bool:
    """Only count."""
    return False


def at(number: int) -> Chosen:
    """At one step."""
    return lambda step: step.number == number


def since(number: int) -> Chosen:
    """At a step and each later one."""
    return lambda step: step.number >= number


def after(function: str) -> Chosen:
    """When a function returns for the first time."""
    seen: list[Step] = []

    def chosen(step: Step) -> bool:
        if seen or step.event != "return" or step.function != function:
            return False
        seen.append(step)
        return True

    return chosen


def since_after(function: str) -> Chosen:
    """When a function returns for the first time, and at each later step."""
    first, begun = after(function), [False]

    def chosen(step: Step) -> bool:
        begun[0] = begun[0] or first(step)
        return begun[0]

    return chosen
