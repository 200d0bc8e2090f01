"""Full blocks of a kernel separated from partial ones: in a full block no thread needs its guards.

Before: ``for u in 0 .. 4: if (64*i0 + 4*i1 + u < M) ...``, unrolled. After: ``if (64*i0 + 64 <= M) for u in 0 .. 4:
... else`` the same with its guards. The test is uniform over a block; barriers stay outside of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Param, Select
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.ir import Allocate, For, If, Let, Node, Store
from tiramisu_py.ir.arithmetic.build import conjunction, conjuncts
from tiramisu_py.ir.arithmetic.kernel_ranges import Limits, condition_of
from tiramisu_py.ir.arithmetic.linear import Key, Linear, linear
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.ir.rewriting import Names, children, defined, walk, with_children
from tiramisu_py.ir.uniform_control import meets
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.kernels.loads_first import staged
from tiramisu_py.passes.kernels.predicate import first_stores, guarded
from tiramisu_py.passes.loops.full_tiles import indexes
from tiramisu_py.program.loops import TensorLoop, Unroll, Vector
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class FullBlocks(NestPass):
    """Separate full blocks of a kernel, in which no thread needs a guard, from partial ones.

    ::

        for u in 0 .. min(4, M - 64*i0 - 4*i1):     -->   if (64*i0 + 64 <= M):
            S[u]                                              for u in 0 .. 4: S[u]
                                                          else:
                                                              for u in 0 .. 4:
                                                                  if (64*i0 + 4*i1 + u < M): S[u]

    Bounds of short loops become guards first (predication), so that registers are indexed by constants only.
    """

    def apply(self, what: Node, about: About) -> Node:
        assert about.threads is not None
        return full_blocks(what, about.threads, about.taken)


def full_blocks(node: Node, shape: tuple[int, int, int], taken: Names) -> Node:
    """A nest of a kernel with blocks of `shape` threads, its full blocks separated from partial ones."""
    limits = Limits(shape)
    registers = frozenset(inner.buffer for inner in walk(node) if isinstance(inner, Allocate) and inner.register)
    node = simplify(first_stores(guarded(node, limits), limits))
    return simplify(Apart(registers, taken).separated(node, limits))


@dataclass(frozen=True, eq=False)
class Guard:
    """The worst case of a comparison, as a linear form, and whether it is `repeated` in a loop to be unrolled.

    Where the form is at least 0, the comparison is `value` for all threads of a block.
    """

    form: Linear
    repeated: bool
    value: bool = True

    @property
    def key(self) -> Key:
        """The key of the test: guards with the same key hold in the same blocks."""
        return condition_of(self.form).key()

    @property
    def free(self) -> set[str]:
        """The variables that the test depends on."""
        atoms = (atom for atom, _ in self.form.terms.values())
        return {part.name for atom in atoms for part in parts(atom) if isinstance(part, Iter)}


def _test(guards: Iterable[Guard]) -> Expr:
    """The conjunction of the tests of some guards; of tests that differ only by a constant, the strictest."""
    strictest: dict[frozenset[tuple[Key, int]], Linear] = {}
    for guard in guards:
        terms = frozenset((key, factor) for key, (_, factor) in guard.form.terms.items())
        known = strictest.get(terms)
        if known is None or guard.form.constant < known.constant:
            strictest[terms] = guard.form
    test = conjunction(condition_of(form, whole=True) for form in strictest.values())
    assert test is not None
    return test


@dataclass(frozen=True, eq=False)
class Apart:
    """Separates full blocks; `registers` are the buffers that only constants may index."""

    registers: frozenset[str]
    taken: Names

    def separated(self, node: Node, limits: Limits) -> Node:
        """The statement with a test around each barrier-free part that gains by it."""
        if not meets(node) and not _is_transparent(node, limits):
            guards = {guard.key: guard for guard in _guards(node, limits, False)}
            if not any(guard.repeated for guard in guards.values()):
                return node
            own = {name for inner in walk(node) if (name := defined(inner)) is not None}
            if not any(guard.free & own for guard in guards.values()):
                full = staged(simplify(_without(node, frozenset(guards), limits)), self.taken)
                return If(_test(guards.values()), full, self._general(node))
        inside = limits.inside(node)
        return with_children(node, lambda child: self.separated(child, inside))

    def _general(self, node: Node) -> Node:
        """The version with guards: scalar, and unrolled only over registers."""
        node = with_children(node, self._general)
        if isinstance(node, For) and (isinstance(node.tag, Vector | TensorLoop) or not indexes(node, self.registers)):
            return replace(node, tag=Unroll() if indexes(node, self.registers) else None, reductions=())
        return node


def _is_transparent(node: Node, limits: Limits) -> bool:
    """Whether a test may as well be inside a statement: a definition, an allocation, or a uniform condition."""
    if isinstance(node, Let | Allocate):
        return True
    if not isinstance(node, If) or node.otherwise is not None:
        return False
    return not any(_guard(part, limits, False) for part in conjuncts(node.condition))


def _guards(node: Node, limits: Limits, repeated: bool) -> Iterator[Guard]:
    """The comparisons in a statement that depend on the thread, or on loops of constant extent."""
    if isinstance(node, If):
        yield from _found(_guard(part, limits, repeated) for part in conjuncts(node.condition))
    elif isinstance(node, Store):
        for choice in parts(node.value):
            if isinstance(choice, Select):
                yield from _found(guard for _, guard in _decisions(choice.condition, limits, repeated))
    inside = limits.inside(node)
    again = repeated or (isinstance(node, For) and isinstance(node.tag, Unroll | Vector | TensorLoop))
    for child in children(node):
        yield from _guards(child, inside, again)


def _found(guards: Iterable[Guard | None]) -> Iterator[Guard]:
    return (guard for guard in guards if guard is not None)


def _guard(condition: Expr, limits: Limits, repeated: bool, value: bool = True) -> Guard | None:
    form = limits.form(condition)
    if form is None or not limits.varies(form):
        return None
    worst = limits.worst(form)
    return None if worst is None or worst.is_constant else Guard(worst, repeated, value)


def _decisions(condition: Expr, limits: Limits, repeated: bool) -> list[tuple[Expr, Guard | None]]:
    """The comparisons of a select's condition, with the guards that decide them in the interior.

    In the interior all conditions of a conjunction hold, no alternative of a disjunction holds, and no equation holds.
    """
    either = _alternatives(condition)
    if len(either) == 1 and not _is_equation(condition):
        return [(part, _guard(part, limits, repeated)) for part in conjuncts(condition)]
    return [(part, _guard(_opposite(part), limits, repeated, False)) for part in either]


def _alternatives(condition: Expr) -> list[Expr]:
    if isinstance(condition, Binary) and condition.op == "|" and condition.dtype.is_bool:
        return _alternatives(condition.left) + _alternatives(condition.right)
    return [condition]


def _is_equation(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op == "=="


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _opposite(e: Expr) -> Expr:
    """A comparison that holds only where the given one does not; for an equation, the side away from the sizes."""
    if not isinstance(e, Binary) or e.op not in (*_OPPOSITE, "=="):
        return e
    if e.op != "==":
        return Binary(_OPPOSITE[e.op], e.left, e.right, bool_)
    gap = linear(e.left).plus(linear(e.right), -1)
    below = any(isinstance(atom, Param) and factor < 0 for atom, factor in gap.terms.values())
    return Binary("<" if below else ">", e.left, e.right, bool_)


def _without(node: Node, keys: frozenset[Key], limits: Limits) -> Node:
    """The statement without the guards that these tests (by their keys) imply."""
    inside = limits.inside(node)
    node = with_children(node, lambda child: _without(child, keys, inside))
    if isinstance(node, Store):
        return replace(node, value=_decided(node.value, keys, limits))
    if not isinstance(node, If):
        return node
    guards = [(part, _guard(part, limits, False)) for part in conjuncts(node.condition)]
    left = conjunction(part for part, guard in guards if guard is None or guard.key not in keys)
    return node.then if left is None else replace(node, condition=left)


def _decided(value: Expr, keys: frozenset[Key], limits: Limits) -> Expr:
    """A value with the comparisons in its selects replaced if tests with these keys decide them."""

    def change(e: Expr) -> Expr | None:
        if not isinstance(e, Select):
            return None
        decided = {
            part.key(): Const(guard.value, bool_)
            for part, guard in _decisions(e.condition, limits, False)
            if guard is not None and guard.key in keys
        }
        condition = rewrite(e.condition, lambda part: decided.get(part.key()))
        return e.rebuilt((condition, rewrite(e.yes, change), rewrite(e.no, change)))

    return rewrite(value, change)
