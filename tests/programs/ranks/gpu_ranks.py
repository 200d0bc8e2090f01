"""Programs of which each rank drives a GPU."""

from __future__ import annotations

import tiramisu_py as tm
from tests.programs.ranks.derived import C, c, heat, i1, j, q, r, r1

r2, r3, c0, c1 = tm.iters("r2 r3 c0 c1")


def blur_on_gpus(ranks: int = 2, block: int = 8, on_gpu: tuple[str, ...] = ("bx", "by")) -> tm.Function:
    """Two stages in blocks of rows, some of them on GPUs."""
    rows = ranks * block
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [rows, C + 2])
    bx = f.computation("bx", {r: rows, c: C}, image[r, c] + image[r, c + 1] + image[r, c + 2])
    by = f.computation("by", {r: (1, rows - 1), c: C}, bx[r - 1, c] + bx[r, c] + bx[r + 1, c], shape=[rows, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // block)
    for stage in (bx, by):
        stage.split(r, block, q, r1)
        stage.tag_distribute(q)
    for name in on_gpu:
        f[name].gpu_tile(r1, c, 4, 8, r2, c0, r3, c1)
    return f


def heat_on_gpus(ranks: int = 3, block: int = 4) -> tm.Function:
    """A plate in blocks of rows, each step on GPUs."""
    f = heat(ranks, block)
    for name in ("u", "u_out"):
        f[name].gpu_tile(i1, j, 2, 4, r2, c0, r3, c1)
    return f
