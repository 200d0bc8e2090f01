"""Super-blocks cover each block once; segments are parts of rows of equal work."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tiramisu_py.patterns import BlockLayout, SuperBlock, causal, local

Map = npt.NDArray[Any]


def covered(mask: Map, parts: tuple[SuperBlock, ...]) -> Map:
    found = np.zeros(mask.shape, int)
    for part in parts:
        assert len(part.rows) == len(part.columns)
        assert list(part.rows) == sorted(set(part.rows)) and list(part.columns) == sorted(set(part.columns))
        found[np.ix_(part.rows, part.columns)] += 1
    return found


def test_random_maps_are_covered_exactly() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        mask = random.random(random.integers(1, 20, 2)) < random.random()
        parts = BlockLayout(mask).superblocks(sizes=(4, 2, 1))
        np.testing.assert_array_equal(covered(mask, parts), mask)


@pytest.mark.slow
def test_two_thousand_random_maps_are_covered_exactly() -> None:
    random = np.random.default_rng(1)
    for _ in range(2000):
        mask = random.random((16, 16)) < random.random()
        np.testing.assert_array_equal(covered(mask, BlockLayout(mask).superblocks()), mask)


def sizes_of(mask: Map) -> dict[int, int]:
    return dict(Counter(len(part.rows) for part in BlockLayout(mask).superblocks()))


def test_the_counts_of_three_maps_of_the_thesis_family() -> None:
    row, column = np.indices((64, 64))
    assert sizes_of(local(64, 8).mask) == {8: 8}
    assert sizes_of(np.ones((64, 64))) == {8: 64}
    assert sizes_of((column <= row) & ((row - column < 8) | (column % 8 == 7))) == {4: 23, 2: 53, 1: 79}


def test_rows_and_columns_of_a_super_block_need_not_touch() -> None:
    mask = np.zeros((9, 9), int)
    rows, columns = (1, 4, 5, 8), (0, 2, 3, 7)
    mask[np.ix_(rows, columns)] = 1
    assert BlockLayout(mask).superblocks() == (SuperBlock(rows, columns),)


def test_a_block_between_neighbours_parts_them() -> None:
    mask = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    assert sizes_of(mask) == {1: 5}
    assert sizes_of(np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1]])) == {2: 1}


def test_heads_have_super_blocks_of_their_own() -> None:
    mask = np.stack([np.ones((4, 4)), np.eye(4)])
    parts = BlockLayout(mask).superblocks()
    assert [part.head for part in parts] == [0, 1, 1, 1, 1]
    for head in (0, 1):
        own = tuple(part for part in parts if part.head == head)
        np.testing.assert_array_equal(covered(mask[head], own), mask[head])


@pytest.mark.parametrize("most", [1, 2, 4, 100])
def test_segments_are_parts_of_rows_of_nearly_equal_length(most: int) -> None:
    random = np.random.default_rng(2)
    for layout in (causal(17), BlockLayout(random.random((2, 9, 12)) < 0.4), BlockLayout(np.zeros((3, 3)))):
        start = layout.tables()["start"]
        rows = layout.mask.shape[-2]
        parts = layout.segments(most=most)
        assert sum(each.count for each in parts) == layout.count
        for number in range(len(start) - 1):
            own = [each for each in parts if each.head * rows + each.row == number]
            assert [each.part for each in own] == list(range(own[0].parts)) and len(own) == own[0].parts
            assert [each.first for each in own] == [
                start[number] + sum(e.count for e in own[:k]) for k in range(len(own))
            ]
            assert sum(each.count for each in own) == start[number + 1] - start[number]
            counts = [each.count for each in own]
            assert max(counts) <= most and max(counts) - min(counts) <= 1
            assert len(own) == max(1, -(-sum(counts) // most))
