"""Affine forms as expressions over loop variables: the forms that a statement needs, and their values at each leaf.

Forms that differ by a constant share one: isl is asked once for `r`, `r + 1` and `r + 2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr, Param
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import DType, int64
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Wanted(Expr, kind="wanted", own="position offset"):
    """A placeholder in a template: the form at `position` of `Forms`, plus `offset`. Filled templates have none."""

    position: int
    offset: int
    dtype: DType = field(default=int64)


class Forms:
    """The affine forms on a statement's instances that its code needs."""

    def __init__(self, space: isl.Space) -> None:
        self.space = space
        self.forms: list[isl.Aff] = []

    def wanted(self, aff: isl.Aff) -> Expr:
        """The template of an affine form: a literal, or a placeholder to be filled at each leaf."""
        offset = self._integer_constant(aff)
        base = sets.plus(aff, -offset) if offset else aff
        if base.plain_is_zero():
            return arithmetic.number(offset)
        return Wanted(self._position(base), offset)

    def _integer_constant(self, aff: isl.Aff) -> int:
        constant = aff.get_constant_val()
        return sets.number(constant) if constant.is_int() else 0

    def _position(self, base: isl.Aff) -> int:
        for position, known in enumerate(self.forms):
            if known.plain_is_equal(base):
                return position
        self.forms.append(base)
        return len(self.forms) - 1

    def function(self) -> isl.MultiAff:
        """All forms as one function of the instances."""
        return sets.function(self.space, None, self.forms)


def filled(template: Expr, values: Sequence[Expr]) -> Expr:
    """A template with its placeholders replaced by the values of the forms."""

    def value(e: Expr) -> Expr | None:
        return arithmetic.plus(values[e.position], e.offset) if isinstance(e, Wanted) else None

    return rewrite(template, value)


def of_operands(aff: isl.Aff, operands: Sequence[Expr], params: Mapping[str, Expr] | None = None) -> Expr:
    """A quasi-affine form as an expression, with operands (perhaps values of arrays) for its dimensions."""
    taken = sets.terms(aff)
    parts = [(c, operand) for c, operand in zip(taken.dims, operands, strict=True) if c]
    parts += [(c, (params or {}).get(name, Param(name, int64))) for c, name in taken.params]
    parts += [(c, of_operands(form, operands, params)) for c, form in taken.divs]
    return arithmetic.floor_divided(arithmetic.total(taken.constant, parts), taken.denominator)
