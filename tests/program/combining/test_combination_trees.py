"""The tree in which partial results are combined: every part once, and the order that the description names."""

from __future__ import annotations

import itertools

import pytest

from tiramisu_py.program.combining.combination_trees import BlockTree, CombinationTree


@pytest.mark.parametrize("levels", [(1,), (2,), (3,), (7,), (32,), (100,), (4, 3), (32, 8), (2, 3, 5)], ids=str)
def test_every_part_is_in_the_result_once(levels: tuple[int, ...]) -> None:
    tree = CombinationTree(levels)
    assert sorted(tree.combined([[number] for number in range(tree.count)], lambda a, b: a + b)) == [*range(tree.count)]


def test_groups_are_combined_by_halves_and_then_their_results() -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    assert CombinationTree((6,)).combined(names, lambda a, b: f"({a}{b})") == "(((ae)c)((bf)d))"
    assert CombinationTree((2, 3)).combined(names, lambda a, b: f"({a}{b})") == "(((ab)(ef))(cd))"


@pytest.mark.parametrize(
    ("shape", "axes", "levels", "shared"),
    [
        ((256, 1, 1), (0,), (32, 8), 8),
        ((32, 8, 1), (0,), (32,), 0),
        ((16, 8, 1), (0,), (16,), 0),
        ((32, 8, 1), (1,), (8,), 256),
        ((96, 2, 1), (0,), (32, 3), 6),
        ((100, 1, 1), (0,), (100,), 100),
        ((16, 16, 1), (0, 1), (32, 8), 8),
        ((1, 64, 2), (1,), (32, 2), 4),
        ((8, 4, 2), (0, 2), (16,), 64),
        ((8, 4, 2), (), (1,), 0),
    ],
)
def test_the_tree_of_some_axes_of_a_block(
    shape: tuple[int, int, int], axes: tuple[int, ...], levels: tuple[int, ...], shared: int
) -> None:
    block = BlockTree(shape, axes, 32)
    assert (block.tree.levels, block.shared_parts) == (levels, shared)
    threads = list(itertools.product(*map(range, shape)))
    assert len({(block.which(thread), block.part(thread)) for thread in threads}) == len(threads)
    assert {block.part(thread) for thread in threads} == set(range(block.tree.count))
