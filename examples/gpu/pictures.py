"""Pictures on a GPU: colour to grey, Gaussian, edges, negative and brighter, and an affine warp."""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, c0, r1, c1, k, y, x, y1, x1 = tm.iters("r c r0 c0 r1 c1 k y x y1 x1")


def grey() -> tm.Function:
    """Bytes in, bytes out, fixed-point weights in between (cvtColor)."""
    f = tm.Function("grey", params=[R, C])
    rgb = f.input("rgb", tm.uint8, [R, C, 3])
    red, green, blue = (tm.cast(tm.int32, rgb[r, c, channel]) for channel in range(3))
    weighted = 4899 * red + 9617 * green + 1868 * blue
    result = f.computation("result", {r: R, c: C}, tm.cast(tm.uint8, (weighted + 8192) >> 14))
    f.outputs(result)
    result.gpu_tile(r, c, 4, 64, r0, c0, r1, c1)
    f.derive_transfers()
    return f


def gaussian() -> tm.Function:
    """Five weights across, then five down, in one kernel: the rows in between stay in shared memory."""
    f = tm.Function("gaussian", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 4, C + 4])
    weights = (0.0625, 0.25, 0.375, 0.25, 0.0625)
    across = f.computation("across", {r: R + 4, c: C}, sum(w * image[r, c + d] for d, w in enumerate(weights)))
    result = f.computation("result", {r: R, c: C}, sum(w * across[r + d, c] for d, w in enumerate(weights)))
    f.outputs(result)
    result.gpu_tile(r, c, 8, 32, r0, c0, r1, c1)
    across.compute_at(result, c0)
    across.store_in(tm.SHARED)
    across.split(r, 8, y, y1)
    across.split(c, 32, x, x1)
    across.tag_gpu(threads=[y1, x1])
    f.derive_transfers()
    return f


def edges() -> tm.Function:
    """A ring blur, then Roberts' cross: two kernels; the picture between them stays on the GPU."""
    f = tm.Function("edges", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 3, C + 3])
    ring = f.computation(
        "ring",
        {r: R + 1, c: C + 1},
        (
            image[r, c] + image[r, c + 1] + image[r, c + 2] + image[r + 1, c] + image[r + 1, c + 2]
            + image[r + 2, c] + image[r + 2, c + 1] + image[r + 2, c + 2]
        ) / 8,
    )  # fmt: skip
    result = f.computation(
        "result",
        {r: R, c: C},
        tm.absolute(ring[r, c] - ring[r + 1, c + 1]) + tm.absolute(ring[r + 1, c] - ring[r, c + 1]),
    )
    f.outputs(result)
    for stage in (ring, result):
        stage.gpu_tile(r, c, 4, 64, r0, c0, r1, c1)
    f.derive_transfers()
    return f


def negative_and_brighter() -> tm.Function:
    """Two results from one read of the picture, computed in the same kernel (nb)."""
    f = tm.Function("nb", params=[R, C])
    image = f.input("image", tm.uint8, [R, C])
    negative = f.computation("negative", {r: R, c: C}, 255 - image[r, c])
    bright = tm.minimum(tm.cast(tm.int32, image[r, c]) + 50, 255)
    brighter = f.computation("brighter", {r: R, c: C}, tm.cast(tm.uint8, bright))
    f.outputs(negative, brighter)
    for stage in (negative, brighter):
        stage.gpu_tile(r, c, 4, 64, r0, c0, r1, c1)
    brighter.after(negative, c1)
    f.derive_transfers()
    return f


def warp_affine() -> tm.Function:
    """Each pixel is read at a place given by an affine map, between four neighbours; outside the picture it is 0."""
    f = tm.Function("warp", params=[R, C], assume="R >= 2 and C >= 2")
    image = f.input("image", tm.float32, [R, C])
    at_row, at_column = 0.9 * r + 0.1 * c, -0.1 * r + 0.95 * c + 1.5
    row, column = (tm.cast(tm.int32, tm.floor(tm.cast(tm.float32, at))) for at in (at_row, at_column))
    down = tm.cast(tm.float32, at_row) - tm.cast(tm.float32, row)
    right = tm.cast(tm.float32, at_column) - tm.cast(tm.float32, column)
    top, left = tm.clip(row, 0, R - 2), tm.clip(column, 0, C - 2)
    mixed = (1 - down) * ((1 - right) * image[top, left] + right * image[top, left + 1]) + down * (
        (1 - right) * image[top + 1, left] + right * image[top + 1, left + 1]
    )
    inside = (row >= 0) & (row < R - 1) & (column >= 0) & (column < C - 1)
    result = f.computation("result", {r: R, c: C}, tm.where(inside, mixed, 0.0), dtype=tm.float32)
    f.outputs(result)
    result.gpu_tile(r, c, 8, 32, r0, c0, r1, c1)
    f.derive_transfers()
    return f


VARIANTS = {
    "grey": grey,
    "gaussian": gaussian,
    "edges": edges,
    "negative and brighter": negative_and_brighter,
    "warp": warp_affine,
}


def sample_of(variant: str, size: int, seed: int) -> dict[str, np.ndarray]:
    """A random picture for one variant."""
    numbers = np.random.default_rng(seed)
    rows, columns = size + 4, size + 11
    if variant == "grey":
        return {"rgb": numbers.integers(0, 256, (rows, columns, 3), dtype=np.uint8)}
    if variant == "negative and brighter":
        return {"image": numbers.integers(0, 256, (rows, columns), dtype=np.uint8)}
    return {"image": numbers.random((rows, columns), dtype=np.float32)}


if __name__ == "__main__":
    for name, build in VARIANTS.items():
        tell({name: build}, lambda size, seed, variant=name: sample_of(variant, size, seed), (1, 70))
