"""Operators and functions on NumPy arrays, element by element, each in the type of its node."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.expressions import ExternFunction
from tiramisu_py.algorithm.types import DType, bfloat16
from tiramisu_py.errors import DeclarationError

Array = npt.NDArray[Any]

_BINARY: dict[str, Callable[..., Any]] = {
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
_UNARY: dict[str, Callable[..., Any]] = {"-": np.negative, "~": np.invert}


def literal(value: bool | int | float, dtype: DType) -> Array:
    """A literal, as an array without dimensions."""
    return np.asarray(value, dtype=dtype.numpy)


def converted(values: Array, dtype: DType) -> Array:
    """Values in another type, as ``astype`` converts them.

    NumPy's result for a float outside the integer's range depends on the processor and on the position in the array.
    Here it is always that of x86: the lower bits of the smallest int32 (for int32 and types of up to 16 bits) or of
    the smallest int64 (for the others).
    """
    if isinstance(values, np.generic | np.ndarray) and values.dtype is dtype.numpy:
        return values
    given = np.asarray(values)
    if dtype.is_integer and (given.dtype.kind == "f" or given.dtype == bfloat16.numpy):
        return _whole(given.astype(np.float64), dtype)
    return given.astype(dtype.numpy, copy=False)


def _whole(values: Array, dtype: DType) -> Array:
    if dtype.bits < 32 or dtype.name == "int32":
        return _truncated(values, np.int32).astype(dtype.numpy)
    if dtype.name != "uint64":
        return _truncated(values, np.int64).astype(dtype.numpy)
    upper = values >= 2.0**63
    whole = _truncated(np.where(upper, values - 2.0**63, values), np.int64).astype(np.uint64)
    return np.where(upper, whole ^ np.uint64(2**63), whole)


def _truncated(values: Array, kind: type[np.signedinteger[Any]]) -> Array:
    info = np.iinfo(kind)
    whole = np.trunc(values)
    inside = (whole >= float(info.min)) & (whole < -float(info.min))
    return np.where(inside, np.where(inside, whole, 0.0).astype(kind), info.min).astype(kind)


def unary(op: str, operand: Array, dtype: DType) -> Array:
    """Negation or complement."""
    return converted(_UNARY[op](operand), dtype)


def binary(op: str, left: Array, right: Array, dtype: DType) -> Array:
    """An operator on two operands of one type; the result is of `dtype`."""
    return converted(_BINARY[op](left, right), dtype)


def called(function: str, arguments: Sequence[Array], dtype: DType) -> Array:
    """A mathematical function, by its NumPy name."""
    if function == "reinterpret":
        given = np.asarray(arguments[0])
        same: Array = np.ascontiguousarray(given).reshape(given.shape).view(dtype.numpy)
        return same
    if function == "popcount":
        return _ones(arguments[0], dtype)
    if function == "erf":
        return converted(_elementwise(math.erf, arguments, np.dtype(np.float64)), dtype)
    ufunc = getattr(np, function)
    if dtype == bfloat16:
        return converted(_in_bfloat16(ufunc, arguments), dtype)
    return converted(ufunc(*arguments), dtype)


def _ones(values: Array, dtype: DType) -> Array:
    """The number of bits that are 1 (NumPy counts those of the absolute value)."""
    unsigned = np.asarray(values).astype(f"u{dtype.bytes}", copy=False)
    return converted(np.bitwise_count(unsigned), dtype)


def _in_bfloat16(ufunc: Callable[..., Any], arguments: Sequence[Array]) -> Any:
    try:
        return ufunc(*arguments)
    except TypeError:  # where ml_dtypes has no such function, float32 is rounded
        return ufunc(*(argument.astype(np.float32) for argument in arguments))


def together(values: Sequence[Array], dtype: DType) -> Array:
    """Several values as records."""
    columns = np.broadcast_arrays(*values)
    found = np.empty(columns[0].shape, dtype.numpy)
    for name, column in zip(found.dtype.names or (), columns, strict=True):
        found[name] = column
    return found


def component(values: Array, dtype: DType, position: int) -> Array:
    """One of the values of records."""
    one: Array = values[(dtype.numpy.names or ())[position]]
    return one


def called_extern(function: ExternFunction, arguments: Sequence[Array], count: int) -> Array:
    """An external function through its Python equivalent, for `count` elements.

    Raises `DeclarationError` if that returns something that is not a number of the result's type.
    """
    operands = [np.broadcast_to(argument, (count,)) for argument in arguments]
    if isinstance(function.python, np.ufunc):
        found = function.python(*operands)
        if found.dtype != object:
            return converted(found, function.result)
        values = list(found)
    elif operands:
        values = [function.python(*each) for each in zip(*operands, strict=True)]
    else:
        values = [function.python()] * count
    return _returned(function, values, operands)


def _returned(function: ExternFunction, values: list[Any], operands: Sequence[Array]) -> Array:
    """The result of the Python equivalent of an external function, as an array."""
    dtype = function.result.numpy
    if all(map(_is_number, values)):
        with suppress(ValueError, OverflowError):
            return np.array(values, dtype=dtype).reshape(len(values))
    position = next(k for k, value in enumerate(values) if not _fits(value, dtype))
    given = ", ".join(str(operand[position]) for operand in operands)
    raise DeclarationError(
        f"the Python equivalent of the external function {function.name} returned {values[position]!r} for "
        f"{function.name}({given}); it must return one number that fits {function.result}"
    )


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, str | bytes)


def _fits(value: object, dtype: np.dtype[Any]) -> bool:
    try:
        return _is_number(value) and np.array([value], dtype=dtype).size == 1
    except (ValueError, OverflowError):
        return False


def _elementwise(function: Callable[..., Any], arguments: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    operands = np.broadcast_arrays(*arguments)
    flat = [function(*each) for each in zip(*(operand.reshape(-1) for operand in operands), strict=True)]
    return np.array(flat, dtype=dtype).reshape(operands[0].shape)
