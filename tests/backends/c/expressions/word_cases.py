"""The short words (`tm.absd` and others) as cases of one or two operands, with what Python's own numbers give."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import tiramisu_py as tm
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import DType

INTEGERS = (ty.int8, ty.int16, ty.int32, ty.int64, ty.uint8, ty.uint16, ty.uint32, ty.uint64)
UNSIGNED = {8: ty.uint8, 16: ty.uint16, 32: ty.uint32, 64: ty.uint64}
FLOATS = {16: "e", 32: "f", 64: "d"}
#: A word of two operands, and its value of two Python numbers.
Word = tuple[Callable[[Expr, Expr], Expr], Callable[[Any, Any], Any]]


def clamped(value: Any, dtype: DType) -> int:
    """A number cut towards zero, within a type; NaN is 0."""
    low, high = dtype.limits
    if isinstance(value, float) and not math.isfinite(value):
        return 0 if math.isnan(value) else low if value < 0 else high
    return min(max(math.trunc(value), low), high)


def mixed(a: int, b: int, weight: int, full: int) -> int:
    """The integer nearest to a mean of two; there are no ties, since the full weight is odd."""
    return round(Fraction(a * (full - weight) + b * weight, full))


def shifted(a: int, by: int, dtype: DType, *, left: bool) -> int:
    """What NumPy's shifts give: nothing but the sign is left of a shift that is too far, or negative."""
    if not 0 <= by < dtype.bits:
        return -1 if a < 0 and not left else 0
    bits = (a << by if left else a >> by) & ((1 << dtype.bits) - 1)
    return bits - (1 << dtype.bits) if dtype.kind == "i" and bits >> (dtype.bits - 1) else bits


def of_integers(dtype: DType) -> dict[str, Word]:
    """The words on two operands of an integer type."""
    words: dict[str, Word] = {
        "absd": (tm.absd, lambda a, b: abs(a - b)),
        "popcount": (lambda a, b: tm.popcount(a), lambda a, b: (a & ((1 << dtype.bits) - 1)).bit_count()),
        "left": (lambda a, b: a << b, lambda a, b: shifted(a, b, dtype, left=True)),
        "right": (lambda a, b: a >> b, lambda a, b: shifted(a, b, dtype, left=False)),
        "mux": (lambda a, b: tm.mux(a, [b, 7, a]), lambda a, b: b if a == 0 else 7 if a == 1 else a),
    }
    for wanted in INTEGERS:
        words[f"to_{wanted}"] = (
            lambda a, b, t=wanted: tm.saturating_cast(t, a),
            lambda a, b, t=wanted: clamped(a, t),
        )
    if dtype.bits == 8:
        words["wide"] = (
            lambda a, b: tm.saturating_cast(dtype, tm.cast(tm.int16, a) * 2 - b),
            lambda a, b: clamped(2 * a - b, dtype),
        )
    for weight in (ty.uint8, ty.uint16, ty.uint32):
        if dtype.bits + weight.bits <= 64:
            words[f"lerp_{weight}"] = (
                lambda a, b, t=weight: tm.lerp(a, b, tm.cast(t, a ^ b)),
                lambda a, b, t=weight: mixed(a, b, (a ^ b) & t.limits[1], t.limits[1]),
            )
    if dtype.bits in FLOATS:
        code, integer = FLOATS[dtype.bits], "bhiq"[(dtype.bits // 8).bit_length() - 1]
        integer = integer if dtype.kind == "i" else integer.upper()
        words["bits"] = (
            lambda a, b: tm.reinterpret(f"float{dtype.bits}", a),
            lambda a, b: struct.unpack(code, struct.pack(integer, a))[0],
        )
    return words


def of_floats(dtype: DType) -> dict[str, Word]:
    """The words on two operands of a float type."""
    integer = UNSIGNED[dtype.bits]
    words: dict[str, Word] = {
        "absd": (tm.absd, lambda a, b: abs(dtype.numpy.type(a) - dtype.numpy.type(b))),
        "bits": (
            lambda a, b: tm.reinterpret(integer, a),
            lambda a, b: int(np.array(a, dtype.numpy).view(integer.numpy)),
        ),
        "signed": (
            lambda a, b: tm.reinterpret(f"int{dtype.bits}", a),
            lambda a, b: int(np.array(a, dtype.numpy).view(f"int{dtype.bits}")),
        ),
        "there_and_back": (lambda a, b: tm.reinterpret(dtype, tm.reinterpret(integer, a) ^ 1), _last_bit(dtype)),
    }
    for wanted in INTEGERS:
        words[f"to_{wanted}"] = (
            lambda a, b, t=wanted: tm.saturating_cast(t, a),
            lambda a, b, t=wanted: clamped(float(a), t),
        )
    return words


def _last_bit(dtype: DType) -> Callable[[Any, Any], Any]:
    unsigned = UNSIGNED[dtype.bits].numpy
    return lambda a, b: (np.array(a, dtype.numpy).view(unsigned) ^ unsigned.type(1)).view(dtype.numpy)[()]


def wanted(word: Word, x: Any, y: Any, dtype: DType) -> Any:
    """The values of a word, one by one, of the elements of two arrays."""
    numbers = (zip(x.tolist(), y.tolist(), strict=True)) if x.dtype.kind in "iu" else zip(x, y, strict=True)
    with np.errstate(all="ignore"):
        return np.array([word[1](a, b) for a, b in numbers], dtype=dtype.numpy)
