"""A convolution whose weights are sparse in blocks: eight output channels have their weights at the same places.

The weights of block o are entries start[o] to start[o + 1]. Entry p is for one input channel, at one place of the 3 x 3
window, and has a weight for each channel of the block. The loop over entries runs from start[o] to start[o + 1] at its
own level: around it rows and tiles of columns, inside it the eight channels of a tile, whose sums stay in registers.
The columns that an entry reads begin at a place that is a value, and are neighbours: each is loaded once, as vectors.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import tiramisu_py as tm

B, D, R, C, P = tm.params("B D R C P")
o, b, r, c, p, c0, c1 = tm.iters("o b r c p c0 c1")
BLOCK, WINDOW = 8, 3


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The algorithm, and a tile of eight channels times as many vectors as registers hold sums of."""
    f = tm.Function("convolution", params=[B, D, R, C, P], assume="P >= 1")
    start = f.input("start", tm.int32, [B + 1], values=(0, P + 1), monotone=True)
    channel = f.input("channel", tm.int32, [P], values=(0, D))
    row, column = (f.input(name, tm.int32, [P], values=(0, WINDOW)) for name in ("row", "column"))
    weight = f.input("weight", tm.float32, [P, BLOCK])
    image = f.input("image", tm.float32, [D, R + WINDOW - 1, C + WINDOW - 1])
    read = image[channel[p], r + row[p], c + column[p]]
    domain = {o: B, b: BLOCK, r: R, c: C}
    total = f.reduction("total", domain, {p: (start[o], start[o + 1])}, tm.sum, weight[p, b] * read)
    out = f.computation("out", domain, tm.maximum(total[o, b, r, c], 0.0))
    f.outputs(out)

    cpu = cpu or tm.target()
    lanes, vectors = cpu.lanes(tm.float32), 2 if cpu.rows_of_sums(2) >= BLOCK else 1
    out.split(c, vectors * lanes, c0, c1).reorder(o, r, c0, b, c1).parallelize(o)
    total.compute_at(out, c0).store_in(tm.REGISTER)
    total.update.reorder(p, b, c)
    out.unroll(b).vectorize(c1, lanes, remainder="mask", partial="specialize")
    for part in (total.init, total.update):
        part.unroll(b).vectorize(c, lanes, remainder="mask", partial="specialize")
    return f


def sample(rows: int, columns: int, blocks: int = 5, channels: int = 6) -> dict[str, Any]:
    """An image and random blocks of weights; the first block has none."""
    rng = np.random.default_rng(rows)
    places = np.argwhere(rng.random((blocks, channels, WINDOW, WINDOW)) < 0.2).astype(np.int32)
    places = places[places[:, 0] > 0]
    start = np.searchsorted(places[:, 0], np.arange(blocks + 1)).astype(np.int32)
    channel, row, column = (np.ascontiguousarray(places[:, k]) for k in (1, 2, 3))
    image = rng.random((channels, rows + WINDOW - 1, columns + WINDOW - 1), dtype=np.float32) - np.float32(0.5)
    weight = rng.random((len(places), BLOCK), dtype=np.float32)
    return {"start": start, "channel": channel, "row": row, "column": column, "weight": weight, "image": image}


def exact(given: dict[str, Any]) -> Any:
    """The same in float64, an entry at a time."""
    start, image = given["start"], given["image"].astype(np.float64)
    rows, columns = image.shape[1] - WINDOW + 1, image.shape[2] - WINDOW + 1
    out = np.zeros((len(start) - 1, BLOCK, rows, columns))
    for block, (low, high) in enumerate(pairwise(start)):
        for e in range(low, high):
            i, y, x = (given[name][e] for name in ("channel", "row", "column"))
            out[block] += given["weight"][e][:, None, None] * image[i, y : y + rows, x : x + columns]
    return np.maximum(out, 0)


if __name__ == "__main__":
    f = scheduled()
    print(f.show("pseudocode"))
    print(f.check())
    kernel = f.compile()
    for rows, columns in ((1, 1), (5, 31), (4, 32), (3, 33), (17, 65)):
        given = sample(rows, columns)
        np.testing.assert_allclose(kernel(**given), exact(given), rtol=1e-5, atol=1e-6)
    print("right: as NumPy")
