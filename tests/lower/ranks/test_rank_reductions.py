"""Reductions over ranks as loop IR: partial results, their combination outside of all that depends on the rank."""

from __future__ import annotations

import pytest

from tests.programs.ranks.sums import STORIES, again_and_again, on_a_grid, over_both_axes, product
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.ir import Allocate, AllReduce, For, If, Node
from tiramisu_py.ir.rewriting import children, expressions, walk
from tiramisu_py.lower import lower


def combinations(node: Node) -> list[AllReduce]:
    return [inner for inner in walk(node) if isinstance(inner, AllReduce)]


def around(node: Node, found: tuple[Node, ...] = ()) -> list[tuple[Node, ...]]:
    """For each combination, what it is in."""
    if isinstance(node, AllReduce):
        return [found]
    return [path for child in children(node) for path in around(child, (*found, node))]


@pytest.mark.parametrize("name", STORIES)
def test_every_rank_comes_to_it(name: str) -> None:
    f, _ = STORIES[name]()
    function = lower(f.completed)
    assert function.grid is not None
    (path,) = around(function.body)
    (node,) = combinations(function.body)
    mine = {function.grid.coordinates[axis] for axis in node.axes}
    for outer in path:
        if isinstance(outer, For | If | Allocate):
            used = {getattr(part, "name", "") for e in expressions(outer) for part in parts(e)}
            assert not used & mine, (outer, mine)


def test_partial_results_are_as_large_as_what_is_combined() -> None:
    shapes = {}
    for name, make in (("product", product), ("grid", on_a_grid), ("steps", again_and_again)):
        f, _ = make()
        (found,) = [n for n in walk(lower(f.completed).body) if isinstance(n, Allocate) and "partial" in n.buffer]
        shapes[name] = [str(extent) for extent in found.extents]
    assert shapes == {"product": ["9", "7"], "grid": ["5", "7"], "steps": ["1"]}


def test_the_axes() -> None:
    assert [node.axes for node in combinations(lower(on_a_grid()[0].completed).body)] == [(1,)]
    assert [node.axes for node in combinations(lower(over_both_axes()[0].completed).body)] == [(0, 1)]


def test_it_is_in_the_loop_of_the_steps() -> None:
    f, _ = again_and_again()
    (path,) = around(lower(f.completed).body)
    assert [outer.variable for outer in path if isinstance(outer, For)] == ["t"]
    assert "all ranks along axis 0: sum of s_partial" in f.show("pseudocode")


def test_loops_inside_do_not_change_the_place() -> None:
    f, _ = product()
    (path,) = around(lower(f.completed).body)
    assert not any(isinstance(outer, For) for outer in path)
