"""Buffers whose indices are all constant once loops are unrolled become variables, for the processor's registers.

Before: ``allocate bx[10]; bx[0] = e; ... bx[0] + bx[1]``. After: ``bx_0 = e; ... bx_0 + bx_1``. An element that is
stored once is a constant. A buffer that is only accessed in whole vectors becomes a variable for each vector; what is
loaded from between two of them comes from both (`Shifted`).

A ring (see `rings`) that is indexed by a variable in some loops is an array there alone. Before: ``allocate v: { A; for
c0: B(c0); for c0: C(c0) }`` where C indexes v by a variable. After: A and B on variables, which are stored to v before
C.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tiramisu_py.algorithm.expressions import Const, Expr, Iter, typed_const
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.lower.ir import (
    Allocate,
    AllReduce,
    Assign,
    Block,
    Collective,
    Copy,
    Declare,
    For,
    Lane,
    Launch,
    Let,
    Load,
    Node,
    Post,
    Ramp,
    Shifted,
    Store,
    Variable,
)
from tiramisu_py.lower.linear import number
from tiramisu_py.lower.transform import (
    Names,
    all_expressions,
    block,
    constant,
    expressions,
    loads,
    names,
    walk,
    with_children,
    with_expressions,
)
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory

#: A buffer of more elements than this stays an array.
MOST_VARIABLES = 256

Cell = tuple[int, ...]


@dataclass(frozen=True)
class Access:
    """The element that constant indices name: its position, and its lanes."""

    cell: Cell
    lanes: int

    @property
    def next(self) -> Access:
        """The vector that follows."""
        return replace(self, cell=(*self.cell[:-1], self.cell[-1] + 1))


def registers(node: Node, taken: Names) -> Node:
    """The statement with such buffers turned into variables."""
    node = with_children(node, lambda child: registers(child, taken.inside(node)))
    if not isinstance(node, Allocate) or _is_shared(node):
        return node
    if node.ring and not _promotable(node, node.body):
        return _in_part(node, taken)
    return _promoted(node, taken) if _promotable(node, node.body) else node


def _promoted(node: Allocate, taken: Names) -> Node:
    known = {access for access in _accesses(node, node.body) if access is not None}
    lanes = next((access.lanes for access in known), 1)
    return Promotion(node, lanes, _variables(node.buffer, {access.cell for access in known}, taken)).body()


def _promotable(node: Allocate, inside: Node) -> bool:
    """Whether a statement's accesses to a buffer all name its elements, or vectors of one size."""
    accesses = list(_accesses(node, inside))
    known = {access for access in accesses if access is not None}
    return None not in accesses and len({access.lanes for access in known}) < 2 and len(known) <= MOST_VARIABLES


def _is_shared(node: Allocate) -> bool:
    """Whether threads share the buffer: a block's memory, or one that a parallel loop inside its scope uses."""
    if node.memory is not Memory.HOST and not node.register:
        return True
    loops = (loop for loop in walk(node.body) if isinstance(loop, For) and isinstance(loop.tag, Parallel))
    return any(node.buffer in names(loop) for loop in loops)


def _variables(buffer: str, cells: set[Cell], taken: Names) -> dict[Cell, str]:
    """A name for each element: the buffer's, and the positions in which elements differ."""
    differing = [len(set(positions)) > 1 for positions in zip(*cells, strict=True)]

    def name(cell: Cell) -> str:
        kept = [position for position, differs in zip(cell, differing, strict=True) if differs]
        return "_".join([buffer, *map(str, kept or (0,))])

    return {cell: taken.fresh(name(cell)) for cell in sorted(cells)}


def _accesses(node: Allocate, inside: Node) -> Iterator[Access | None]:
    """Every access to a buffer in a statement: what it names, or None where that is not constant."""
    for statement in walk(inside):
        if isinstance(statement, Store) and statement.buffer == node.buffer:
            whole = len(statement.indices) == len(node.extents) and _shift(node, statement.indices) == 0
            yield _access(node, statement.indices) if whole else None
        if isinstance(statement, Copy | Collective) and node.buffer in (statement.source, statement.target):
            yield None
        if isinstance(statement, Post | AllReduce) and node.buffer == statement.array:
            yield None
        if isinstance(statement, Launch) and node.buffer in statement.arrays:
            yield None
    for load in loads(inside):
        if load.buffer == node.buffer:
            indices = load.indices[: len(node.extents)]
            first = _access(node, indices)
            yield first
            if first is not None and _shift(node, indices):
                yield first.next


def _access(node: Allocate, indices: tuple[Expr, ...]) -> Access | None:
    """The element, or the vector in which the first element is."""
    lanes, last = node.lanes, indices[-1:]
    positions = [constant(index) for index in indices]
    if node.lanes == 1 and last and isinstance(last[0], Ramp):
        lanes, start = last[0].lanes, constant(last[0].base)
        positions[-1] = start // lanes if start is not None else None
    if any(position is None for position in positions):
        return None
    return Access(tuple(p for p in positions if p is not None), lanes)


def _shift(node: Allocate, indices: tuple[Expr, ...]) -> int:
    """How many elements after the beginning of a vector others are accessed."""
    if node.lanes > 1 or not indices or not isinstance(indices[-1], Ramp):
        return 0
    start = constant(indices[-1].base)
    return 0 if start is None else start % indices[-1].lanes


