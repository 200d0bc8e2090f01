"""Reductions, one term at a time: each partial result is rounded to the type of the reduction."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiramisu_py.algorithm import declarations
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Operator
from tiramisu_py.algorithm.evaluate.lattice import Column
from tiramisu_py.algorithm.evaluate.numeric import Array
from tiramisu_py.algorithm.evaluate.valuation import Points, Valuation
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.types import DType


def accumulate(valuation: Valuation, op: Operator, dtype: DType, partial: Array, terms: Array, origin: Column) -> None:
    """Combine `terms` into `partial`, in place: term t goes to ``partial[origin[t]]``, in order.

    `origin` is non-decreasing. Many short reductions are computed side by side, few long ones one after another.
    """
    counts = np.bincount(origin, minlength=len(partial))
    longest = int(counts.max(initial=0))
    ufunc = _UFUNCS.get(id(op))
    if ufunc is not None and longest > 4 * len(partial):
        _one_by_one(ufunc, partial, terms, counts)
    elif longest:
        _side_by_side(valuation, op, dtype, partial, terms, origin, counts)


def accumulate_anywhere(
    valuation: Valuation, op: Operator, dtype: DType, partial: Array, terms: Array, origin: Column
) -> None:
    """Combine terms as `accumulate` does, with origins in any order."""
    ufunc = _UFUNCS.get(id(op))
    if ufunc is not None:
        ufunc.at(partial, origin, terms)
        return
    order = np.argsort(origin, kind="stable")
    accumulate(valuation, op, dtype, partial, terms[order], origin[order])


#: The operators that NumPy has; its ``accumulate`` combines strictly from left to right (unlike ``reduce``).
_UFUNCS: dict[int, Any] = {
    id(declarations.sum_): np.add,
    id(declarations.product): np.multiply,
    id(declarations.min_): np.minimum,
    id(declarations.max_): np.maximum,
    id(declarations.logical_and): np.bitwise_and,
    id(declarations.logical_or): np.bitwise_or,
}


def _one_by_one(ufunc: Any, partial: Array, terms: Array, counts: Column) -> None:
    start = 0
    for row, count in enumerate(counts):
        listed = np.concatenate([partial[row : row + 1], terms[start : start + count]])
        partial[row] = ufunc.accumulate(listed, dtype=partial.dtype)[-1]
        start += count


def _side_by_side(
    valuation: Valuation, op: Operator, dtype: DType, partial: Array, terms: Array, origin: Column, counts: Column
) -> None:
    combined = typed(op.combine(Iter("accumulator", dtype), Iter("term", dtype)), dtype)
    rank = np.arange(len(terms)) - (np.cumsum(counts) - counts)[origin]
    order = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        chosen = order[start:end]
        rows = origin[chosen]
        at = Points({"accumulator": partial[rows], "term": terms[chosen]}, len(rows))
        partial[rows] = valuation.column(combined, at)
