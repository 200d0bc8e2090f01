"""The blur of a photograph on ranks: the program that blur_photograph.py starts with mpirun.

    mpirun -n 4 python -m mpi4py examples/mpi/photograph.py FOLDER RADIUS

Reads image.npy in FOLDER; writes the result to down.npy, and the verdict, times and message sizes to said.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from blur_photograph import algorithm, c, k, r, timed
from mpi4py import MPI

import tiramisu_py as tm

q, r1 = tm.iters("q r1")


def box_blur_ranks(radius: int, rows: int, ranks: int) -> tm.Function:
    """The blur of a picture with `rows` rows: each rank has a block, and gets the missing rows from the next rank."""
    blur, across, down = algorithm(radius, rows)
    block = -(-(rows + 2 * radius) // ranks)
    for array in (blur["image"], down):
        array.distribute_array([k, r, c], rank=r // block)
    for stage in (across, down):
        stage.split(r, block, q, r1)
        stage.tag_distribute(q)
        stage.vectorize(c, 16)
    blur.derive_transfers()
    return blur


def main(folder: Path, radius: int) -> None:
    """Each rank takes its part of the picture; rank 0 gathers the parts of the result."""
    comm = MPI.COMM_WORLD
    image = np.load(folder / "image.npy")
    rows, columns = image.shape[1] - 2 * radius, image.shape[2] - 2 * radius
    blur = box_blur_ranks(radius, rows, comm.size)
    report, checking = timed(blur.check)
    kernel, mine = blur.compile(), blur.part("image", image, comm.rank)
    comm.Barrier()
    blurred, running = timed(lambda: kernel(mine, comm=comm), rounds=3)
    parts = comm.gather(blurred)
    running = comm.reduce(running, op=MPI.MAX)
    if parts is not None:
        np.save(folder / "down.npy", np.concatenate(parts, axis=1))
        moved = blur.cost("communication", C=columns).bytes
        needed = (comm.size - 1) * 2 * radius * 3 * columns * image.itemsize
        said = {"legal": report.ok, "checking": checking, "running": running, "bytes": moved, "needed": needed}
        (folder / "said.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
