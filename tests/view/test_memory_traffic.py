"""The bytes that come into a cache, beside a simulation of one: every access of loops written by hand, one by one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator

import pytest

import tiramisu_py as tm
from tests.programs import pictured

N, M = tm.params("N M")
i, j, k, i0, j0, k0, i1, j1, k1 = tm.iters("i j k i0 j0 k0 i1 j1 k1")
SIZE = 4


def missed(trace: Iterator[Hashable], capacity: int) -> int:
    """The bytes that a fully associative LRU cache of so many bytes fetches, an element of 4 bytes at a time."""
    held: OrderedDict[Hashable, None] = OrderedDict()
    misses = 0
    for element in trace:
        if element in held:
            held.move_to_end(element)
            continue
        misses += 1
        held[element] = None
        if len(held) > capacity // SIZE:
            held.popitem(last=False)
    return misses * SIZE


def copied(tile: tuple[int, int] | None) -> tm.Function:
    """``y[i, j] = x[j, i]``, in tiles."""
    f = tm.Function("turned", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.float32, [M, N])
    y = f.computation("y", {i: N, j: M}, x[j, i])
    f.outputs(y)
    if tile:
        y.tile(i, j, *tile, i0, j0, i1, j1)
    return f


def multiplied(tile: int) -> tm.Function:
    """A product of matrices, in tiles of one size in all three loops."""
    f = tm.Function("product", params=[N], assume="N >= 1")
    a, b = (f.input(name, tm.float32, [N, N]) for name in "ab")
    c = f.reduction("c", {i: N, j: N}, {k: N}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    c.split(i, tile, i0, i1)
    c.split(j, tile, j0, j1)
    c.split(k, tile, k0, k1)
    c.reorder(i0, j0, k0, i1, j1, k1)
    return f


def turned_trace(rows: int, columns: int, tile: tuple[int, int]) -> Iterator[Hashable]:
    for r0 in range(0, rows, tile[0]):
        for c0 in range(0, columns, tile[1]):
            for r in range(r0, min(r0 + tile[0], rows)):
                for c in range(c0, min(c0 + tile[1], columns)):
                    yield "x", c, r
                    yield "y", r, c


def product_trace(size: int, tile: int) -> Iterator[Hashable]:
    for r in range(size):
        for c in range(size):
            yield "c", r, c
    starts = range(0, size, tile)
    for r0, c0, t0 in ((r, c, t) for r in starts for c in starts for t in starts):
        for r in range(r0, min(r0 + tile, size)):
            for c in range(c0, min(c0 + tile, size)):
                for t in range(t0, min(t0 + tile, size)):
                    yield "a", r, t
                    yield "b", t, c
                    yield "c", r, c
                    yield "c", r, c


def blur_trace(rows: int, columns: int, tile: int) -> Iterator[Hashable]:
    """The tiled blur of two stages; the part of the first stage lies at the same place in each tile."""
    for r0 in range(0, rows, tile):
        for c0 in range(0, columns, tile):
            last, right = min(r0 + tile, rows), min(c0 + tile, columns)
            for r in range(r0, last + 2):
                for c in range(c0, right):
                    yield from (("a", r, c + s) for s in range(3))
                    yield "bx", r - r0, c - c0
            for r in range(r0, last):
                for c in range(c0, right):
                    yield from (("bx", r + s - r0, c - c0) for s in range(3))
                    yield "by", r, c


def rows_trace(rows: int, columns: int) -> Iterator[Hashable]:
    """Both stages in the loop over rows, the second two rows behind."""
    for r in range(rows + 2):
        for c in range(columns):
            yield from (("a", r, c + s) for s in range(3))
            yield "bx", r, c
        if r >= 2:
            for c in range(columns):
                yield from (("bx", r - 2 + s, c) for s in range(3))
                yield "by", r - 2, c


@pytest.mark.parametrize("tile", [(8, 8), (4, 16)])
def test_whole_tiles_of_a_transposition_are_what_such_a_cache_misses(tile: tuple[int, int]) -> None:
    cost = copied(tile).cost(N=32, M=48)
    footprint = 2 * tile[0] * tile[1] * SIZE
    for capacity in (footprint, footprint + 64, 2 * footprint):
        assert cost.fetched(capacity) == missed(turned_trace(32, 48, tile), capacity) == 2 * 32 * 48 * SIZE


def test_tiles_of_a_product_are_what_such_a_cache_misses() -> None:
    size, tile = 24, 8
    cost = multiplied(tile).cost(N=size)
    three = 3 * tile * tile * SIZE
    every = 3 * size * size * SIZE
    # a and b once for each tile, c once for each row of tiles along k: it stays from the tile before
    inside = 2 * size**3 // tile * SIZE + size * size * SIZE
    assert cost.fetched(2 * three) == inside + size * size * SIZE  # and c once more, where it is set to 0
    assert missed(product_trace(size, tile), 2 * three) == cost.fetched(2 * three)
    assert cost.fetched(every) == every == missed(product_trace(size, tile), every)
    assert cost.fetched(0) == cost.accessed == sum(1 for _ in product_trace(size, tile)) * SIZE


def test_rows_that_follow_each_other_bring_in_what_is_new() -> None:
    rows, columns = 20, 16
    cost = pictured.fused().cost(N=rows, M=columns)
    body = (columns + 2 + 3 * columns + columns) * SIZE
    once = ((rows + 2) * (columns + 2) + (rows + 2) * columns + rows * columns) * SIZE
    # row 0 of the first stage is stored in iteration 0 and read in iteration 2, not in the one before that
    assert missed(rows_trace(rows, columns), 2 * body) == once == cost.fetched(2 * body) - columns * SIZE


CASES: list[tuple[str, Callable[[], tm.Function], dict[str, int], Callable[[], Iterator[Hashable]]]] = [
    ("turned", lambda: copied((8, 8)), {"N": 30, "M": 21}, lambda: turned_trace(30, 21, (8, 8))),
    ("product", lambda: multiplied(5), {"N": 13}, lambda: product_trace(13, 5)),
    ("tiled", pictured.tiled, {"N": 13, "M": 10}, lambda: blur_trace(13, 10, 4)),
    ("rows", pictured.fused, {"N": 9, "M": 14}, lambda: rows_trace(9, 14)),
]


@pytest.mark.parametrize(("build", "sizes", "trace"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_fetched_is_no_less_than_what_such_a_cache_misses_and_falls_to_all_elements_once(
    build: Callable[[], tm.Function], sizes: dict[str, int], trace: Callable[[], Iterator[Hashable]]
) -> None:
    cost = build().cost(**sizes)
    distinct = len(set(trace())) * SIZE
    assert cost.fetched(0) == cost.accessed == sum(1 for _ in trace()) * SIZE
    assert cost.fetched(distinct) == distinct
    before = cost.accessed
    for capacity in (8, 16, 24, 48, 100, 200, 304, 400, 608, 800, 1200, 1800, 2600):
        found = cost.fetched(capacity)
        assert missed(trace(), capacity) <= found <= before, capacity
        before = found


def test_a_copy_of_each_tile_stays_in_a_cache_that_holds_a_tile() -> None:
    cost = pictured.tiled().cost(N=40, M=40)
    assert cost.fetched(1 << 20) == ((42 * 42) + 6 * 4 + 40 * 40) * SIZE
    assert cost.distinct > cost.fetched(1 << 20)


def test_what_runs_on_a_gpu_is_in_no_cache_of_a_core() -> None:
    f = tm.Function("twice", params=[N], assume="N >= 1")
    x = f.input("x", tm.float32, [N])
    y = f.computation("y", {i: N}, 2 * x[i])
    f.outputs(y)
    y.split(i, 32, i0, i1)
    y.tag_gpu([i0], [i1])
    f.derive_transfers()
    cost = f.cost(N=100)
    assert cost.fetched(1 << 15) == 0
    assert [(each.name, each.loaded, each.stored) for each in cost.memories] == [("global memory of GPUs", 400, 400)]


def test_capacities_are_numbers_of_bytes() -> None:
    cost = copied(None).cost(N=4, M=4)
    for capacity in (-1, 1.5, "32K", True):
        with pytest.raises(tm.ArgumentError, match="give a number of bytes"):
            cost.fetched(capacity)  # type: ignore[arg-type]


def test_levels_are_what_the_cache_before_fetches() -> None:
    machine = tm.Machine(
        1e9, 2, 1e10,
        levels=(tm.MemoryLevel("L1", 400, read=1e12), tm.MemoryLevel("L2", 4000), tm.MemoryLevel("L3", 10**6, True)),
    )  # fmt: skip
    cost = multiplied(5).cost(N=13)
    found = cost.levels(machine)
    assert [each.name for each in found] == ["L1", "L2", "L3", "memory"]
    assert [each.bytes for each in found] == [cost.accessed, *(cost.fetched(size) for size in (400, 4000, 10**6))]
    assert found[0].seconds == cost.accessed / 1e12
    assert found[1].seconds == 0
    assert found[3].seconds == cost.compulsory / 1e10
    assert f"from L1: {cost.accessed:,} bytes" in cost.report(machine)
    assert cost.as_dict(machine)["levels"][3]["bytes"] == cost.compulsory
