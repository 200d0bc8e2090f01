"""Copies from the GPU's memory into shared memory that pass the registers by: elements and vectors, under conditions.

A copy has 4, 8 or 16 bytes. Under a condition it loads as many of them as the condition holds for, from the first one
on, and stores zeros for the others::

    s[x] = c ? A[i] : 0                       all bytes, or none
    s[x ..+ 8] = i + lane < n ? A[i ..+ 8] : 0    min(max(n - i, 0), 8) elements
"""

from __future__ import annotations

import cgen

from tiramisu_py.algorithm.expressions import Binary, Expr, Select
from tiramisu_py.algorithm.types import int64, strong
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.cuda.kernel_scalars import KernelScalars
from tiramisu_py.backends.cuda.kernel_vectors import LaneLoops, Lines, lane_loop
from tiramisu_py.ir import Load, Store
from tiramisu_py.ir.arithmetic.build import conjuncts
from tiramisu_py.ir.arithmetic.linear import along_lanes, is_index, number
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.expressions import filled_load
from tiramisu_py.program.machine.asynchronous_copies import COPIED
from tiramisu_py.records import dataclass

#: Comparisons as ``small < large + more``: whether the left side is the small one, and what is added.
_ORDERS = {"<": (True, 0), "<=": (True, 1), ">": (False, 0), ">=": (False, 1)}


def asynchronous_copy(store: Store, loops: LaneLoops, scope: Scope) -> Lines | None:
    """A store of loaded elements, or of zeros, as asynchronous copies; None if it can be none."""
    load = filled_load(store.value)
    condition = store.value.condition if isinstance(store.value, Select) else None
    array = scope.arrays[store.buffer]
    if load is None or strong(load.dtype) != array.dtype or scope.arrays[load.buffer].nested:
        return None
    lanes = max(map(scope.lanes.of, store.indices), default=1)
    size, element = lanes * array.dtype.bytes, array.dtype.bytes
    if scope.lanes.of(load) != lanes:
        return None
    if size in COPIED:
        places = _places(store, load, lanes, loops, scope)
        if condition is None and places is not None:
            return [cgen.Statement(f"TM_ASYNC_COPY(&{places[0]}, &{places[1]}, {size})")]
        count = None if condition is None else _holding(condition, lanes, scope)
        if count is not None and places is not None:
            return _filling(places, count, _Copy(size, element, scope.arrays[load.buffer].name), scope)
    if lanes == 1 or element not in COPIED:
        return None
    target = loops.each_place(Load(store.buffer, store.indices, array.dtype), scope)
    source = loops.each_place(load, scope)
    if condition is None:
        return lane_loop(lanes, f"TM_ASYNC_COPY(&{target}, &{source}, {element})")
    given, base = loops.each(condition, scope), scope.arrays[load.buffer].name
    chosen = f"({given}) ? &{source} : {base}, {element}, ({given}) ? {element} : 0"
    return lane_loop(lanes, f"TM_ASYNC_FILL(&{target}, {chosen})")


@dataclass(frozen=True, eq=False)
class _Copy:
    """The bytes of a copy and of an element, and the array that it loads from."""

    size: int
    element: int
    source: str


def _filling(places: tuple[str, str], count: Expr, copy: _Copy, scope: Scope) -> Lines:
    """A copy of the first `count` elements, and zeros for the others; there is no place where nothing is loaded."""
    given = KernelScalars(scope).text(simplified(Binary("*", count, number(copy.element), int64)))
    source = f"tm_given > 0 ? &{places[1]} : {copy.source}"
    return [
        cgen.Block(
            [
                cgen.Statement(f"const int tm_given = (int)({given})"),
                cgen.Statement(f"TM_ASYNC_FILL(&{places[0]}, {source}, {copy.size}, tm_given)"),
            ]
        )
    ]


def _places(store: Store, load: Load, lanes: int, loops: LaneLoops, scope: Scope) -> tuple[str, str] | None:
    """The first element stored, and the first one loaded; None if they are no aligned neighbours."""
    if lanes == 1:
        element = KernelScalars(scope).element
        return element(store.buffer, store.indices), element(load.buffer, load.indices)
    target = loops.place(store.buffer, store.indices, lanes, scope)
    source = loops.place(load.buffer, load.indices, lanes, scope)
    return None if target is None or source is None else (target, source)


def _holding(condition: Expr, lanes: int, scope: Scope) -> Expr | None:
    """The number of lanes for which a condition holds, if these are the first ones; else None."""
    least: Expr = number(lanes)
    whole = list[Expr]()
    for part in conjuncts(condition):
        if scope.lanes.of(part) == 1:
            whole.append(part)
            continue
        known = _first_lanes(part, scope)
        if known is None:
            return None
        least = Binary("min", least, Binary("max", known, number(0), int64), int64)
    for part in reversed(whole):
        least = Select(part, least, number(0), int64)
    return least


def _first_lanes(part: Expr, scope: Scope) -> Expr | None:
    """The lanes below a bound, ``base + lane < bound``, from the first one on; negative if there are none."""
    if not isinstance(part, Binary) or part.op not in _ORDERS:
        return None
    if not is_index(part.left.dtype) or not is_index(part.right.dtype):
        return None  # which may wrap
    is_left, more = _ORDERS[part.op]
    small, large = (part.left, part.right) if is_left else (part.right, part.left)
    line = along_lanes(small)
    if line is None or line[1] != 1 or scope.lanes.of(large) != 1:
        return None
    return simplified(Binary("-", Binary("+", large, number(more), int64), line[0], int64))
