"""Scalar types of the block IR, by their short names: those of values, and of numbers that take the type of others."""

from __future__ import annotations

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.language.ir.nodes import BlockType, BlockValue, Operand

_SHORT = {
    ty.bool_: "i1", ty.int8: "i8", ty.int16: "i16", ty.int32: "i32", ty.int64: "i64", ty.uint8: "u8", ty.uint16: "u16",
    ty.uint32: "u32", ty.uint64: "u64", ty.float16: "f16", ty.bfloat16: "bf16", ty.float32: "f32", ty.float64: "f64",
    ty.weak_int: "int", ty.weak_float: "float",
}  # fmt: skip
_LONG = {short: dtype for dtype, short in _SHORT.items()}


def short(dtype: DType) -> str:
    """``f32`` for float32; ``int`` and ``float`` for sizes and numbers, which take the type of the other operand."""
    return _SHORT[dtype]


def block_type(dtype: DType, shape: tuple[int, ...] = ()) -> BlockType:
    """The type of a block."""
    return BlockType(_SHORT[dtype], shape)


def dtype_of(operand: Operand) -> DType:
    """The scalar type of an operand; that of a pointer is what it points to."""
    if isinstance(operand, BlockValue):
        return _LONG[operand.type.scalar.removesuffix("*")]
    if isinstance(operand, bool):
        return ty.bool_
    return ty.weak_int if isinstance(operand, int) else ty.weak_float


def shape_of(operand: Operand) -> tuple[int, ...]:
    """The extents of an operand; () for scalars."""
    return operand.type.shape if isinstance(operand, BlockValue) else ()
