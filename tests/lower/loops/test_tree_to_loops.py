"""isl's trees as loops: the order of the parts, and the bounds of loops."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
import pytest

from tiramisu_py.algorithm.expressions import Expr, Iter, Param
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.lower.loops.isl_ast import GuardNode, LeafNode, LoopNode, SequenceNode
from tiramisu_py.lower.loops.tree_to_loops import TreeToLoops, upper_bound

NAMES: dict[str, Expr] = {"@0": Iter("i", int64), "N": Param("N", int64)}


def named(name: str) -> isl.AstExpr:
    """A name in isl's tree."""
    return isl.AstExpr.from_id(isl.Id(name))


def loop(condition: isl.AstExpr, body: LeafNode | GuardNode | SequenceNode) -> LoopNode:
    """A loop over @0 from N on."""
    return LoopNode("@0", named("N"), condition, 1, False, body)


class Told(TreeToLoops[str]):
    """Trees in words."""

    def leaf(self, position: int) -> str:
        return str(position)

    def sequence(self, parts: Sequence[str]) -> str:
        return " ".join(parts)

    def guard(self, tree: GuardNode, then: str, otherwise: str | None) -> str:
        return f"if({then} | {otherwise})"

    def loop(self, tree: LoopNode, body: str) -> str:
        return f"for({body})"


def test_parts_are_translated_from_the_leaves_upwards_in_their_order() -> None:
    below = named("@0").lt(named("N"))
    guard = GuardNode(below, LeafNode(1), LeafNode(2))
    tree = SequenceNode(
        (LeafNode(0), loop(below, SequenceNode((guard, LeafNode(3)))), GuardNode(below, LeafNode(4), None))
    )
    assert Told().translated(tree) == "0 for(if(1 | 2) 3) if(4 | None)"


@pytest.mark.parametrize(("condition", "bound"), [("lt", "N"), ("le", "N + 1")])
def test_an_upper_bound_is_exclusive(condition: str, bound: str) -> None:
    compared = getattr(named("@0"), condition)(named("N"))
    assert str(upper_bound(loop(compared, LeafNode(0)), NAMES)) == bound


@pytest.mark.parametrize("condition", ["gt", "ge", "eq"])
def test_a_condition_that_is_no_upper_bound_is_a_defect(condition: str) -> None:
    compared = getattr(named("@0"), condition)(named("N"))
    with pytest.raises(CompilerDefect, match="loop condition"):
        upper_bound(loop(compared, LeafNode(0)), NAMES)
