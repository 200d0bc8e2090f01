"""The pictures of the thesis, on ranks that hold rows: grey, convolution, Gaussian, Sobel, brighter and negative."""

from __future__ import annotations

import numpy as np
from story import Arguments, blocks, tell

import tiramisu_py as tm

(C,) = tm.params("C")
r, c, q, r1, y, x = tm.iters("r c q r1 y x")


def on_ranks(f: tm.Function, ranks: int, rows: int, arrays: list[object], stages: list[object]) -> tm.Function:
    """Rows of arrays and of computations distributed in blocks; the missing rows are exchanged."""
    size = blocks(rows, ranks)
    for array, iterators in arrays:
        array.distribute_array(iterators, rank=r // size)
    for stage in stages:
        stage.split(r, size, q, r1)
        stage.tag_distribute(q)
    f.derive_transfers()
    return f


def grey(ranks: int, rows: int) -> tm.Function:
    """Bytes in, bytes out, fixed-point weights in between (cvtColor); no messages are needed."""
    f = tm.Function("grey", params=[C])
    rgb = f.input("rgb", tm.uint8, [rows, C, 3])
    red, green, blue = (tm.cast(tm.int32, rgb[r, c, channel]) for channel in range(3))
    weighted = 4899 * red + 9617 * green + 1868 * blue
    result = f.computation("result", {r: rows, c: C}, tm.cast(tm.uint8, (weighted + 8192) >> 14))
    f.outputs(result)
    return on_ranks(f, ranks, rows, [(rgb, [r, c, x]), (result, [r, c])], [result])


def convolution(ranks: int, rows: int) -> tm.Function:
    """Nine weights, which are passed to every rank."""
    f = tm.Function("convolution", params=[C], assume="C >= 3")
    image = f.input("image", tm.float32, [rows, C])
    weights = f.input("weights", tm.float32, [3, 3])
    result = f.reduction(
        "result", {r: rows - 2, c: C - 2}, {y: 3, x: 3}, tm.sum, weights[y, x] * image[r + y, c + x], shape=[rows, C]
    )
    f.outputs(result)
    return on_ranks(f, ranks, rows, [(image, [r, c]), (result, [r, c])], [result])


def gaussian(ranks: int, rows: int) -> tm.Function:
    """Five weights across, then five down: the halo is two rows wide, which may be more than one rank holds."""
    f = tm.Function("gaussian", params=[C], assume="C >= 5")
    image = f.input("image", tm.float32, [rows, C])
    weights = (0.0625, 0.25, 0.375, 0.25, 0.0625)
    across = f.computation("across", {r: rows, c: C - 4}, sum(w * image[r, c + d] for d, w in enumerate(weights)))
    result = f.computation(
        "result", {r: (2, rows - 2), c: C - 4}, sum(w * across[r + d - 2, c] for d, w in enumerate(weights)),
        shape=[rows, C - 4],
    )  # fmt: skip
    f.outputs(result)
    return on_ranks(f, ranks, rows, [(image, [r, c]), (result, [r, c])], [across, result])


def sobel(ranks: int, rows: int) -> tm.Function:
    """Differences across and down, read directly from the picture, whose own rows are exchanged."""
    f = tm.Function("sobel", params=[C], assume="C >= 3")
    image = f.input("image", tm.float32, [rows, C])

    def at(dy: int, dx: int) -> object:
        return image[r + dy, c + dx]

    across = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1)
    down = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1)
    inside = {r: (1, rows - 1), c: (1, C - 1)}
    result = f.computation("result", inside, tm.absolute(across) + tm.absolute(down), shape=[rows, C])
    f.outputs(result)
    return on_ranks(f, ranks, rows, [(image, [r, c]), (result, [r, c])], [result])


def brighter_and_negative(ranks: int, rows: int) -> tm.Function:
    """Two point operations, the first computed where the second reads it (the pipeline of figure 5-4)."""
    f = tm.Function("pipeline", params=[C])
    image = f.input("image", tm.uint8, [rows, C])
    bright = tm.minimum(tm.cast(tm.int32, image[r, c]) + 50, 255)
    brighter = f.computation("brighter", {r: rows, c: C}, tm.cast(tm.uint8, bright))
    negative = f.computation("negative", {r: rows, c: C}, 255 - brighter[r, c])
    f.outputs(negative)
    brighter.inline()
    return on_ranks(f, ranks, rows, [(image, [r, c]), (negative, [r, c])], [negative])


VARIANTS = {
    "grey": grey,
    "convolution": convolution,
    "gaussian": gaussian,
    "sobel": sobel,
    "brighter and negative": brighter_and_negative,
}


def sample(variant: str, size: int, seed: int) -> Arguments:
    """A random picture for one variant."""
    numbers = np.random.default_rng(seed)
    if variant == "grey":
        return {"rgb": numbers.integers(0, 256, (size, 19, 3), dtype=np.uint8)}
    if variant == "brighter and negative":
        return {"image": numbers.integers(0, 256, (size, 19), dtype=np.uint8)}
    image: Arguments = {"image": numbers.random((size, 19), dtype=np.float32)}
    return {**image, "weights": numbers.random((3, 3), dtype=np.float32)} if variant == "convolution" else image


if __name__ == "__main__":
    tell(VARIANTS, sample, (40, 23))