# -- in some loops


def _in_part(node: Allocate, taken: Names) -> Node:
    """A ring as variables up to the first statement that needs it as an array, and as an array from there on."""
    after = _needing_array(node, node.body)
    before = _without(node.body, {id(statement) for statement in after})
    if not _promotable(node, before) or not any(isinstance(inner, For) for inner in walk(before)):
        return node
    known = {access for access in _accesses(node, before) if access is not None}
    lanes = next((access.lanes for access in known), 1)
    variables = _variables(node.buffer, {access.cell for access in known}, taken)
    return replace(node, body=Promotion(node, lanes, variables, tuple(after)).body())


def _needing_array(node: Allocate, inside: Node) -> list[Node]:
    """The first statement in which a buffer has to be an array, and those after it."""
    if _promotable(node, inside):
        return []
    if isinstance(inside, Let):
        return _needing_array(node, inside.body)
    if not isinstance(inside, Block):
        return [inside]
    for position, child in enumerate(inside.body):
        found = _needing_array(node, child)
        if found:
            return [*found, *inside.body[position + 1 :]]
    return [inside]


def _without(node: Node, left_out: set[int]) -> Node:
    return Block(()) if id(node) in left_out else with_children(node, lambda child: _without(child, left_out))


@dataclass(frozen=True, eq=False)
class Promotion:
    """One buffer and the variables that replace its elements, each of `lanes` lanes.

    In the statements `after` it is an array, to which the variables are stored before.
    """

    node: Allocate
    lanes: int
    variables: dict[Cell, str]
    after: tuple[Node, ...] = ()

    def body(self) -> Node:
        """The buffer's scope over variables, each declared where it is first stored, if that is straight-line code."""
        promoted = self._promoted(self.node.body)
        read = {e.name for e in all_expressions(promoted) if isinstance(e, Iter)}
        live = {name for name in self.variables.values() if name in read}
        statements = _flat(_without_assigns(promoted, set(self.variables.values()) - live))
        assigned = [a.variable for a in walk(Block(tuple(statements))) if isinstance(a, Assign)]
        once = {name for name in live if assigned.count(name) == 1}
        return block(self._declared(statements, live, once))

    def _promoted(self, node: Node) -> Node:
        if any(node is kept for kept in self.after):
            return block([*self._stored(), node]) if node is self.after[0] else node
        node = with_expressions(node, lambda e: rewrite(e, self._variable))
        if isinstance(node, Store) and node.buffer == self.node.buffer:
            return Assign(self.variables[self._cell(node.indices)], node.value, node.statement)
        return with_children(node, self._promoted)

    def _stored(self) -> list[Node]:
        """The variables, stored to the array."""
        stores: list[Node] = []
        for cell, name in self.variables.items():
            indices: list[Expr] = [number(position) for position in cell]
            if self.lanes > 1:
                indices[-1] = Ramp(number(cell[-1] * self.lanes), self.lanes)
            stores.append(Store(self.node.buffer, tuple(indices), Variable(name, self.node.dtype), self.node.buffer))
        return stores

    def _variable(self, e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer != self.node.buffer:
            return None
        rank = len(self.node.extents)
        shift = _shift(self.node, e.indices[:rank])
        variable: Expr = Variable(self.variables[self._cell(e.indices[:rank])], e.dtype)
        if shift:
            access = _access(self.node, e.indices[:rank])
            assert access is not None
            return Shifted(variable, Variable(self.variables[access.next.cell], e.dtype), shift, e.dtype)
        return Lane(variable, rewrite(e.indices[rank], self._variable), e.dtype) if len(e.indices) > rank else variable

    def _cell(self, indices: tuple[Expr, ...]) -> Cell:
        access = _access(self.node, indices)
        assert access is not None
        return access.cell

    def _declared(self, statements: list[Node], live: set[str], once: set[str]) -> list[Node]:
        """The statements with the first, straight-line assignment of each variable as its declaration."""
        pending = set(live)
        zeros: list[Node] = []
        found: list[Node] = []
        for statement in statements:
            first = isinstance(statement, Assign) and statement.variable in pending
            if first and isinstance(statement, Assign) and statement.variable not in _mentioned(statement.value):
                name = statement.variable
                pending.discard(name)
                found.append(Declare(name, statement.value, self.lanes, name in once))
                continue
            for name in sorted(pending & _mentioned_in(statement)):
                pending.discard(name)
                zeros.append(Declare(name, self._zero(), self.lanes))
            found.append(statement)
        return zeros + found

    def _zero(self) -> Const:
        return typed_const(0, self.node.dtype)


def _flat(node: Node) -> list[Node]:
    return list(node.body) if isinstance(node, Block) else [node]


def _mentioned(e: Expr) -> set[str]:
    return {part.name for part in parts(e) if isinstance(part, Iter)}


def _mentioned_in(node: Node) -> set[str]:
    found: set[str] = set()
    for statement in walk(node):
        if isinstance(statement, Assign):
            found.add(statement.variable)
        for e in expressions(statement):
            found |= _mentioned(e)
    return found


def _without_assigns(node: Node, dead: set[str]) -> Node:
    if isinstance(node, Assign) and node.variable in dead:
        return Block(())
    return block([with_children(node, lambda child: _without_assigns(child, dead))]) if dead else node
