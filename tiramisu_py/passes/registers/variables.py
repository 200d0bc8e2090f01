"""A buffer whose indices are constant, replaced by variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Select, typed_const
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import iterators, rewrite
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Block,
    Declare,
    For,
    If,
    Lane,
    Let,
    Load,
    Mask,
    Node,
    Ramp,
    Shifted,
    Store,
    TreeReduce,
    Variable,
)
from tiramisu_py.ir.arithmetic.linear import Key, number
from tiramisu_py.ir.rewriting import (
    block,
    buffers_in,
    children,
    contents,
    expressions,
    loads_in,
    names,
    walk,
    with_children,
    with_expressions,
)
from tiramisu_py.passes.registers.elements import Cell, access, shift
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Promotion:
    """One buffer and the variables that replace its elements, each of `lanes` lanes.

    In the statements `after` it is an array, to which the variables are stored before. If accesses to a variable have
    different masks, a store to it under a mask keeps the other lanes.
    """

    node: Allocate
    lanes: int
    variables: dict[Cell, str]
    after: tuple[Node, ...] = ()

    def body(self) -> Node:
        """The buffer's scope with variables, each declared at its first store if that is in straight-line code.

        What is not read goes, and with it the variables of buffers inside that only this has read.
        """
        promoted, live = self._promoted(self.node.body), set(self.variables.values())
        read, inside = _read(promoted), _declared_in(promoted)
        dead = live - read
        while dead:
            promoted, live = _without(promoted, dead), live - dead
            left = _read(promoted)
            dead, read = live - left | inside & (read - left), left
        statements = _flat(promoted)
        assigned = Counter(a.variable for a in walk(Block(tuple(statements))) if isinstance(a, Assign))
        once = {name for name in live if assigned[name] == 1}
        return block(self._declared(statements, live, once))

    @cached_property
    def _masks(self) -> dict[Cell | None, set[Key | None]]:
        """The masks of all accesses to each cell, as the numbers of active lanes; the masks of all under None."""
        found: dict[Cell | None, set[Key | None]] = {None: set()}
        for accessed, count in _counts(self.node.body, self.node.buffer, None, {}):
            indices = accessed[: len(self.node.extents)]
            first = access(self.node, indices)
            used = [] if first is None else [first.cell, first.next.cell] if shift(self.node, indices) else [first.cell]
            for cell in (None, *used):
                found.setdefault(cell, set()).add(count)
        return found

    def _one_mask(self, cell: Cell) -> bool:
        """Whether all accesses to a cell are under the same mask, so that the other lanes do not matter.

        The values of a ring move from cell to cell, and an array has all cells: there it takes all accesses.
        """
        masks = self._masks[None if self.node.ring or self.after else cell]
        return None not in masks and len(masks) < 2

    @cached_property
    def _replacing(self) -> frozenset[int]:
        """The stores to a ring that replace an element completely, whatever the mask (see `replacing`)."""
        return replacing(self.node) if self.node.ring else frozenset()

    @deep_nest
    def _promoted(self, node: Node, mask: Mask | None = None) -> Node:
        if self.node.buffer not in names(node):
            return node
        if any(node is kept for kept in self.after):
            return block([*self._stored(), node]) if node is self.after[0] else node
        if id(node) in self._replacing:
            mask = None
        node = with_expressions(node, self._with_variables)
        if isinstance(node, Store) and node.buffer == self.node.buffer:
            cell = self._cell(node.indices)
            return Assign(self.variables[cell], self._where_active(cell, node.value, mask), node.statement)
        if isinstance(node, Mask):
            mask = node
        return with_children(node, lambda child: self._promoted(child, mask))

    def _with_variables(self, e: Expr) -> Expr:
        return rewrite(e, self._variable) if self.node.buffer in buffers_in(e) else e

    def _where_active(self, cell: Cell, value: Expr, mask: Mask | None) -> Expr:
        """The value of a variable after a store under a mask."""
        if mask is None or self.lanes == 1 or self._one_mask(cell):
            return value
        active = Binary("<", Ramp(number(0), self.lanes), mask.count, bool_)
        return Select(active, value, Variable(self.variables[cell], self.node.dtype), self.node.dtype)

    def _stored(self) -> list[Node]:
        """The stores of the variables to the array."""
        stores: list[Node] = []
        for cell, name in self.variables.items():
            indices: list[Expr] = [number(position) for position in cell]
            if self.lanes > 1:
                indices[-1] = Ramp(number(cell[-1] * self.lanes), self.lanes)
            stores.append(Store(self.node.buffer, tuple(indices), Variable(name, self.node.dtype), self.node.buffer))
        return stores

    def _variable(self, e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer != self.node.buffer:
            return None if self.node.buffer in buffers_in(e) else e
        rank = len(self.node.extents)
        by = shift(self.node, e.indices[:rank])
        variable: Expr = Variable(self.variables[self._cell(e.indices[:rank])], e.dtype)
        if by:
            found = access(self.node, e.indices[:rank])
            assert found is not None
            return Shifted(variable, Variable(self.variables[found.next.cell], e.dtype), by, e.dtype)
        return Lane(variable, rewrite(e.indices[rank], self._variable), e.dtype) if len(e.indices) > rank else variable

    def _cell(self, indices: tuple[Expr, ...]) -> Cell:
        found = access(self.node, indices)
        assert found is not None
        return found.cell

    def _declared(self, statements: list[Node], live: set[str], once: set[str]) -> list[Node]:
        """The statements with the first, straight-line assignment of each variable as its declaration."""
        pending = set(live)
        zeros: list[Node] = []
        found: list[Node] = []
        for statement in statements:
            first = statement if isinstance(statement, Assign) and statement.variable in pending else None
            if first is not None and first.variable in iterators(first.value):
                first = None
            for name in sorted(pending & _mentioned_in(statement)):
                pending.discard(name)
                if first is None or name != first.variable:
                    zeros.append(Declare(name, self._zero(), self.lanes))
            if first is None:
                found.append(statement)
            else:
                found.append(Declare(first.variable, first.value, self.lanes, first.variable in once))
        return zeros + found

    def _zero(self) -> Const:
        return typed_const(0, self.node.dtype)


def _flat(node: Node) -> list[Node]:
    return list(node.body) if isinstance(node, Block) else [node]


def _counts(
    node: Node, buffer: str, count: Key | None, known: Mapping[str, Expr], turns: frozenset[str] = frozenset()
) -> Iterator[tuple[tuple[Expr, ...], Key | None]]:
    """The indices of each access to a buffer, and its number of active lanes, as a key with definitions substituted.

    None if all are active, or if the number differs between iterations of a loop inside the buffer's scope.
    """
    if buffer not in names(node):
        return
    if isinstance(node, For):
        turns |= {node.variable}
    if isinstance(node, Let):
        known = {**known, node.variable: rewrite(node.value, lambda e: _known(e, known))}
    if isinstance(node, Mask):
        defined = rewrite(node.count, lambda e: _known(e, known))
        count = None if turns & iterators(defined) else defined.key()
    if isinstance(node, Store) and node.buffer == buffer:
        yield node.indices, count
    used = (load for e in expressions(node) for load in loads_in(e))
    yield from ((load.indices, count) for load in used if load.buffer == buffer)
    for child in children(node):
        yield from _counts(child, buffer, count, known, turns)


def _known(e: Expr, known: Mapping[str, Expr]) -> Expr | None:
    return known.get(e.name) if isinstance(e, Iter) else None


def _read(node: Node) -> set[str]:
    """The variables that are read in a statement and those inside."""
    return {name for inner in walk(node) for e in expressions(inner) for name in iterators(e)}


def _mentioned_in(node: Node) -> set[str]:
    found: set[str] = set()
    for statement in walk(node):
        if isinstance(statement, Assign):
            found.add(statement.variable)
        for e in expressions(statement):
            found |= iterators(e)
    return found


def _declared_in(node: Node) -> set[str]:
    """The variables that a statement declares; none where a tree, which reads variables by name, is inside."""
    if TreeReduce in contents(node):
        return set()
    return {inner.variable for inner in walk(node) if isinstance(inner, Declare)}


def _without(node: Node, dead: set[str]) -> Node:
    if isinstance(node, Assign | Declare) and node.variable in dead:
        return Block(())
    return block([with_children(node, lambda child: _without(child, dead))])


# -- stores to a ring of registers after which the previous value of the element is never read
#
# At the end of each iteration the window moves: ``v[0] = v[1]; v[1] = v[2]``. An iteration stores all it reads of an
# element that is moved from but never to (v[2]), since the values that earlier iterations stored there have moved on.
# So the first store to it in an iteration replaces the whole element, including the inactive lanes of a mask.


def replacing(node: Allocate) -> frozenset[int]:
    """The ids of such stores; all accesses to the buffer must name elements or vectors."""
    inside = (store for store in walk(node.body) if isinstance(store, Store) and store.buffer == node.buffer)
    moved_to = {_cell(node, store) for store in inside if _loads(store.value, node.buffer)}
    stores = Stores(node)
    stores.visit(node.body, frozenset())
    found = {key for key, cell in stores.cells.items() if cell not in moved_to} if moved_to else set()
    return frozenset(found - stores.later)


class Stores:
    """The stores to a buffer except moves; `later` are those that follow one to the same cell in an iteration."""

    def __init__(self, node: Allocate) -> None:
        self.node = node
        self.cells: dict[int, Cell | None] = {}
        self.later: set[int] = set()

    @deep_nest
    def visit(self, node: Node, stored: frozenset[Cell | None]) -> frozenset[Cell | None]:
        """Visit a statement, given the cells stored to since the window last moved; return them as of its end."""
        if isinstance(node, Store) and node.buffer == self.node.buffer:
            source = _moved_from(self.node, node)
            if source is not None:
                return stored - {source}
            cell = self.cells[id(node)] = _cell(self.node, node)
            if cell in stored:
                self.later.add(id(node))
            return stored | {cell}
        if isinstance(node, If):
            no = stored if node.otherwise is None else self.visit(node.otherwise, stored)
            return self.visit(node.then, stored) | no
        if isinstance(node, For):
            once = self.visit(node.body, stored)
            return stored | self.visit(node.body, stored | once)
        for child in children(node):
            stored = self.visit(child, stored)
        return stored


def _moved_from(node: Allocate, store: Node) -> Cell | None:
    """The source cell of a store that moves a cell to another one; None for other stores."""
    if not isinstance(store, Store) or store.buffer != node.buffer or not isinstance(store.value, Load):
        return None
    whole = store.value.buffer == node.buffer and shift(node, store.value.indices) == 0
    found = access(node, store.value.indices) if whole else None
    return None if found is None else found.cell


def _loads(e: Expr, buffer: str) -> bool:
    return buffer in buffers_in(e)


def _cell(node: Allocate, store: Node) -> Cell | None:
    found = access(node, store.indices) if isinstance(store, Store) else None
    return None if found is None else found.cell
