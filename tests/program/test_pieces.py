"""Which rank holds what of an array that is cut: in sets, by numbers, and as a person would cut it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py import sets
from tiramisu_py.program.machine.distribution import Distribution, Pieces
from tiramisu_py.program.ranks import holdings

R, G, H = tm.params("R G H")
(r,) = tm.iters("r")
SIZE = 5


def held(ranks: list[int], points: list[tm.Expr | int]) -> tuple[tm.Function, Distribution]:
    f = tm.Function("f", params=[R, G, H])
    a = f.input("a", tm.float32, [R])
    f.outputs(f.computation("b", {r: R}, a[r] + 1))
    a.distribute_array([r], rank=tm.pieces(r, points, ranks=ranks))
    return f, f._program.ranks.distributions["a"]


@pytest.mark.parametrize("ranks", [[0, 1, 2], [1, 1, 0], [2, 0, 0], [1, 1, 1]])
def test_sets_and_numbers_agree_with_cutting_by_hand(ranks: list[int]) -> None:
    f, distribution = held(ranks, [G, H])
    space = sets.sized_frame(f.algorithm.param_space, None, 1)
    everywhere = sets.within(sets.variables(space)[0], 0, SIZE)
    owners = sets.within(sets.variables(space)[0], 0, 3)
    pairs = sets.flat_pairs(distribution.holders(everywhere, owners), "pair")
    for g, h in product(range(SIZE + 2), repeat=2):
        wanted = {(i, ranks[0] if i < g else ranks[1] if i < h else ranks[2]) for i in range(SIZE)}
        assert set(sets.points(sets.at_params(pairs, {"R": SIZE, "G": g, "H": h}))) == wanted
        whole = np.arange(SIZE)
        parts = [holdings.part(distribution, whole, (rank,), {"G": g, "H": h}) for rank in range(3)]
        assert {(int(i), rank) for rank, part in enumerate(parts) for i in part} == wanted
        again = holdings.joined(distribution, parts, (3,), np.full(SIZE, -1), {"G": g, "H": h})
        np.testing.assert_array_equal(again, whole)


def test_neighbouring_pieces_of_a_rank_are_one() -> None:
    _, distribution = held([0, 0, 1, 1], [G, H, 4])
    assert distribution == Distribution((Pieces(0, (), (0, 1), ("max(G, H)",)),))
    assert distribution.params == {"G", "H"}


def test_there_are_as_many_ranks_as_pieces_name_also_where_these_are_empty() -> None:
    f, _ = held([0, 3, 1], [G, H])
    assert f.process_grid() == (4,)
