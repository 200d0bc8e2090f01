"""From expressions to isl: the (quasi-)affine form of an expression, the set of a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Binary, Call, Cast, Const, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.stacks import Steps, unstacked
from tiramisu_py.algorithm.types import weak_int

#: Literals in affine arithmetic stay below this, so that 64-bit arithmetic is exact for all accepted sizes.
LARGEST_LITERAL = 2**31

#: Shifts by this many bits, or more, divide by what is no accepted literal.
_MOST_BITS = 31

#: The two questions about an expression: its affine form, or the set where it holds.
_VALUE, _CONDITION = "value", "condition"


class NotAffine(Exception):
    """The expression has no affine form; `part` is the subexpression that is to blame."""

    def __init__(self, part: Expr) -> None:
        super().__init__(str(part))
        self.part = part


class Affine:
    """Reads expressions as affine forms on one frame, whose dimensions are the iterators of `dims`.

    Values (accesses, floats, products of two variables) are `NotAffine`.
    """

    def __init__(self, space: isl.Space, dims: Mapping[str, isl.Aff] | None = None) -> None:
        self.space = space
        if dims is None:
            names = sets.dim_names(space)
            dims = dict(zip((n or "" for n in names), sets.variables(space), strict=True))
        self.dims = dims

    def value(self, e: Expr) -> isl.PwAff:
        """The affine form of an integer expression; raises `NotAffine`."""
        aff = self._aff(e)
        return aff if isinstance(aff, isl.PwAff) else aff.to_pw_aff()

    def single(self, e: Expr) -> isl.Aff:
        """The affine form of an integer expression without min, max or select; raises `NotAffine`."""
        aff = sets.least(self._aff(e))
        if aff is None:
            raise NotAffine(e)
        return aff

    def _aff(self, e: Expr) -> isl.Aff | isl.PwAff:
        found: isl.Aff | isl.PwAff = unstacked(self._read, _VALUE, e)
        return found

    def condition(self, e: Expr) -> isl.Set:
        """The elements of the frame where a condition holds; raises `NotAffine`."""
        found: isl.Set = unstacked(self._read, _CONDITION, e)
        return found

    def _read(self, what: str, e: Expr) -> Steps[Any]:
        """An affine form, or the set where a condition holds; yields the question to ask of each operand."""
        return self._form_of(e) if what == _VALUE else self._where(e)

    def _form_of(self, e: Expr) -> Steps[isl.Aff | isl.PwAff]:
        match e:
            case Const() if isinstance(e.value, int) and not isinstance(e.value, bool) and not e.dtype.is_float:
                return sets.constant(self.space, e.value)
            case Iter() if e.name in self.dims:
                return self.dims[e.name]
            case Param():
                try:
                    return sets.parameter(self.space, e.name)
                except KeyError:
                    raise NotAffine(e) from None
            case Unary(op="-"):
                opposite: isl.Aff | isl.PwAff = (yield _VALUE, e.operand).neg()
                return opposite
            case Cast() if e.dtype.name == "int64" and e.operand.dtype.is_integer:
                same: isl.Aff | isl.PwAff = yield _VALUE, e.operand
                return same
            case Binary() if e.op in ("+", "-", "*", "//", "%", "min", "max"):
                left = yield _VALUE, e.left
                right = yield _VALUE, e.right
                return self._combined(e, left, right)
            case Binary() if (divided := _of_low_bits(e)) is not None:
                operand, divisor = divided
                bits = yield _VALUE, operand
                return self._floor(bits, divisor) if e.op == ">>" else self._mod(bits, divisor)
            case Call(function="abs") if e.dtype is weak_int:
                inner = _piecewise((yield _VALUE, e.arguments[0]))
                return inner.max(inner.neg())
            case Select():
                test = yield _CONDITION, e.condition
                yes = _piecewise((yield _VALUE, e.yes))
                no = _piecewise((yield _VALUE, e.no))
                return yes.intersect_domain(test).union_add(no.subtract_domain(test))
        raise NotAffine(e)

    def _where(self, e: Expr) -> Steps[isl.Set]:
        match e:
            case Const() if e.dtype.is_bool:
                return sets.universe(self.space) if e.value else sets.empty(self.space)
            case Unary(op="~") if e.dtype.is_bool:
                elsewhere: isl.Set = (yield _CONDITION, e.operand).complement()
                return elsewhere
            case Binary(op="&" | "|") if e.dtype.is_bool:
                left = yield _CONDITION, e.left
                right = yield _CONDITION, e.right
                both: isl.Set = left.intersect(right) if e.op == "&" else left.union(right)
                return both
            case Binary() if e.op in _COMPARE and not e.left.dtype.is_bool and not e.left.dtype.is_float:
                left = _piecewise((yield _VALUE, e.left))
                right = _piecewise((yield _VALUE, e.right))
                return sets.as_set(_COMPARE[e.op](left, right))
        raise NotAffine(e)

    def _combined(self, e: Binary, a: isl.Aff | isl.PwAff, b: isl.Aff | isl.PwAff) -> isl.Aff | isl.PwAff:
        if e.op in ("+", "-", "*") and (_is_large(a) or _is_large(b)):
            raise NotAffine(e)
        if e.op in ("min", "max"):
            pa, pb = _piecewise(a), _piecewise(b)
            return pa.min(pb) if e.op == "min" else pa.max(pb)
        if e.op in ("//", "%"):
            return self._divided(e, a, b)
        if e.op == "*":
            return self._scaled(e, a, b)
        if isinstance(a, isl.Aff) and isinstance(b, isl.Aff):
            return a.add(b) if e.op == "+" else a.sub(b)
        pa, pb = _piecewise(a), _piecewise(b)
        return pa.add(pb) if e.op == "+" else pa.sub(pb)

    def _scaled(self, e: Binary, a: isl.Aff | isl.PwAff, b: isl.Aff | isl.PwAff) -> isl.Aff | isl.PwAff:
        for factor, scaled in ((b, a), (a, b)):
            if isinstance(factor, isl.Aff) and sets.is_constant(factor):
                by = sets.constant_of(factor)
                if isinstance(scaled, isl.Aff):
                    return sets.scaled(scaled, by)
                return scaled.scale_val(sets.integer(self.space.get_ctx(), by))
        raise NotAffine(e)

    def _divided(self, e: Binary, a: isl.Aff | isl.PwAff, b: isl.Aff | isl.PwAff) -> isl.Aff | isl.PwAff:
        if not (isinstance(b, isl.Aff) and sets.is_constant(b)) or sets.constant_of(b) == 0:
            raise NotAffine(e)
        divisor = sets.constant_of(b)
        if divisor < 0:  # floor(a / -n) = floor(-a / n);  a mod -n = -(-a mod n), as in Python
            a, divisor = a.neg(), -divisor
            return self._floor(a, divisor) if e.op == "//" else self._mod(a, divisor).neg()
        return self._floor(a, divisor) if e.op == "//" else self._mod(a, divisor)

    def _floor(self, a: isl.Aff | isl.PwAff, divisor: int) -> isl.Aff | isl.PwAff:
        return a.scale_down_val(sets.integer(self.space.get_ctx(), divisor)).floor()

    def _mod(self, a: isl.Aff | isl.PwAff, divisor: int) -> isl.Aff | isl.PwAff:
        return a.mod_val(sets.integer(self.space.get_ctx(), divisor))


def _of_low_bits(e: Binary) -> tuple[Expr, int] | None:
    """The operand and the divisor that a shift or a mask stands for; None if it stands for none.

    ``x >> k`` is ``x // 2**k``, and ``x & (2**k - 1)`` is ``x % 2**k``, for negative x too, and in every integer type.
    """
    if not e.dtype.is_integer:
        return None
    if e.op == ">>" and (count := _literal(e.right)) is not None:
        return (e.left, 1 << count) if count < min(e.dtype.bits, _MOST_BITS) else None
    for operand, mask in ((e.left, e.right), (e.right, e.left)) if e.op == "&" else ():
        ones = _literal(mask)
        if ones is not None and ones & (ones + 1) == 0:
            return operand, ones + 1
    return None


def _literal(e: Expr) -> int | None:
    """The value of a literal from 0 to `LARGEST_LITERAL`; None for anything else."""
    is_small = isinstance(e, Const) and e.dtype.is_integer and 0 <= e.value < LARGEST_LITERAL
    return int(e.value) if isinstance(e, Const) and is_small else None


def _is_large(a: isl.Aff | isl.PwAff) -> bool:
    """Whether a literal is too large: 64-bit arithmetic with it may wrap around, whereas isl's is exact."""
    return isinstance(a, isl.Aff) and sets.is_constant(a) and abs(sets.constant_of(a)) >= LARGEST_LITERAL


def _piecewise(a: isl.Aff | isl.PwAff) -> isl.PwAff:
    return a if isinstance(a, isl.PwAff) else a.to_pw_aff()


_COMPARE = {
    "<": lambda a, b: a.lt_set(b),
    "<=": lambda a, b: a.le_set(b),
    ">": lambda a, b: a.gt_set(b),
    ">=": lambda a, b: a.ge_set(b),
    "==": lambda a, b: a.eq_set(b),
    "!=": lambda a, b: a.ne_set(b),
}
