"""How often the loops of a scheduled program run for given sizes, and the share of each in a point."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from benchmarks.machine_code.compiled_loops import work_of
from benchmarks.machine_code.iterations import executed, shares, sizes
from tiramisu_py.algorithm.expressions import Const, Iter
from tiramisu_py.ir import Block, For, Load, LoopFunction

R, C = tm.params("R C")
r, c = tm.iters("r c")
LANES = 8
PICTURE = {"R": 37, "C": 100}


def bands(rows: int) -> tm.Function:
    """Twice each element in bands of so many rows, for the sums of three of these down."""
    f = tm.Function("bands", params=[R, C], assume="R >= 1 and C >= 1")
    given = f.input("given", tm.float32, [R + 2, C])
    along = f.computation("along", {r: R + 2, c: C}, given[r, c] * 2)
    down = f.computation("down", {r: R, c: C}, along[r, c] + along[r + 1, c] + along[r + 2, c])
    f.outputs(down)
    r0, r1 = tm.iters("r0 r1")
    down.split(r, rows, r0, r1)
    along.compute_at(down, r0)
    for stage in (along, down):
        stage.vectorize(c, LANES)
    return f


@pytest.mark.parametrize("rows", [4, 8, 37])
def test_a_stage_in_bands_runs_for_the_rows_around_each_band(rows: int) -> None:
    found = executed(bands(rows).show("lowered", 4 * LANES), PICTURE)
    vectors = PICTURE["C"] // LANES
    count = -(-PICTURE["R"] // rows)
    assert sorted(found.iterations[each] for each in found.iterations if work_of(each).points == LANES) == [
        PICTURE["R"] * vectors,
        (PICTURE["R"] + 2 * count) * vectors,
    ]


def test_what_is_elsewhere_is_shared_out_and_stages_that_store_as_much_stay_apart() -> None:
    """Both stages store 32 bytes an iteration; the rest of a row, 4 of 100 columns, has operations of its own."""
    function = bands(8).show("lowered", 4 * LANES)
    found = executed(function, PICTURE)
    parts = {each.stages: share for share, each in shares(found, 37 * 100)}
    assert parts.keys() == {frozenset({"along"}), frozenset({"down"})}
    assert parts[frozenset({"along"})] / parts[frozenset({"down"})] == pytest.approx(47 / 37)
    whole = shares(executed(function, {"R": 37, "C": 96}), 37 * 96)
    assert sum(share for share, _ in whole) == pytest.approx((1 + 47 / 37) / LANES)
    assert sum(parts.values()) > (1 + 47 / 37) / LANES


def triangle() -> tm.Function:
    """Sums with the element at the transposed place, in the lower triangle of a matrix."""
    f = tm.Function("triangle", params=[R], assume="R >= 1")
    given = f.input("given", tm.float32, [R, R])
    f.outputs(f.computation("both", {r: R, c: r + 1}, given[r, c] + given[c, r]))
    f["both"].vectorize(c, LANES)
    return f


@pytest.mark.parametrize("size", [1, 8, 37])
def test_bounds_that_move_are_followed(size: int) -> None:
    found = executed(triangle().show("lowered", 4 * LANES), {"R": size})
    by_points = {work_of(each).points: count for each, count in found.iterations.items()}
    assert by_points[LANES] == sum((row + 1) // LANES for row in range(size))
    assert by_points[1] == sum((row + 1) % LANES for row in range(size))


def test_a_loop_whose_bounds_are_values_has_no_count() -> None:
    inside = For(
        "c",
        Const(0, tm.int64),
        Const(4, tm.int64),
        For("k", Const(0, tm.int64), Load("ends", (Iter("c"),), tm.int64), Block(())),
    )
    with pytest.raises(SystemExit, match=r"rows: ends\[c\] depends on values of arrays"):
        executed(LoopFunction("rows", (), (), (), inside), {})


def test_parameters_follow_from_arrays_and_numbers() -> None:
    function = bands(8).show("lowered", 4 * LANES)
    assert sizes(function, {"given": np.zeros((39, 100), np.float32)}) == PICTURE


def test_a_program_without_loops_of_vectors_has_no_shares() -> None:
    f = tm.Function("numbers", params=[R], assume="R >= 1")
    f.outputs(f.computation("out", {r: R}, f.input("given", tm.float32, [R])[r] * 2))
    with pytest.raises(SystemExit, match="no loop of whole vectors"):
        list(shares(executed(f.show("lowered", 4 * LANES), {"R": 37}), 37))
