"""Stores to a ring of registers after which the previous value of the element is never read.

At the end of each iteration the window moves: ``v[0] = v[1]; v[1] = v[2]``. An iteration stores all it reads of an
element that is moved from but never to (v[2]), since the values that earlier iterations stored there have moved on.
So the first store to it in an iteration replaces the whole element, including the inactive lanes of a mask.
"""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.ir import Allocate, For, If, Load, Node, Store
from tiramisu_py.ir.rewriting import buffers_in, children, walk
from tiramisu_py.passes.registers.elements import Cell, access, shift


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
