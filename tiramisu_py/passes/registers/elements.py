"""The elements, or vectors of elements, that a buffer's accesses name by constant indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Expr, constant
from tiramisu_py.ir import Allocate, AllReduce, ArrayCall, Collective, Copy, Launch, Node, Post, Ramp, Store
from tiramisu_py.ir.rewriting import expressions, loads_in, naming
from tiramisu_py.records import dataclass

Cell = tuple[int, ...]


@dataclass(frozen=True)
class ElementAccess:
    """The element or vector that constant indices name: its position, and its lanes."""

    cell: Cell
    lanes: int

    @property
    def next(self) -> ElementAccess:
        """The vector that follows."""
        return replace(self, cell=(*self.cell[:-1], self.cell[-1] + 1))


def accesses(node: Allocate, inside: Node) -> Iterator[ElementAccess | None]:
    """Every access to a buffer in a statement: its element, or None if its indices are not constant."""
    for statement in naming(inside, node.buffer):
        if isinstance(statement, Store) and statement.buffer == node.buffer:
            whole = len(statement.indices) == len(node.extents) and shift(node, statement.indices) == 0
            yield access(node, statement.indices) if whole else None
        if isinstance(statement, Copy | Collective) and node.buffer in (statement.source, statement.target):
            yield None
        if isinstance(statement, Post) and node.buffer == statement.array:
            yield None
        if isinstance(statement, Launch | ArrayCall | AllReduce) and node.buffer in statement.arrays:
            yield None
    own = (e for statement in naming(inside, node.buffer) for e in expressions(statement))
    for load in (load for e in own for load in loads_in(e)):
        if load.buffer == node.buffer:
            indices = load.indices[: len(node.extents)]
            first = access(node, indices)
            yield first
            if first is not None and shift(node, indices):
                yield first.next


def access(node: Allocate, indices: tuple[Expr, ...]) -> ElementAccess | None:
    """The element, or the vector that contains the first element; None if indices are not constant."""
    indices = _without_units(node, indices)
    lanes, last = node.lanes, indices[-1:]
    positions = [constant(index) for index in indices]
    if node.lanes == 1 and last and isinstance(last[0], Ramp):
        lanes, start = last[0].lanes, constant(last[0].base)
        positions[-1] = start // lanes if start is not None else None
    if any(position is None for position in positions):
        return None
    return ElementAccess(tuple(p for p in positions if p is not None), lanes)


def shift(node: Allocate, indices: tuple[Expr, ...]) -> int:
    """The offset of an access from the beginning of the vector that contains its first element."""
    indices = _without_units(node, indices)
    if node.lanes > 1 or not indices or not isinstance(indices[-1], Ramp):
        return 0
    start = constant(indices[-1].base)
    return 0 if start is None else start % indices[-1].lanes


def _without_units(node: Allocate, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices without those of the last dimensions, where these have one element: vectors lie along the others."""
    extents = len(node.extents)
    rank = extents
    while rank > 1 and constant(node.extents[rank - 1]) == 1:
        rank -= 1
    return (*indices[:rank], *indices[extents:])
