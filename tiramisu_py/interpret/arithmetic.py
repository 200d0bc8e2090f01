"""Operators and functions on scalars and vectors of lanes, with the semantics of `evaluate()`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiramisu_py.algorithm.evaluate import numeric
from tiramisu_py.algorithm.expressions import ExternFunction
from tiramisu_py.algorithm.types import DType
from tiramisu_py.interpret.machine_faults import InterpretError

#: A NumPy scalar, or a one-dimensional array with one element for each lane.
Value = Any


def _scalar(found: Value) -> Value:
    """An array without dimensions as a NumPy scalar."""
    return found[()] if isinstance(found, np.ndarray) else found


def convert(value: Value, dtype: DType) -> Value:
    """`value` in `dtype`, as ``astype`` does it; lanes are kept."""
    return _scalar(numeric.converted(value, dtype))


def literal(value: bool | int | float, dtype: DType) -> Value:
    """A literal of a node's type."""
    return dtype.numpy.type(value)


def unary(op: str, operand: Value, dtype: DType) -> Value:
    """Negation or complement."""
    return _scalar(numeric.unary(op, operand, dtype))


def binary(op: str, left: Value, right: Value, dtype: DType) -> Value:
    """An arithmetic, bitwise or comparison operator."""
    try:
        return _scalar(numeric.binary(op, left, right, dtype))
    except ValueError as error:  # negative integer powers
        raise InterpretError(f"{left} {op} {right}: {error}") from error


def call(function: str, arguments: list[Value], dtype: DType, extern: ExternFunction | None) -> Value:
    """A mathematical function by its NumPy name, or an external one through its Python equivalent, lane by lane."""
    if extern is None:
        return _scalar(numeric.called(function, arguments, dtype))
    lanes = max((np.size(argument) for argument in arguments), default=1)
    found = numeric.called_extern(extern, arguments, lanes)
    return found if any(np.ndim(argument) for argument in arguments) else found[0]


def idiom(name: str, x: Value, y: Value, dtype: DType) -> Value:
    """An integer operation for which processors have an instruction."""
    if name == "distance":
        return convert(np.maximum(x, y) - np.minimum(x, y), dtype)
    left, right = np.asarray(x, np.int64), np.asarray(y, np.int64)
    if name == "average":
        return convert((left + right + 1) >> 1, dtype)
    return convert(np.clip(left + right if name == "add_saturated" else left - right, *dtype.limits), dtype)
