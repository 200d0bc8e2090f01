"""Arrays in uneven pieces, on ranks in one process: against the algorithm, for any points."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.ranks.uneven_pieces import (
    MORE_SIZES,
    SIZES,
    R,
    all_on_the_first,
    blur,
    differences,
    pictures,
    r,
    tiles,
)
from tiramisu_py.errors import ArgumentError


@pytest.mark.parametrize("ranks", [(0, 1, 2), (0, 0, 1), (2, 1, 0)])
def test_points_in_order_may_make_any_piece_empty(ranks: tuple[int, ...]) -> None:
    f = blur(ranks)
    assert f.check().ok, f.check()
    for seed, given in enumerate(pictures(SIZES)):
        np.testing.assert_array_equal(f.simulate(seed=seed, **given), f.evaluate(**given))


def test_points_out_of_order_or_beyond_the_array_make_pieces_empty() -> None:
    f = blur((0, 2, 1), assume="C >= 1")
    assert f.check().ok, f.check()
    for seed, given in enumerate(pictures(SIZES[:2] + MORE_SIZES)):
        np.testing.assert_array_equal(f.simulate(seed=seed, **given), f.evaluate(**given))
        assert sum(f.part("image", given["image"], k, G=given["G"], H=given["H"]).size for k in range(4)) == (
            given["image"].size
        )


def test_pieces_along_one_axis_of_a_grid() -> None:
    f = tiles()
    assert f.check().ok, f.check()
    for rows, at in ((5, 2), (5, 0), (5, 5), (0, 0)):
        a = np.random.default_rng(rows).random((rows + 1, 7))
        np.testing.assert_array_equal(f.simulate(a=a, G=at), f.evaluate(a=a, G=at))
    assert [f.part("a", np.zeros((6, 7)), k, G=2).shape for k in range(5)] == [(2, 4), (2, 3), (4, 4), (4, 3), (0, 0)]


def test_a_message_that_is_missing_is_found_for_the_smallest_pieces() -> None:
    found = blur((0, 0, 1), derived=False).check().violations[0]
    assert found.kind == "communication"
    assert {name: found.witness.params[name] for name in "RGH"} == {"R": 1, "G": 0, "H": 1}
    assert found.witness.reader == ("by", (0, 0)) and "on rank 0" in str(found)


def test_a_rank_keeps_what_it_uses_and_indexes_from_there() -> None:
    text = blur((0, 0, 1)).show("pseudocode")
    assert "allocate bx[select(rank0 == 0, H + 2, R - H + 2), C] in memory" in text
    assert "bx[r - H, c] = (image[r - H, c] + image[r - H, c + 1] + image[r - H, c + 2]) / 3.0" in text


def test_shares_are_cut_at_parts_of_an_extent() -> None:
    f = tm.Function("shared", params=[R])
    a = f.input("a", tm.float32, [R])
    b = f.computation("b", {r: R}, a[r] * 2)
    f.outputs(b)
    a.distribute_array([r], rank=tm.pieces(r, tm.shares(1, 1, 2), of=R))
    b.distribute_array([r], rank=tm.pieces(r, tm.shares(1, 1, 2), of=R))
    assert [f.part("a", np.zeros(11, np.float32), k).shape[0] for k in range(4)] == [2, 3, 6, 0]
    assert f.process_grid() == (3,)


def test_the_part_of_a_rank_needs_the_points_and_takes_what_follows_from_the_shape() -> None:
    image = np.zeros((11, 6), np.float32)
    with pytest.raises(ArgumentError, match=r"the parameter H does not follow .*; give H="):
        blur((0, 0, 1)).part("image", image, 0, G=3)
    assert blur((0, 1), points=[R - 2]).part("image", image, 0).shape == (7, 6)


def test_the_communication_counts_the_rows_between_pieces() -> None:
    f = blur((0, 0, 1))
    assert f.cost("communication", R=9, C=4, G=3, H=6).elements == 8
    assert f.cost("communication", R=9, C=4, G=0, H=0).elements == 0


def test_ranks_that_do_with_their_blocks_use_the_arrays_of_the_caller() -> None:
    f = all_on_the_first()
    for seed, given in enumerate(pictures(SIZES)):
        np.testing.assert_array_equal(f.simulate(seed=seed, **given), f.evaluate(**given))
    text = f.show("pseudocode")
    assert "allocate image_local[select(rank0 == 0, 0, R - H + 2), C + 2] in memory" in text
    assert "image_local[d0" not in text and "by[r, c] = by_local" not in text
    assert "send image to rank 1" in text and "receive by from rank 1" in text


def test_only_ranks_that_need_more_copy_their_blocks() -> None:
    f = differences()
    for size, at in ((5, 2), (5, 0), (5, 5), (1, 1), (0, 0)):
        a = np.random.default_rng(size).random(size + 1)
        np.testing.assert_array_equal(f.simulate(a=a, G=at), f.evaluate(a=a, G=at))
    text = f.show("pseudocode")
    assert "a_local[i + 1] - a_local[i]" in text and "a[i - G + 1] - a[i - G]" in text
    assert "allocate a_local[select(rank0 == 0, G + 1, 0)] in memory" in text
