"""Constraints as plain numbers."""

from __future__ import annotations

import islpy as isl

from tiramisu_py.sets.frames import number, params

_SET = isl.dim_type.set
_IN = isl.dim_type.in_
_PARAM = isl.dim_type.param
_DIV = isl.dim_type.div


def parameter_constraints(of: isl.BasicSet) -> list[tuple[bool, dict[str, int], int]] | None:
    """The constraints of a set of parameter values, as ``(is equation, coefficients, constant)``.

    Each means ``sum(coefficient * parameter) + constant >= 0`` (or ``= 0``). None if the set has divisions.
    """
    if of.dim(isl.dim_type.div):
        return None
    found: list[tuple[bool, dict[str, int], int]] = []
    names = params(of)
    for constraint in of.get_constraints():
        values = [number(constraint.get_coefficient_val(_PARAM, i)) for i in range(len(names))]
        factors = {name: value for name, value in zip(names, values, strict=True) if value}
        found.append((constraint.is_equality(), factors, number(constraint.get_constant_val())))
    return found


#: Coefficients of the dimensions and of the floors so far, then the constant.
Row = tuple[tuple[int, ...], int]


def floors_and_rows(of: isl.Set) -> list[tuple[list[tuple[Row, int]], list[tuple[Row, bool]]]]:
    """The basic sets of a set without parameters, as numbers.

    Each is a list of floors ``(row, divisor)``, which extend the dimensions one after another by
    ``floor(row / divisor)``, and a list of constraints ``(row, is equality)``: ``row == 0`` or ``row >= 0``.
    """
    found: list[tuple[list[tuple[Row, int]], list[tuple[Row, bool]]]] = []
    for basic in of.compute_divs().get_basic_sets():
        listed = basic.get_constraints()
        floors = _floors(listed[0]) if listed else []
        found.append((floors, [(_constraint_row(c), bool(c.is_equality())) for c in listed]))
    return found


def _constraint_row(of: isl.Constraint) -> Row:
    dims = [of.get_coefficient_val(_SET, i) for i in range(of.dim(_SET))]
    divs = [of.get_coefficient_val(_DIV, i) for i in range(of.dim(_DIV))]
    return tuple(number(v) for v in dims + divs), number(of.get_constant_val())


def _floors(of: isl.Constraint) -> list[tuple[Row, int]]:
    return [_floor(of.get_div(i), i) for i in range(of.dim(_DIV))]


def _floor(aff: isl.Aff, before: int) -> tuple[Row, int]:
    divisor = aff.get_denominator_val()
    dims = [aff.get_coefficient_val(_IN, i) for i in range(aff.dim(_IN))]
    divs = [aff.get_coefficient_val(_DIV, i) for i in range(before)]
    coefficients = tuple(number(v.mul(divisor)) for v in dims + divs)
    return (coefficients, number(aff.get_constant_val().mul(divisor))), number(divisor)


def constraints(of: isl.Set) -> list[tuple[isl.Aff, bool]]:
    """The constraints of a convex set of parameters: forms that are at least 0, or (True) equal to 0."""
    found: list[tuple[isl.Aff, bool]] = []
    for basic in of.compute_divs().detect_equalities().remove_redundancies().get_basic_sets():
        found += [(c.get_aff(), bool(c.is_equality())) for c in basic.get_constraints()]
    return found
