"""What ``mpi.py`` has mpirun start: contenders in turn, the minimum over the rounds of the slowest rank."""

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
from mpi_programs import ghost_rows, plate

FOLDER = Path(__file__).resolve().parent


def by_hand() -> ctypes.CDLL:
    """The program in C, compiled."""
    folder = Path(tempfile.mkdtemp())
    beside = Path(sys.executable).parent / "mpicc"
    compiler = os.environ.get("MPICC") or (str(beside) if beside.exists() else "mpicc")
    command = [
        compiler,
        "-O3",
        "-march=native",
        "-fPIC",
        "-shared",
        "-o",
        str(folder / "halo.so"),
        str(FOLDER / "halo.c"),
    ]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "halo.so"))
    shutil.rmtree(folder)
    return library


def rounds(contenders: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The least time of each contender over many rounds, a turn each in every round; of all ranks the slowest."""
    comm = MPI.COMM_WORLD
    best = dict.fromkeys(contenders, float("inf"))
    end = time.perf_counter() + seconds
    count = 0
    while comm.bcast(time.perf_counter() < end or count < 10):
        for name, run in contenders.items():
            comm.Barrier()
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], comm.allreduce(time.perf_counter() - begin, op=MPI.MAX))
        count += 1
    return best


def of_plate(library: ctypes.CDLL, rows: int, columns: int, steps: int, seconds: float) -> dict[str, float]:
    """Times of a step: by hand, emitted, and with overlap; all compute the same."""
    comm = MPI.COMM_WORLD
    start = np.random.default_rng(comm.rank).random((rows, columns), dtype=np.float32)
    count = max(2, min(steps, 40_000_000 // (rows * columns)))
    sizes = [ctypes.c_int64(n) for n in (count, rows, columns)]
    expected, mine, other = (np.empty_like(start) for _ in range(3))
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (start, expected)]
    handle = ctypes.c_void_p(MPI._addressof(comm))
    emitted, overlapped = (plate(comm.size, rows, overlap).compile() for overlap in (False, True))
    contenders: dict[str, Callable[[], object]] = {
        "by hand": lambda: library.halo(handle, *sizes, *pointers),
        "emitted": lambda: emitted(start, T=count, heat_out=mine, comm=comm),
        "overlapped": lambda: overlapped(start, T=count, heat_out=other, comm=comm),
    }
    best = rounds(contenders, seconds)
    np.testing.assert_allclose(mine, expected, rtol=1e-5)
    np.testing.assert_array_equal(mine, other)
    return {name: best[name] / count for name in best}


def of_ghost_rows(columns: int, seconds: float) -> dict[str, float]:
    """Times of a blur with packed and with single messages."""
    comm = MPI.COMM_WORLD
    image = np.random.default_rng(comm.rank).random((64, columns + 2), dtype=np.float32)
    packed, single = (ghost_rows(comm.size, 64, together).compile() for together in (True, False))
    return rounds({"packed": lambda: packed(image, comm=comm), "single": lambda: single(image, comm=comm)}, seconds)


def main(steps: int, seconds: float) -> None:
    """Measure, and print as JSON: the version of MPI, and the times of each program."""
    library = by_hand()
    found = []
    for rows, columns in ((4, 64), (4, 4096), (256, 1024), (1024, 4096)):
        found.append((f"{rows} x {columns}, a step", of_plate(library, rows, columns, steps, seconds)))
    for columns in (64, 4096):
        found.append((f"64 x {columns}, a blur", of_ghost_rows(columns, seconds)))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps([MPI.Get_library_version().splitlines()[0].strip(), found]))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
