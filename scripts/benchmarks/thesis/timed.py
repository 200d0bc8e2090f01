"""The program that ``machine.py`` starts on ranks: one experiment, checked at small sizes, then timed in turn.

The argument is JSON: the experiment, rows and columns of all ranks together, seconds, device. Rank 0 prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

import tiramisu_py as tm
from benchmarks.mpi.timed import rounds
from benchmarks.thesis import programs

Run = Callable[[], object]
COMM = MPI.COMM_WORLD
SMALL = (38, 70)
#: A size with more rows, so that a GPU gets several chunks.
CHUNKED = (2 * programs.CHUNK + 25, 70)
RIGHT = "bit for bit"


@dataclass(frozen=True)
class Asked:
    """The measurement asked for; `rows` counts those of all ranks together."""

    experiment: str
    rows: int
    columns: int
    seconds: float
    device: str | None = None
    checks: int = 3

    @property
    def own_rows(self) -> int:
        """The rows of one rank."""
        return self.rows // COMM.size

    def on(self) -> str | None:
        """The GPU of this rank: the rank's number modulo the number of GPUs."""
        return f"gpu:{COMM.rank % tm.gpu_count()}" if self.device == "gpu" else self.device


def compiled(f: tm.Function, **options: Any) -> tm.Kernel:
    """A kernel: one rank compiles it, the others sleep until they find it in the cache."""
    if COMM.rank == 0:
        kernel = f.compile(**options)
    request = COMM.Ibarrier()
    while not request.Test():
        time.sleep(0.005)
    return kernel if COMM.rank == 0 else f.compile(**options)


# -- right


def right(f: tm.Function, kernel: tm.Kernel, whole: Mapping[str, Any], ranked: bool) -> bool:
    """Whether the results equal those of `evaluate()`, bit for bit; if `ranked`, each rank has its part."""
    expected = f.evaluate(**whole)
    if not ranked:
        return np.array_equal(kernel(**whole), expected)
    mine = {name: f.part(name, x, COMM.rank) if isinstance(x, np.ndarray) else x for name, x in whole.items()}
    return np.array_equal(kernel(**mine, comm=COMM), f.part(f.algorithm.outputs[0], expected, COMM.rank))


def verdict(same: list[bool]) -> str:
    """The verdict of all ranks together."""
    return RIGHT if COMM.allreduce(bool(same) and all(same), op=MPI.LAND) else "WRONG"


def random_picture(rows: int, columns: int, device: str | None = None) -> np.ndarray:
    """The pixels of this rank; page-locked if a GPU copies them."""
    image = tm.pinned_empty((rows, columns), np.float32, device=device) if device else np.empty((rows, columns), "f4")
    numbers = np.random.default_rng(COMM.rank)
    for row in range(0, rows, 256):
        image[row : row + 256] = numbers.random(image[row : row + 256].shape, dtype=np.float32)
    return image


def result_array(rows: int, columns: int, device: str | None = None) -> np.ndarray:
    """An array for a result, with its pages touched."""
    out = tm.pinned_empty((rows, columns), np.float32, device=device) if device else np.empty((rows, columns), "f4")
    out[:] = 0
    return out


# -- the experiments: programs and verdicts by name


def cpu(asked: Asked) -> tuple[dict[str, Run], dict[str, str]]:
    """Each rank blurs rows of its own, and has the rows around them, too (table 5.1)."""
    image = random_picture(asked.own_rows + 2, asked.columns + 2)
    out = result_array(asked.own_rows, asked.columns)
    runs, verdicts = {}, {}
    for name, build in programs.ON_CORES.items():
        f = build()
        kernel = compiled(f)
        verdicts[name] = verdict([right(f, kernel, {"image": random_picture(*SMALL)}, False)])
        runs[name] = lambda kernel=kernel: kernel(image, by=out)
    return runs, verdicts


def gpu(asked: Asked) -> tuple[dict[str, Run], dict[str, str]]:
    """Each rank blurs rows of its own on a GPU (table 5.2)."""
    device = asked.on()
    image = random_picture(asked.own_rows + 2, asked.columns + 2, device)
    out = result_array(asked.own_rows, asked.columns, device)
    runs, verdicts = {}, {}
    for name, build in programs.ON_GPU.items():
        f = build()
        kernel = compiled(f, device=device)
        small = {"image": random_picture(*CHUNKED)}
        verdicts[name] = verdict([right(f, each, small, False) for each in simulations(kernel, asked)])
        runs[name] = lambda kernel=kernel: kernel(image, by=out)
    return runs, verdicts


