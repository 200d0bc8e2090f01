"""Reductions over a vector loop: partial results in a vector of their own, combined by halves.

Before: ``for i: s = s + x[i]``. After, for 16 lanes: ``p = identity; for i step 16: p = p + x[i + lane, all lanes]``,
then ``p = p + (p, 8 lanes further)``, the same with 4, 2 and 1 lanes, and ``s = s + p[0]``. The order does not depend
on the processor: a vector in several registers is combined as one is, so that registers come first, in pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import DType, component_types
from tiramisu_py.ir import Assign, Comment, Declare, For, Lane, Let, Load, Node, Private, Shifted, Store, Variable
from tiramisu_py.ir.arithmetic.components import combined, neutral
from tiramisu_py.ir.arithmetic.lanes import is_half
from tiramisu_py.ir.arithmetic.linear import Key, number
from tiramisu_py.ir.rewriting import Names, block, defined, loads, variables, walk, with_children, with_expressions
from tiramisu_py.program.loops import Combine
from tiramisu_py.records import dataclass

Place = tuple[str, Key]


@dataclass(frozen=True, eq=False)
class Partial:
    """One element that a loop reduces into, and the variables that hold its partial results.

    A value of `dtype` has an element and a variable for each of its components, those of a scalar type one.
    """

    targets: tuple[Load, ...]
    dtype: DType
    operator: Operator
    statement: str
    variables: tuple[str, ...]

    @property
    def starts(self) -> tuple[tuple[str, Expr], ...]:
        """The variables, and the neutral element."""
        return tuple(zip(self.variables, neutral(self.operator, self.dtype), strict=True))


@dataclass(frozen=True, eq=False)
class Accumulation:
    """A loop's body with partial results in variables, and the code around the loop for them."""

    body: Node
    partials: tuple[Partial, ...]
    width: int
    lane: str
    taken: Names | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the partial results."""
        return tuple(name for partial in self.partials for name in partial.variables)

    def is_complete(self, loop: For) -> bool:
        """Whether values of several components have partial results: these are not updated lane by lane."""
        done = {target.buffer for partial in self.partials for target in partial.targets}
        return all(private.dtype is None or private.buffer in done for private in loop.reductions)

    def started(self, loop: Node) -> Node:
        """The loop after the declarations of the partial results."""
        starts = [start for partial in self.partials for start in partial.starts]
        return block([*(Declare(name, value, self.width) for name, value in starts), loop])

    def combined(self, registers: Mapping[str, tuple[str, ...]], shuffled: bool = True) -> list[Node]:
        """The combination of the partial results after the loop; `registers` are the parts of split vectors.

        Lanes are shuffled, or else (in kernels, whose vectors are short) taken one by one.
        """
        if not self.partials:
            return []
        steps = [step for partial in self.partials for step in self._combine(partial, registers, shuffled)]
        return [Comment("combine the partial results"), *steps]

    def _combine(self, partial: Partial, registers: Mapping[str, tuple[str, ...]], shuffled: bool) -> Iterator[Node]:
        types = component_types(partial.dtype)
        split = [registers.get(name, (name,)) for name in partial.variables]
        vectors = [_variables(names, types) for names in zip(*split, strict=True)]
        lanes = self.width // len(vectors)
        while len(vectors) > 1:
            half = len(vectors) // 2
            for low, high in zip(vectors[:half], vectors[half:], strict=True):
                yield _assigned(partial, low, high)
            vectors = vectors[:half]
        (vector,) = vectors
        if not shuffled:
            yield self._by_lanes(partial, [_of_lane(vector, lane) for lane in range(lanes)])
            return
        while lanes > 1:
            lanes //= 2
            yield _assigned(partial, vector, [Shifted(e, e, lanes, e.dtype) for e in vector])
        yield _stored(partial, combined(partial.operator, partial.targets, _of_lane(vector, 0), partial.dtype))

    def _by_lanes(self, partial: Partial, values: Sequence[Value]) -> Node:
        """The values of lanes combined by halves; what becomes of several components in one step has names."""
        if len(values) == 1:
            return _stored(partial, combined(partial.operator, partial.targets, values[0], partial.dtype))
        half = len(values) // 2
        pairs = zip(values[:half], values[half:], strict=True)
        new: list[Value] = [combined(partial.operator, low, high, partial.dtype) for low, high in pairs]
        if len(partial.targets) == 1 or self.taken is None:
            return self._by_lanes(partial, new)
        names = [[self.taken.fresh(f"{name}_new") for name in partial.variables] for _ in new]
        types = component_types(partial.dtype)
        inner = self._by_lanes(partial, [_variables(each, types) for each in names])
        for own, value in reversed(list(zip(names, new, strict=True))):
            for name, e in reversed(list(zip(own, value, strict=True))):
                inner = Let(name, e, inner)
        return inner


#: A value by its components.
Value = Sequence[Expr]


def _variables(names: Sequence[str], types: Sequence[DType]) -> list[Variable]:
    return [Variable(name, dtype) for name, dtype in zip(names, types, strict=True)]


def _of_lane(vector: Value, lane: int) -> Value:
    return [Lane(e, number(lane), e.dtype) for e in vector]


def _assigned(partial: Partial, into: Sequence[Variable], other: Value) -> Node:
    """The assignment of the combination of two values to the variables of the first one."""
    values = combined(partial.operator, into, other, partial.dtype)
    return _at_once(partial, values, lambda k, value: Assign(into[k].name, value, partial.statement))


def _stored(partial: Partial, values: Value) -> Node:
    update = partial.operator if len(partial.targets) == 1 else None

    def store(k: int, value: Expr) -> Store:
        return Store(partial.targets[k].buffer, partial.targets[k].indices, value, partial.statement, update)

    return _at_once(partial, values, store)


def _at_once(partial: Partial, values: Value, change: Callable[[int, Expr], Node]) -> Node:
    """Changes of all components, the values of which are computed before the first of these."""
    if len(values) == 1:
        return change(0, values[0])
    names = [f"{name}_new" for name in partial.variables]
    new = [Variable(name, value.dtype) for name, value in zip(names, values, strict=True)]
    changed = block(change(k, e) for k, e in enumerate(new))
    for name, value in reversed(list(zip(names, values, strict=True))):
        changed = Let(name, value, changed)
    return changed


def accumulated(loop: For, width: int, lane: str, taken: Names) -> Accumulation:
    """The body of a vector loop with its reductions' updates turned into assignments to partial results.

    An update stays as it is if its element differs between iterations, or is also loaded elsewhere.
    """
    partials: dict[Place, Partial] = {}
    for private in loop.reductions:
        if private.combine is Combine.PRIVATE and _reducible(loop, private):
            for store in _updates(loop.body, private.buffer):
                _add(partials, private, store, taken)
    variables = {
        (target.buffer, target.key()): name
        for partial in partials.values()
        for target, name in zip(partial.targets, partial.variables, strict=True)
    }
    return Accumulation(_with_variables(loop.body, variables), tuple(partials.values()), width, lane, taken)


def _add(partials: dict[Place, Partial], private: Private, store: Store, taken: Names) -> None:
    place = (store.buffer, Load(store.buffer, store.indices, store.value.dtype).key())
    if place in partials:
        return
    dtype = store.value.dtype if private.dtype is None else private.dtype
    targets = tuple(
        Load(buffer, store.indices, own) for buffer, own in zip(private.buffers, component_types(dtype), strict=True)
    )
    names = tuple(_fresh(taken, f"{buffer}_partial", private) for buffer in private.buffers)
    partials[place] = Partial(targets, dtype, private.operator, store.statement, names)


def _fresh(taken: Names, name: str, private: Private) -> str:
    """A new name for a partial result, and for what it becomes in one step where there are several components."""
    found = taken.fresh(name)
    while private.dtype is not None and taken.fresh(f"{found}_new") != f"{found}_new":
        found = taken.fresh(name)
    return found


def _updates(node: Node, buffer: str) -> Iterator[Store]:
    return (store for store in walk(node) if isinstance(store, Store) and store.buffer == buffer)


def _reducible(loop: For, private: Private) -> bool:
    """Whether every access to the buffers is an update of an element that is the same in all iterations."""
    changing = {loop.variable} | {name for node in walk(loop.body) if (name := defined(node)) is not None}
    places: set[tuple[Key, ...]] | None = None
    for buffer in private.buffers:
        stores = list(_updates(loop.body, buffer))
        if any(changing & variables(index) or any(_loaded(index)) for store in stores for index in store.indices):
            return False
        if any(is_half(store.value.dtype) or (private.dtype is None and store.update is None) for store in stores):
            return False
        keys = {Load(s.buffer, s.indices, s.value.dtype).key() for s in stores}
        if any(load.key() not in keys for load in loads(loop.body) if load.buffer == buffer):
            return False
        own = {tuple(index.key() for index in store.indices) for store in stores}
        if places not in (None, own):
            return False
        places = own
    return True


def _loaded(e: Expr) -> Iterator[bool]:
    yield isinstance(e, Load)
    for child in e.children():
        yield from _loaded(child)


@deep_nest
def _with_variables(node: Node, names: dict[Place, str]) -> Node:
    """The statement with variables in the place of elements, which it updates."""
    if not names:
        return node

    def variable(e: Expr) -> Expr | None:
        name = names.get((e.buffer, e.key())) if isinstance(e, Load) else None
        return None if name is None else Variable(name, e.dtype)

    node = with_expressions(node, lambda e: rewrite(e, variable))
    if isinstance(node, Store):
        name = names.get((node.buffer, Load(node.buffer, node.indices, node.value.dtype).key()))
        if name is not None:
            return Assign(name, node.value, node.statement)
    return with_children(node, lambda child: _with_variables(child, names))
