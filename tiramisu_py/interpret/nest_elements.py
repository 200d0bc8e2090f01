"""A nest of loops with all its iterations at once: the executions of each store in it, and the elements they access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import kinds, walk
from tiramisu_py.algorithm.visitor import Visitor
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.element_values import LANE, ElementRows, Positions
from tiramisu_py.interpret.evaluator import Cell, Frame
from tiramisu_py.interpret.memory import Array, has_lanes
from tiramisu_py.ir import Block, Comment, For, If, Joined, Lane, Let, Mask, Node, Prefetch, Ramp, Shifted, Store
from tiramisu_py.ir.rewriting import buffers_in, children, contents, loads_in, names
from tiramisu_py.ir.rewriting import walk as statements
from tiramisu_py.records import dataclass

#: Statements and loops of which all iterations can be looked at together, if indices and conditions know no stores.
_PLAIN = (Block, Comment, For, If, Let, Mask, Prefetch, Store)
#: Expressions in which a lane has the value of another one.
_ACROSS = frozenset((Joined, Lane, Shifted))
#: So many statements may be around a store.
_MOST_NESTED = 40


class UnsuitableError(Exception):
    """Iterations have to run one after another: they are too many or too few, or decide by values what they do."""


@dataclass(eq=False)
class NestExecutions:
    """NestExecutions of one store; `order` says when each is, by the columns of its loops and of its places in blocks.

    Those of the lanes of one vector are at the same time.
    """

    store: Store
    array: Array
    elements: ElementRows
    order: tuple[Value, ...]

    def flat(self, indices: Sequence[Expr], array: Array) -> Value:
        """The number of the element of an array at some indices, for each execution; -1 outside of it."""
        evaluate = self.elements.evaluator()
        columns = [evaluate(index) for index in indices]
        if len(columns) < array.data.ndim:
            columns.append(self.elements.varying[LANE])
        place: Value = 0
        inside: Value = True
        for column, extent in zip(columns, array.data.shape, strict=True):
            inside = inside & (column >= 0) & (column < extent)
            place = place * extent + column
        return np.where(inside, np.broadcast_to(place, self.elements.count), -1)


def is_plain(node: Node) -> bool:
    """Whether a nest has nothing but loops, conditions and stores, each lane for itself."""
    found = contents(node)
    if found & _ACROSS or not found & {Store}:
        return False
    inside = (each for child in children(node) for each in statements(child))
    return all(isinstance(each, _PLAIN) and not getattr(each, "reductions", ()) for each in inside)


def executions(node: For, frame: Frame, most: int, iterations: Sequence[int] | None = None) -> list[NestExecutions]:
    """The executions of all stores of a loop, or of some iterations of it, up to `most`; raises `UnsuitableError`."""
    for name in names(node):
        value = frame.variables.get(name)
        if has_lanes(value.value if isinstance(value, Cell) else value):
            raise UnsuitableError(f"{name} is a vector")
    nest = _Nest(frame, frozenset(each.buffer for each in statements(node) if isinstance(each, Store)), most)
    once = _Rows(ElementRows(frame, 1), ())
    if iterations is None:
        nest.visit(node, once)
    else:
        count = len(iterations)
        own = {node.variable: np.array(iterations, np.int64)}
        nest.visit(node.body, once.at(np.zeros(count, np.int64), (np.arange(count),), own))
    return nest.found


@dataclass(eq=False)
class _Rows:
    """NestExecutions of a statement: `active` of the lanes of each, where a mask is around it."""

    elements: ElementRows
    order: tuple[Value, ...]
    active: Value = None
    depth: int = 0

    def at(self, positions: Positions, inner: tuple[Value, ...] = (), varying: Mapping[str, Value] = {}) -> _Rows:
        """Some of them, with further columns of their order and further variables."""
        elements = self.elements.at(positions)
        elements.varying.update(varying)
        order = tuple(column[positions] if has_lanes(column) else column for column in self.order)
        active = self.active[positions] if has_lanes(self.active) else self.active
        return replace(self, elements=elements, order=(*order, *inner), active=active, depth=self.depth + 1)


@dataclass(eq=False)
class _Nest(Visitor[None]):
    """The executions of the stores of a nest that are found, none of which decides what `written` arrays hold."""

    frame: Frame
    written: frozenset[str]
    most: int
    found: list[NestExecutions] = field(default_factory=list)

    def visit(self, node: Node, rows: _Rows) -> None:
        """Find the executions of the stores in a statement."""
        if rows.depth > _MOST_NESTED:
            raise UnsuitableError("too deep")
        if rows.elements.count:
            self.method_for(node)(node, rows)

    def visit_comment(self, node: Comment, rows: _Rows) -> None:
        """Nothing is executed."""

    def visit_prefetch(self, node: Prefetch, rows: _Rows) -> None:
        """Nothing is executed."""

    def visit_block(self, node: Block, rows: _Rows) -> None:
        for position, child in enumerate(node.body):
            self.visit(child, replace(rows, order=(*rows.order, position), depth=rows.depth + 1))

    def visit_for(self, node: For, rows: _Rows) -> None:
        lower, upper = (self._whole(bound, rows) for bound in (node.lower, node.upper))
        counts = np.maximum(-((lower - upper) // node.step), 0)
        total = int(counts.sum())
        self._counted(total)
        outer = np.repeat(np.arange(rows.elements.count), counts)
        number = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        self.visit(node.body, rows.at(outer, (number,), {node.variable: lower[outer] + node.step * number}))

    def _whole(self, bound: Expr, rows: _Rows) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.broadcast_to(np.asarray(self._value(bound, rows), np.int64), rows.elements.count)

    def visit_let(self, node: Let, rows: _Rows) -> None:
        if _ramps(node.value):
            raise UnsuitableError(f"{node.variable} is a vector")
        value = np.broadcast_to(self._value(node.value, rows), rows.elements.count)
        elements = replace(rows.elements, varying={**rows.elements.varying, node.variable: value})
        self.visit(node.body, replace(rows, elements=elements, depth=rows.depth + 1))

    def visit_if(self, node: If, rows: _Rows) -> None:
        if _ramps(node.condition):
            raise UnsuitableError("lanes differ in a condition")
        holds = np.broadcast_to(self._value(node.condition, rows), rows.elements.count).astype(bool)
        self.visit(node.then, rows.at(np.flatnonzero(holds), (0,)))
        if node.otherwise is not None:
            self.visit(node.otherwise, rows.at(np.flatnonzero(~holds), (1,)))

    def visit_mask(self, node: Mask, rows: _Rows) -> None:
        active = np.clip(self._value(node.count, rows), 0, node.width)
        self.visit(node.body, replace(rows, active=active, depth=rows.depth + 1))

    def visit_store(self, node: Store, rows: _Rows) -> None:
        array = self.frame.array(node.buffer)
        if array.constant or array.gone or array.of is not None or array.claims.held:
            raise UnsuitableError(f"{node.buffer} may not be written")
        lanes = self._lanes(node)
        self._counted(rows.elements.count * lanes)
        if lanes > 1:
            outer = np.repeat(np.arange(rows.elements.count), lanes)
            lane = np.tile(np.arange(lanes), rows.elements.count)
            if rows.active is not None:
                active = lane < (rows.active[outer] if has_lanes(rows.active) else rows.active)
                outer, lane = outer[active], lane[active]
            rows = rows.at(outer, (), {LANE: lane})
        if rows.elements.count:
            for index in (*node.indices, *(index for load in loads_in(node.value) for index in load.indices)):
                self._known(index)
            own = replace(rows.elements, frame=replace(rows.elements.frame, where=node.statement))
            self.found.append(NestExecutions(node, array, own, rows.order))

    def _lanes(self, node: Store) -> int:
        """The number of lanes of a store: those of its indices, or of the vectors that its array has as elements."""
        own = [ramp.lanes for index in node.indices for ramp in _ramps(index)]
        array = self.frame.array(node.buffer)
        if len(node.indices) < array.data.ndim:
            own.append(int(array.data.shape[-1]))
        lanes = max(own, default=1)
        if any(ramp.lanes != lanes for ramp in _ramps(node.value)) or set(own) - {lanes}:
            raise UnsuitableError("vectors of several sizes")
        for load in loads_in(node.value):
            loaded = self.frame.array(load.buffer).data
            if len(load.indices) < loaded.ndim and loaded.shape[-1] != lanes:
                raise UnsuitableError("vectors of several sizes")
        return lanes

    def _value(self, expression: Expr, rows: _Rows) -> Value:
        self._known(expression)
        return rows.elements.evaluator()(expression)

    def _known(self, expression: Expr) -> None:
        """Raise `UnsuitableError` for what depends on values that the nest stores."""
        if buffers_in(expression) & self.written:
            raise UnsuitableError("values that are stored decide what is done")

    def _counted(self, count: int) -> None:
        if count > self.most:
            raise UnsuitableError("too many executions")


def _ramps(expression: Expr) -> list[Ramp]:
    return [each for each in walk(expression) if isinstance(each, Ramp)] if Ramp in kinds(expression) else []
