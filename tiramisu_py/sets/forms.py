"""Affine expressions on a frame, made and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TypeVar

import islpy as isl

from tiramisu_py.records import dataclass
from tiramisu_py.sets.frames import carrying, integer, number

_SET = isl.dim_type.set
_IN = isl.dim_type.in_
_PARAM = isl.dim_type.param
_Form = TypeVar("_Form", isl.Aff, isl.PwAff)


def variables(space: isl.Space) -> list[isl.Aff]:
    """The dimensions of a frame, each as an affine expression on it."""
    local = isl.LocalSpace.from_space(space)
    return [isl.Aff.var_on_domain(local, _SET, i) for i in range(space.dim(_SET))]


def parameter(space: isl.Space, name: str) -> isl.Aff:
    """A parameter as an affine expression on a frame."""
    position = space.find_dim_by_name(_PARAM, name)
    if position < 0:
        raise KeyError(name)
    return isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _PARAM, position)


def constant(space: isl.Space, value: int) -> isl.Aff:
    """A constant as an affine expression on a frame."""
    return isl.Aff.val_on_domain_space(space, integer(space.get_ctx(), value))


def is_constant(aff: isl.Aff) -> bool:
    """Whether an affine expression is an integer constant."""
    return bool(aff.is_cst()) and bool(aff.get_constant_val().is_int())


def is_of_parameters(aff: isl.Aff) -> bool:
    """Whether an affine expression has integer coefficients, and none for a dimension."""
    return bool(aff.get_denominator_val().is_one()) and not aff.involves_dims(_IN, 0, aff.dim(_IN))


def constant_of(aff: isl.Aff) -> int:
    """The value of a constant affine expression."""
    return number(aff.get_constant_val())


def floor_div(aff: _Form, divisor: int) -> _Form:
    """``floor(aff / divisor)``, divisor > 0."""
    return aff.scale_down_val(integer(aff.get_ctx(), divisor)).floor()


def modulo(aff: isl.Aff, divisor: int) -> isl.Aff:
    """``aff mod divisor``, from 0 to divisor - 1."""
    return aff.mod_val(integer(aff.get_ctx(), divisor))


def scaled(aff: _Form, factor: int) -> _Form:
    """``factor * aff``."""
    return aff.scale_val(integer(aff.get_ctx(), factor))


def plus(aff: isl.Aff, value: int) -> isl.Aff:
    """``aff + value``."""
    return aff.add_constant_val(integer(aff.get_ctx(), value))


def raised(form: isl.PwAff, by: int) -> isl.PwAff:
    """``form + by``, for a form that may be piecewise."""
    return form.add_constant_val(integer(form.get_ctx(), by))


def least(aff: isl.PwAff | isl.Aff) -> isl.Aff | None:
    """The single affine expression of a piecewise one; None if it has several pieces."""
    if isinstance(aff, isl.Aff):
        return aff
    merged = aff.coalesce()
    return merged.as_aff() if merged.isa_aff() else None


def on_frame(aff: isl.Aff, space: isl.Space) -> isl.Aff:
    """An affine form of the parameters alone, on the frame `space`."""
    if not aff.get_domain_space().is_params():
        aff = aff.project_domain_on_params()
    return aff.to_pw_aff().insert_domain(space).as_aff()


@dataclass(frozen=True)
class Terms:
    """The terms of a quasi-affine form ``(constant + dims + params + divs) / denominator``, with integer coefficients.

    Each of `divs` is a coefficient and the form under the floor.
    """

    denominator: int
    constant: int
    dims: tuple[int, ...]
    params: tuple[tuple[int, str], ...]
    divs: tuple[tuple[int, isl.Aff], ...]


def terms(aff: isl.Aff) -> Terms:
    """The coefficients of a quasi-affine form."""
    denominator = aff.get_denominator_val()

    def whole(value: isl.Val) -> int:
        return number(value.mul(denominator))

    def coefficients(kind: isl.dim_type) -> list[int]:
        return [whole(aff.get_coefficient_val(kind, i)) for i in range(aff.dim(kind))]

    names = (aff.get_dim_name(_PARAM, i) or "" for i in range(aff.dim(_PARAM)))
    kept = tuple((c, name) for c, name in zip(coefficients(_PARAM), names, strict=True) if c)
    divs = tuple((c, aff.get_div(i)) for i, c in enumerate(coefficients(isl.dim_type.div)) if c)
    return Terms(number(denominator), whole(aff.get_constant_val()), tuple(coefficients(_IN)), kept, divs)


def as_function(of: isl.PwMultiAff) -> list[isl.PwAff]:
    """The components of a piecewise function."""
    return [of.get_at(i) for i in range(of.dim(isl.dim_type.out))]


def extent_between(low: isl.PwAff | isl.Aff, high: isl.PwAff) -> isl.PwAff:
    """``high - low + 1``."""
    of = high.sub(low if isinstance(low, isl.PwAff) else low.to_pw_aff())
    return of.add_constant_val(integer(of.get_ctx(), 1))


def replaced(aff: isl.Aff, space: isl.Space, values: Mapping[str, isl.Aff]) -> isl.Aff:
    """An affine form on a larger frame `space` (its first dimensions), with forms substituted for parameters."""
    taken, dims = terms(aff), variables(space)
    found = constant(space, taken.constant)
    for coefficient, dim in zip(taken.dims, dims, strict=False):
        found = found.add(scaled(dim, coefficient))
    for coefficient, name in taken.params:
        found = found.add(scaled(values[name] if name in values else parameter(space, name), coefficient))
    for coefficient, inner in taken.divs:
        found = found.add(scaled(replaced(inner, space, values).floor(), coefficient))
    return found.scale_down_val(integer(space.get_ctx(), taken.denominator))


def with_small_floors(aff: isl.Aff) -> isl.Aff:
    """The form with small factors under its floors: ``j - floor((49*j + 49)/50)`` is ``floor(j/50)``.

    isl finds the first form where it turns ``50*h <= j`` around; its arithmetic would need numbers 50 times as large.
    """
    if not has_floors(aff):
        return aff
    taken, found = terms(aff), constant(aff.get_domain_space(), 0)
    for coefficient, each in _linear_parts(taken, aff.get_domain_space()):
        found = found.add(scaled(each, coefficient))
    for coefficient, inner in taken.divs:
        found = found.add(scaled(_small_floor(inner), coefficient))
    return plus(found, taken.constant).scale_down_val(integer(aff.get_ctx(), taken.denominator))


def _linear_parts(taken: Terms, space: isl.Space) -> list[tuple[int, isl.Aff]]:
    """The terms of dimensions and parameters: coefficients and what they multiply."""
    dims = [(c, dim) for c, dim in zip(taken.dims, variables(space), strict=True) if c]
    return dims + [(c, parameter(space, name)) for c, name in taken.params]


def _small_floor(under: isl.Aff) -> isl.Aff:
    """``floor(under)``, without multiples of the divisor, and turned around where all factors are negative then."""
    taken, space = terms(under), under.get_domain_space()
    divisor = taken.denominator
    parts = _linear_parts(taken, space) + [(c, _small_floor(inner)) for c, inner in taken.divs]
    rests = [(c + divisor // 2) % divisor - divisor // 2 for c, _ in parts]
    if not parts or max(rests) > 0 > min(rests):
        rests = [c for c, _ in parts]  # of both signs: as it is
    sign = -1 if max(rests, default=0) <= 0 and any(rests) else 1
    whole, rest = constant(space, 0), constant(space, taken.constant if sign > 0 else divisor - 1 - taken.constant)
    for (c, each), left in zip(parts, rests, strict=True):
        whole = whole.add(scaled(each, (c - left) // divisor))
        rest = rest.add(scaled(each, sign * left))
    return whole.add(scaled(floor_div(rest, divisor), sign))


def zero_like(of: isl.PwAff) -> isl.PwAff:
    """Zero on the domain of a form."""
    return of.sub(of)


def zero_elsewhere(of: isl.PwAff) -> isl.PwAff:
    """A form of the parameters, extended by 0 outside its domain."""
    nothing = isl.Aff.zero_on_domain_space(of.get_domain_space()).to_pw_aff()
    return of.union_add(nothing.intersect_domain(of.domain().complement()))


def pieces(of: isl.PwAff) -> list[isl.Aff]:
    """The affine forms of the pieces of a piecewise form."""
    found: list[isl.Aff] = []
    of.coalesce().foreach_piece(carrying(lambda domain, aff: found.append(aff)))
    return found


def involves(of: isl.Aff, names: Sequence[str]) -> bool:
    """Whether a form depends on one of some parameters."""
    positions = (of.find_dim_by_name(_PARAM, name) for name in names)
    return any(p >= 0 and of.involves_dims(_PARAM, p, 1) for p in positions)


def axes_of(of: isl.Aff) -> set[int]:
    """The dimensions on which a form depends."""
    return {axis for axis in range(of.dim(_IN)) if of.involves_dims(_IN, axis, 1)}


def involves_axes(of: isl.Aff, first: int, count: int) -> bool:
    """Whether a form depends on one of so many of its dimensions from `first` on."""
    return bool(of.involves_dims(_IN, first, count))


def without_axes(of: isl.Aff, first: int) -> isl.Aff:
    """A form that does not depend on its dimensions from `first` on, on a space without these."""
    return of.drop_dims(_IN, first, of.dim(_IN) - first)


def has_floors(of: isl.Aff) -> bool:
    """Whether a form has integer parts."""
    return int(of.dim(isl.dim_type.div)) > 0


def on_params(of: isl.Aff) -> isl.Aff:
    """An affine form of the parameters alone, on their space."""
    return of if of.get_domain_space().is_params() else of.project_domain_on_params()


def is_one(of: isl.PwAff) -> bool:
    """Whether a form is 1 on its whole domain."""
    found = pieces(of)
    return len(found) == 1 and is_constant(found[0]) and constant_of(found[0]) == 1


def stride(of: isl.Aff, position: int) -> int | None:
    """The coefficient of a dimension in a form; None if the growth is not constant."""
    taken = terms(of)
    if any(div.involves_dims(_IN, position, 1) for _, div in taken.divs) or taken.dims[position] % taken.denominator:
        return None
    return taken.dims[position] // taken.denominator


def slope(of: isl.Aff, position: int) -> Fraction:
    """How much a form grows in the long run for each step of a dimension: 1/2 for ``floor(i / 2)``."""
    taken = terms(of)
    inner = sum((factor * slope(div, position) for factor, div in taken.divs), Fraction(0))
    return (taken.dims[position] + inner) / taken.denominator


def period(of: isl.Aff, position: int) -> int:
    """The number of steps of a dimension after which a form has grown by a whole multiple of its slope."""
    taken = terms(of)
    inner = (period(div, position) for _, div in taken.divs)
    own = taken.denominator // gcd(taken.denominator, taken.dims[position])
    return lcm(own, *inner)


def greatest(of: isl.PwAff) -> int | None:
    """The greatest value of an integer form over all parameter values; None if it is unbounded or has no value.

    A form that is an integer only on its domain, such as ``N/8`` for multiples N of 8, has fractional coefficients, for
    which isl computes no maximum; it computes that of the multiple without fractions.
    """
    listed: list[tuple[isl.Set, isl.Aff]] = []
    of.foreach_piece(carrying(lambda domain, aff: listed.append((domain, aff))))
    found: list[int] = []
    for domain, aff in listed:
        denominator = aff.get_denominator_val()
        most = domain.max_val(aff.scale_val(denominator))
        if most.is_nan():
            continue  # a piece without elements
        if not most.is_int():
            return None
        found.append(number(most.div(denominator).floor()))
    return max(found, default=None)
