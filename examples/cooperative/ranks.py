"""Box blur on a GPU, on cores and on two ranks together: three parts, with halos between all of them.

    python examples/cooperative/ranks.py                    both ranks simulated in this process
    mpirun -n 2 python -m mpi4py examples/cooperative/ranks.py        on ranks

Rank 0 has a GPU, which computes rows 0 to G, and cores, which compute rows G to H; rank 1 has only cores.
"""

from __future__ import annotations

import argparse

import numpy as np
from mpi4py import MPI

import tiramisu_py as tm

R, C, G, H = tm.params("R C G H")
r, c = tm.iters("r c")
SPLITS = ((0, 8), (5, 8), (5, 5), (8, 17), (17, 17))


def three_ways() -> tm.Function:
    """Each part of a stage names its rank and its device; the rows of the pictures are stored where they are used."""
    f = tm.Function("blur", params=[R, C, G, H], assume="0 <= G <= H <= R and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    for stage in (bx, by):
        stage.partition(r, [G, H], [tm.gpu(tile=(4, 64), ranks=0), tm.cores(ranks=0), tm.cores(ranks=1)])
    for picture in (image, by):
        picture.distribute_array([r, c], rank=tm.pieces(r, [H]))
    f.derive_transfers()
    return f


def sample(seed: int = 0) -> np.ndarray:
    """A random picture of 17 rows, plus the border of the blur."""
    return np.random.default_rng(seed).random((19, 72), dtype=np.float32)


def main() -> None:
    """Check, then run for five splits, on real or simulated ranks."""
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="gpu" if tm.gpu_count() else "simulator", help="gpu or simulator")
    device, comm = options.parse_args().device, MPI.COMM_WORLD
    f, picture = three_ways(), sample()
    kernel = f.compile(device=device) if comm.size > 1 else None
    if comm.rank == 0:
        print(f.check())
    for top, middle in SPLITS:
        sizes = {"R": 17, "C": 70, "G": top, "H": middle}
        expected = f.evaluate(image=picture, G=top, H=middle)
        if kernel is None:
            found, wanted = f.simulate(2, image=picture, G=top, H=middle), expected
        else:
            found = kernel(f.part("image", picture, comm.rank, **sizes), **sizes, comm=comm)
            wanted = f.part("by", expected, comm.rank, **sizes)
        np.testing.assert_array_equal(found, wanted)
    if comm.rank == 0:
        print(f"right: {len(SPLITS)} splits on {max(comm.size, 2)} ranks, bit for bit")


if __name__ == "__main__":
    main()
