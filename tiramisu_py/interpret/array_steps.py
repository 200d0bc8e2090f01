"""Loops in steps over NumPy arrays: many executions at once where the result is, bit for bit, that of one by one.

Which elements each execution of a nest loads and stores is computed first; its levels are then run one after another.
Sums and the like that do nothing else are combined as they are ordered, each element's terms in a row of a table.
Iterations of loops that are concurrent run in their order: what is proven does not depend on another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tiramisu_py.algorithm.expressions import Binary, Expr
from tiramisu_py.interpret.element_order import Groups, StoredElements, Whole, groups, is_own, levels, places
from tiramisu_py.interpret.evaluator import Frame
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.nest_elements import NestExecutions, UnsuitableError, executions, is_plain
from tiramisu_py.ir import For, Load
from tiramisu_py.ir.rewriting import buffers_in
from tiramisu_py.records import dataclass

#: So many executions are looked at together, and so few are better run one by one.
MOST, LEAST = 1 << 18, 16
#: At least so many executions are in a step on average ..
PER_STEP = 4
#: .. or a loop is not tried again after so many times.
TRIES = 3
#: Operations that have the same bits one by one and as prefixes of a row.
_IN_ROWS = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}


class ArraySteps:
    """Runs loops in steps over arrays where it can; `steps` counts these, and `executions` those in them."""

    def __init__(self) -> None:
        self.steps = 0
        self.executions = 0
        self._plain: dict[int, tuple[For, bool]] = {}
        self._failed: Counter[int] = Counter()

    def ran(self, node: For, frame: Frame, iterations: Sequence[int] | None = None) -> bool:
        """Whether a loop, or some iterations of it, have been run; otherwise nothing has been done."""
        known = self._plain.get(id(node))
        if known is None:
            known = self._plain[id(node)] = (node, is_plain(node))
        if not known[1] or frame.active is not None or self._failed[id(node)] >= TRIES:
            return False
        try:
            found = executions(node, frame, MOST, iterations)
            run = self._prepared(found) if found else None
        except (UnsuitableError, InterpretError):
            self._failed[id(node)] += 1
            return False
        if run is not None:
            self.executions += sum(each.elements.count for each in found)
            run()
        return True

    def _prepared(self, found: Sequence[NestExecutions]) -> Callable[[], None]:
        """What runs the executions; raises `UnsuitableError` where that is no gain."""
        count = sum(each.elements.count for each in found)
        if count < LEAST:
            raise UnsuitableError("too few executions")
        sums = _sums(found)
        if sums is not None:
            return partial(self._combine, sums)
        at = places(found)
        level = levels(found, at)
        if count < PER_STEP * (level.max() + 1):
            raise UnsuitableError("nearly all executions depend on the one before")
        return partial(self._by_levels, found, at, level)

    def _by_levels(self, found: Sequence[NestExecutions], at: StoredElements, level: Whole) -> None:
        """Run the executions of each level at once."""
        last = int(level.max())
        parts = []
        for each, start in zip(found, at.starts, strict=False):
            mine = slice(start, start + each.elements.count)
            order = np.argsort(level[mine], kind="stable")
            begins = np.searchsorted(level[mine][order], range(last + 2))
            elements = at.stored[mine] - at.bases[each.store.buffer]
            parts.append((each, each.elements.evaluator(), elements, order, begins))
        for now in range(last + 1):
            for each, whole, elements, order, begins in parts:
                own = order[begins[now] : begins[now + 1]]
                if own.size:
                    value = whole.only(own)(each.store.value)
                    _stored(each, elements[own], np.broadcast_to(value, own.size))
                    self.steps += 1

    def _combine(self, sums: Sequence[_Sums]) -> None:
        """Combine the terms of each element in their order: the prefixes of a row are taken one by one."""
        for own in sums:
            array, statement = own.found[0].array, own.found[0].store.statement
            terms = own.values(array.data.dtype)
            for size in np.unique(own.grouped.size):
                begins = own.grouped.first[own.grouped.size == size]
                positions = own.grouped.order[begins + np.arange(size)[:, None]]
                elements = own.at.stored[positions[0]]
                before = np.broadcast_to(array.read(_indices(array, elements), statement), elements.shape)
                rows = np.concatenate([before[None, :], terms[positions]])
                found = own.operation.accumulate(rows, axis=0, dtype=array.data.dtype)[-1]
                _stored(own.found[0], elements, found)
                self.steps += 1


@dataclass(eq=False)
class _Sums:
    """NestExecutions that combine terms with the elements of one array, and do nothing else."""

    found: Sequence[NestExecutions]
    terms: Sequence[Expr]
    operation: np.ufunc
    at: StoredElements
    grouped: Groups

    def values(self, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """All terms, those of one store after another."""
        columns = []
        for each, term in zip(self.found, self.terms, strict=True):
            value = np.asarray(each.elements.evaluator()(term), dtype)
            columns.append(np.broadcast_to(value, each.elements.count))
        return np.concatenate(columns)


def _sums(found: Sequence[NestExecutions]) -> list[_Sums] | None:
    """For each array the executions that combine terms in its elements; None if they do anything else."""
    stored = frozenset(each.store.buffer for each in found)
    terms = [_term(each, stored) for each in found]
    by_array: dict[str, list[int]] = {}
    for position, each in enumerate(found):
        by_array.setdefault(each.store.buffer, []).append(position)
    result: list[_Sums] = []
    for positions in by_array.values():
        own, known = [found[k] for k in positions], [term for k in positions if (term := terms[k]) is not None]
        operations = {each.store.value.op for each in own if isinstance(each.store.value, Binary)}
        if len(known) < len(own) or len(operations) > 1:
            return None
        at = places(own)
        result.append(_Sums(own, known, _IN_ROWS[operations.pop()], at, groups(at)))
    return result


def _term(each: NestExecutions, stored: frozenset[str]) -> Expr | None:
    """What a store combines with the element that it stores to, if it does that and nothing else."""
    value, dtype = each.store.value, each.array.data.dtype
    if not isinstance(value, Binary) or value.op not in _IN_ROWS or dtype.kind not in "iuf":
        return None
    if not isinstance(value.left, Load) or not is_own(value.left, each) or buffers_in(value.right) & stored:
        return None
    of = value.right.dtype
    return value.right if value.dtype.numpy == dtype and (of.weak or of.numpy == dtype) else None


def _stored(each: NestExecutions, elements: Whole, values: Any) -> None:
    """Store to elements of an array, which differ."""
    array = each.array
    array.write_apart(_indices(array, elements), values if array.data.ndim else values[0], each.store.statement)


def _indices(array: Array, elements: Whole) -> tuple[Whole, ...]:
    return np.unravel_index(elements, array.data.shape) if array.data.ndim else ()
