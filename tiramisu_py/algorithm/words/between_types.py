"""Words whose result has another type than their operands, or stays within its type: no value wraps on the way."""

from __future__ import annotations

from typing import Any

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Expr, Operand, as_expr, call, cast, select
from tiramisu_py.algorithm.functions import maximum, minimum
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DTypeError
from tiramisu_py.public_calls import own_call

_UNSIGNED = {8: ty.uint8, 16: ty.uint16, 32: ty.uint32, 64: ty.uint64}
_SIGNED = {8: ty.int8, 16: ty.int16, 32: ty.int32, 64: ty.int64}
#: The bits of a float's mantissa: it holds every integer of so many bits.
_EXACT = {ty.float32: 24, ty.float64: 53}


@own_call
def saturating_cast(dtype: Any, x: Operand) -> Expr:
    """`x` as an integer of `dtype`: where it lies beyond the type's range, the end of the range on that side.

    Floats are cut towards zero, and NaN becomes 0. To a float type, which ends at infinity, it is `cast`.
    """
    wanted, operand = ty.as_dtype(dtype), as_expr(x)
    if wanted.is_bool:
        raise DTypeError(f"saturating_cast makes numbers, not conditions; write {operand} != 0")
    if wanted.is_float or operand.dtype.is_bool:
        return cast(wanted, operand)
    return _from_float(wanted, operand) if operand.dtype.is_float else _from_integer(wanted, operand)


def _from_integer(wanted: DType, x: Expr) -> Expr:
    (low, high), (least, largest) = wanted.limits, ty.strong(x.dtype).limits
    if low > least:
        x = maximum(x, low)
    if high < largest:
        x = minimum(x, high)
    return cast(wanted, x)


def _from_float(wanted: DType, x: Expr) -> Expr:
    """The largest integer of many bits is no float: what reaches the power of two after it becomes that integer."""
    given = ty.float32 if x.dtype.is_half else ty.strong(x.dtype)
    x = cast(given, x)
    low, high = wanted.limits
    x = maximum(select(x == x, x, 0.0), float(low))
    if high.bit_length() <= _EXACT[given]:
        return cast(wanted, minimum(x, float(high)))
    return select(x < float(high + 1), cast(wanted, x), cast(wanted, high))


@own_call
def absd(a: Operand, b: Operand) -> Expr:
    """The absolute difference: of integers without a sign and exact, in the unsigned type of their width."""
    x, y = as_expr(a), as_expr(b)
    common = ty.promote(x.dtype, y.dtype)
    if common.is_bool:
        raise DTypeError(f"absd is for numbers, not conditions; write ({x}) ^ ({y})")
    if common.is_float or common is ty.unknown:
        return call("abs", x - y)
    difference = maximum(x, y) - minimum(x, y)
    return cast(_UNSIGNED[common.bits], difference) if common.kind == "i" and not common.weak else difference


@own_call
def lerp(a: Operand, b: Operand, weight: Operand) -> Expr:
    """From `a`, where the weight is none, to `b`, where it is full: ``a * (1 - weight) + b * weight`` of floats.

    The full weight of floats is 1. Integers have weights without a sign, the full one being the largest of the type
    (255 of uint8); the result is rounded to the nearest integer of their common type.
    """
    x, y, w = as_expr(a), as_expr(b), as_expr(weight)
    common = ty.promote(x.dtype, y.dtype)
    if common.is_float:
        if not w.dtype.is_float:
            raise DTypeError(f"lerp of {common} has a weight from 0.0 to 1.0, and {w} is {w.dtype}; divide it")
        return x * (1.0 - w) + y * w
    if not common.is_integer or common.weak:
        raise DTypeError(f"lerp is for numbers that have a type, and {x} and {y} are {common}; cast one of them")
    if w.dtype.kind != "u" or common.bits + w.dtype.bits > 64:
        room = "at most 64 bits together with the values"
        raise DTypeError(
            f"lerp of {common} has a weight without a sign, of {room}, and {w} is {w.dtype}; cast it, or the values "
            "to tm.float32"
        )
    return _weighted(common, x, y, w)


def _weighted(common: DType, x: Expr, y: Expr, w: Expr) -> Expr:
    """``(x * (full - w) + y * w) / full``, rounded, in integers that hold every sum."""
    bits, full = w.dtype.bits, w.dtype.limits[1]
    wide = (_SIGNED if common.kind == "i" else _UNSIGNED)[2 * max(common.bits, bits)]
    share = cast(wide, w)
    total = cast(wide, x) * (full - share) + cast(wide, y) * share
    if common.kind == "u" and common.bits <= bits:  # a quotient of at most `full` needs no division (J. Blinn)
        half = total + (1 << (bits - 1))
        return cast(common, (half + (half >> bits)) >> bits)
    return cast(common, (total + full // 2) // full)
