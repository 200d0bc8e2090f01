"""Programs on ranks: what an exchange costs beside C by hand, packed and overlapped; what many ranks would exchange.

Timed under ``mpirun -n 2`` (``--ranks``), contenders in turn, the minimum over the rounds of the slowest rank. What
many ranks exchange is computed, not measured.
"""

from __future__ import annotations

import argparse
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
from typing import Any

import numpy as np
from tables import report, table

import tiramisu_py as tm

FOLDER = Path(__file__).resolve().parent
SCALES = (4, 64, 1024, 16384, 65536)
T, C = tm.params("T C")
t, i, j, q, i1, r, c, r1 = tm.iters("t i j q i1 r c r1")


def plate(ranks: int, rows: int, overlap: bool = False) -> tm.Function:
    """Heat in a plate, `rows` rows on each rank, an exchange with both neighbours in each step."""
    whole = ranks * rows
    f = tm.Function("plate", params=[T, C], assume="T >= 1 and C >= 3")
    start = f.input("start", tm.float32, [whole, C])
    edge = (t == 0) | (i == 0) | (i == whole - 1) | (j == 0) | (j == C - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, i: whole, j: C},
        lambda h: tm.select(
            edge,
            start[i, j],
            h[t - 1, i, j] * 0.5
            + (h[t - 1, i - 1, j] + h[t - 1, i + 1, j] + h[t - 1, i, j - 1] + h[t - 1, i, j + 1]) * 0.125,
        ),
    )
    f.outputs(heat[T, i, j])
    result = f["heat_out"]
    heat.store_in(tm.Buffer("two", [2, whole, C], tm.float32), [t % 2, i, j])
    for array in (start, result):
        array.distribute([i, j], rank=i // rows)
    for stage in (heat, result):
        stage.split(i, rows, q, i1)
        stage.tag_distribute(q)
        stage.vectorize(j, 16)
    f.derive_transfers(overlap=overlap)
    return f


def ghost_rows(ranks: int, rows: int, packed: bool) -> tm.Function:
    """The blur whose ghost rows are sent row by row, or element by element (thesis, table 5.4)."""
    whole = ranks * rows
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [whole, C + 2])
    bx = f.computation("bx", {r: whole, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: whole - 2, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3, shape=[whole, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute([r, c], rank=r // rows)
    for stage in (bx, by):
        stage.split(r, rows, q, r1)
        stage.tag_distribute(q)
        stage.vectorize(c, 16)
    props = [tm.ASYNC, tm.NONBLOCK]
    up = f.create_xfer(
        bx[r, c],
        send={q: (1, ranks), r: (q * rows, q * rows + 2), c: C}, to=q - 1,
        recv={q: (0, ranks - 1), r: (q * rows + rows, q * rows + rows + 2), c: C}, source=q + 1,
        send_props=props, recv_props=props, name="up",
    )  # fmt: skip
    if packed:
        up.send.collapse_many(c)
        up.recv.collapse_many(c)
    f.order(bx, up.send, up.recv, up.send.wait(), up.recv.wait(), by, at=tm.root)
    return f


# -- under mpirun


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
    from mpi4py import MPI

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


def timed(steps: int, seconds: float) -> list[tuple[str, dict[str, float]]]:
    """All measurements, on the ranks there are."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    library, handle = by_hand(), ctypes.c_void_p(MPI._addressof(comm))
    found = []
    for rows, columns in ((4, 64), (4, 4096), (256, 1024), (1024, 4096)):
        start = np.random.default_rng(comm.rank).random((rows, columns), dtype=np.float32)
        count = max(2, min(steps, 40_000_000 // (rows * columns)))
        sizes = [ctypes.c_int64(n) for n in (count, rows, columns)]
        expected = np.empty_like(start)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (start, expected)]
        emitted, overlapped = (plate(comm.size, rows, overlap).compile() for overlap in (False, True))
        mine, other = np.empty_like(start), np.empty_like(start)
        contenders: dict[str, Callable[[], object]] = {
            "by hand": lambda: library.halo(handle, *sizes, *pointers),
            "emitted": lambda: emitted(start, T=count, heat_out=mine, comm=comm),
            "overlapped": lambda: overlapped(start, T=count, heat_out=other, comm=comm),
        }
        best = rounds(contenders, seconds)
        np.testing.assert_allclose(mine, expected, rtol=1e-5)
        np.testing.assert_array_equal(mine, other)
        found.append((f"{rows} x {columns}, a step", {name: best[name] / count for name in best}))
    for columns in (64, 4096):
        image = np.random.default_rng(comm.rank).random((64, columns + 2), dtype=np.float32)
        kernels = {packed: ghost_rows(comm.size, 64, packed).compile() for packed in (True, False)}
        contenders = {
            "packed": lambda: kernels[True](image, comm=comm),
            "single": lambda: kernels[False](image, comm=comm),
        }
        found.append((f"64 x {columns}, a blur", rounds(contenders, seconds)))
    return found


# -- what many ranks exchange


def scaled(ranks: int, weak: bool) -> tuple[Any, float]:
    """The communication of the plate on so many ranks, and the time that it takes to say so, in seconds."""
    begin = time.perf_counter()
    f = plate(ranks, 256 if weak else 16 * 65536 // ranks)
    counted = f.communication(T=100, C=4096)
    return counted, time.perf_counter() - begin


def scaling() -> str:
    """Messages and bytes of a rank, for weak and strong scaling."""
    rows = []
    for weak in (True, False):
        for ranks in SCALES:
            counted, seconds = scaled(ranks, weak)
            of_one = counted.of_rank(ranks // 2)
            rows.append(
                (
                    "weak" if weak else "strong", str(ranks), str(256 if weak else 16 * 65536 // ranks),
                    str(of_one.sent.messages), str(of_one.sent.bytes), str(counted.bytes), f"{seconds * 1e3:.0f}",
                )
            )  # fmt: skip
    header = ("scaling", "ranks", "rows a rank", "messages sent by a rank", "bytes", "bytes in total", "computed in ms")
    return table(header, rows)


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/mpi.md")
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--steps", type=int, default=500, help="time steps of a call, at most")
    options.add_argument("--seconds", type=float, default=4.0, help="for each comparison")
    options.add_argument("--timed", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.timed:
        from mpi4py import MPI

        found = timed(given.steps, given.seconds)
        if MPI.COMM_WORLD.rank == 0:
            print(json.dumps([MPI.Get_library_version().splitlines()[0].strip(), found]))
        return
    beside = Path(sys.executable).parent / "mpirun"
    launcher = str(beside) if beside.exists() else "mpirun"
    command = [launcher, "-n", str(given.ranks), sys.executable, __file__, "--timed", "--steps", str(given.steps)]
    run = subprocess.run([*command, "--seconds", str(given.seconds)], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stdout + run.stderr)
    version, found = json.loads(run.stdout.splitlines()[-1])
    rows = [
        (what, f"{times['by hand'] * 1e6:.2f}", f"{times['emitted'] * 1e6:.2f}",
         f"{times['emitted'] / times['by hand']:.2f}", f"{times['overlapped'] * 1e6:.2f}")
        for what, times in found if "emitted" in times
    ]  # fmt: skip
    packed = [
        (what, f"{times['packed'] * 1e6:.1f}", f"{times['single'] * 1e6:.1f}", f"{times['single'] / times['packed']:.1f}")
        for what, times in found if "packed" in times
    ]  # fmt: skip
    parts = [
        f"{version}, {given.ranks} ranks; times in microseconds.",
        "Heat in a plate, `rows x columns` on each rank, beside the same messages in C by hand (`halo.c`):",
        table(("plate", "by hand", "emitted", "ratio", "overlapped"), rows),
        "The blur with ghost rows in one message each, and element by element:",
        table(("picture", "packed", "single", "ratio"), packed),
        "What the plate exchanges in 100 steps of 4096 columns, computed by `communication()`:",
        scaling(),
    ]
    report("mpi", "Ranks: exchanges beside C by hand, and what many ranks exchange", "\n\n".join(parts), given.save)


if __name__ == "__main__":
    main()
