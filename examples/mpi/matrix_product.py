"""Matrix products on a grid of ranks that hold tiles: SUMMA, Cannon, and derived messages.

SUMMA iterates over panels of the inner dimension; the ranks that hold a panel send it along their row, or column, of
the grid. In Cannon's algorithm tiles circulate: each rank passes the tile that it has just used to its neighbour.
"""

from __future__ import annotations

import math

import numpy as np
from story import Arguments, blocks, process_grid, tell

import tiramisu_py as tm

i, j, k, s, x, qi, qj, i1, j1, k0, k1 = tm.iters("i j k s x qi qj i1 j1 k0 k1")
NONBLOCKING = [tm.ASYNC, tm.NONBLOCK]


def algorithm(size: int, high: int, wide: int) -> tuple[tm.Function, tm.Input, tm.Input, tm.Reduction]:
    """The product of two square matrices, in tiles of high x wide."""
    f = tm.Function("product", params=[])
    a = f.input("a", tm.float64, [size, size])
    b = f.input("b", tm.float64, [size, size])
    product = f.reduction("c", {i: size, j: size}, {k: size}, tm.sum, a[i, k] * b[k, j])
    f.outputs(product)
    for array in (a, b, product):
        array.distribute_array([i, j], rank=(i // high, j // wide))
    product.tile(i, j, high, wide, qi, qj, i1, j1)
    product.tag_distribute(qi, qj)
    return f, a, b, product


def derived(ranks: int, size: int) -> tm.Function:
    """Each rank first gets all tiles of its row and of its column."""
    down, across = process_grid(ranks)
    f, _, _, _ = algorithm(size, blocks(size, down), blocks(size, across))
    f.derive_transfers()
    return f


def summa(ranks: int, size: int) -> tm.Function:
    """One panel at a time, sent by the ranks that hold it to the others in the row, or column, of the grid."""
    down, across = process_grid(ranks)
    high, wide, panel = blocks(size, down), blocks(size, across), 5
    rows, columns, steps = blocks(size, high), blocks(size, wide), blocks(size, panel)
    f, a, b, product = algorithm(size, high, wide)
    product.update.split(k, panel, k0, k1)
    product.update.reorder(k0, qi, qj, i1, j1, k1)

    grid = {k0: steps, qi: rows, qj: columns}
    mine_i, mine_j = (qi * high, tm.minimum(qi * high + high, size)), (qj * wide, tm.minimum(qj * wide + wide, size))

    def in_panel(owner: object, width: int) -> tuple[object, object]:
        """The part of a panel that a row, or column, of the grid holds."""
        low = tm.maximum(k0 * panel, owner * width)
        return low, tm.minimum(tm.minimum(k0 * panel + panel, owner * width + width), size)

    others_j = [{x: (0, qj)}, {x: (qj + 1, columns)}]
    others_i = [{x: (0, qi)}, {x: (qi + 1, rows)}]
    along_row = f.create_exchange(
        a[i, k],
        send=[{**grid, **other, i: mine_i, k: in_panel(qj, wide)} for other in others_j], to=(qi, x),
        recv=[{**grid, **other, i: mine_i, k: in_panel(x, wide)} for other in others_j], source=(qi, x),
        send_props=NONBLOCKING, recv_props=NONBLOCKING, name="along_row",
    )  # fmt: skip
    along_column = f.create_exchange(
        b[k, j],
        send=[{**grid, **other, k: in_panel(qi, high), j: mine_j} for other in others_i], to=(x, qj),
        recv=[{**grid, **other, k: in_panel(x, high), j: mine_j} for other in others_i], source=(x, qj),
        send_props=NONBLOCKING, recv_props=NONBLOCKING, name="along_column",
    )  # fmt: skip
    halves = [along_row.recv, along_column.recv, along_row.send, along_column.send]
    for half, inner in zip(halves, [(i, k), (k, j), (i, k), (k, j)], strict=True):
        half.collapse_many(*inner)
    waits = [half.wait({k0: steps}) for half in halves]
    f.order(*halves, *waits, product.update, at=k0)
    return f


def cannon(ranks: int, size: int) -> tm.Function:
    """Tiles circulate in rows and columns of a square grid; the algorithm names the factors of each step."""
    side, whole = math.isqrt(ranks), padded(size)
    tile = whole // side
    f = tm.Function("cannon", params=[])
    a = f.input("a", tm.float64, [whole, whole])
    b = f.input("b", tm.float64, [whole, whole])
    inner = ((i // tile + j // tile + s) % side) * tile + k
    product = f.reduction("c", {i: whole, j: whole}, {s: side, k: tile}, tm.sum, a[i, inner] * b[inner, j])
    f.outputs(product)
    for array in (a, b, product):
        array.distribute_array([i, j], rank=(i // tile, j // tile))
    product.tile(i, j, tile, tile, qi, qj, i1, j1)
    product.tag_distribute(qi, qj)
    product.update.reorder(s, qi, qj, i1, j1, k)
    if side == 1:
        return f

    def tile_of(number: object) -> tuple[object, object]:
        return number * tile, number * tile + tile

    grid = {qi: side, qj: side}
    props = {"send_props": NONBLOCKING, "recv_props": NONBLOCKING}
    i_own, j_own, k_own = {i: tile_of(qi)}, {j: tile_of(qj)}, (qi + qj) % side
    first_a = f.create_exchange(
        a[i, k], name="first_a", **props,
        send=[{**grid, qi: (1, side), **i_own, k: tile_of(qj)}], to=(qi, (qj - qi) % side),
        recv=[{**grid, qi: (1, side), **i_own, k: tile_of(k_own)}], source=(qi, k_own),
    )  # fmt: skip
    first_b = f.create_exchange(
        b[k, j], name="first_b", **props,
        send=[{**grid, qj: (1, side), k: tile_of(qi), **j_own}], to=((qi - qj) % side, qj),
        recv=[{**grid, qj: (1, side), k: tile_of(k_own), **j_own}], source=(k_own, qj),
    )  # fmt: skip
    now, before = (qi + qj + s) % side, (qi + qj + s - 1) % side
    next_a = f.create_exchange(
        a[i, k], name="next_a", **props,
        send={s: (1, side), **grid, **i_own, k: tile_of(before)}, to=(qi, (qj - 1) % side),
        recv={s: (1, side), **grid, **i_own, k: tile_of(now)}, source=(qi, (qj + 1) % side),
    )  # fmt: skip
    next_b = f.create_exchange(
        b[k, j], name="next_b", **props,
        send={s: (1, side), **grid, k: tile_of(before), **j_own}, to=((qi - 1) % side, qj),
        recv={s: (1, side), **grid, k: tile_of(now), **j_own}, source=((qi + 1) % side, qj),
    )  # fmt: skip
    at_first = [first_a.recv, first_b.recv, first_a.send, first_b.send]
    later = [next_a.recv, next_b.recv, next_a.send, next_b.send]
    for half, tiles in zip([*at_first, *later], [(i, k), (k, j)] * 4, strict=True):
        half.collapse_many(*tiles)
    f.order(*at_first, *[half.wait() for half in at_first], product.init, product.update, at=tm.root)
    f.order(*later, *[half.wait({s: (1, side)}) for half in later], product.update, at=s)
    return f


VARIANTS = {"derived": derived, "summa": summa, "cannon": cannon}


def padded(size: int) -> int:
    """A size divisible by grid sides of 1 to 4 ranks, since Cannon's tiles all have one size."""
    return -(-size // 12) * 12


def sample(variant: str, size: int, seed: int) -> Arguments:
    """Two random matrices."""
    numbers = np.random.default_rng(seed)
    size = padded(size) if variant == "cannon" else size
    return {name: numbers.random((size, size)) for name in ("a", "b")}


if __name__ == "__main__":
    tell(VARIANTS, sample, (24, 17))
