"""Full blocks of a kernel separated from partial ones: in a full block no thread needs its guards.

Before: ``for u in 0 .. 4: if (64*i0 + 4*i1 + u < M) ...``, unrolled. After: ``if (64*i0 + 64 <= M) for u in 0 .. 4:
... else`` the same with its guards. The test is uniform over a block; barriers stay outside of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Param, Select, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.traversal import substitute as substitute_in
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Allocate, Block, Comment, Deferred, For, If, Let, Load, Node, Store
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.build import conjunction, conjuncts
from tiramisu_py.ir.arithmetic.kernel_ranges import ConstantSpan, Limits, condition_of, constant_span
from tiramisu_py.ir.arithmetic.linear import Key, Linear, difference, linear, number
from tiramisu_py.ir.arithmetic.remainders import as_remainders
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.expressions import filled_load
from tiramisu_py.ir.rewriting import Names, block, children, defined, loads, substitute, variables, walk, with_children
from tiramisu_py.ir.uniform_control import meets
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.loops.full_tiles import indexes
from tiramisu_py.program.loops import TensorLoop, Unroll, Vector
from tiramisu_py.program.storage import Memory
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
        """The version with guards: scalar but for copies of vectors, and unrolled only over registers."""
        node = with_children(node, self._general)
        if isinstance(node, For) and isinstance(node.tag, Vector) and _copies_vectors(node):
            return node
        if isinstance(node, For) and (isinstance(node.tag, Vector | TensorLoop) or not indexes(node, self.registers)):
            return replace(node, tag=Unroll() if indexes(node, self.registers) else None, reductions=())
        return node


def _copies_vectors(loop: For) -> bool:
    """Whether the iterations of a vector loop copy neighbours, or zeros, under no guard of their own."""
    if constant(loop.lower) != 0 or not isinstance(loop.tag, Vector) or constant(loop.upper) != loop.tag.width:
        return False
    for node in walk(loop.body):
        match node:
            case Block() | Comment():
                pass
            case Deferred(store=store) | (Store() as store) if store.update is None:
                if filled_load(store.value) is None:
                    return False
            case If(otherwise=None) if loop.variable not in variables(node.condition):
                pass
            case _:
                return False
    return True


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
    elif isinstance(node, Store | Deferred):
        for choice in parts(node.store.value if isinstance(node, Deferred) else node.value):
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
    if isinstance(node, Deferred):
        return replace(node, store=replace(node.store, value=_decided(node.store.value, keys, limits)))
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


# -- values of an unrolled loop that are computed before any of them is stored, so that their loads overlap
#
# Before: ``for u in 0 .. 8: two[t % 2, u] = f(two[(t + 1) % 2, u])``. After: ``for u: heat[u] = f(...)``, then ``for u:
# two[t % 2, u] = heat[u]``, with heat in registers. A compiler cannot see that no stored element is loaded again.


#: Loops with more iterations would need too many registers.
MOST_VALUES = 16


def staged(node: Node, taken: Names) -> Node:
    """The statement with loops to be unrolled split in two, if they load from the array that they store to."""
    node = with_children(node, lambda child: staged(child, taken.inside(node)))
    store = _only_store(node)
    if not isinstance(node, For) or store is None or not _is_apart(store):
        return node
    name = taken.fresh(store.statement)
    here: tuple[Expr, ...] = (Iter(node.variable, int64),)
    comments = [child for child in _listed(node.body) if isinstance(child, Comment)]
    value = Store(name, here, store.value, store.statement)
    result = replace(store, value=Load(name, here, store.value.dtype))
    loops = [replace(node, body=block([*comments, value])), replace(node, body=result)]
    return Allocate(name, (node.upper,), store.value.dtype, block(loops), register=True, memory=Memory.REGISTER)


def _listed(node: Node) -> Sequence[Node]:
    return node.body if isinstance(node, Block) else (node,)


def _only_store(node: Node) -> Store | None:
    """The only statement of a short loop to be unrolled, if that is a store."""
    if not isinstance(node, For) or not isinstance(node.tag, Unroll) or constant(node.lower) != 0 or node.step != 1:
        return None
    inside = [child for child in _listed(node.body) if not isinstance(child, Comment)]
    if len(inside) != 1 or (constant(node.upper) or MOST_VALUES + 1) > MOST_VALUES:
        return None
    only = inside[0]
    return only if isinstance(only, Store) and only.update is None and not only.atomic else None


def _is_apart(store: Store) -> bool:
    """Whether a store's value loads from the same array, and only elements that no iteration stores."""
    own = [load for load in loads(store) if load.buffer == store.buffer]
    return bool(own) and all(any(map(_differ, load.indices, store.indices)) for load in own)


