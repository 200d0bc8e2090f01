"""Full blocks of a kernel apart from partial ones: where no thread of the block needs its guards, or where some do.

Before: ``for u in 0 .. min(4, M - 64*i0 - 4*i1): ...``, unrolled. First: ``for u in 0 .. 4: if (64*i0 + 4*i1 + u < M)
...``, so that constants alone index registers. Then: ``if (64*i0 + 64 <= M) for u in 0 .. 4: ... else`` the same with
its guards. The test is the same for all threads of a block; barriers stay outside of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.traversal import substitute as substitute_in
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.algorithm.types import int64
from tiramisu_py.lower import arithmetic
from tiramisu_py.lower.arithmetic import conjunction, conjuncts
from tiramisu_py.lower.convergence import meets
from tiramisu_py.lower.full_tiles import indexes
from tiramisu_py.lower.ir import Allocate, Block, Comment, For, If, Let, Node, Store
from tiramisu_py.lower.limits import ConstantSpan, Limits, condition_of, constant_span
from tiramisu_py.lower.linear import Key, Linear, linear, number
from tiramisu_py.lower.simplify import simplified, simplify
from tiramisu_py.lower.transform import (
    block,
    constant,
    defined,
    is_empty,
    loads,
    read_buffers,
    substitute,
    variables,
    walk,
    with_children,
)
from tiramisu_py.program.loops import Unroll, Vector

#: Loops of at most so many iterations are unrolled where guards would keep a compiler from it.
MOST_TURNS = 8


def full_blocks(node: Node, shape: tuple[int, int, int]) -> Node:
    """A nest of a kernel, with blocks of `shape` threads, with its full blocks apart from partial ones."""
    limits = Limits(shape)
    registers = frozenset(inner.buffer for inner in walk(node) if isinstance(inner, Allocate) and inner.register)
    node = simplify(first_stores(guarded(node, limits), limits))
    return simplify(Apart(registers).separated(node, limits))


# -- guards in place of bounds


def guarded(node: Node, limits: Limits) -> Node:
    """The statement with short loops and vectors of constant extent, and guards inside instead of other bounds."""
    inside = limits.inside(node)
    node = with_children(node, lambda child: guarded(child, inside))
    if isinstance(node, If):
        return replace(node, condition=_readable(node.condition, limits))
    if not isinstance(node, For) or node.step != 1 or meets(node):
        return node
    span = constant_span(node)
    if span is None or not _is_short(node, span) or (node.tag is None and not span.tests):
        return node
    return _whole(node, span, limits)


def _whole(loop: For, span: ConstantSpan, limits: Limits) -> For:
    """The loop with its full extent, counted from 0, and what its bounds say as a guard inside."""
    here = Iter(loop.variable, int64)
    value = {loop.variable: here if constant(span.low) is not None else arithmetic.added(span.low, here)}
    low, high = (span.low, span.high) if constant(span.low) is not None else (number(0), number(span.extent))
    whole = replace(loop, lower=low, upper=high, tag=loop.tag or Unroll(), body=simplify(substitute(loop.body, value)))
    inside = limits.inside(whole)
    test = conjunction(_readable(simplified(substitute_in(test, value)), inside) for test in span.tests)
    return whole if test is None else replace(whole, body=If(test, whole.body))


def _readable(condition: Expr, limits: Limits) -> Expr:
    """A conjunction of comparisons in the words of `condition_of`."""
    forms = [(part, limits.form(part)) for part in conjuncts(condition)]
    whole = conjunction(part if form is None else condition_of(form) for part, form in forms)
    assert whole is not None
    return whole


def _is_short(loop: For, span: ConstantSpan) -> bool:
    match loop.tag:
        case Vector():
            return span.extent % loop.tag.width == 0
        case Unroll():
            return loop.tag.factor is None
    return loop.tag is None and span.extent <= MOST_TURNS


def first_stores(node: Node, limits: Limits) -> Node:
    """The statement without guards of the constants that are stored in registers first: more threads do no harm."""
    inside = limits.inside(node)
    node = with_children(node, lambda child: first_stores(child, inside))
    if not isinstance(node, Allocate) or not node.register or not isinstance(node.body, Block):
        return node
    for position, statement in enumerate(node.body.body):
        if not isinstance(statement, Comment):
            if not _only_constants(statement, node, inside):
                return node
            changed = (*node.body.body[:position], _unguarded(statement), *node.body.body[position + 1 :])
            return replace(node, body=block(changed))
    return node


def _only_constants(node: Node, owner: Allocate, limits: Limits) -> bool:
    """Whether all that is done is to store what loads nothing in elements that there are."""
    limits = limits.inside(node)
    match node:
        case Store():
            known = zip(node.indices, owner.extents, strict=False)
            there = all(_between(index, constant(extent), limits) for index, extent in known)
            return node.buffer == owner.buffer and there and not any(loads(node))
        case For() | If() | Block():
            inner = node.body if isinstance(node, Block) else (node.body,) if isinstance(node, For) else (node.then,)
            plain = not isinstance(node, If) or node.otherwise is None
            return plain and all(_only_constants(child, owner, limits) for child in inner)
    return isinstance(node, Comment)


def _between(index: Expr, extent: int | None, limits: Limits) -> bool:
    if extent is None:
        return False
    inside = (linear(index), Linear({}, extent - 1).plus(linear(index), -1))
    least = [limits.worst(form) for form in inside]
    return all(form is not None and form.is_constant and form.constant >= 0 for form in least)


def _unguarded(node: Node) -> Node:
    return _unguarded(node.then) if isinstance(node, If) else with_children(node, _unguarded)


# -- the two versions


@dataclass(frozen=True, eq=False)
class Guard:
    """A comparison at its worst: the test, whether it stands in a loop to be unrolled, and what it depends on."""

    key: Key
    test: Expr
    repeated: bool
    free: frozenset[str]


@dataclass(frozen=True)
class Apart:
    """Takes full blocks apart; `registers` are the buffers that constants alone may index."""

    registers: frozenset[str]

    def separated(self, node: Node, limits: Limits) -> Node:
        """The statement with a test around each part without barriers that gains by it."""
        if not meets(node) and not _is_transparent(node, limits):
            guards = {guard.key: guard for guard in _guards(node, limits, False)}
            if not any(guard.repeated for guard in guards.values()):
                return node
            own = {name for inner in walk(node) if (name := defined(inner)) is not None}
            if not any(guard.free & own for guard in guards.values()):
                test = conjunction(guard.test for guard in guards.values())
                assert test is not None
                return If(test, _without(node, frozenset(guards), limits), self._general(node))
        inside = limits.inside(node)
        return with_children(node, lambda child: self.separated(child, inside))

    def _general(self, node: Node) -> Node:
        """The version with guards: scalar, and unrolled only over registers."""
        node = with_children(node, self._general)
        if isinstance(node, For) and (isinstance(node.tag, Vector) or not indexes(node, self.registers)):
            return replace(node, tag=Unroll() if indexes(node, self.registers) else None, reductions=())
        return node


def _is_transparent(node: Node, limits: Limits) -> bool:
    """Whether a test may as well stand inside: of a definition, memory, or a condition that all threads share."""
    if isinstance(node, Let | Allocate):
        return True
    if not isinstance(node, If) or node.otherwise is not None:
        return False
    return not any(guard for part in conjuncts(node.condition) if (guard := _guard(part, limits, False)))


def _guards(node: Node, limits: Limits, repeated: bool) -> Iterator[Guard]:
    """The comparisons in a statement that depend on the thread, or on loops of constant extent."""
    if isinstance(node, If):
        for part in conjuncts(node.condition):
            guard = _guard(part, limits, repeated)
            if guard is not None:
                yield guard
    inside = limits.inside(node)
    again = repeated or (isinstance(node, For) and isinstance(node.tag, Unroll | Vector))
    for child in _children(node):
        yield from _guards(child, inside, again)


def _children(node: Node) -> tuple[Node, ...]:
    found: list[Node] = []
    with_children(node, lambda child: (found.append(child), child)[1])
    return tuple(found)


def _guard(condition: Expr, limits: Limits, repeated: bool) -> Guard | None:
    form = limits.form(condition)
    if form is None or not limits.varies(form):
        return None
    worst = limits.worst(form)
    if worst is None or worst.is_constant:
        return None
    test = condition_of(worst, whole=True)
    return Guard(test.key(), test, repeated, frozenset(_names(worst)))


def _names(form: Linear) -> Iterator[str]:
    for atom, _ in form.terms.values():
        yield from (part.name for part in parts(atom) if isinstance(part, Iter))


def _without(node: Node, keys: frozenset[Key], limits: Limits) -> Node:
    """The statement without the guards that hold where the tests with these keys hold."""
    inside = limits.inside(node)
    node = with_children(node, lambda child: _without(child, keys, inside))
    if not isinstance(node, If):
        return node
    guards = [(part, _guard(part, limits, False)) for part in conjuncts(node.condition)]
    left = conjunction(part for part, guard in guards if guard is None or guard.key not in keys)
    return node.then if left is None else replace(node, condition=left)


# -- what reads better


def tidy(node: Node) -> Node:
    """The statement with neighbours under the same condition under one."""
    node = with_children(node, tidy)
    if not isinstance(node, Block):
        return node
    merged: list[Node] = []
    for child in node.body:
        last = merged[-1] if merged else None
        if isinstance(child, If) and isinstance(last, If) and _same(last, child):
            merged[-1] = replace(last, then=tidy(block([last.then, child.then])))
        else:
            merged.append(child)
    return block(merged)


def _same(first: If, second: If) -> bool:
    """Whether two conditions are one, that the first branch does not change."""
    plain = first.otherwise is None and second.otherwise is None
    if not plain or first.condition.key() != second.condition.key() or is_empty(first.then):
        return False
    return not read_buffers(If(first.condition, Block(()))) and not (_assigned(first.then) & variables(first.condition))


def _assigned(node: Node) -> set[str]:
    return {inner.variable for inner in walk(node) if hasattr(inner, "variable") and not isinstance(inner, For | Let)}
