"""Arrays in uneven pieces on real ranks: each is passed its rows, wherever the points are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lacking import CXX, without_cxx
from tests.programs.ranks.uneven_pieces import MORE_SIZES, SIZES, all_on_the_first, blur, pictures, tiles
from tiramisu_py.errors import ArgumentError
from tiramisu_py.toolchain.compilers.mpi import mpi4py


@pytest.mark.mpi(3)
@pytest.mark.parametrize("ranks", [(0, 0, 1), (2, 0, 1)])
def test_pieces_of_any_height_are_right(ranks: tuple[int, ...]) -> None:
    comm = mpi4py().COMM_WORLD
    f = blur(ranks, assume="C >= 1")
    kernel = f.compile()
    for given in pictures(SIZES + MORE_SIZES):
        points = {name: given[name] for name in "RGH"}
        mine = f.part("image", given["image"], comm.rank, **points)
        found = kernel(mine, C=given["image"].shape[1] - 2, comm=comm, **points)
        np.testing.assert_array_equal(found, f.part("by", f.evaluate(**given), comm.rank, **points))


@pytest.mark.mpi(4)
def test_pieces_along_one_axis_of_a_grid_are_right() -> None:
    comm = mpi4py().COMM_WORLD
    f = tiles()
    kernel = f.compile()
    for rows, at in ((5, 2), (5, 0), (5, 5), (0, 0)):
        a = np.random.default_rng(rows).random((rows + 1, 7))
        found = kernel(f.part("a", a, comm.rank, G=at), R=rows, G=at, comm=comm)
        np.testing.assert_array_equal(found, f.part("b", f.evaluate(a=a, G=at), comm.rank, G=at))


@pytest.mark.mpi(2)
def test_a_piece_of_another_height_is_refused_on_all_ranks_with_the_one_that_is_expected() -> None:
    comm = mpi4py().COMM_WORLD
    kernel = blur((0, 0, 1)).compile()
    rows = (6, 5)[comm.rank]
    image = np.zeros((rows + (comm.rank == 1), 6), np.float32)
    with pytest.raises(ArgumentError, match=r"image has shape \(6, 6\).*5.*each rank passes its part.*\(on rank 1\)"):
        kernel(image, R=9, C=4, G=3, H=6, comm=comm)


@pytest.mark.mpi(2)
@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_a_rank_that_does_with_its_block_uses_the_array_of_the_caller() -> None:
    comm = mpi4py().COMM_WORLD
    f = all_on_the_first()
    kernel = f.compile(device="simulator")
    for given in pictures(SIZES):
        points = {name: given[name] for name in "RGH"}
        found = kernel(f.part("image", given["image"], comm.rank), C=given["image"].shape[1] - 2, comm=comm, **points)
        np.testing.assert_array_equal(found, f.part("by", f.evaluate(**given), comm.rank))
