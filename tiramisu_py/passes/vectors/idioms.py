"""Idioms of processor instructions, recognised in vector expressions as users write them.

Before: ``uint8(min(uint16(x) + uint16(y), 255))``, lanes of 16 bits. After: ``add_saturated(x, y)``, lanes of 8 bits.
Arithmetic whose result is narrowed is done in the narrowest type that gives the same bits for all operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeGuard

from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Call, Cast, Const, Expr, Select, Unary, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import kinds, rewrite
from tiramisu_py.algorithm.types import DType, int8, int16, int32, uint8, uint16, uint32
from tiramisu_py.ir import Assign, Declare, For, Idiom, Let, Load, Node, Ramp, Store
from tiramisu_py.ir.arithmetic.intervals import bounds, clamped, fits, limits, may_wrap, wrapped
from tiramisu_py.ir.rewriting import with_children
from tiramisu_py.passes.vectors.equal_weights import grouped

_RING = ("+", "-", "*", "&", "|", "^")
#: An expression without any of these has no idioms.
_WITH_IDIOMS = frozenset((Cast, Select, "max", *COMPARISONS))
_BY_BITS = {8: (uint8, int8), 16: (uint16, int16), 32: (uint32, int32)}


def recognised(e: Expr) -> Expr:
    """The expression with idioms in place of equivalent arithmetic, where it has lanes."""
    return e if kinds(e).isdisjoint(_WITH_IDIOMS) else rewrite(e, _changed)


def with_idioms(node: Node, lane: str) -> Node:
    """The statement with idioms in its vector expressions, except in loops over lanes (of the variable `lane`)."""
    if isinstance(node, For) and node.variable == lane:
        return node
    if isinstance(node, Store | Let | Declare | Assign):
        node = replace(node, value=grouped(recognised(node.value)))
    return with_children(node, lambda child: with_idioms(child, lane))


def _changed(e: Expr) -> Expr | None:
    if isinstance(e, Load) or not _has_lanes(e):
        return e
    if isinstance(e, Cast) and e.dtype.is_integer and e.operand.dtype.is_integer:
        return _narrow_cast(e)
    if isinstance(e, Binary) and e.op in COMPARISONS:
        return _narrow_comparison(e)
    pair = _distance(e)
    return None if pair is None else _idiom("distance", *pair, e.dtype)


def _has_lanes(e: Expr) -> bool:
    return Ramp in kinds(e)


def _idiom(name: str, x: Expr | None, y: Expr | None, dtype: DType) -> Expr | None:
    """An idiom of two operands; None unless both exist and one has lanes."""
    if x is None or y is None or not (_has_lanes(x) or _has_lanes(y)):
        return None
    return Idiom(name, (recognised(x), recognised(y)), dtype)


def _narrow_cast(e: Cast) -> Expr | None:
    """A narrowing cast whose operand is computed in the narrowest possible type."""
    for dtype in _narrower(e.operand.dtype):
        if dtype.bits < e.dtype.bits:
            continue
        found = low_bits(e.operand, dtype)
        if found is not None:
            return _as(recognised(found), e.dtype)
    return None


def _narrow_comparison(e: Binary) -> Expr | None:
    for dtype in _narrower(e.left.dtype) if e.left.dtype == e.right.dtype else ():
        sides = [low_bits(side, dtype) if fits(side, dtype) else None for side in (e.left, e.right)]
        left, right = sides
        if left is not None and right is not None:
            return Binary(e.op, recognised(left), recognised(right), e.dtype)
    return None


def _narrower(dtype: DType) -> Iterator[DType]:
    """The integer types with fewer bits, the narrowest first."""
    if dtype.is_integer:
        yield from (narrow for bits, both in _BY_BITS.items() if bits < dtype.bits for narrow in both)


def _as(e: Expr, dtype: DType) -> Expr:
    return e if e.dtype == dtype else Cast(e, dtype)


@deep
def low_bits(e: Expr, dtype: DType) -> Expr | None:
    """An expression computed in a narrower type throughout, whose value is the low bits of the given one's."""
    if not (e.dtype.is_integer or e.dtype.is_bool):
        return None
    if e.dtype.bits <= dtype.bits:
        return _as(e, dtype)
    if isinstance(e, Binary) and not e.left.dtype == e.right.dtype == e.dtype:
        return None
    match e:
        case Const():
            return Const(wrapped(int(e.value), dtype), dtype)
        case Cast():
            return low_bits(e.operand, dtype)
        case Unary():
            inner = low_bits(e.operand, dtype)
            return None if inner is None else Unary(e.op, inner, dtype)
        case Binary(op="min" | "max"):
            return _extremum(e, dtype)
        case Binary(op="<<"):
            return _over(e, dtype, low_bits(e.left, dtype))
        case Binary(op=">>" | "//"):
            return _first(_average(e, dtype), lambda: _over(e, dtype, _exact(e.left, dtype)))
        case Binary(op="*") if dtype.bits == 8:
            return None  # there is no such instruction
        case Binary() if e.op in _RING:
            return _first(_distance_within(e, dtype), lambda: _both(e, dtype))
        case Call(function="abs", extern=None, arguments=(Binary(op="-") as inner,)) if not may_wrap(inner):
            return _distance_of(inner.left, inner.right, dtype)
        case Select():
            return _first(_distance_within(e, dtype), lambda: _choice(e, dtype))
    return None


