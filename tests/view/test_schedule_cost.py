"""The cost of a schedule, beside the instances, reads and elements of its picture, counted one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import islpy as isl
import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pictured
from tiramisu_py.counting.lattice_points import classes, count

#: Programs at sizes with whole tiles and vectors, and with a rest.
CASES: list[tuple[Callable[[], tm.Function], dict[str, int]]] = [
    (pictured.tiled, {"N": 9, "M": 7}),
    (pictured.skewed, {"T": 6, "N": 11}),
    (pictured.product, {"N": 4}),
    (pictured.distributed, {"C": 3}),
    (pictured.cooperative, {"R": 7, "C": 6, "G": 3}),
]


@pytest.mark.parametrize(("build", "sizes"), CASES)
def test_counts_are_those_of_all_instances_one_by_one(build: Callable[[], tm.Function], sizes: dict[str, int]) -> None:
    f = build()
    cost, (drawn,) = f.cost(**sizes), f.show(**sizes).scenes
    instances: dict[str, int] = defaultdict(int)
    loaded: dict[str, int] = defaultdict(int)
    stored: dict[str, int] = defaultdict(int)
    elements = defaultdict(set)
    tiles: dict[tuple[object, ...], dict[tuple[int, ...], set[object]]] = defaultdict(lambda: defaultdict(set))

    def use(order: int, array: int, element: tuple[int, ...]) -> None:
        instance = drawn.instances[order]
        statement = drawn.statements[instance.statement]
        elements[array].add(element)
        loops = tuple(loop.name for loop in statement.loops[: statement.tile_loops])
        if loops:
            tiles[loops][instance.coords[: len(loops)]].add((array, element))

    for instance in drawn.instances:
        statement = drawn.statements[instance.statement]
        instances[statement.name] += 1
        if instance.element is not None and statement.array is not None:
            stored[statement.name] += drawn.arrays[statement.array].bytes
            use(instance.order, statement.array, instance.element)
    for read in drawn.reads:
        loaded[drawn.statements[drawn.instances[read.reader].statement].name] += drawn.arrays[read.array].bytes
        use(read.reader, read.array, read.element)
    for counted in cost.statements:
        expected = (instances[counted.name], loaded[counted.name], stored[counted.name])
        assert (counted.instances, counted.loaded, counted.stored) == expected, counted.name
    found = sorted((array.name, array.elements, array.bytes) for array in cost.arrays)
    each = ((drawn.arrays[k], len(used)) for k, used in elements.items())
    assert found == sorted((array.name, number, number * array.bytes) for array, number in each)
    assert cost.accessed == sum(loaded.values()) + sum(stored.values())
    totals = {loops: (len(of), sum(len(used) for used in of.values()) * 4) for loops, of in tiles.items()}
    if len({tile.loops for tile in cost.tiles}) == len(cost.tiles):  # otherwise nests have loops of the same names
        assert {tile.loops: (tile.tiles, tile.total) for tile in cost.tiles} == totals


def test_windows_that_move_round_a_ring_are_counted_by_steps_and_not_one_by_one() -> None:
    ring = isl.Map(
        "{ [a, b] -> [a, x] : 0 <= a < 50 and 0 <= b < 20 and 0 <= x < 8 and "
        "exists (o, q : 0 <= o < 6 and x = 3b + o - 8q) }"
    )
    found = list(classes(ring))
    assert len(found) <= 20 and {each.images for each in found} == {6}
    assert sum(count(each.keys) for each in found) == 50 * 20


def test_operations_lanes_and_footprints_in_closed_form() -> None:
    cost = pictured.tiled().cost(N=1000, M=1001)
    bx, by = cost.statements
    rows, strips = 250, 251
    assert by.operations == 3 * 1000 * 1001
    assert bx.instances == rows * 6 * 1001
    assert by.lanes == 1001 / (strips * 4)
    assert bx.lanes is None
    (tile,) = cost.tiles
    assert (tile.tiles, tile.arrays) == (rows * strips, (("a", 6 * 6 * 4), ("bx", 6 * 4 * 4), ("by", 4 * 4 * 4)))
    assert cost.compulsory == 4 * (1002 * 1003 + 1000 * 1001)
    assert cost.intensity == cost.operations / cost.compulsory
    assert "1,001,000 instances, 3,003,000 operations" in str(cost)
    assert cost.as_dict()["operations"] == bx.operations + by.operations


def test_sizes_are_all_given() -> None:
    with pytest.raises(tm.ArgumentError, match="blur has the parameters N, M: M has no value"):
        pictured.tiled().cost(N=3)


@pytest.mark.parametrize(("rows", "positions"), [(20, 50), (1, 7), (7, 7), (50, 20), (3, 0), (0, 0)])
def test_runs_are_counted_by_their_positions(rows: int, positions: int) -> None:
    """Beside NumPy, with rows of any lengths that have all positions together."""
    N, E = tm.params("N E")
    n, p, d, k = tm.iters("n p d k")
    f = tm.Function("messages", params=[N, E])
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    src = f.input("src", tm.int32, [E], values=(0, N))
    h = f.input("h", tm.float32, [N, 8])
    msg = f.reduction("msg", {n: N, p: (start[n], start[n + 1]), d: 4}, {k: 8}, tm.sum, h[src[p], k] * d)
    y = f.reduction("y", {n: N}, {p: (start[n], start[n + 1])}, tm.sum, msg[n, p, 0])
    f.outputs(y)
    msg.update.split(p, 4, *tm.iters("p0 p1"))
    ends = np.sort(np.random.default_rng(1).integers(0, positions + 1, max(rows - 1, 0)))
    starts = np.array([0, *ends, positions]) if rows else np.zeros(1, int)
    at = np.arange(positions)
    entries = int(((starts[:-1, None] <= at) & (at < starts[1:, None])).sum())
    cost = f.cost(N=rows, E=positions)
    counts = {each.name: each.instances for each in cost.statements}
    assert counts == {"msg.init": 4 * entries, "msg.update": 32 * entries, "y.init": rows, "y.update": entries}
    (update,) = (each for each in cost.statements if each.name == "msg.update")
    assert update.stored == 4 * 32 * entries
    assert update.loaded == 4 * 5 * 32 * entries  # two starts, the source, an element of h, and the partial result
    assert {each.name: each.elements for each in cost.arrays}["msg"] == 4 * entries
