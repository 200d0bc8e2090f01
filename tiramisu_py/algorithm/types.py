"""Scalar types, and how they promote: NumPy 2's rules, with weakly typed literals and iterators."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from tiramisu_py.errors import DTypeError
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class DType:
    """A scalar type: its name, its kind (b, i, u, f), its width in bits, and its names in NumPy and C.

    A *weak* type belongs to a Python literal or an iterator: it adopts the type of the other operand. `unknown` is
    the type of a recurrence whose own type is still being inferred.
    """

    name: str
    kind: str
    bits: int
    c_name: str
    weak: bool = False

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type that holds such values."""
        named: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16 if self.name == "bfloat16" else strong(self).name)
        return named

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return self.bits // 8

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest value of an integer type, or of truth values as 0 and 1."""
        if self.is_bool:
            return 0, 1
        half = 1 << (self.bits - 1)
        return (0, 2 * half - 1) if self.kind == "u" else (-half, half - 1)

    @property
    def is_float(self) -> bool:
        """Whether its values have a binary point."""
        return self.kind == "f"

    @property
    def is_half(self) -> bool:
        """Whether it is a float of 16 bits, which machines store, but hardly compute with."""
        return self.is_float and self.bits == 16

    @property
    def is_integer(self) -> bool:
        """Whether its values are integers, with a sign or without."""
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        """Whether its values are truth values."""
        return self.kind == "b"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return named_type, (self.name,)  # each type is one object, in every process


@dataclass(frozen=True)
class TupleType(DType):
    """The type of several values at once, each of a scalar type of its own; an array for each of them holds them."""

    fields: tuple[tuple[str, DType], ...] = ()

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's records of such values."""
        named: np.dtype[Any] = np.dtype([(name, dtype.numpy) for name, dtype in self.fields])
        return named

    def position(self, chosen: int | str) -> int:
        """The number of a component, by its number or its name; raises `DTypeError`."""
        names = [name for name, _ in self.fields]
        if isinstance(chosen, str) and chosen in names:
            return names.index(chosen)
        if isinstance(chosen, int) and not isinstance(chosen, bool) and -len(names) <= chosen < len(names):
            return chosen % len(names)
        known = ", ".join(f"{k} ({name})" if name != str(k) else name for k, name in enumerate(names))
        raise DTypeError(f"there is no component {chosen!r}: {self} has {known}")

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return tuple_type, (self.fields,)

    __repr__ = DType.__repr__


def tuple_type(fields: tuple[tuple[str, DType], ...]) -> TupleType:
    """The type of values with these names and types."""
    words = ", ".join(f"{name}: {dtype}" for name, dtype in fields)
    return TupleType(f"({words})", "t", sum(dtype.bits for _, dtype in fields), "", fields=fields)


def array_names(name: str, dtype: DType) -> tuple[str, ...]:
    """The names of the arrays that hold values called `name`: one, or one for each component."""
    return tuple(f"{name}_{own}" for own, _ in dtype.fields) if isinstance(dtype, TupleType) else (name,)


def component_types(dtype: DType) -> tuple[DType, ...]:
    """The types of the components; of a scalar type, it alone."""
    return tuple(own for _, own in dtype.fields) if isinstance(dtype, TupleType) else (dtype,)


bool_ = DType("bool", "b", 8, "bool")
int8 = DType("int8", "i", 8, "int8_t")
int16 = DType("int16", "i", 16, "int16_t")
int32 = DType("int32", "i", 32, "int32_t")
int64 = DType("int64", "i", 64, "int64_t")
uint8 = DType("uint8", "u", 8, "uint8_t")
uint16 = DType("uint16", "u", 16, "uint16_t")
uint32 = DType("uint32", "u", 32, "uint32_t")
uint64 = DType("uint64", "u", 64, "uint64_t")
float16 = DType("float16", "f", 16, "tm_float16")
bfloat16 = DType("bfloat16", "f", 16, "tm_bfloat16")
float32 = DType("float32", "f", 32, "float")
float64 = DType("float64", "f", 64, "double")

weak_int = DType("weak int", "i", 64, "int64_t", weak=True)
weak_float = DType("weak float", "f", 64, "double", weak=True)
unknown = DType("unknown", "?", 0, "", weak=True)

STRONG = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64,
)  # fmt: skip
_BY_NAME = {dtype.name: dtype for dtype in STRONG}
_TYPES = {dtype.name: dtype for dtype in (*STRONG, weak_int, weak_float, unknown)}


def named_type(name: str) -> DType:
    """The type of this name, weak ones included; raises `KeyError`."""
    return _TYPES[name]


def as_dtype(given: Any) -> DType:
    """The `DType` that `given` names: a `DType`, a NumPy type, a Python type or a name.

    Raises `DTypeError` for anything else (complex numbers, strings, records).
    """
    if isinstance(given, DType):
        return given
    try:
        name = np.dtype(given).name
    except TypeError:
        name = str(given)
    if name not in _BY_NAME:
        raise DTypeError(f"{given!r} is not a scalar type of tiramisu_py; use one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def strong(dtype: DType) -> DType:
    """The default type of a weak type, used if there is no other operand: int64 or float64."""
    if dtype is weak_int:
        return int64
    return float64 if dtype is weak_float else dtype


def promote(a: DType, b: DType) -> DType:
    """The common type of two operands.

    Raises `DTypeError` if NumPy has none (uint64 with a signed type has one: float64).
    """
    if a == b or b is unknown:
        return a
    if a is unknown:
        return b
    if a.weak and b.weak:
        return weak_float
    if a.weak or b.weak:
        weak, fixed = (a, b) if a.weak else (b, a)
        if weak is weak_float:
            return fixed if fixed.is_float else float64
        return int64 if fixed.is_bool else fixed
    if bfloat16 in (a, b):
        return _with_bfloat16(b if a is bfloat16 else a)
    return as_dtype(np.promote_types(a.numpy, b.numpy))


def _with_bfloat16(other: DType) -> DType:
    if other.is_bool or other.bits == 8:
        return bfloat16
    if other.is_float:
        return float32 if other.bits == 16 else other
    return float32 if other.bits == 16 else float64


def divided(dtype: DType) -> DType:
    """The type of a true division of two values of `dtype` (float64 for integers, as in NumPy)."""
    if dtype.is_float or dtype is unknown:
        return dtype
    return weak_float if dtype.weak else float64
