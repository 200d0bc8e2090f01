"""What each operator and function means: NumPy's own, in the type of the node."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tiramisu_py.algorithm.expressions import ExternFunction
from tiramisu_py.algorithm.types import DType
from tiramisu_py.interpret.faults import InterpretError

#: A number, or a one-dimensional array with one for each lane.
Value = Any

_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "**": np.power,
    "min": np.minimum,
    "max": np.maximum,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
}

_UNARY: dict[str, Callable[[Value], Value]] = {"-": np.negative, "~": np.invert}


def convert(value: Value, dtype: DType) -> Value:
    """`value` in `dtype`, as ``astype`` does it; lanes are kept."""
    target = dtype.numpy
    return value if value.dtype == target else value.astype(target)


def literal(value: bool | int | float, dtype: DType) -> Value:
    """A literal of a node's type."""
    return np.array(value).astype(dtype.numpy)[()] if dtype.is_float else dtype.numpy.type(value)


def unary(op: str, operand: Value, dtype: DType) -> Value:
    """Negation or complement."""
    return convert(_UNARY[op](operand), dtype)


def binary(op: str, left: Value, right: Value, dtype: DType) -> Value:
    """An arithmetic, bitwise or comparison operator."""
    try:
        return convert(_BINARY[op](left, right), dtype)
    except ValueError as error:  # negative integer powers
        raise InterpretError(f"{left} {op} {right}: {error}") from error


def call(function: str, arguments: list[Value], dtype: DType, extern: ExternFunction | None) -> Value:
    """A mathematical function by its NumPy name, or an external one through its Python equivalent, lane by lane."""
    if extern is not None:
        return convert(_lanewise(extern.python, arguments, dtype), dtype)
    if function == "erf":
        return convert(_lanewise(_erf, arguments, dtype), dtype)
    return convert(getattr(np, function)(*arguments), dtype)


def _erf(value: Value) -> float:
    return math.erf(float(value))


def _lanewise(function: Callable[..., Any], arguments: list[Value], dtype: DType) -> Value:
    if all(np.ndim(argument) == 0 for argument in arguments):
        return np.asarray(function(*arguments)).astype(dtype.numpy)[()]
    lanes = np.broadcast_arrays(*arguments)
    return np.array([function(*each) for each in zip(*lanes, strict=True)], dtype=dtype.numpy)
