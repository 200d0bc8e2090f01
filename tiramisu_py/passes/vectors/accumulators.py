"""Reductions over a vector loop: partial results in a vector of their own, combined by halves.

Before: ``for i: s = s + x[i]``. After, for 16 lanes: ``p = identity; for i step 16: p = p + x[i + lane, all lanes]``,
then ``p = p + (p, 8 lanes further)``, the same with 4, 2 and 1 lanes, and ``s = s + p[0]``. The order does not depend
on the processor: a vector in several registers is combined as one is, so that registers come first, in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tiramisu_py.algorithm.declarations import Operator
from tiramisu_py.algorithm.expressions import Expr, as_typed
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.ir import Assign, Comment, Declare, For, Lane, Load, Node, Private, Shifted, Store, Variable
from tiramisu_py.ir.arithmetic.lanes import is_half
from tiramisu_py.ir.arithmetic.linear import Key, number
from tiramisu_py.ir.rewriting import Names, block, defined, loads, variables, walk, with_children
from tiramisu_py.program.loops import Combine

Place = tuple[str, Key]


@dataclass(frozen=True, eq=False)
class Partial:
    """One element that a loop reduces into, and the variable that holds its partial results."""

    target: Load
    operator: Operator
    statement: str
    variable: str


@dataclass(frozen=True, eq=False)
class Accumulation:
    """A loop's body with partial results in variables, and the code around the loop for them."""

    body: Node
    partials: tuple[Partial, ...]
    width: int
    lane: str

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the partial results."""
        return tuple(partial.variable for partial in self.partials)

    def started(self, loop: Node) -> Node:
        """The loop after the declarations of the partial results."""
        declared = [Declare(p.variable, p.operator.neutral(p.target.dtype), self.width) for p in self.partials]
        return block([*declared, loop])

    def combined(self, registers: Mapping[str, tuple[str, ...]], shuffled: bool = True) -> list[Node]:
        """The combination of the partial results after the loop; `registers` are the parts of split vectors.

        Lanes are shuffled, or else (in kernels, whose vectors are short) taken one by one.
        """
        if not self.partials:
            return []
        parts = [(partial, registers.get(partial.variable, (partial.variable,))) for partial in self.partials]
        steps = [step for partial, names in parts for step in self._combine(partial, names, shuffled)]
        return [Comment("combine the partial results"), *steps]

    def _combine(self, partial: Partial, parts: tuple[str, ...], shuffled: bool) -> Iterator[Node]:
        target, dtype = partial.target, partial.target.dtype
        vectors = [Variable(part, dtype) for part in parts]

        def combined(left: Expr, right: Expr) -> Expr:
            return as_typed(partial.operator(left, right), dtype)

        while len(vectors) > 1:
            half = len(vectors) // 2
            for low, high in zip(vectors[:half], vectors[half:], strict=True):
                yield Assign(low.name, combined(low, high), partial.statement)
            vectors = vectors[:half]
        (vector,) = vectors
        lanes = self.width // len(parts)
        values: list[Expr] = [Lane(vector, number(lane), dtype) for lane in range(1 if shuffled else lanes)]
        while lanes > 1:
            lanes //= 2
            if shuffled:
                yield Assign(vector.name, combined(vector, Shifted(vector, vector, lanes, dtype)), partial.statement)
            else:
                values = [combined(low, high) for low, high in zip(values[:lanes], values[lanes:], strict=True)]
        value = combined(target, values[0])
        yield Store(target.buffer, target.indices, value, partial.statement, partial.operator)


def accumulated(loop: For, width: int, lane: str, taken: Names) -> Accumulation:
    """The body of a vector loop with its reductions' updates turned into assignments to partial results.

    An update stays as it is if its element differs between iterations, or is also loaded elsewhere.
    """
    partials: dict[Place, Partial] = {}
    for private in loop.reductions:
        if private.combine is Combine.PRIVATE and _reducible(loop, private):
            for store in _updates(loop.body, private.buffer):
                _add(partials, store, taken)
    return Accumulation(_with_variables(loop.body, partials), tuple(partials.values()), width, lane)


def _add(partials: dict[Place, Partial], store: Store, taken: Names) -> None:
    assert store.update is not None
    target = Load(store.buffer, store.indices, store.value.dtype)
    place = (store.buffer, target.key())
    if place not in partials:
        variable = taken.fresh(f"{store.buffer}_partial")
        partials[place] = Partial(target, store.update, store.statement, variable)


def _updates(node: Node, buffer: str) -> Iterator[Store]:
    return (store for store in walk(node) if isinstance(store, Store) and store.buffer == buffer)


def _reducible(loop: For, private: Private) -> bool:
    """Whether every access to the buffer is an update of an element that is the same in all iterations."""
    stores = list(_updates(loop.body, private.buffer))
    changing = {loop.variable} | {name for node in walk(loop.body) if (name := defined(node)) is not None}
    if any(changing & variables(index) or any(_loaded(index)) for store in stores for index in store.indices):
        return False
    if any(store.update is None or is_half(store.value.dtype) for store in stores):
        return False
    places = {Load(s.buffer, s.indices, s.value.dtype).key() for s in stores}
    return all(load.key() in places for load in loads(loop.body) if load.buffer == private.buffer)


def _loaded(e: Expr) -> Iterator[bool]:
    yield isinstance(e, Load)
    for child in e.children():
        yield from _loaded(child)


@deep_nest
def _with_variables(node: Node, partials: dict[Place, Partial]) -> Node:
    if not partials:
        return node
    if isinstance(node, Store):
        target = Load(node.buffer, node.indices, node.value.dtype)
        partial = partials.get((node.buffer, target.key()))
        if partial is not None:
            return Assign(partial.variable, _reading_variable(node.value, partial), node.statement)
    return with_children(node, lambda child: _with_variables(child, partials))


def _reading_variable(value: Expr, partial: Partial) -> Expr:
    key = partial.target.key()

    def variable(e: Expr) -> Expr | None:
        return Variable(partial.variable, e.dtype) if isinstance(e, Load) and e.key() == key else None

    return rewrite(value, variable)
