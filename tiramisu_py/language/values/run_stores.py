"""Stores through tables: each program stores to a run of positions, ``start[r] + offset < start[r + 1]``.

Runs of a monotone table share no position. So an element is told by its run, its offset there, and its other indices:
forms of the numbers of programs, of which it is proven that no two stores share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Input, Stored, StoreSite
from tiramisu_py.algorithm.declare.soundness import box
from tiramisu_py.algorithm.declare.stored_elements import first_pair, stored_twice
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, substitute
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.values.forms import ZERO, combined, linear_terms
from tiramisu_py.language.values.programs import Programs, Site
from tiramisu_py.language.values.stores import Executions, Filled, StoreInstances, chosen, executions, unused
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.isl_expressions import condition_of

_ONE = Const(1, ZERO.dtype)


@dataclass(frozen=True, eq=False)
class RunPlace:
    """``start[row] + offset``, the index of a place along an axis, and the conditions of its mask but the run's end."""

    axis: int
    start: Input
    row: Expr
    offset: Expr
    mask: Sequence[Expr]


def filled_by_runs(
    algorithm: Algorithm, programs: Programs, array: Filled, sites: Sequence[Site]
) -> ProgramValue | None:
    """The values of an array that is stored to through a table; None where no place has one.

    Raises `DeclarationError` for stores that may be to one element, or outside of their run.
    """
    if len(sites) != 1 or sites[0].op != "store":
        return None
    (site,) = sites
    whole = executions(algorithm, programs, array, site)
    found = _run_place(algorithm, array, site, whole)
    if found is None:
        return None
    return _filled(algorithm, array, site, whole, found)


def _run_place(algorithm: Algorithm, array: Filled, site: Site, whole: Executions) -> RunPlace | None:
    """The index that goes through a table; raises `DeclarationError` where that keeps nothing apart."""
    through = [axis for axis, place in enumerate(whole.places) if accesses(place)]
    if len(through) != 1:
        return None
    (axis,) = through
    place = whole.places[axis]
    terms, constant = linear_terms(place) if place.dtype.weak else _typed_terms(place)
    tables = [(narrowest(e), factor) for e, factor in terms if accesses(e)]
    if len(tables) != 1 or tables[0][1] != 1 or not isinstance(tables[0][0], Access):
        return None
    table = tables[0][0]
    start = algorithm.inputs.get(table.source)
    if start is None or len(table.indices) != 1 or accesses(table.indices[0]):
        return None
    if not start.monotone:
        raise DeclarationError(
            f"{site.origin}: programs store to {array.name} through {start.name}, whose elements may be in any order, "
            "so that two programs may store one element: declare the input with monotone=True, and leave out what is "
            f"past the run, {place} < {start.name}[.. + 1]"
        )
    row, rest = table.indices[0], list[Expr]()
    has_end = False
    for condition in conjuncts(whole.mask) if isinstance(whole.mask, Expr) else []:
        if _is_end(condition, place, start.name, row):
            has_end = True
        else:
            rest.append(condition)
    if not has_end:
        end = combined("+", row, _ONE)
        raise DeclarationError(
            f"{site.origin}: programs store to {array.name} from {start.name}[{row}] on, without an end: the next run "
            f"begins at {start.name}[{end}], and would be stored twice; add {place} < {start.name}[{end}] to its mask="
        )
    offset: Expr = Const(constant, ZERO.dtype)
    for e, factor in terms:
        if not accesses(e):
            offset = combined("+", offset, combined("*", _free_of_casts(e), Const(factor, ZERO.dtype)))
    return RunPlace(axis, start, row, offset, rest)


def _typed_terms(place: Expr) -> tuple[list[tuple[Expr, int]], int]:
    """The terms of a sum of int64."""
    if isinstance(place, Binary) and place.op == "+":
        left, right = _typed_terms(place.left), _typed_terms(place.right)
        return [*left[0], *right[0]], left[1] + right[1]
    return ([(place, 1)], 0) if not place.dtype.weak else linear_terms(place)


def _free_of_casts(e: Expr) -> Expr:
    """A form of program numbers under conversions to int64, which do not change it."""
    while isinstance(e, Cast) and e.dtype == int64:
        e = e.operand
    return e


def _is_end(condition: Expr, place: Expr, start: str, row: Expr) -> bool:
    """Whether a condition is ``place < start[row + 1]``."""
    if not isinstance(condition, Binary) or condition.op not in ("<", ">"):
        return False
    below, above = (condition.left, condition.right) if condition.op == "<" else (condition.right, condition.left)
    end = narrowest(above)
    if not isinstance(end, Access) or end.source != start or len(end.indices) != 1:
        return False
    difference = combined("-", end.indices[0], row)
    return narrowest(below).same_as(narrowest(place)) and isinstance(difference, Const) and difference.value == 1


