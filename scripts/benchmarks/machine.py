"""What this machine can do at most, for rooflines: multiply-adds, and bytes from each level of its memory.

Measured by `limits.c`, which is beside the stories on cores, with one thread and with all; the best of some rounds, so
that a slow phase of a shared machine hits no figure. The table goes to ``docs/results/machine.md``, and the figures to
``machine.json`` beside it, which `tm.Machine.load` reads.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import tiramisu_py as tm
from benchmarks.common import tables
from benchmarks.common.tables import report, table
from benchmarks.cpu.limits import Limits, Move, measured
from tiramisu_py.tuning.machine_model import levels_here, published

TITLE = "The limits of this machine"
ROUNDS, MILLISECONDS = 8, 60.0
#: Bytes of a stream that no cache holds, at least.
LEAST = 128 << 20
WORDS = """GB/s, each byte that is read or written counted once: in a loop of 64-byte vectors that adds up what it
reads, and in one that copies. Half of the first level, of the second and (for all threads together) a size between
second and last level are used; *memory* is four times the last level, its copy the faster of ordinary and non-temporal
stores. A thread's processor is not pinned; the best of {rounds} rounds counts."""


@dataclass(frozen=True)
class Place:
    """A level of memory, and the bytes that all of some threads touch there; the last one is main memory."""

    level: tm.MemoryLevel | None
    used: int

    @property
    def name(self) -> str:
        """Its name."""
        return "memory" if self.level is None else self.level.name

    @property
    def moves(self) -> tuple[Move, Move]:
        """The loop that reads these bytes, and the one that copies half of them to the other half."""
        return (1, 0, _whole(self.used)), (1, 1, _whole(self.used // 2))


def places(levels: Sequence[tm.MemoryLevel], threads: int) -> list[Place]:
    """What is touched in each level: half of a private one, of a shared one well more than private ones hold."""
    found, held = [], 0
    for level in levels:
        used = math.isqrt(held * level.bytes) if level.shared else level.bytes * threads // 2
        found.append(Place(level, used))
        held = level.bytes * (1 if level.shared else threads)
    return [*found, Place(None, max(LEAST, 4 * held))]


def _whole(size: int) -> int:
    """A multiple of 3 KiB, so that no thread's part has a rest: vectors of 64 bytes, 48 of them."""
    return max(1, size // 3072) * 3072


def best(threads: int, moves: Sequence[Move], rounds: int, milliseconds: float) -> Limits:
    """The best of some rounds in each figure."""
    found = [measured(threads, moves, milliseconds) for _ in range(rounds)]
    moved = {
        move: (max(each.moved[move][0] for each in found), max(each.moved[move][1] for each in found)) for move in moves
    }
    return Limits(max(each.flops for each in found), max(each.flops64 for each in found), moved)


def machine_of(levels: Sequence[tm.MemoryLevel], one: Limits, every: Limits, cores: int) -> tm.Machine:
    """The machine with these figures: `one` thread, and `every` core's."""
    rated = []
    for alone, all_cores in zip(places(levels, 1), places(levels, cores), strict=True):
        if alone.level is not None:
            core = [_rate(one.moved[move][0]) for move in alone.moves]
            rates = [_rate(every.moved[move][0]) for move in all_cores.moves]
            level = alone.level
            rated.append(tm.MemoryLevel(level.name, level.bytes, level.shared, rates[0], rates[1], core[0], core[1]))
    copied = _rate(max(every.moved[places(levels, cores)[-1].moves[1]]))
    return tm.Machine(
        core_flops=_rate(one.flops), cores=cores, host_bandwidth=copied, core_flops64=_rate(one.flops64),
        levels=tuple(rated), **published(),
    )  # fmt: skip


def _rate(giga: float) -> float:
    """A rate in its unit, a whole number."""
    return float(round(giga * 1e9))


def page(levels: Sequence[tm.MemoryLevel], limits: dict[int, Limits], rounds: int) -> str:
    """The tables: multiply-adds, and bytes of each level."""
    counts = [f"{count} thread{'s' * (count > 1)}" for count in limits]
    flops = [
        ["float32", *(f"{each.flops:.0f}" for each in limits.values())],
        ["float64", *(f"{each.flops64:.0f}" for each in limits.values())],
    ]
    header = ["level", "size", *(f"{does}, {count}" for count in counts for does in ("read", "copy"))]
    rows = []
    by_threads = {count: places(levels, count) for count in limits}
    for number, place in enumerate(next(iter(by_threads.values()))):
        size = "" if place.level is None else f"{_size(place.level.bytes)}{'' if place.level.shared else ' a core'}"
        rates = []
        for count, each in limits.items():
            read, copy = by_threads[count][number].moves
            rates += [each.moved[read][0], max(each.moved[copy]) if place.level is None else each.moved[copy][0]]
        rows.append([place.name, size, *(f"{rate:.1f}" for rate in rates)])
    return "\n\n".join([
        "Fused multiply-adds, an operation for each multiplication and each addition, in Gop/s:",
        table(["type", *counts], flops),
        "Bytes:", table(header, rows), WORDS.format(rounds=rounds),
        '`tm.Machine.load("machine.json")` reads these figures from the [file](machine.json) beside this page: '
        "`f.cost(...).roofline(machine)` draws a schedule below them.",
    ])  # fmt: skip


def _size(count: int) -> str:
    return f"{count >> 10} KiB" if count < 1 << 20 else f"{count / (1 << 20):.4g} MiB"


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print, and keep with ``--save``."""
    parser = argparse.ArgumentParser(prog="scripts/bench machine", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/machine.md and machine.json")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--milliseconds", type=float, default=MILLISECONDS, help="for each figure of a round")
    given = parser.parse_args(words)
    levels, cores = levels_here(), len(os.sched_getaffinity(0))
    limits = {}
    for threads in dict.fromkeys((1, cores)):
        moves = [move for place in places(levels, threads) for move in place.moves]
        limits[threads] = best(threads, moves, given.rounds, given.milliseconds)
    report("machine", TITLE, page(levels, limits, given.rounds), given.save)
    if given.save:
        print(f"saved: {machine_of(levels, limits[1], limits[cores], cores).save(tables.RESULTS / 'machine.json')}")


if __name__ == "__main__":
    main()
