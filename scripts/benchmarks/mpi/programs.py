"""The measured programs on ranks."""

from __future__ import annotations

import tiramisu_py as tm

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
        array.distribute_array([i, j], rank=i // rows)
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
        array.distribute_array([r, c], rank=r // rows)
    for stage in (bx, by):
        stage.split(r, rows, q, r1)
        stage.tag_distribute(q)
        stage.vectorize(c, 16)
    props = [tm.ASYNC, tm.NONBLOCK]
    up = f.create_exchange(
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
