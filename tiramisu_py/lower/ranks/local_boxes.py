"""Memory of one rank: for each array, the box that the rank accesses.

    bx[100][C], rows 25*rank0 - 1 to 25*rank0 + 25 on each rank   -->   bx[27][C], from row 25*rank0 - 1

The box begins at an affine form of the rank's coordinates, and has a constant extent if possible, even if that makes
it slightly larger than necessary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Param, Select
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.ranks.one_rank import Ranked, widened
from tiramisu_py.lower.statements.instances import INSIDE
from tiramisu_py.program.fresh_names import free_parameter
from tiramisu_py.program.loops import Rank
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Buffer
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class LocalSide:
    """One dimension of a box: its first index and its extent.

    The first index is an affine form of parameters, or an expression, which becomes a parameter of the rank (its name).
    """

    origin: isl.Aff | Expr | str
    extent: Expr


def localised(ranked: Ranked, accesses: MemoryAccesses) -> Ranked:
    """The program with each array of the whole call cut down to the box that this rank touches."""
    program, boxes = ranked.program, dict[str, list[LocalSide | None]]()
    for buffer in program.buffers.values():
        if buffer.scope or buffer.argument or buffer.memory in INSIDE or not _is_local(program, buffer):
            continue
        accessed = accessed_of(accesses, buffer)
        if accessed is not None:
            boxes[buffer.name] = sides(ranked, accessed)
    begins = dict[str, Expr]()
    for name, box in boxes.items():
        for axis, side in enumerate(box):
            if side is not None and isinstance(side.origin, Expr):
                own = free_parameter(program, f"{name}_from", begins)
                begins[own] = side.origin
                box[axis] = replace(side, origin=own)
    program = widened(program, list(begins))
    for name, box in boxes.items():
        program = cut(program, program.buffers[name], box)
    return replace(ranked, program=program, definitions={**ranked.definitions, **begins})


def accessed_of(accesses: MemoryAccesses, buffer: Buffer, which: Mapping[bool, bool] | None = None) -> isl.Set | None:
    """The elements of a buffer that statements access; with `which`, only the writes (True) or reads (False) it has."""
    parts = list[isl.Set]()
    for access in accesses.of_buffer(buffer.name):
        if access.actor.statement is not None and (which is None or which.get(access.is_write, False)):
            parts.append(elements_of(accesses.program, access))
    found = sets.united(parts)
    return None if found is None else found.coalesce()


def elements_of(program: Program, access: MemoryAccess) -> isl.Set:
    """The elements that are accessed on this rank."""
    return access.domain.intersect_params(program.context).apply(sets.graph(access.element))


def _is_local(program: Program, buffer: Buffer) -> bool:
    """Whether a rank keeps only its own part of a buffer: no statement that stores there has a non-local rank loop."""
    for statement in program.storing:
        if program.storages[statement.memory.target].buffer == buffer.name:
            tags = (program.loops[loop].tag for loop in statement.loops)
            if any(isinstance(tag, Rank) and not tag.local for tag in tags):
                return False
    return True


def cut(program: Program, buffer: Buffer, box: list[LocalSide | None]) -> Program:
    """The program with a buffer cut to the origins and extents of a box (None: a dimension stays whole)."""
    if not any(box):
        return program
    extents = tuple(e if side is None else side.extent for e, side in zip(buffer.extents, box, strict=True))
    for storage in program.storages_in(buffer.name):
        frame = storage.index.get_space().domain()
        forms = [
            form if side is None else form.sub(_origin(side, frame))
            for form, side in zip(sets.outputs(storage.index), box, strict=True)
        ]
        moved = sets.function(frame, buffer.name, forms)
        program = program.with_storage(replace(storage, index=moved))
    return program.with_buffer(replace(buffer, extents=extents))


def _origin(side: LocalSide, frame: isl.Space) -> isl.Aff:
    assert not isinstance(side.origin, Expr)
    if isinstance(side.origin, str):
        return sets.parameter(frame, side.origin)
    on_params = sets.function(sets.on_params(side.origin).get_domain_space(), None, [sets.on_params(side.origin)])
    return sets.on_frame(sets.outputs(sets.with_params_of(on_params, frame))[0], frame)


def sides(ranked: Ranked, accessed: isl.Set) -> list[LocalSide | None]:
    """A box around elements, by dimension; None for a dimension that is the same on all ranks."""
    return [_side(ranked, sets.component_of(accessed, axis), axis == 0) for axis in range(sets.size(accessed))]


def _side(ranked: Ranked, line: isl.Set, is_first: bool) -> LocalSide | None:
    context = ranked.program.context
    line = line.intersect_params(context).coalesce()
    low, high = sets.smallest_coordinate(line, 0).coalesce(), sets.largest(line, 0).coalesce()
    lows, highs = sets.nearest_bounds(low, 1), sets.nearest_bounds(high, -1)
    lows, highs = ([form for form in forms if not sets.has_floors(form)] for forms in (lows, highs))
    interval = sets.interval_between(lows, highs)
    if interval is not None:
        if sets.involves(interval.low, ranked.varying):
            return LocalSide(interval.low, arithmetic.number(interval.extent))
        return _rank_by_rank(ranked, line, is_first)
    moves, ends = (any(sets.involves(form, ranked.varying) for form in forms) for forms in (lows, highs))
    if not lows or not (moves or ends) or sets.has_divisions(line):
        return _rank_by_rank(ranked, line, is_first)
    found: LocalSide | None = None
    if ranked.grid is not None and ranked.grid.bounds is not None:
        found = _between_bounds(ranked, lows, highs)
    if found is None and not moves:
        found = _rank_by_rank(ranked, line, is_first)
    if found is not None:
        return found
    origin = next((a for a in lows if all(_is_above(a, b, line) for b in lows)), lows[0])
    extent = sets.zero_elsewhere(sets.extent_between(sets.on_params(origin).to_pw_aff(), high))
    return LocalSide(origin, simplified(of_params(extent.gist(context), context)))


def _rank_by_rank(ranked: Ranked, line: isl.Set, is_first: bool) -> LocalSide | None:
    found = each_range(ranked, line, is_first)
    return None if found is None else LocalSide(found.first, found.count)


def _between_bounds(ranked: Ranked, lows: list[isl.Aff], highs: list[isl.Aff]) -> LocalSide | None:
    """A side from a form of the rank's own lower bound to one of its upper bound; None if there are none."""
    assert ranked.grid is not None
    _, lower, upper = ranked.grid.varying
    low = next((form for form in lows if sets.involves(form, (lower,))), None)
    high = next((form for form in highs if sets.involves(form, (upper,))), None)
    if low is None or high is None:
        return None
    context = ranked.program.context
    extent = of_params(sets.extent_between(sets.on_params(low), sets.on_params(high).to_pw_aff()), context)
    return LocalSide(low, simplified(extent))


def _is_above(a: isl.Aff, b: isl.Aff, line: isl.Set) -> bool:
    return bool(line.params().is_subset(a.to_pw_aff().ge_set(b.to_pw_aff()).params()))


# -- index ranges that are no affine function of the rank: the range that each rank touches, rank by rank
#
#     rows 0 .. H on rank 0, and H .. R on rank 1   -->   from rank0 == 0 ? 0 : H, and rank0 == 0 ? H : R - H rows
#
# Such ranges occur where arrays are cut at points known at run time. The number of ranks must be a small constant.


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
