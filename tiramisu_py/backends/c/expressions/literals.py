"""Literals in C: of the right type, and exactly NumPy's value."""

from __future__ import annotations

import math

from tiramisu_py.algorithm.types import DType, float32, strong
from tiramisu_py.backends.c.expressions.parentheses import POSTFIX, UNARY, Code, call
from tiramisu_py.backends.c.expressions.scalar_types import SCALAR_TYPES


def literal(value: bool | int | float, dtype: DType) -> Code:
    """A constant of a scalar type."""
    dtype = strong(dtype)
    if dtype.is_bool:
        return Code("true" if value else "false")
    if dtype.is_integer:
        return _integer(int(value), dtype)
    if SCALAR_TYPES[dtype].stored:
        return call(f"tm_to_{dtype.name}", half(value, dtype))
    return _float(float(value), dtype)


def half(value: bool | int | float, dtype: DType) -> Code:
    """A constant of a 16-bit float, as a float."""
    rounded = float(dtype.numpy.type(value))
    return _float(rounded, float32)


def _integer(value: int, dtype: DType) -> Code:
    known = SCALAR_TYPES[dtype]
    if known.least and value == -(2 ** (dtype.bits - 1)):
        return Code(known.least)
    text = f"{known.wide}({value})" if known.wide and abs(value) >= 2**31 else f"{value}{known.suffix}"
    return Code(text, UNARY if value < 0 else POSTFIX)


def _float(value: float, dtype: DType) -> Code:
    c_type = dtype.c_name
    value = float(dtype.numpy.type(value))
    if math.isnan(value):
        return Code(f"({c_type})NAN", UNARY)
    if math.isinf(value):
        return Code(f"({c_type}){'-' if value < 0 else ''}INFINITY", UNARY)
    text = str(dtype.numpy.type(value))
    if not any(mark in text for mark in ".e"):
        text += ".0"
    return Code(text + SCALAR_TYPES[dtype].suffix, UNARY if text.startswith("-") else POSTFIX)
