"""Small algorithms on ranks, for tests of commands; each builds a function and returns it with its handles by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tiramisu_py as tm

P, B = 4, 25  # ranks, rows on each
R = tm.rank
q, q0, q1, r, r1, c, c0, c1 = tm.iters("q q0 q1 r r1 c c0 c1")
i, j, k, t, x, y = tm.iters("i j k t x y")


def blur(ranks: bool = True) -> SimpleNamespace:
    """The box blur of 4 blocks of 25 rows; with `ranks` each block is computed, and held, by a rank."""
    (C,) = tm.params("C")
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [P * B, C + 2])
    bx = f.computation("bx", {r: P * B, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: (1, P * B - 1), c: C}, (bx[r - 1, c] + bx[r, c] + bx[r + 1, c]) / 3, shape=[P * B, C])
    f.outputs(by)
    if ranks:
        for array in (image, by):
            array.distribute_array([r, c], rank=r // B)
        for computation in (bx, by):
            computation.split(r, B, q, r1)
            computation.tag_distribute(q)
    return SimpleNamespace(f=f, image=image, bx=bx, by=by, C=C)


def down(s: SimpleNamespace, **props: Any) -> tm.Exchange:
    """The last row of each block goes to the next rank."""
    return s.f.create_exchange(
        s.bx[r, c], send={q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: s.C}, to=q + 1,
        recv={q: (1, P), r: (q * B - 1, q * B), c: s.C}, source=q - 1, name="down", **props,
    )  # fmt: skip


def up(s: SimpleNamespace, **props: Any) -> tm.Exchange:
    """The first row of each block goes to the rank before."""
    return s.f.create_exchange(
        s.bx[r, c], send={q: (1, P), r: (q * B, q * B + 1), c: s.C}, to=q - 1,
        recv={q: (0, P - 1), r: (q * B + B, q * B + B + 1), c: s.C}, source=q + 1, name="up", **props,
    )  # fmt: skip


NONBLOCK = {"send_props": [tm.ASYNC, tm.NONBLOCK], "recv_props": [tm.ASYNC, tm.NONBLOCK]}


def halo(recurrent: bool = False) -> SimpleNamespace:
    """The blur with a blocking exchange down and a nonblocking one up; or a recurrence over time without messages."""
    if recurrent:
        return heat()
    s = blur()
    s.down, s.up = down(s), up(s, **NONBLOCK)
    return s


def heat() -> SimpleNamespace:
    """A three-point recurrence over T + 1 time levels on 4 ranks, of which the last level is returned."""
    (T,) = tm.params("T")
    f = tm.Function("heat", params=[T])
    start = f.input("start", tm.float64, [P * B])
    h = f.computation(
        "h", {t: T + 1, i: P * B},
        lambda h: tm.select(
            (t == 0) | (i == 0) | (i == P * B - 1), start[i], (h[t - 1, i - 1] + h[t - 1, i] + h[t - 1, i + 1]) / 3
        ),
    )  # fmt: skip
    f.outputs(h[T, i])
    start.distribute_array([i], rank=i // B)
    f["h_out"].distribute_array([i], rank=i // B)
    for computation in (h, f["h_out"]):
        computation.split(i, B, q, x)
        computation.tag_distribute(q)
    return SimpleNamespace(f=f, start=start, h=h, out=f["h_out"], T=T)


def tiles(in_place: bool = False) -> SimpleNamespace:
    """``b = p + 1``, ``p = 2 * a`` over 8 x 8 values, and z of p, in tiles of 4 x 4 on a grid of 2 x 2."""
    f = tm.Function("tiles")
    a = f.input("a", tm.int32, [8, 8])
    p = f.computation("p", {i: 8, j: 8}, 2 * a[i, j])
    b = f.computation("b", {i: 8, j: 8}, p[i, j] + 1)
    z = f.computation("z", {i: 8, j: 8}, p[7 - i, j] - 1)
    f.outputs(b, z)
    b.tile(i, j, 4, 4, q0, q1, x, y)
    if in_place:
        b.store_in(a, [i, j])
    return SimpleNamespace(f=f, a=a, p=p, b=b, z=z)


def matmul() -> SimpleNamespace:
    """``C[i, j] = sum over k of A[i, k] * A[k, j]``."""
    f = tm.Function("mm")
    A = f.input("A", tm.float32, [8, 8])
    C = f.reduction("C", {i: 8, j: 8}, over={k: 8}, op=tm.sum, expr=A[i, k] * A[k, j])
    f.outputs(C)
    return SimpleNamespace(f=f, A=A, C=C)