def simulations(kernel: tm.Kernel, asked: Asked) -> list[tm.Kernel]:
    """On the simulator, the same program with several timings; on a GPU, only the program itself."""
    return [kernel.seeded(seed) for seed in range(asked.checks)] if asked.device == "simulator" else [kernel]


def cooperative(asked: Asked) -> tuple[dict[str, Run], dict[str, str]]:
    """Each rank blurs rows of its own on a GPU and on its cores, for several splits (table 5.3)."""
    device = asked.on()
    image = random_picture(asked.own_rows + 2, asked.columns + 2, device)
    out = result_array(asked.own_rows, asked.columns, device)
    f = programs.cooperative()
    kernel = compiled(f, device=device)
    small = {"image": random_picture(*CHUNKED)}
    runs, verdicts = {}, {}
    for name, share in {**programs.SPLITS, **balanced(f, asked)}.items():
        on_gpu, of_few = round(share * asked.own_rows), round(share * (CHUNKED[0] - 2))
        same = [right(f, each, {**small, "G": of_few}, False) for each in simulations(kernel, asked)]
        verdicts[name] = verdict(same)
        runs[name] = lambda on_gpu=on_gpu: kernel(image, G=on_gpu, by=out)
    return runs, verdicts


def balanced(f: tm.Function, asked: Asked) -> dict[str, float]:
    """The GPU's share that `balance` proposes, measured on rank 0; empty if nothing is measured."""
    if not asked.seconds:
        return {}
    share = None
    if COMM.rank == 0:
        sizes = {"R": asked.own_rows, "C": asked.columns}
        share = tm.balance(f, sizes, device=asked.on(), pinned=True).points["G"] / asked.own_rows
    return {"balanced": COMM.bcast(share)}


def ghosts(asked: Asked) -> tuple[dict[str, Run], dict[str, str]]:
    """Each rank has rows of one picture; the two rows after them come in messages from the next rank (table 5.4)."""
    image = random_picture(asked.own_rows, asked.columns + 2)
    out = result_array(asked.own_rows, asked.columns)
    runs, verdicts = {}, {}
    for name in programs.GHOST_ZONES:
        few = programs.ghost_zones(COMM.size, SMALL[0], name)
        whole = np.random.default_rng(0).random((COMM.size * SMALL[0], SMALL[1]), dtype=np.float32)
        verdicts[name] = verdict([right(few, compiled(few), {"image": whole}, True)])
        kernel = compiled(programs.ghost_zones(COMM.size, asked.own_rows, name))
        runs[name] = lambda kernel=kernel: kernel(image, by=out, comm=COMM)
    return runs, verdicts


def pictures(asked: Asked) -> tuple[dict[str, Run], dict[str, str]]:
    """The five pictures on the available ranks (figures 5-4 and 5-5)."""
    runs, verdicts = {}, {}
    for name in programs.PICTURES:
        few = programs.picture(name, COMM.size, SMALL[0])
        verdicts[name] = verdict([right(few, compiled(few), programs.sample(name, *SMALL), True)])
        f = programs.picture(name, COMM.size, asked.rows)
        (output,) = f.algorithm.outputs
        own = programs.sample(name, asked.own_rows, asked.columns, seed=COMM.rank)
        kernel = compiled(f)
        out = np.zeros_like(kernel(**own, comm=COMM))
        runs[name] = lambda kernel=kernel, own=own, into={output: out}: kernel(**own, **into, comm=COMM)
    return runs, verdicts


EXPERIMENTS = {"cpu": cpu, "gpu": gpu, "cooperative": cooperative, "ghosts": ghosts, "pictures": pictures}


def main(asked: Asked) -> None:
    """Check, measure, print."""
    runs, verdicts = EXPERIMENTS[asked.experiment](asked)
    times: dict[str, float] = {}
    if asked.seconds:
        for run in runs.values():
            run()
        times = rounds(runs, asked.seconds, least=3)
    if COMM.rank == 0:
        print(json.dumps({"times": times, "verdicts": verdicts}))


if __name__ == "__main__":
    main(Asked(**json.loads(sys.argv[1])))
