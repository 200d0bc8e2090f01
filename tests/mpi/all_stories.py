"""Every story on 1, 2, 3, 4 and 7 ranks of one communicator of 7: what test_rank_stories.py has mpirun start.

Prints, on rank 0, a line of JSON for each: its name, and what is wrong with it ("" if nothing is).
"""

from __future__ import annotations

import json
import sys

import numpy as np
from mpi4py import MPI

from tests.mpi import stories

SIZE = 17


def wrong(name: str, variant: str, ranks: int, comm: MPI.Comm) -> str:
    """What a story does wrong on the ranks of `comm`."""
    story = stories.module(name)
    f = story.VARIANTS[variant](ranks, SIZE)
    whole = story.sample(variant, SIZE, 1)
    kernel, expected = f.compile(), f.evaluate(**whole)
    params = {key: value for key, value in whole.items() if not isinstance(value, np.ndarray)}
    mine = {key: f.part(key, value, comm.rank) for key, value in whole.items() if key not in params}
    found = kernel(**params, **mine, comm=comm)
    results = found if isinstance(found, tuple) else (found,)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for output, result, right in zip(f.algorithm.outputs, results, wanted, strict=True):
        part = f.part(output, right, comm.rank)
        if not np.array_equal(result, part):
            return f"rank {comm.rank}: {output} differs"
    return ""


def main() -> None:
    """Run all of them."""
    world = MPI.COMM_WORLD
    for ranks in stories.RANKS:
        comm = world.Split(0 if world.rank < ranks else 1)
        for name, variant in stories.variants():
            mine = wrong(name, variant, ranks, comm) if world.rank < ranks else ""
            every = world.gather(mine)
            if every is not None:
                print(json.dumps([f"{name}: {variant} on {ranks}", "; ".join(filter(None, every))]), flush=True)
        comm.Free()


if __name__ == "__main__":
    sys.exit(main())
