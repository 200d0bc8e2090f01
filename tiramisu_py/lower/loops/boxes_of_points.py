"""Code that enumerates points in lexicographic order as boxes, with loops around the boxes if needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr, Iter, Param
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import For, If, Let, Node
from tiramisu_py.ir.rewriting import block
from tiramisu_py.lower.loops.executed_order import ExecutedOrder
from tiramisu_py.lower.loops.generated_leaves import Asked, GeneratedLeaf
from tiramisu_py.lower.loops.isl_ast import GuardNode, Leaf, LoopNode, generated, scheduled
from tiramisu_py.lower.loops.tree_to_loops import TreeToLoops, upper_bound, value
from tiramisu_py.lower.statements.operation import Template
from tiramisu_py.records import dataclass

#: isl's names of the coordinates outside, and of the tuple that loops run over, which no user's name can equal.
_OUTSIDE, _TUPLE = "@outside{}", "@points"


@dataclass(frozen=True, eq=False)
class Boxes:
    """For each prefix of a point's coordinates, the box of the other coordinates: their least values and extents."""

    prefixes: isl.Set
    least: isl.PwMultiAff
    lows: list[isl.PwAff]
    extents: list[isl.PwAff]

    @property
    def long(self) -> list[int]:
        """The sides with more than one element."""
        return [side for side, extent in enumerate(self.extents) if not sets.is_one(extent)]


@dataclass(frozen=True, eq=False)
class PointBoxes:
    """Points as images of `points`, a relation from the frame outside, for which `template` has forms.

    `fits` tells whether a box can be one piece of code, which `code` makes from the values of `forms` of the prefix.
    `variables` are those of the loops around boxes, outermost first. With `among`, only points in that set matter, and
    a box may contain others. With `is_guarded`, the code may also be executed where there are no points.
    """

    points: isl.Map
    template: Template
    context: isl.Set
    variables: Sequence[str]
    fits: Callable[[int, Boxes], bool]
    forms: Callable[[int, Boxes], list[isl.PwAff]]
    code: Callable[[int, Boxes, Sequence[Expr]], Node]
    among: isl.Set | None = None
    is_guarded: bool = False

    def enumerated(self) -> Node:
        """The code, with as few loops as possible around boxes. Raises `CompilerDefect` if there are no boxes."""
        count = sets.out_size(self.points)
        whole = None if self.is_guarded else _boxes(self.points, 0, self.among)
        if whole is not None and self.fits(0, whole):
            return self.code(0, whole, self.template.places(self.forms(0, whole)))
        names = [_OUTSIDE.format(i) for i in range(sets.in_size(self.points))]
        space = self.points.domain().get_space()
        outside = self.template.places([form.to_pw_aff() for form in sets.variables(space)])
        inside = sets.leading_as_params(self.points, names)
        for depth in range(0 if self.is_guarded else 1, count + 1):
            boxes = _boxes(inside, depth, self.among)
            if boxes is not None and self.fits(depth, boxes):
                return self._loops(depth, boxes, dict(zip(names, outside, strict=True)))
        raise CompilerDefect("isl finds no boxes that make up the elements of a message")

    def _loops(self, depth: int, boxes: Boxes, outside: Mapping[str, Expr]) -> Node:
        names: dict[str, Expr] = {name: Param(name, int64) for name in sets.params(self.context)}
        names |= outside
        iterators = [f"@{level}" for level in range(depth)]
        names |= {it: Iter(name, int64) for it, name in zip(iterators, self.variables, strict=False)}
        forms = self.forms(depth, boxes)
        leaves: list[Node] = []
        emitted: list[GeneratedLeaf] = []

        def at_leaf(leaf: Leaf) -> None:
            computed = leaf.values(forms)
            emitted.append(GeneratedLeaf(leaf.statement, leaf.coordinates, computed))
            leaves.append(self.code(depth, boxes, [value(e, names) for e in computed]))

        time = sets.renamed(sets.identity(boxes.prefixes.get_space()), None)
        known = self.context if self.is_guarded else boxes.prefixes.params().intersect(self.context)
        tree = generated(known, scheduled([(boxes.prefixes, time)]), iterators, None, at_leaf)
        known = known.align_params(boxes.prefixes.get_space().params())
        asked = Asked("the elements of a message", boxes.prefixes.intersect_params(known), time, forms)
        positions = {iterator: level for level, iterator in enumerate(iterators)}
        ExecutedOrder(known, {sets.tuple_name(boxes.prefixes): asked}, emitted, positions, tree).executed()
        return _Loops(leaves, names).translated(tree)


def _boxes(points: isl.Map, depth: int, among: isl.Set | None) -> Boxes | None:
    """The boxes that all but the first `depth` coordinates form, as a function of these; None if they form none."""
    rest = whole = points
    if depth:
        count = sets.out_size(points) - depth
        whole = sets.with_prefix(points.range(), depth, _TUPLE)
        rest = sets.out_parts(whole, depth, count)
    domain = rest.domain().coalesce()
    lows, highs = sets.component_bounds(rest)
    box = sets.box(lows, highs, domain.get_space()).intersect_domain(domain)
    if among is not None and depth:
        box = box.intersect(sets.out_parts(sets.with_prefix(among, depth, _TUPLE), depth, count))
    elif among is not None:
        box = box.intersect_range(among)
    if not box.is_subset(rest):
        return None
    extents = [sets.extent_between(a, b).gist(domain).coalesce() for a, b in zip(lows, highs, strict=True)]
    least = sets.piecewise(whole.lexmin())
    return Boxes(domain, least, [low.gist(domain).coalesce() for low in lows], extents)


class _Loops(TreeToLoops[Node]):
    """Loops around given code for each leaf; `names` are the values of isl's names."""

    def __init__(self, leaves: Sequence[Node], names: Mapping[str, Expr]) -> None:
        self.leaves = leaves
        self.names = names

    def leaf(self, position: int) -> Node:
        return self.leaves[position]

    def sequence(self, parts: Sequence[Node]) -> Node:
        return block(parts)

    def guard(self, tree: GuardNode, then: Node, otherwise: Node | None) -> Node:
        return If(value(tree.condition, self.names), then, otherwise)

    def loop(self, tree: LoopNode, body: Node) -> Node:
        variable, first = self.names[tree.iterator], value(tree.first, self.names)
        assert isinstance(variable, Iter)
        if tree.degenerate:
            return Let(variable.name, first, body)
        return For(variable.name, first, upper_bound(tree, self.names), body, tree.step)
