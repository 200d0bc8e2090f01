"""16-bit floats in vectors: bits in memory and in variables, computed in float32, rounded after each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Binary, Cast, Expr, Unary
from tiramisu_py.algorithm.types import DType, float32, strong
from tiramisu_py.backends.c.expressions.parentheses import Code, call, infix, prefix
from tiramisu_py.backends.c.expressions.scalar_types import SCALAR_TYPES
from tiramisu_py.backends.c.expressions.scalars import operand
from tiramisu_py.errors import CompilerDefect

if TYPE_CHECKING:
    from tiramisu_py.backends.c.vectors.vectors import Vectors


def as_float(vectors: Vectors, e: Expr) -> Code:
    """A 16-bit float as float32."""
    if vectors.scope.lanes.of(e) == 1:
        return call("TM_ALL", vectors.type(float32), vectors.scalars.as_float(e))
    return call(vectors.types.idioms.of_halves(strong(e.dtype), float32, vectors.lanes), vectors(e))


def computed(vectors: Vectors, e: Expr) -> Code:
    """The bits of an operation whose result is a 16-bit float: one of those that `in_float32` accepts."""
    dtype = strong(e.dtype)
    match e:
        case Unary():
            return _rounded(vectors, prefix(e.op, as_float(vectors, operand(e.operand, dtype))), dtype)
        case Binary():
            left, right = (as_float(vectors, operand(side, dtype)) for side in (e.left, e.right))
            return _rounded(vectors, _binary(vectors, e.op, left, right, dtype), dtype)
        case Cast() if strong(e.operand.dtype) == dtype:
            return vectors(e.operand)
        case Cast():
            return _rounded(vectors, vectors(operand(e.operand, float32)), dtype)
    raise CompilerDefect(f"the C emitter has no vectors of 16-bit floats for {type(e).__name__}: {e}")


def _binary(vectors: Vectors, op: str, left: Code, right: Code, dtype: DType) -> Code:
    if op not in ("min", "max"):
        return infix(op, left, right)
    if op in SCALAR_TYPES[dtype].functions:
        return call("TM_MAP_2", vectors.type(float32), f"tm_{op}_{dtype.name}", left, right)
    return call(vectors.types.idioms.operation(op, float32, vectors.lanes), left, right)


def _rounded(vectors: Vectors, code: Code, dtype: DType) -> Code:
    return call(vectors.types.idioms.of_halves(float32, dtype, vectors.lanes), code)
