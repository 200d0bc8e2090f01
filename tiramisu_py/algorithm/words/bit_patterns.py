"""Words on the bits of values."""

from __future__ import annotations

from typing import Any

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Call, Const, Expr, Operand, as_expr, as_typed, call, cast
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DTypeError
from tiramisu_py.public_calls import own_call


@own_call
def reinterpret(dtype: Any, x: Operand) -> Expr:
    """The value of `dtype` that has the bits of `x`, a value of another type of the same width."""
    wanted, operand = ty.as_dtype(dtype), as_expr(x)
    if isinstance(operand, Const) and operand.dtype.weak:
        operand = as_typed(operand, _of_literal(operand, wanted))
    given = ty.strong(operand.dtype)
    if given is ty.unknown:
        raise DTypeError(f"the type of {operand} is not known; give dtype=")
    if wanted.is_bool or given.is_bool:
        raise DTypeError(f"reinterpret is for the bits of numbers: cast {operand} ({given}) to {wanted} with tm.cast")
    if wanted.bits != given.bits:
        raise DTypeError(
            f"reinterpret keeps the bits, and {operand} is {given}, which has {given.bits}, not {wanted.bits} like "
            f"{wanted}; tm.cast converts the value"
        )
    if given == wanted or (given.is_integer and wanted.is_integer):
        return cast(wanted, operand)
    return Call("reinterpret", (operand,), wanted)


def _of_literal(literal: Const, wanted: DType) -> DType:
    """The type of a Python number whose bits are taken: as wide as the result."""
    if isinstance(literal.value, float):
        return ty.float32 if wanted.bits == 32 else ty.float64
    return ty.as_dtype(f"{'int' if literal.value < 0 else 'uint'}{wanted.bits}")


@own_call
def popcount(x: Operand) -> Expr:
    """How many bits of an integer are 1, those of its sign included, in its own type."""
    operand = as_expr(x)
    if not operand.dtype.is_integer and operand.dtype is not ty.unknown:
        raise DTypeError(
            f"popcount counts the bits of an integer, and {operand} is {operand.dtype}; see tm.reinterpret"
        )
    return call("popcount", operand)
