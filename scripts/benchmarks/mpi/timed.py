"""The program that `scripts/bench mpi` starts with mpirun: contenders in turn, the least time of the slowest rank.

Both programs are compiled with the same options, and both are called through ctypes, as C would call them.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpi4py import MPI

from benchmarks.mpi.programs import ghost_rows, plate
from tiramisu_py import Kernel
from tiramisu_py.toolchain.calls.communicators import as_c_communicator
from tiramisu_py.toolchain.compilers.flags import OPTIMISED, STRICT

#: A round computes about this many points, short enough for many rounds despite other load on the machine.
POINTS = 1_000_000
FOLDER = Path(__file__).resolve().parent


def by_hand() -> ctypes.CDLL:
    """The program in C, compiled."""
    folder = Path(tempfile.mkdtemp())
    beside = Path(sys.executable).parent / "mpicc"
    compiler = os.environ.get("MPICC") or (str(beside) if beside.exists() else "mpicc")
    options = [*STRICT, *OPTIMISED, "-march=native", "-shared"]
    subprocess.run([compiler, *options, "-o", str(folder / "halo.so"), str(FOLDER / "halo.c")], check=True)
    library = ctypes.CDLL(str(folder / "halo.so"))
    shutil.rmtree(folder)
    return library


def rounds(contenders: dict[str, Callable[[], object]], seconds: float, least: int = 10) -> dict[str, float]:
    """The least time of each contender over many rounds, with one turn each; a turn's time is the slowest rank's."""
    comm = MPI.COMM_WORLD
    best = dict.fromkeys(contenders, float("inf"))
    end = time.perf_counter() + seconds
    count = 0
    while comm.bcast(time.perf_counter() < end or count < least):
        for name, run in contenders.items():
            comm.Barrier()
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], comm.allreduce(time.perf_counter() - begin, op=MPI.MAX))
        count += 1
    return best


def from_c(kernel: Kernel, steps: int, columns: int, start: np.ndarray, result: np.ndarray) -> Callable[[], object]:
    """A call of the emitted function, as C would call it."""
    function = getattr(ctypes.CDLL(str(kernel.library)), kernel.name)
    sizes = [ctypes.c_int64(n) for n in (steps, columns)]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (start, result)]
    comm = as_c_communicator(MPI.COMM_WORLD)
    return lambda: function(comm, *sizes, *pointers)


def hand(
    library: ctypes.CDLL, steps: int, rows: int, columns: int, start: np.ndarray, result: np.ndarray
) -> Callable[[], object]:
    """A call of the hand-written program."""
    handle = ctypes.c_void_p(MPI._addressof(MPI.COMM_WORLD))
    sizes = [ctypes.c_int64(n) for n in (steps, rows, columns)]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (start, result)]
    return lambda: library.halo(handle, *sizes, *pointers)


def of_plate(library: ctypes.CDLL, rows: int, columns: int, seconds: float) -> dict[str, float]:
    """The times of a step: by hand, emitted, and with overlap; all compute the same values."""
    comm = MPI.COMM_WORLD
    start = np.random.default_rng(comm.rank).random((rows, columns), dtype=np.float32)
    steps = max(4, min(300, POINTS // (rows * columns)))
    expected, mine, other = (np.empty_like(start) for _ in range(3))
    emitted, overlapped = (plate(comm.size, rows, overlap).compile() for overlap in (False, True))
    best = rounds(
        {
            "by hand": hand(library, steps, rows, columns, start, expected),
            "emitted": from_c(emitted, steps, columns, start, mine),
            "overlapped": from_c(overlapped, steps, columns, start, other),
        },
        seconds,
    )
    np.testing.assert_allclose(mine, expected, rtol=1e-5)
    np.testing.assert_array_equal(mine, other)
    return {name: best[name] / steps for name in best}


def of_call(library: ctypes.CDLL, rows: int, columns: int, seconds: float) -> dict[str, float]:
    """The times of a call of one step: by hand, emitted and called from C (with agreement on errors), and called from
    Python (with checks of arrays).
    """
    comm = MPI.COMM_WORLD
    start = np.zeros((rows, columns), np.float32)
    result = np.empty_like(start)
    kernel = plate(comm.size, rows).compile()
    return rounds(
        {
            "call by hand": hand(library, 1, rows, columns, start, result),
            "from C": from_c(kernel, 1, columns, start, result),
            "from Python": lambda: kernel(start, T=1, heat_out=result, comm=comm),
        },
        seconds,
    )


def of_ghost_rows(columns: int, seconds: float) -> dict[str, float]:
    """The times of a blur with packed and with single messages."""
    comm = MPI.COMM_WORLD
    image = np.random.default_rng(comm.rank).random((64, columns + 2), dtype=np.float32)
    packed, single = (ghost_rows(comm.size, 64, together).compile() for together in (True, False))
    return rounds({"packed": lambda: packed(image, comm=comm), "single": lambda: single(image, comm=comm)}, seconds)


def main(seconds: float) -> None:
    """Measure, and print as JSON: the version of MPI, and the times of each program."""
    library = by_hand()
    found = []
    for rows, columns in ((4, 66), (4, 64), (4, 4098), (256, 1026), (1024, 4098)):
        found.append((f"{rows} x {columns}", of_plate(library, rows, columns, seconds)))
    found.append(("4 x 66", of_call(library, 4, 66, seconds)))
    for columns in (64, 4096):
        found.append((f"64 x {columns}", of_ghost_rows(columns, seconds)))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps([MPI.Get_library_version().splitlines()[0].strip(), found]))


if __name__ == "__main__":
    main(float(sys.argv[1]))
