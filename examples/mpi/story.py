"""The common steps of the stories in this folder: prove, compile, run on the available ranks, compare.

    mpirun -n 4 python -m mpi4py examples/mpi/blur.py

Every rank executes the whole script, and calls the compiled function with its own part of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from mpi4py import MPI

import tiramisu_py as tm

Arguments = dict[str, "np.ndarray | int"]
Build = Callable[[int, int], tm.Function]


def blocks(extent: int, ranks: int) -> int:
    """The size of blocks that distribute `extent` indices over at most `ranks` ranks."""
    return max(1, -(-extent // ranks))


def process_grid(ranks: int) -> tuple[int, int]:
    """A process grid of `ranks` ranks, as square as possible."""
    rows = max(n for n in range(1, ranks + 1) if ranks % n == 0 and n * n <= ranks)
    return ranks // rows, rows


def is_right(f: tm.Function, kernel: tm.Kernel, whole: Arguments, comm: MPI.Comm) -> bool:
    """Whether every rank has computed its part of the result of `evaluate()`, bit for bit."""
    expected = f.evaluate(**whole)
    results = expected if isinstance(expected, tuple) else (expected,)
    mine = {name: f.part(name, array, comm.rank) for name, array in whole.items() if isinstance(array, np.ndarray)}
    found = kernel(**{**whole, **mine}, comm=comm)
    listed = found if isinstance(found, tuple) else (found,)
    parts = [f.part(name, result, comm.rank) for name, result in zip(f.algorithm.outputs, results, strict=True)]
    same = all(np.array_equal(a, b) for a, b in zip(listed, parts, strict=True))
    return bool(comm.allreduce(same, op=MPI.LAND))


def tell(variants: Mapping[str, Build], sample: Callable[[str, int, int], Arguments], sizes: Iterable[int]) -> None:
    """Check each variant of a program on the available ranks, for some sizes."""
    comm = MPI.COMM_WORLD
    for name, build in variants.items():
        for size in sizes:
            f = build(comm.size, size)
            if comm.rank == 0:
                print(f"{name}, size {size}: {f.check()}", flush=True)
            if not is_right(f, f.compile(), sample(name, size, 0), comm):
                raise SystemExit(f"{name} is wrong for size {size}")
    if comm.rank == 0:
        print(f"right: {len(variants)} schedules on {comm.size} ranks, bit for bit")