def _filled(algorithm: Algorithm, array: Filled, site: Site, whole: Executions, found: RunPlace) -> ProgramValue:
    start, axis = found.start, found.axis
    _check_extent(array, site, found)
    names = [unused(f"i{k}", algorithm.params) for k in range(len(array.extents))]
    run, position = Iter(unused("run", algorithm.params)), Iter(names[axis])
    offset = Iter(unused("offset", algorithm.params))
    count = combined("-", start.shape[0], _ONE)
    inside = [name if k != axis else offset.name for k, name in enumerate(names)]
    dims = [run.name, *inside]
    places = [found.row, *(p if k != axis else found.offset for k, p in enumerate(whole.places))]
    elements = _elements(algorithm, array, site, whole, found, places)
    space = algorithm.frame(array.name, dims)
    bounded = [count, *(e if k != axis else Const(2**31, ZERO.dtype) for k, e in enumerate(array.extents))]
    known = box(space, tuple(bounded)).intersect_params(algorithm.context.params())
    _check(algorithm, array, site, whole, elements, known, found)
    instances = StoreInstances(site, whole.bounds, whole.programs, elements, tuple(places), whole.value)
    value, covered = chosen(Filled(array.name, array.dtype, array.extents, True), [instances], known, dims)
    _check_covered(array, site, covered, known, axis + 1)
    where = condition_of(covered, known, dims)
    begin = Access(start.name, (run,), start.dtype, whole.owner)
    end = Access(start.name, (run + 1,), start.dtype, whole.owner)
    at = {offset.name: position - Cast(begin, int64)}
    domain: dict[Iter, Any] = {run: count}
    for k, (name, extent) in enumerate(zip(names, array.extents, strict=True)):
        domain[Iter(name)] = extent if k != axis else (begin, end)
    return ProgramValue(
        array.name, domain, substitute(value, at), array.dtype, site.origin,
        where=None if where is None else substitute(where, at),
    )  # fmt: skip


def _check_extent(array: Filled, site: Site, found: RunPlace) -> None:
    """Refuse what may be out of the array, or is not shown to be filled."""
    start, extent = found.start, array.extents[found.axis]
    low, high = start.values if start.values is not None else (None, None)
    wanted = combined("+", extent, _ONE)
    if low is None or high is None or not _is_number(low, 0) or not _is_number(combined("-", high, wanted), 0):
        raise DeclarationError(
            f"{site.origin}: runs of {start.name} are stored to {array.name}, which has {extent} elements along axis "
            f"{found.axis}: declare {start.name} with values=(0, {wanted}), so that runs end there"
        )
    if not array.partial:
        raise DeclarationError(
            f"{site.origin}: which elements of {array.name} are stored is known from the values of {start.name} alone: "
            f"declare it with partial=True, f.array({array.name!r}, .., partial=True)"
        )


def _is_number(e: Any, number: int) -> bool:
    return e == number if isinstance(e, int) else isinstance(e, Const) and e.value == number


def _elements(
    algorithm: Algorithm, array: Filled, site: Site, whole: Executions, found: RunPlace, places: Sequence[Expr]
) -> isl.Map:
    """The run, the offset and the other indices of each execution."""
    reader = Affine(whole.space)
    try:
        points = whole.points(algorithm, reader)
        for condition in found.mask:
            points = points.intersect(reader.condition(condition))
        forms = [reader.single(place) for place in places]
    except NotAffine as error:
        raise DeclarationError(
            f"{site.origin}: a store to {array.name} through {found.start.name}, whose other indices and conditions "
            f"are no forms of the numbers of programs, because of {error.part}: only the run may follow from a table"
        ) from None
    return sets.graph(sets.function(whole.space, array.name, forms)).intersect_domain(points)


def _check(
    algorithm: Algorithm, array: Filled, site: Site, whole: Executions, elements: isl.Map, known: isl.Set,
    found: RunPlace,
) -> None:  # fmt: skip
    """Refuse stores outside of runs and of the array, and two stores to one element."""
    outside = elements.subtract_range(known).intersect_params(algorithm.context.params())
    if not outside.is_empty():
        params, store, place = first_pair(outside)
        what = "before its run begins" if place[found.axis + 1] < 0 else "outside of the array"
        raise DeclarationError(
            f"{site.origin}: program {_tuple(store[: whole.programs])} stores to {array.name} in run {place[0]} of "
            f"{found.start.name} at offset {place[found.axis + 1]}, and {_others(place, found.axis)} along other axes: "
            f"that is {what}{_at(params)}; let its mask= leave it out"
        )
    stored = Stored((StoreSite(elements, whole.programs, site.origin),), array.partial)
    for pairs, _, _ in stored_twice(stored, algorithm.context):
        if not pairs.is_empty():
            params, one, other = first_pair(pairs)
            raise DeclarationError(
                f"{site.origin}: programs {_tuple(one[: whole.programs])} and {_tuple(other[: whole.programs])} store "
                f"one element of {array.name}{_at(params)}: let the run, the offset in it and the other indices tell "
                "who stores it"
            )


def _check_covered(array: Filled, site: Site, covered: isl.Set, known: isl.Set, offset: int) -> None:
    """Refuse stores that leave out elements of a run by anything but their offset."""
    size, kind = sets.size(known), isl.dim_type.set
    offsets = covered.project_out(kind, offset + 1, size - offset - 1).project_out(kind, 0, offset)
    alike = offsets.insert_dims(kind, 1, size - offset - 1).insert_dims(kind, 0, offset)
    if not known.intersect(sets.named(alike, array.name)).is_subset(covered):
        raise DeclarationError(
            f"{site.origin}: programs store some elements of a run of {array.name}, and others not, by their other "
            "indices or by the run: store all of those that are as far from where the run begins"
        )


def _tuple(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values))})"


def _others(place: Sequence[int], axis: int) -> str:
    return str([value for k, value in enumerate(place[1:]) if k != axis])


def _at(params: Mapping[str, int]) -> str:
    return ", at " + ", ".join(f"{name} = {value}" for name, value in params.items()) if params else ""