def _differ(a: Expr, b: Expr) -> bool:
    """Whether two indices are remainders that are never equal: ``t % 2`` and ``(t + 1) % 2``."""
    a, b = as_remainders(a), as_remainders(b)
    if not (isinstance(a, Binary) and isinstance(b, Binary) and a.op == b.op == "%"):
        return False
    divisor = constant(a.right)
    gap = difference(a.left, b.left)
    return bool(divisor) and constant(b.right) == divisor and gap is not None and gap % int(divisor or 1) != 0


# -- predication: code in which every thread takes part, as far as its guards allow
#
# Before: ``for u in 0 .. min(4, M - 64*i0 - 4*i1): ...``, unrolled. After: ``for u in 0 .. 4: if (64*i0 + 4*i1 + u < M)
# ...``, so that registers are indexed by constants only.


#: Loops of at most this many iterations are unrolled, since their guards would keep a compiler from it ..
MOST_TURNS = 16
#: .. unless that would make more stores than this.
MOST_STORES = 64


def guarded(node: Node, limits: Limits) -> Node:
    """The statement with constant extents for short loops and vectors, and guards inside in place of other bounds."""
    inside = limits.inside(node)
    node = with_children(node, lambda child: guarded(child, inside))
    if isinstance(node, If):
        return replace(node, condition=_readable(node.condition, limits))
    if not isinstance(node, For) or node.step != 1 or meets(node):
        return node
    span = constant_span(node, limits)
    if span is None or not _is_short(node, span) or (node.tag is None and not span.tests):
        return node
    return _whole(node, span, limits)


def _whole(loop: For, span: ConstantSpan, limits: Limits) -> For:
    """The loop with its full extent, counted from 0, and its other bounds as a guard inside."""
    here = Iter(loop.variable, int64)
    value = {loop.variable: here if constant(span.low) is not None else arithmetic.added(span.low, here)}
    low, high = (span.low, span.high) if constant(span.low) is not None else (number(0), number(span.extent))
    whole = replace(loop, lower=low, upper=high, tag=loop.tag or Unroll(), body=simplify(substitute(loop.body, value)))
    inside = limits.inside(whole)
    test = conjunction(_readable(simplified(substitute_in(test, value)), inside) for test in span.tests)
    return whole if test is None else replace(whole, body=If(test, whole.body))


def _readable(condition: Expr, limits: Limits) -> Expr:
    """A conjunction of comparisons, each in the form of `condition_of`."""
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
        case TensorLoop():
            return True
    return loop.tag is None and span.extent <= MOST_TURNS and span.extent * _stores(loop.body) <= MOST_STORES


@deep
def _stores(node: Node) -> int:
    """The number of stores after unrolling; above `MOST_STORES` if a loop stays a loop."""
    if isinstance(node, Store | Deferred):
        return 1
    inside = sum(map(_stores, children(node)))
    if not isinstance(node, For):
        return inside
    trip = difference(node.upper, node.lower) if isinstance(node.tag, Unroll | Vector) else None
    return MOST_STORES + 1 if trip is None else trip * inside


def first_stores(node: Node, limits: Limits) -> Node:
    """The statement without guards around the first stores to registers, of constants: extra stores do no harm."""
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
    """Whether a statement only stores values without loads, to elements inside the buffer."""
    limits = limits.inside(node)
    match node:
        case Store():
            known = zip(node.indices, owner.extents, strict=False)
            there = all(_between(index, constant(extent), limits) for index, extent in known)
            return node.buffer == owner.buffer and there and not tuple(loads(node))
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
