"""Narrow results of widened operands, ``uint8(uint16(a) + uint16(b) >> 1)``: of each pair of neighbours, which fill one
wide lane, the even and the odd one can be computed apart, so that no lane has to move to another place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiramisu_py.algorithm.expressions import Binary, Cast, Expr, Unary, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import DType, strong
from tiramisu_py.ir.expressions import Idiom

#: The name of the idiom: the low bits of a value that is twice as wide, and whose operands are widened.
NARROWED = "narrowed"
#: The widest type of the value.
MOST_BITS = 32
_LANEWISE = frozenset(("+", "-", "*", "&", "|", "^", "min", "max"))
_SHIFTS = frozenset(("<<", ">>"))


def is_narrowed(e: Expr) -> bool:
    """Whether an expression is such an idiom."""
    return isinstance(e, Idiom) and e.name == NARROWED


def in_pairs(e: Expr, dtype: DType, is_uniform: Callable[[Expr], bool]) -> bool:
    """Whether `e` can be made narrow to a type in this way; `is_uniform` tells what is the same in all lanes."""
    wide, narrow = strong(e.dtype), strong(dtype)
    if not (wide.is_integer and narrow.is_integer and wide.bits == 2 * narrow.bits and wide.bits <= MOST_BITS):
        return False
    return _is_lanewise(e, wide, is_uniform) and any(True for _ in widened(e))


@deep
def _is_lanewise(e: Expr, wide: DType, is_uniform: Callable[[Expr], bool]) -> bool:
    """Whether all that has lanes is computed lane by lane, in one width, of widened integers."""
    if is_uniform(e):
        return True
    if not strong(e.dtype).is_integer or strong(e.dtype).bits != wide.bits:
        return False
    match e:
        case Cast(operand=inner):
            source = strong(inner.dtype)
            same = source.bits == wide.bits and _is_lanewise(inner, wide, is_uniform)
            return source.is_integer and (same or 2 * source.bits == wide.bits)
        case Unary(op="-" | "~"):
            return e.operand.dtype == e.dtype and _is_lanewise(e.operand, wide, is_uniform)
        case Binary() if e.op in _SHIFTS:
            count = constant(e.right)
            known = count is not None and 0 <= count < wide.bits and strong(e.left.dtype) == strong(e.dtype)
            return known and _is_lanewise(e.left, wide, is_uniform)
        case Binary() if e.op in _LANEWISE:
            return all(_is_operand(side, e.dtype, wide, is_uniform) for side in (e.left, e.right))
    return False


def _is_operand(side: Expr, dtype: DType, wide: DType, is_uniform: Callable[[Expr], bool]) -> bool:
    return is_uniform(side) or (strong(side.dtype) == strong(dtype) and _is_lanewise(side, wide, is_uniform))


@deep
def widened(e: Expr) -> Iterator[Cast]:
    """The casts that widen operands."""
    if isinstance(e, Cast) and strong(e.operand.dtype).is_integer and 2 * e.operand.dtype.bits == e.dtype.bits:
        yield e
    elif isinstance(e, Cast | Unary | Binary):
        for part in e.children():
            yield from widened(part)
