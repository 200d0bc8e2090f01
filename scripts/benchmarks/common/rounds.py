"""Paired rounds: one process for each contender, a turn for each in every round, the minimum of all turns.

A process of its own keeps the thread pools of OpenMP and Halide from disturbing each other. Interleaving the turns
keeps a slow phase of a shared machine from hitting one contender only. In its turn a process runs its program with
arrays of each alignment, which it has made once.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TextIO, TypeVar

from benchmarks.common.one_processor import aligned, alignments

LONGEST = 0.6  # seconds that calls of one form in a turn may take, if there are several
HOPELESS = 1.5  # forms that took so many times as long as the best one have no more turns
REST = 0.02  # seconds after a turn, so that spinning threads go to sleep
#: The command that starts a benchmark by its name; so are the processes of its contenders.
PYTHON, BENCHMARKS = START = (sys.executable, str(Path(__file__).resolve().parents[1]))
Run = Callable[[], object]
Made = TypeVar("Made")
THREADS = ("OMP_NUM_THREADS", "HL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS")


class Contender:
    """A process that runs one program, and answers with its times."""

    def __init__(self, module: str, name: str, arguments: Sequence[str], threads: int) -> None:
        environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
        command = [*START, module, "--contender", name, *arguments]
        self.name = name
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    @cached_property
    def about(self) -> str:
        """What the process says when it is ready."""
        return self.answer()

    def answer(self) -> str:
        """The next line of the process."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self.process.wait()}")
        return line.strip()

    def turn(self) -> list[float]:
        """The least time of a few calls, in seconds, with arrays of each alignment."""
        assert self.process.stdin is not None
        self.process.stdin.write("turn\n")
        found = [float(each) for each in self.answer().split()]
        time.sleep(REST)
        return found

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def answers_apart() -> TextIO:
    """Redirect the output of libraries to standard error, since standard output is for answers."""
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(answers, "w")


def each_alignment(make: Callable[[], Made]) -> list[Made]:
    """What is made with arrays of each alignment, one after another."""
    found = []
    for alignment in alignments():
        with aligned(alignment):
            found.append(make())
    return found


def holding(run: Run, *arrays: object) -> Run:
    """The same call, which keeps arrays of which it has only the places."""
    return lambda: (run(), arrays)[0]


def serve(runs: Run | Sequence[Sequence[Run]], calls: int = 3, about: str = "", answers: TextIO | None = None) -> None:
    """The loop of a contender's process: two warm-up calls, a line about it, then one turn for each line of input.

    `runs` has the forms of the program for each alignment of its arrays; the fastest form of a turn counts, and forms
    that are far from it have no more turns. Programs that take long have fewer calls in a turn, at least one.
    """
    every = [[runs]] if callable(runs) else runs
    once = max(_timed(run) for forms in every for run in forms for _ in range(2))
    calls = max(1, min(calls, int(LONGEST / once)))
    print(about, file=answers, flush=True)
    for _ in sys.stdin:
        found = [[min(_timed(run) for _ in range(calls)) for run in forms] for forms in every]
        print(*map(min, found), file=answers, flush=True)
        every = [hopeful(forms, times) for forms, times in zip(every, found, strict=True)]


def hopeful(forms: Sequence[Run], times: Sequence[float]) -> list[Run]:
    """The forms that take less than `HOPELESS` times as long as the best one."""
    return [run for run, time in zip(forms, times, strict=True) if time <= HOPELESS * min(times)]


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def paired(
    module: str, names: Sequence[str], arguments: Sequence[str], threads: int, seconds: float
) -> dict[str, float]:
    """The minimum time of each contender over as many rounds as fit into `seconds`, at least five."""
    contenders = [Contender(module, name, arguments, threads) for name in names]
    rounds = turns(contenders, seconds)
    for contender in contenders:
        contender.close()
    return least(rounds)


def turns(contenders: Sequence[Contender], seconds: float, least: int = 5) -> list[dict[str, float]]:
    """As many rounds as fit into `seconds`, at least `least`, each with one turn for every contender.

    Of the alignments of its arrays, that counts with which a contender's fastest turn is slower.
    """
    for contender in contenders:
        assert contender.about is not None  # it waits until all are ready, so that none disturbs the turns
    start, rounds = time.perf_counter(), list[dict[str, list[float]]]()
    while time.perf_counter() - start < seconds or len(rounds) < least:
        rounds.append({contender.name: contender.turn() for contender in contenders})
    slower = {}
    for name, times in rounds[0].items():
        fastest = [min(of_round[name][k] for of_round in rounds) for k in range(len(times))]
        slower[name] = fastest.index(max(fastest))
    return [{name: times[slower[name]] for name, times in of_round.items()} for of_round in rounds]


def least(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Seconds of the fastest turn of each program."""
    return {name: min(times[name] for times in rounds) for name in rounds[0]}


def median_ratio(rounds: Sequence[Mapping[str, float]], ours: str, program: str) -> float:
    """The median over the rounds of how many times as fast our program was as another."""
    return statistics.median(times[program] / times[ours] for times in rounds)


def speedup(rounds: Sequence[Mapping[str, float]], ours: str, program: str | None) -> str:
    """How many times as fast our program was as another by the least times, and by the median over the rounds;
    nothing if the other was not measured.
    """
    fastest = least(rounds)
    if program is None or program not in fastest:
        return ""
    return f"{fastest[program] / fastest[ours]:.2f} ({median_ratio(rounds, ours, program):.2f})"
