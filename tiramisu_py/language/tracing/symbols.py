"""Meanings of names while a kernel is read: constants, values, arrays, places in arrays."""

from __future__ import annotations

from typing import Any

from tiramisu_py.language.ir.nodes import BlockValue, Operand
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class ArrayOperand:
    """An array that the kernel is called with."""

    name: str
    value: BlockValue
    rank: int


@dataclass(frozen=True, eq=False)
class Offsets:
    """Distances in an array: so many elements along each dimension."""

    array: ArrayOperand
    indices: tuple[Operand, ...]


@dataclass(frozen=True, eq=False)
class PlaceOf:
    """Elements of an array: an index, a scalar or a block, for each dimension."""

    array: ArrayOperand
    indices: tuple[Operand, ...]


@dataclass(frozen=True, eq=False)
class Stride:
    """The distance of neighbours along one dimension of an array."""

    array: ArrayOperand
    axis: int


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a value or an array, before it is called."""

    of: Any
    name: str


@dataclass(frozen=True, eq=False)
class TensorBoxes:
    """A tensor descriptor: an array in boxes of one shape."""

    array: ArrayOperand
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Undefined:
    """A name that has no value on some path that leads here."""

    why: str


def is_static(given: Any) -> bool:
    """Whether something is known while the kernel is read."""
    if isinstance(given, tuple | list):
        return all(map(is_static, given))
    return not isinstance(
        given, BlockValue | ArrayOperand | Offsets | PlaceOf | Stride | Method | TensorBoxes | Undefined
    )


def is_operand(given: Any) -> bool:
    """Whether something can be an operand of an instruction: a value, a number or a truth value."""
    return isinstance(given, BlockValue | bool | int | float)
