"""Programs of which the host and GPUs work at the same time, with sizes at which they are run."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

R, C, G, T, N = tm.params("R C G T N")
r, c, k, r1, c0, c1, t, i, i0, i1 = tm.iters("r c k r1 c0 c1 t i i0 i1")

Program = tuple[tm.Function, dict[str, object]]


def picture(rows: int, columns: int) -> np.ndarray:
    """A random picture."""
    return np.random.default_rng(0).random((rows, columns), dtype=np.float32)


def blur(stages: bool = False) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """A blur, in one stage or two."""
    f = tm.Function("blur", params=[R, C, G], assume="R >= 1 and 0 <= G <= R and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, image[r, c] + image[r, c + 1] + image[r, c + 2])
    by = f.computation("by", {r: R, c: C}, bx[r, c] + bx[r + 1, c] + bx[r + 2, c])
    f.outputs(by)
    if not stages:
        bx.inline()
    return f, bx, by


def on_gpu(part: tm.Computation, rows: int | None = None, device: int = 0) -> None:
    """Rows on a GPU, all at once or so many at a time."""
    inner = r
    if rows is not None:
        part.split(r, rows, k, r1)
        inner = r1
    part.split(c, 8, c0, c1)
    part.tag_gpu(blocks=[inner, c0], threads=[c1], device=device)


def cooperative(rows: int | None = None, cores_first: bool = False, split: int = 9) -> Program:
    """Rows up to G on a GPU and the others on cores, or the other way round."""
    f, _, by = blur()
    parts = by.separate_at(r, [G])
    gpu, cores = reversed(parts) if cores_first else parts
    on_gpu(gpu, rows)
    cores.parallelize(r)
    return f, {"image": picture(23, 14), "G": split}


def chunked(rows: int = 4) -> Program:
    """Both stages of a blur in chunks of rows on a GPU."""
    f, bx, by = blur(stages=True)
    by.split(r, rows, k, r1)
    bx.compute_at(by, k)
    for stage, row in ((bx, r), (by, r1)):
        stage.split(c, 8, c0, c1)
        stage.tag_gpu(blocks=[row, c0], threads=[c1])
    return f, {"image": picture(23, 14), "G": 0}


def in_two_loops(rows: int = 4) -> Program:
    """Each stage in a loop over chunks of its own."""
    f, bx, by = blur(stages=True)
    on_gpu(bx, rows)
    on_gpu(by, rows)
    return f, {"image": picture(23, 14), "G": 0}


def two_gpus(rows: int = 4) -> Program:
    """Rows up to G on one GPU and the others on another."""
    f, _, by = blur()
    for device, part in enumerate(by.separate_at(r, [G])):
        on_gpu(part, rows, device)
    return f, {"image": picture(23, 14), "G": 9}


def steps(in_turn: bool = True) -> Program:
    """A line whose points up to G are on cores, the others on a GPU, with a halo in each step of time.

    In each step the cores come before the GPU where they are to be `in_turn`, or else at the same time.
    """
    f = tm.Function("steps", params=[T, N, G], assume="T >= 1 and N >= 2 and 0 <= G <= N")
    start = f.input("start", tm.float32, [N])
    edge = (i == 0) | (i == N - 1)
    u = f.computation(
        "u",
        {t: T, i: N},
        lambda u: tm.select(t == 0, start[i], tm.select(edge, u[t - 1, i] * 0.5, u[t - 1, i - 1] + u[t - 1, i + 1])),
    )
    last = f.computation("last", {i: N}, u[T - 1, i])
    f.outputs(last)
    u.store_in([t % 2, i])
    left, right = u.separate_at(i, [G])
    if in_turn:
        right.after(left, t)
    right.split(i, 8, i0, i1)
    right.tag_gpu(blocks=[i0], threads=[i1])
    return f, {"start": picture(1, 40)[0], "T": 4, "G": 17}
