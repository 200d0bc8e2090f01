"""Scalar arguments: Python and NumPy numbers, checked against the range of the declared type, as ctypes values."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import ScalarArgument

Number = bool | int | float

#: How C passes each type. Half floats travel as their bit patterns.
C_TYPES: Mapping[DType, Any] = {
    ty.bool_: ctypes.c_bool,
    ty.int8: ctypes.c_int8,
    ty.int16: ctypes.c_int16,
    ty.int32: ctypes.c_int32,
    ty.int64: ctypes.c_int64,
    ty.uint8: ctypes.c_uint8,
    ty.uint16: ctypes.c_uint16,
    ty.uint32: ctypes.c_uint32,
    ty.uint64: ctypes.c_uint64,
    ty.float16: ctypes.c_uint16,
    ty.bfloat16: ctypes.c_uint16,
    ty.float32: ctypes.c_float,
    ty.float64: ctypes.c_double,
}

#: Numbers below this are in the range of every float of 32 bits or more.
_SURELY_FLOAT = 1e38


def number(declared: ScalarArgument, given: Any) -> np.ndarray[Any, Any]:
    """A scalar argument in its declared type, as a 0-dimensional array.

    Raises `ArgumentError`, naming the argument, if it is not a number of that kind, or is out of range.
    """
    single = isinstance(given, np.generic) or (isinstance(given, np.ndarray) and given.ndim == 0)
    value = given.item() if single else given
    dtype = declared.dtype
    if dtype.is_bool:
        _require(declared, isinstance(value, bool), given, "pass True or False")
    elif dtype.is_integer:
        _require(declared, isinstance(value, int) and not isinstance(value, bool), given, "pass an integer")
        least, largest = dtype.limits
        _require(declared, least <= value <= largest, given, f"it lies in {least} to {largest}")
    else:
        _require(declared, isinstance(value, int | float) and not isinstance(value, bool), given, "pass a number")
        _require(declared, _fits(dtype, value), given, f"it is beyond the largest {dtype}")
    return np.asarray(value, dtype=dtype.numpy)


def passed_scalar(declared: ScalarArgument, given: Any) -> Number:
    """A scalar argument as ctypes takes it, quickly where it is a plain number; raises `ArgumentError`."""
    of, dtype = type(given), declared.dtype
    if of is float and dtype.is_float and dtype.bits >= 32 and -_SURELY_FLOAT < given < _SURELY_FLOAT:
        return float(given)
    if of is int and dtype.is_integer and dtype.limits[0] <= given <= dtype.limits[1]:
        return int(given)
    return as_c(dtype, number(declared, given))


def as_c(dtype: DType, value: np.ndarray[Any, Any]) -> Number:
    """A scalar as ctypes takes it."""
    bits = value.view(np.uint16) if dtype.is_half else value
    found: Number = bits.item()
    return found


def _fits(dtype: DType, value: Any) -> bool:
    try:
        exact = float(value)
    except OverflowError:
        return False
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(exact, dtype=dtype.numpy))
    return math.isfinite(rounded) or not math.isfinite(exact)


def _require(declared: ScalarArgument, holds: bool, given: object, remedy: str) -> None:
    if not holds:
        raise ArgumentError(f"{declared.name} is a scalar of {declared.dtype}, not {given!r:.60}; {remedy}")
