"""The least time of programs that take turns, by the clock on the wall or by that of the thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "thread": time.thread_time}
RULES_OF_THREADS = """\
Times are those that the one thread of each program has had on a processor, since others ran beside: they leave out
waiting, and share caches with the others."""


@dataclass(frozen=True)
class ThreadSeconds:
    """What another process says that its thread has taken."""

    seconds: float


@dataclass(frozen=True)
class Turns:
    """So many rounds, or so many seconds of them, in which each program has a turn.

    The clock "thread" is that of the calling thread, for programs on one thread where others run beside them.
    """

    rounds: int = 7
    seconds: float = 4.0
    clock: str = "wall"

    def least(self, runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
        """The least seconds of each."""
        clock, found, began = CLOCKS[self.clock], dict.fromkeys(runs, float("inf")), time.perf_counter()
        for _ in range(self.rounds):
            for name, run in runs.items():
                start = clock()
                told = run()
                spent = clock() - start
                if self.clock == "thread" and isinstance(told, ThreadSeconds):
                    spent = told.seconds
                found[name] = min(found[name], spent)
            if time.perf_counter() - began > self.seconds:
                break
        return found
