"""What one rank does in its block, and the window of a rank and its neighbours."""

from __future__ import annotations

from typing import Any

import pytest

import tiramisu_py as tm
from tests.oracle.judges.block_ranks import splits
from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.ranks.block_windows import outer_names, window
from tiramisu_py.program.ranks.run_time_blocks import own
from tiramisu_py.sets import smallest

R, lo, hi, least_param = tm.params("R lo hi lo_below")
r, q = tm.iters("r q")


def doubled(reach: int = 1) -> Any:
    """``b[r]`` is computed in blocks, and its last rows go to the rank above."""
    f = tm.Function("doubled", params=[R, lo, hi])
    a = f.input("a", tm.float32, [R])
    b = f.computation("b", {r: R}, 2 * a[r])
    f.outputs(b)
    f.blocks(R, lo, hi)
    b.tag_distribute(r, bounds=(lo, hi))
    f.create_exchange(b[r], send=({r: (hi - reach, hi)}, hi < R), to=tm.rank + 1,
                  recv=({r: (lo - reach, lo)}, lo > 0), source=tm.rank - 1, name="down")  # fmt: skip
    return f


def holds(context: Any, **params: int) -> bool:
    return not sets.fixed(context, params).is_empty()


@pytest.mark.parametrize("least", [1, 2, 3])
def test_the_bounds_of_a_rank_are_those_of_all_splits(least: int) -> None:
    program = own(doubled(least).program)
    assert program.ranks.blocks.least == least
    extent = 7
    possible = {block for ranks in range(1, 8) for split in splits(extent, ranks, least) for block in split}
    allowed = {
        (low, high) for low in range(8) for high in range(8) if holds(program.context, R=extent, lo=low, hi=high)
    }
    assert allowed == possible


def test_a_single_rank_may_have_as_few_numbers_as_there_are() -> None:
    context = own(doubled(3).program).context
    assert holds(context, R=0, lo=0, hi=0)
    assert holds(context, R=2, lo=0, hi=2)
    assert not holds(context, R=4, lo=0, hi=2)


def test_every_split_is_seen_in_the_windows() -> None:
    program = window(own(doubled(2).program))
    extent = 7
    possible = set()
    for ranks in range(1, 5):
        for split in splits(extent, ranks, 2):
            around = [(0, 0), *split, (extent, extent)]
            possible |= {(a[0], b[0], b[1], c[1]) for a, b, c in zip(around, around[1:], around[2:], strict=False)}
    names = ("lo_below", "lo", "hi", "hi_above")
    found = {
        (a, b, c, d)
        for a in range(8) for b in range(a, 8) for c in range(b, 8) for d in range(c, 8)
        if holds(program.context, R=extent, **dict(zip(names, (a, b, c, d), strict=True)))
    }  # fmt: skip
    assert found == possible


def test_neighbours_exist_where_the_block_does_not_reach_the_end() -> None:
    program = window(own(doubled().program))
    for low, high, expected in ((0, 5, {0}), (0, 2, {0, 1}), (2, 5, {-1, 0}), (2, 3, {-1, 0, 1})):
        outer = {"lo_below": 0, "hi_above": 5}
        found = sets.points(sets.fixed(program.ranks.everyone, {"R": 5, "lo": low, "hi": high, **outer}))
        assert {point[0] for point in found} == expected


def test_a_neighbour_sends_from_its_own_bounds_and_only_to_the_middle() -> None:
    program = window(own(doubled().program))
    send, params = program.statements["down_send"], {"R": 9, "lo": 3, "hi": 5, "lo_below": 1, "hi_above": 8}
    values = sets.joined(program.rank_of(send), program.value_of(send))
    sent = [smallest.evaluated(values, point, params) for point in sets.points(sets.fixed(send.instances, params))]
    assert sorted(sent) == [(-1, 2), (0, 4)]
    receive = program.statements["down_receive"]
    values = sets.joined(program.rank_of(receive), program.value_of(receive), receive.link.message.peer)
    taken = [smallest.evaluated(values, at, params) for at in sets.points(sets.fixed(receive.instances, params))]
    assert sorted(taken) == [(0, 2, -1), (1, 4, 0)]


def test_a_statement_runs_in_the_block_of_its_rank() -> None:
    program = own(doubled().program)
    points = sets.points(sets.fixed(program.statements["b"].instances, {"R": 9, "lo": 3, "hi": 6}))
    assert sorted(points) == [(3,), (4,), (5,)]


def test_names_of_outer_bounds_are_new() -> None:
    f = tm.Function("f", params=[R, lo, hi, least_param])
    f.blocks(R, lo, hi)
    assert outer_names(f.algorithm, f.program.ranks.blocks) == ("lo_below_", "hi_above_")


def test_blocks_that_make_no_sense_are_refused() -> None:
    f = tm.Function("f", params=[R, lo, hi])
    a = f.input("a", tm.float32, [R])
    b = f.computation("b", {r: R}, 2 * a[r])
    f.outputs(b)
    with pytest.raises(CommandError, match="declare the extent of these blocks first"):
        b.tag_distribute(r, bounds=(lo, hi))
    with pytest.raises(CommandError, match="bounds no block"):
        f.blocks(R, lo, 4)
    with pytest.raises(CommandError, match="the same on all ranks"):
        f.blocks(hi, lo, hi)
    with pytest.raises(CommandError, match="begins and ends"):
        f.blocks(R, lo, lo)
    f.blocks(R, lo, hi)
    with pytest.raises(CommandError, match="give the iterator that is dealt out"):
        b.distribute_array([r], rank=q, bounds=(lo, hi))
    with pytest.raises(CommandError, match="is not a known neighbour"):
        f.create_exchange(b[r], send={r: (lo, hi)}, to=0, recv={r: (lo, hi)}, source=tm.rank - 1)
