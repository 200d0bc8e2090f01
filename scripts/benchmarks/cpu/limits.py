"""The limits of the machine, measured by a C program beside the workloads: `limits.c`."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.one_processor import march
from benchmarks.cpu.workloads import Size, Workload

SOURCE = Path(__file__).with_name("limits.c")
LANES = 16
Move = tuple[int, int, int]


@dataclass(frozen=True)
class Limits:
    """Gflop/s of fused multiply-adds, in float32 and float64; GB/s by streams read, streams written, bytes of each.

    Each rate is a pair: with ordinary and with non-temporal stores.
    """

    flops: float
    flops64: float
    moved: dict[Move, tuple[float, float]]

    def seconds(self, workload: Workload, size: Size) -> float:
        """The least time of a call: its bytes at the best rate, or for a time loop its operations."""
        if workload.steps:
            vectors = size[0] * size[1] * workload.steps * workload.operations / LANES
            return vectors * 2 * LANES / (self.flops * 1e9)
        return workload.bytes_moved(*size) / (max(self.moved[streams(workload, size)]) * 1e9)


def streams(workload: Workload, size: Size) -> Move:
    """The loop that moves the same streams as the workload."""
    return workload.reads, workload.writes, workload.scale * size[0] * size[1]


def measured(threads: int, moves: Iterable[Move], milliseconds: float) -> Limits:
    """Compile the program and run it."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "limits"
        compiler = [os.environ.get("CC", "gcc"), "-O3", march(), "-fopenmp", str(SOURCE), "-o", str(program)]
        subprocess.run(compiler, check=True)
        wanted = [str(number) for move in dict.fromkeys(moves) for number in move]
        command = [str(program), str(threads), str(milliseconds), *wanted]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return read(printed)


def read(printed: str) -> Limits:
    """The limits in the program's output."""
    flops, moved = {"fma": 0.0, "fma64": 0.0}, {}
    for word, *numbers in map(str.split, printed.splitlines()):
        if word in flops:
            flops[word] = float(numbers[0])
        else:
            reads, writes, size, ordinary, nontemporal = numbers
            moved[int(reads), int(writes), int(size)] = float(ordinary), float(nontemporal)
    return Limits(flops["fma"], flops["fma64"], moved)
