"""isl's trees of loops with one mistake, and what loops do, element by element: to try the proof of their order.

Nothing here uses the proof's reading of isl's expressions, nor its sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import islpy as isl
import pytest

from tiramisu_py import sets
from tiramisu_py.lower.loops import nest as nests
from tiramisu_py.lower.loops.executed_order import ExecutedOrder
from tiramisu_py.lower.loops.generated_leaves import Asked, GeneratedLeaf
from tiramisu_py.lower.loops.isl_ast import GuardNode, LeafNode, LoopNode, SequenceNode, Tree

_OP: Any = isl.ast_expr_op_type
_KIND: Any = isl.ast_expr_type
#: Traces end here: mutated loops may run far.
MOST = 3000

Leaves = Sequence[GeneratedLeaf | None]


class TooLong(Exception):
    """A trace has too many executions."""


@dataclass(frozen=True, eq=False)
class Loops:
    """The loops of one nest, as the proof receives them."""

    context: isl.Set
    asked: Mapping[str, Asked]
    leaves: Leaves
    positions: Mapping[str, int]
    tree: Tree

    def proven(self) -> None:
        """Raises what the proof raises."""
        ExecutedOrder(self.context, self.asked, self.leaves, self.positions, self.tree).executed()

    def is_right_at(self, params: Mapping[str, int]) -> bool:
        """Whether the loops execute each instance once, in the order of the times, with the right forms."""
        times = self._times(params)
        found = list(self._run(self.tree, dict(params)))
        if sorted(instance for instance, _ in found) != sorted(times):
            return False
        order = [times[instance][0] for instance, _ in found]
        return order == sorted(order) and all(forms == times[instance][1] for instance, forms in found)

    def _times(self, params: Mapping[str, int]) -> dict[tuple[str, tuple[int, ...]], tuple[Any, Any]]:
        """Time and forms of each instance."""
        found = {}
        for name, asked in self.asked.items():
            size = sets.size(asked.instances)
            for point in sets.points(sets.fixed(asked.instances, params)):
                here = dict(enumerate(point[:size]))
                time = tuple(_at(form, here, params) for form in sets.outputs(asked.time))
                found[name, point] = time, tuple(_at(form, here, params) for form in asked.forms)
        return found

    def _run(self, tree: Tree, values: dict[str, int]) -> Iterator[tuple[tuple[str, tuple[int, ...]], tuple[int, ...]]]:
        for count, each in enumerate(self._executed(tree, values)):
            if count == MOST:
                raise TooLong
            yield each

    def _executed(self, tree: Tree, values: dict[str, int]) -> Iterator[Any]:
        match tree:
            case LeafNode():
                leaf = self.leaves[tree.position]
                if leaf is not None:
                    coordinates = tuple(_value(e, values) for e in leaf.coordinates)
                    yield (leaf.asked, coordinates), tuple(_value(e, values) for e in leaf.forms)
            case SequenceNode():
                for child in tree.children:
                    yield from self._executed(child, values)
            case GuardNode():
                chosen = tree.then if _value(tree.condition, values) else tree.otherwise
                if chosen is not None:
                    yield from self._executed(chosen, values)
            case LoopNode():
                at, turns = _value(tree.first, values), 0
                while tree.degenerate or _value(tree.condition, {**values, tree.iterator: at}):
                    yield from self._executed(tree.body, {**values, tree.iterator: at})
                    at, turns = at + tree.step, turns + 1
                    if tree.degenerate:
                        break
                    if turns > MOST:
                        raise TooLong


def _at(form: Any, point: Mapping[int, int], params: Mapping[str, int]) -> int:
    """The value of a form at a point."""
    if isinstance(form, isl.PwAff):
        (value,) = _pieces_at(form, point, params)
        return value
    taken = sets.terms(form)
    total = taken.constant + sum(c * point[axis] for axis, c in enumerate(taken.dims))
    total += sum(c * params[name] for c, name in taken.params)
    total += sum(c * _at(div, point, params) for c, div in taken.divs)
    return total // taken.denominator


def _pieces_at(form: isl.PwAff, point: Mapping[int, int], params: Mapping[str, int]) -> list[int]:
    found: list[tuple[isl.Set, isl.Aff]] = []
    form.foreach_piece(sets.carrying(lambda where, own: found.append((where, own))))
    at = [point[axis] for axis in sorted(point)]
    return [_at(own, point, params) for where, own in found if _is_in(at, where, params)]


def _is_in(point: Sequence[int], where: isl.Set, params: Mapping[str, int]) -> bool:
    here = sets.fixed(where, {name: params[name] for name in sets.params(where)})
    return not here.intersect(sets.singleton(here, point)).is_empty()


def _value(e: isl.AstExpr, values: Mapping[str, int]) -> int:
    kind = e.get_type()
    if kind == _KIND.int:
        return sets.number(e.get_val())
    if kind == _KIND.id:
        return values[e.get_id().get_name()]
    op, args = e.get_op_type(), [_value(e.get_op_arg(k), values) for k in range(e.get_op_n_arg())]
    return int(_OPERATIONS[op](*args))


_OPERATIONS: dict[Any, Callable[..., int]] = {
    _OP.add: lambda a, b: a + b, _OP.sub: lambda a, b: a - b, _OP.mul: lambda a, b: a * b, _OP.minus: lambda a: -a,
    _OP.div: lambda a, b: a // b, _OP.fdiv_q: lambda a, b: a // b, _OP.pdiv_q: lambda a, b: a // b,
    _OP.pdiv_r: lambda a, b: a % b, _OP.zdiv_r: lambda a, b: a % b, _OP.min: min, _OP.max: max,
    _OP.eq: lambda a, b: a == b, _OP.le: lambda a, b: a <= b, _OP.lt: lambda a, b: a < b,
    _OP.ge: lambda a, b: a >= b, _OP.gt: lambda a, b: a > b, _OP.and_: lambda a, b: a and b,
    _OP.and_then: lambda a, b: a and b, _OP.or_: lambda a, b: a or b, _OP.or_else: lambda a, b: a or b,
    _OP.cond: lambda a, b, c: b if a else c, _OP.select: lambda a, b, c: b if a else c,
}  # fmt: skip


def recorded(monkeypatch: pytest.MonkeyPatch, lowering: Callable[[], object]) -> list[Loops]:
    """The loops of all nests that a lowering makes."""
    found: list[Loops] = []

    class Recording(ExecutedOrder):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            found.append(Loops(*given))

    with monkeypatch.context() as patched:
        patched.setattr(nests, "ExecutedOrder", Recording)
        lowering()
    return found


# -- mistakes


def mutations(loops: Loops) -> Iterator[tuple[str, Loops]]:
    """The loops with one mistake each, and what it is."""
    yield from _backwards(loops)
    for name, tree in _trees(loops.tree):
        yield name, replace(loops, tree=tree)
    for position, leaf in enumerate(loops.leaves):
        if leaf is not None:
            for name, wrong in _leaves(leaf):
                yield name, replace(loops, leaves=[*loops.leaves[:position], wrong, *loops.leaves[position + 1 :]])
    for first, second in zip(range(len(loops.leaves)), range(1, len(loops.leaves)), strict=False):
        leaves = list(loops.leaves)
        leaves[first], leaves[second] = leaves[second], leaves[first]
        yield "two leaves exchanged", replace(loops, leaves=leaves)


def _leaves(leaf: GeneratedLeaf) -> Iterator[tuple[str, GeneratedLeaf]]:
    for field in ("coordinates", "forms"):
        given = list(getattr(leaf, field))
        for k, e in enumerate(given):
            yield f"{field}: one more", replace(leaf, **{field: [*given[:k], _plus(e, 1), *given[k + 1 :]]})
            if k:
                swapped = [*given[: k - 1], e, given[k - 1], *given[k + 1 :]]
                yield f"{field}: exchanged", replace(leaf, **{field: swapped})


def _trees(tree: Tree) -> Iterator[tuple[str, Tree]]:
    match tree:
        case SequenceNode():
            yield from _sequences(tree)
            for k, child in enumerate(tree.children):
                for name, wrong in _trees(child):
                    yield name, SequenceNode((*tree.children[:k], wrong, *tree.children[k + 1 :]))
        case GuardNode():
            yield from _guards(tree)
            for name, wrong in _trees(tree.then):
                yield name, replace(tree, then=wrong)
            if tree.otherwise is not None:
                for name, wrong in _trees(tree.otherwise):
                    yield name, replace(tree, otherwise=wrong)
        case LoopNode():
            yield from _loops(tree)
            for name, wrong in _trees(tree.body):
                yield name, replace(tree, body=wrong)


def _sequences(tree: SequenceNode) -> Iterator[tuple[str, Tree]]:
    given = tree.children
    for k in range(len(given)):
        yield "child dropped", SequenceNode((*given[:k], *given[k + 1 :]))
        yield "child twice", SequenceNode((*given[:k], given[k], *given[k:]))
        if k:
            yield "children exchanged", SequenceNode((*given[: k - 1], given[k], given[k - 1], *given[k + 1 :]))


def _guards(tree: GuardNode) -> Iterator[tuple[str, Tree]]:
    yield "guard dropped", tree.then
    yield "else dropped", replace(tree, otherwise=None)
    yield "branches exchanged", replace(tree, then=tree.otherwise or SequenceNode(()), otherwise=tree.then)
    if tree.condition.get_op_n_arg() == 2:
        left, right = tree.condition.get_op_arg(0), tree.condition.get_op_arg(1)
        if tree.condition.get_op_type() in (_OP.and_, _OP.and_then):
            yield "half of a guard", replace(tree, condition=left)
            yield "half of a guard", replace(tree, condition=right)
        elif tree.condition.get_op_type() in (_OP.le, _OP.lt, _OP.ge, _OP.gt, _OP.eq):
            yield "guard moved", replace(tree, condition=tree.condition.set_op_arg(1, _plus(right, 1)))
            yield "guard moved", replace(tree, condition=tree.condition.set_op_arg(1, _plus(right, -1)))


def _loops(tree: LoopNode) -> Iterator[tuple[str, Tree]]:
    for by in (1, -1):
        yield "begin moved", replace(tree, first=_plus(tree.first, by))
    if tree.degenerate:
        return
    end = tree.condition.get_op_arg(1)
    for by in (1, -1):
        yield "end moved", replace(tree, condition=tree.condition.set_op_arg(1, _plus(end, by)))
    yield "step", replace(tree, step=2 * tree.step)
    if tree.step > 1:
        yield "step", replace(tree, step=1)
    inner = tree.body
    if isinstance(inner, LoopNode) and not inner.degenerate:
        yield "loops exchanged", replace(inner, body=replace(tree, body=inner.body))


def _backwards(loops: Loops) -> Iterator[tuple[str, Loops]]:
    """Each loop with its iterations in reverse order."""
    for loop in _all(loops.tree):
        if isinstance(loop, LoopNode) and not loop.degenerate and loop.step == 1:
            end = loop.condition.get_op_arg(1)
            last = end if loop.condition.get_op_type() == _OP.le else _plus(end, -1)
            iterator = isl.AstExpr.from_id(isl.Id(loop.iterator, None, end.get_ctx()))
            change = _Change(loop.iterator, loop.first.add(last).sub(iterator))
            leaves = list(loops.leaves)
            for node in _all(loop.body):
                if isinstance(node, LeafNode):
                    leaves[node.position] = change.leaf(loops.leaves[node.position])
            turned = replace(loop, body=change.tree(loop.body))
            yield "run backwards", replace(loops, leaves=leaves, tree=_with(loops.tree, loop, turned))


def _all(tree: Tree) -> Iterator[Tree]:
    yield tree
    for child in _children(tree):
        yield from _all(child)


def _children(tree: Tree) -> list[Tree]:
    match tree:
        case SequenceNode():
            return list(tree.children)
        case GuardNode():
            return [tree.then] if tree.otherwise is None else [tree.then, tree.otherwise]
        case LoopNode():
            return [tree.body]
    return []


def _rebuilt(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """A tree with its children changed."""
    match tree:
        case SequenceNode():
            return SequenceNode(tuple(change(child) for child in tree.children))
        case GuardNode():
            otherwise = None if tree.otherwise is None else change(tree.otherwise)
            return replace(tree, then=change(tree.then), otherwise=otherwise)
        case LoopNode():
            return replace(tree, body=change(tree.body))
    return tree


def _with(tree: Tree, old: Tree, new: Tree) -> Tree:
    return new if tree is old else _rebuilt(tree, lambda child: _with(child, old, new))


@dataclass(frozen=True, eq=False)
class _Change:
    """An iterator that stands for another expression."""

    iterator: str
    value: isl.AstExpr

    def expression(self, e: isl.AstExpr) -> isl.AstExpr:
        if e.get_type() == _KIND.id:
            return self.value if e.get_id().get_name() == self.iterator else e
        if e.get_type() == _KIND.op:
            for k in range(e.get_op_n_arg()):
                e = e.set_op_arg(k, self.expression(e.get_op_arg(k)))
        return e

    def leaf(self, leaf: GeneratedLeaf | None) -> GeneratedLeaf | None:
        if leaf is None:
            return None
        coordinates, forms = ([self.expression(e) for e in listed] for listed in (leaf.coordinates, leaf.forms))
        return replace(leaf, coordinates=coordinates, forms=forms)

    def tree(self, tree: Tree) -> Tree:
        if isinstance(tree, LoopNode):
            condition = tree.condition
            if not tree.degenerate:
                condition = condition.set_op_arg(1, self.expression(condition.get_op_arg(1)))
            tree = replace(tree, first=self.expression(tree.first), condition=condition)
        if isinstance(tree, GuardNode):
            tree = replace(tree, condition=self.expression(tree.condition))
        return _rebuilt(tree, self.tree)


def _plus(e: isl.AstExpr, value: int) -> isl.AstExpr:
    return e.add(isl.AstExpr.from_val(sets.integer(e.get_ctx(), value)))
