"""Paired rounds: one process for each contender, a turn for each in every round, the minimum of all turns.

A process of its own keeps the thread pools of OpenMP and Halide from disturbing each other. Interleaving the turns
keeps a slow phase of a shared machine from hitting one contender only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

REST = 0.02  # seconds after a turn, so that waiting threads have gone to sleep
THREADS = ("OMP_NUM_THREADS", "HL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Contender:
    """A process that runs one program and answers with times."""

    def __init__(self, script: str, name: str, arguments: Sequence[str], threads: int) -> None:
        environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
        command = [sys.executable, script, "--contender", name, *arguments]
        self.name = name
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.answer()

    def answer(self) -> float:
        """The next line of the process, a number."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self.process.wait()}")
        return float(line)

    def turn(self) -> float:
        """The least time of a few calls, in seconds."""
        assert self.process.stdin is not None
        self.process.stdin.write("turn\n")
        found = self.answer()
        time.sleep(REST)
        return found

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(run: Callable[[], object], calls: int = 3) -> None:
    """What a contender's process does: after two calls to warm up, one turn for each line of its input."""
    run()
    run()
    print(0, flush=True)
    for _ in sys.stdin:
        print(min(_timed(run) for _ in range(calls)), flush=True)


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def paired(
    script: str, names: Sequence[str], arguments: Sequence[str], threads: int, seconds: float
) -> dict[str, float]:
    """The minimum time of each contender over as many rounds as fit into `seconds`, at least five."""
    contenders = [Contender(script, name, arguments, threads) for name in names]
    best = dict.fromkeys(names, float("inf"))
    start, rounds = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or rounds < 5:
        for contender in contenders:
            best[contender.name] = min(best[contender.name], contender.turn())
        rounds += 1
    for contender in contenders:
        contender.close()
    return best
