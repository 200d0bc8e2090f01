"""Index ranges that are no affine function of the rank: the range that each rank touches, rank by rank.

    rows 0 .. H on rank 0, and H .. R on rank 1   -->   from rank0 == 0 ? 0 : H, and rank0 == 0 ? H : R - H rows

Such ranges occur where arrays are cut at points known at run time. The number of ranks must be a small constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Param, Select
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.ranks.one_rank import Ranked
from tiramisu_py.records import dataclass

#: At most this many ranks are distinguished.
MOST = 16
#: A range may have up to this many extra indices if that makes it affine.
SPARE = 16


@dataclass(frozen=True, eq=False)
class Range:
    """`count` indices, from `first` on."""

    first: Expr
    count: Expr


def each_range(ranked: Ranked, line: isl.Set, is_first: bool) -> Range | None:
    """The smallest range around indices on each rank; None if it is the same on all ranks, or there are too many ranks.

    Ranks without indices have count 0 along the first dimension; along others their range is arbitrary.
    """
    names = [name for name in ranked.coordinates if name in sets.involved_params(line)]
    places = _places(ranked, names)
    if not names or places is None:
        return None
    ranges = [_on(ranked, line, dict(zip(names, at, strict=True)), is_first) for at in places]
    some = next((one for one in ranges if one is not None), None)
    if some is None:
        return None
    nothing = Range(some.first, arithmetic.number(0) if is_first else some.count)
    listed = [nothing if one is None else one for one in ranges]
    found = dict(zip(places, listed, strict=True))
    for axis in reversed(range(len(names))):
        found = _without(found, axis)
        if len(next(iter(found))) < len(names):
            names = names[:axis] + names[axis + 1 :]
    if not names:
        return None
    conditions = [_conditions(names, at) for at in found]
    first = _chosen(conditions, [one.first for one in found.values()])
    return Range(first, _chosen(conditions, [one.count for one in found.values()]))


def _without(ranges: Mapping[tuple[int, ...], Range], axis: int) -> dict[tuple[int, ...], Range]:
    """The ranges without the coordinate along an axis, if they do not depend on it."""
    found = dict[tuple[int, ...], Range]()
    for at, one in ranges.items():
        known = found.setdefault(at[:axis] + at[axis + 1 :], one)
        if (known.first.key(), known.count.key()) != (one.first.key(), one.count.key()):
            return dict(ranges)
    return found


def _places(ranked: Ranked, names: Sequence[str]) -> list[tuple[int, ...]] | None:
    """The coordinates of ranks along some axes; None if there are more than MOST."""
    if ranked.grid is None or ranked.grid.bounds is not None:
        return None
    extents = [ranked.grid.extents[ranked.coordinates.index(name)] for name in names]
    known = [int(extent.value) for extent in extents if isinstance(extent, Const)]
    if len(known) < len(extents) or prod(known) > MOST:
        return None
    return list(product(*map(range, known)))


def _on(ranked: Ranked, line: isl.Set, at: Mapping[str, int], is_first: bool) -> Range | None:
    """The range on the ranks with some coordinates; None if these have no indices at any sizes."""
    context = ranked.program.context
    for name, value in at.items():
        context = sets.param_between(context, name, value, value)
    own = line.intersect_params(context).coalesce()
    if own.is_empty():
        return None
    low, high = sets.smallest_coordinate(own, 0), sets.largest(own, 0)
    there = own.params()
    if is_first:
        return Range(_of(low, there), _count(low, high, context))
    return Range(_of(low, there), _of(sets.extent_between(low, high), there))


def _of(form: isl.PwAff, there: isl.Set) -> Expr:
    """A form as an expression that is valid for the parameters in `there`."""
    return simplified(of_params(form.gist(there).coalesce(), there))


def _count(low: isl.PwAff, high: isl.PwAff, context: isl.Set) -> Expr:
    """The number of indices from `low` to `high`, also if there are none; up to SPARE more for an affine form."""
    count = sets.extent_between(low, high)
    exact = sets.zero_elsewhere(count).intersect_domain(context)
    plain = (form for form in sets.pieces(count.coalesce()) if sets.is_of_parameters(form))
    wider = (form.to_pw_aff() for form in plain if not sets.has_floors(form))
    for form in wider:
        spare = form.intersect_domain(context).sub(exact)
        most, least = map(sets.greatest, (spare, spare.neg()))
        if most is not None and most <= SPARE and least is not None and least <= 0:
            return simplified(of_params(form, context))
    return simplified(of_params(exact.gist(context).coalesce(), context))


def _conditions(names: Sequence[str], at: Sequence[int]) -> Expr:
    here = [Binary("==", Param(n, int64), arithmetic.number(v), bool_) for n, v in zip(names, at, strict=True)]
    found = arithmetic.conjunction(here)
    assert found is not None
    return found


def _chosen(conditions: Sequence[Expr], values: Sequence[Expr]) -> Expr:
    """The value whose condition holds; one of them always does."""
    found = values[-1]
    for condition, value in zip(reversed(conditions[:-1]), reversed(values[:-1]), strict=True):
        found = value if value.key() == found.key() else Select(condition, value, found, int64)
    return found