def _first(found: Expr | None, otherwise: Callable[[], Expr | None]) -> Expr | None:
    return otherwise() if found is None else found


def _exact(e: Expr, dtype: DType) -> Expr | None:
    """The value in a narrower type, if it is always in its range."""
    return low_bits(e, dtype) if fits(e, dtype) else None


def _over(e: Binary, dtype: DType, left: Expr | None) -> Expr | None:
    """A shift or division by a constant, in the narrower type."""
    count = constant(e.right)
    if left is None or count is None:
        return None
    possible = 0 < count <= dtype.limits[1] if e.op == "//" else 0 <= count < dtype.bits
    return Binary(e.op, left, Const(count, dtype), dtype) if possible else None


def _both(e: Binary, dtype: DType) -> Expr | None:
    left, right = low_bits(e.left, dtype), low_bits(e.right, dtype)
    return None if left is None or right is None else Binary(e.op, left, right, dtype)


def _choice(e: Select, dtype: DType) -> Expr | None:
    """A select in the narrower type, if its condition compares values of the same width."""
    test = recognised(e.condition)
    yes, no = low_bits(e.yes, dtype), low_bits(e.no, dtype)
    wide = not isinstance(test, Binary) or test.op not in COMPARISONS or test.left.dtype.bits != dtype.bits
    return None if wide or yes is None or no is None else Select(test, yes, no, dtype)


def _extremum(e: Binary, dtype: DType) -> Expr | None:
    """A minimum or maximum: a redundant one, one that clamps a sum to the type's range, or one of narrow values."""
    for side, end in ((e.left, constant(e.right)), (e.right, constant(e.left))):
        values = bounds(side)
        if end is not None and (values.high <= end if e.op == "min" else values.low >= end):
            return low_bits(side, dtype)
    found = _saturated(e, dtype)
    if found is not None:
        return found
    left, right = _exact(e.left, dtype), _exact(e.right, dtype)
    return None if left is None or right is None else Binary(e.op, left, right, dtype)


def _saturated(e: Expr, dtype: DType) -> Expr | None:
    """``min(x + y, 255)``, ``max(x - y, 0)``, or ``max(min(x + y, 127), -128)``: sums clamped to the type's range."""
    if dtype.bits > 16:
        return None
    inner, low, high = clamped(e)
    if not (isinstance(inner, Binary) and inner.op in ("+", "-")) or may_wrap(inner):
        return None
    unclamped, whole = bounds(inner), limits(dtype)
    clamps_below = low == whole.low or (low is None and unclamped.low >= whole.low)
    clamps_above = high == whole.high or (high is None and unclamped.high <= whole.high)
    if not clamps_below or not clamps_above:
        return None
    name = "add_saturated" if inner.op == "+" else "subtract_saturated"
    return _idiom(name, _exact(inner.left, dtype), _exact(inner.right, dtype), dtype)


def _average(e: Binary, dtype: DType) -> Expr | None:
    """``(x + y + 1) >> 1`` of unsigned x and y."""
    total = e.left
    halved = constant(e.right) == (1 if e.op == ">>" else 2) and dtype.kind == "u" and dtype.bits <= 16
    if not halved or not (isinstance(total, Binary) and total.op == "+" and constant(total.right) == 1):
        return None
    pair = total.left
    if not (isinstance(pair, Binary) and pair.op == "+") or may_wrap(total) or may_wrap(pair):
        return None
    return _idiom("average", _exact(pair.left, dtype), _exact(pair.right, dtype), dtype)


def _distance(e: Expr) -> tuple[Expr, Expr] | None:
    """The operands of ``max(x, y) - min(x, y)`` or ``select(x > y, x - y, y - x)`` of integers."""
    if not e.dtype.is_integer:
        return None
    if _is(e, "-") and _is(e.left, "max") and _is(e.right, "min"):
        return (e.left.left, e.left.right) if e.left.dtype == e.dtype and _same_pair(e.left, e.right) else None
    if not isinstance(e, Select) or not isinstance(e.condition, Binary):
        return None
    test, yes, no = e.condition, e.yes, e.no
    if not (_is(yes, "-") and _is(no, "-")) or test.op not in ("<", "<=", ">", ">="):
        return None
    larger, smaller = (test.left, test.right) if test.op in (">", ">=") else (test.right, test.left)
    expected = [larger, smaller, smaller, larger]
    found = [yes.left, yes.right, no.left, no.right]
    alike = all(a.same_as(b) for a, b in zip(expected, found, strict=True))
    typed = all(part.dtype == e.dtype for part in (larger, smaller, yes, no))
    return (larger, smaller) if alike and typed else None


def _is(e: Expr, op: str) -> TypeGuard[Binary]:
    return isinstance(e, Binary) and e.op == op


def _same_pair(a: Binary, b: Binary) -> bool:
    crossed = a.left.same_as(b.right) and a.right.same_as(b.left)
    typed = all(part.dtype == a.dtype for part in (a.left, a.right, b))
    return typed and (crossed or (a.left.same_as(b.left) and a.right.same_as(b.right)))


def _distance_within(e: Expr, dtype: DType) -> Expr | None:
    pair = _distance(e)
    return None if pair is None else _distance_of(*pair, dtype)


def _distance_of(x: Expr, y: Expr, dtype: DType) -> Expr | None:
    return _idiom("distance", _exact(x, dtype), _exact(y, dtype), dtype)
