"""Where a daemon's CPU time goes, by function of ours: runs ``oxided`` and looks at its threads every few milliseconds.

    python benchmarks/sampling.py OUTPUT --foreground

What a thread has used since the last look goes to the function of ours that it is in now, the C code which that called
included. SIGUSR1 forgets everything so far. OUTPUT is written at the end, as seconds by place. Linux only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from openoxide.daemon.main import main

EVERY_SECONDS = 0.005
ROOT = str(Path(__file__).resolve().parent.parent)
UNSEEN = "threads too short to be seen, and Python's own work"


class Sampler:
    """Samples all threads of this process but its own, from :meth:`start` to :meth:`stop`; ``seen`` are seconds by place."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._last_s: dict[int, float] = {}
        self._own_s = 0.0
        self._began_s = 0.0
        self._stopping, self._forgetting = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._forgetting.set()
        self._thread.start()

    def forget(self) -> None:
        """Begin anew."""
        self._forgetting.set()

    def stop(self) -> dict[str, float]:
        """Seconds by place, the most first."""
        self._stopping.set()
        self._thread.join()
        unseen_s = time.process_time() - self._began_s - self._own_s - self.seen.total()
        return dict(self.seen.most_common()) | {UNSEEN: max(0.0, unseen_s)}

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_SECONDS):
            self._look()
            if self._forgetting.is_set():
                self._forgetting.clear()
                self.seen.clear()
                self._began_s = time.process_time() - time.thread_time()
            self._own_s = time.thread_time()

    def _look(self) -> None:
        frames = sys._current_frames()  # noqa: SLF001 the documented way to see other threads
        for thread in threading.enumerate():
            if thread is self._thread or thread.native_id is None or thread.ident not in frames:
                continue
            try:
                now_s = time.clock_gettime(~thread.native_id << 3 | 6)  # what pthread_getcpuclockid(3) answers
            except OSError:
                continue  # it has just ended
            used_s = now_s - self._last_s.get(thread.native_id, 0.0)
            self._last_s[thread.native_id] = now_s
            if used_s > 0:
                self.seen[place(frames[thread.ident])] += used_s


def place(frame: FrameType) -> str:
    """The innermost function of ours that the thread is in, else the innermost one."""
    ours: FrameType | None = frame
    while ours is not None and not os.path.realpath(ours.f_code.co_filename).startswith(ROOT + "/"):
        ours = ours.f_back
    code = (ours or frame).f_code
    file = os.path.realpath(code.co_filename)
    shown = os.path.relpath(file, ROOT) if ours is not None else os.path.basename(file)
    return f"{shown} {code.co_qualname}"


def top(spent: Mapping[str, float], most: int = 12) -> list[str]:
    """The places that used most, as lines."""
    total_s = sum(spent.values()) or 1.0
    order = sorted(spent.items(), key=lambda item: -item[1])
    lines = [f"{1000 * used_s:.0f} ms ({used_s / total_s:.0%}) {where}" for where, used_s in order[:most]]
    rest_s = sum(used_s for _, used_s in order[most:])
    rest = [f"{1000 * rest_s:.0f} ms ({rest_s / total_s:.0%}) {len(order[most:])} others"] if order[most:] else []
    return [f"CPU {1000 * total_s:.0f} ms", *lines, *rest]


def run_sampled(output: Path, arguments: list[str]) -> int:
    """The daemon, with its samples in ``output`` at the end."""
    sampler = Sampler()
    signal.signal(signal.SIGUSR1, lambda *_: sampler.forget())
    sampler.start()
    try:
        return main(arguments)
    finally:
        output.write_text(json.dumps(sampler.stop()), "utf-8")


if __name__ == "__main__":
    sys.exit(run_sampled(Path(sys.argv[1]), sys.argv[2:]))
