"""Stores through a table of distinct places: each program stores to ``Y[place[q], ..]``.

No two elements of the table are equal, so an element of the array is told by where its place is in the table, and by
its other indices: forms of the numbers of programs, of which it is proven that no two stores share them. The same holds
of ``place[q] + offset`` with a constant offset, which all programs share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Input, Stored, StoreSite
from tiramisu_py.algorithm.declare.soundness import box
from tiramisu_py.algorithm.declare.stored_elements import first_pair, stored_twice
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter, Select, constant
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.values.forms import ZERO
from tiramisu_py.language.values.programs import Programs, Site
from tiramisu_py.language.values.stores import Executions, Filled, StoreInstances, chosen, executions, unused
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.isl_expressions import condition_of


@dataclass(frozen=True, eq=False)
class PlacesOfStores:
    """``table[position] + offset``, the index of a place along an axis; executions, and conditions of the mask on
    values.
    """

    axis: int
    table: Input
    position: tuple[Expr, ...]
    offset: int
    points: isl.Set
    reader: Affine
    mask: Sequence[Expr]


def filled_by_places(
    algorithm: Algorithm, programs: Programs, array: Filled, sites: Sequence[Site]
) -> tuple[ProgramValue, StoreInstances] | None:
    """The values of an array that is stored to through a table of distinct places; None where no place has one.

    Raises `DeclarationError` for stores that may be to one element, or outside of the array.
    """
    if len(sites) != 1 or sites[0].op != "store":
        return None
    (site,) = sites
    whole = executions(algorithm, programs, array, site)
    found = _table_place(algorithm, whole)
    if found is None:
        return None
    _check_values(algorithm, array, site, found)
    return _filled(algorithm, array, site, whole, found)


def _table_place(algorithm: Algorithm, whole: Executions) -> PlacesOfStores | None:
    """The index that is an element of a table of distinct places."""
    through = [axis for axis, place in enumerate(whole.places) if accesses(place)]
    if len(through) != 1:
        return None
    reader, mask = Affine(whole.space), list[Expr]()
    try:
        points = whole.points(algorithm, reader)
        for condition in conjuncts(whole.mask) if isinstance(whole.mask, Expr) else []:
            if accesses(condition):
                mask.append(condition)
            else:
                points = points.intersect(reader.condition(condition))
    except NotAffine:
        return None
    moved = _moved(whole.places[through[0]], points, reader)
    if moved is None:
        return None
    place, offset = moved
    table = algorithm.inputs.get(place.source)
    if table is None or not table.injective or any(map(accesses, place.indices)):
        return None
    return PlacesOfStores(through[0], table, place.indices, offset, points, reader, mask)


def _moved(place: Expr, points: isl.Set, reader: Affine) -> tuple[Access, int] | None:
    """A place as an element and a constant offset from it."""
    place = _under_mask(place, points, reader)
    if isinstance(place, Access):
        return place, 0
    if not isinstance(place, Binary) or place.op not in ("+", "-"):
        return None
    for inner, other in ((place.left, place.right), (place.right, place.left)):
        by = constant(narrowest(other))
        found = None if by is None else _moved(inner, points, reader)
        if by is not None and found is not None and (place.op == "+" or inner is place.left):
            return found[0], found[1] + (by if place.op == "+" else -by)
    return None


def _under_mask(place: Expr, points: isl.Set, reader: Affine) -> Expr:
    """The place where the mask holds: the loaded element, not what other lanes have instead."""
    place = narrowest(place)
    while isinstance(place, Select):
        try:
            if not points.is_subset(reader.condition(place.condition)):
                break
        except NotAffine:
            break
        place = narrowest(place.yes)
    return place


def _check_values(algorithm: Algorithm, array: Filled, site: Site, found: PlacesOfStores) -> None:
    """Refuse places that may be out of the array, or that are not shown to be all of it."""
    table, extent = found.table, array.extents[found.axis]
    places = table.values
    if places is None and table.permutation and len(table.shape) == 1:
        places = (ZERO, table.shape[0])
    frame, first, after = algorithm.frame(None, ()), -found.offset, _plus(extent, -found.offset)
    if places is None or not _holds(algorithm, Affine(frame, {}), (places[0] >= first) & (places[1] <= after)):
        moved = f", {found.offset} after each" if found.offset > 0 else f", {-found.offset} before each"
        raise DeclarationError(
            f"{site.origin}: elements of {table.name} are places in {array.name}{moved if found.offset else ''}, which "
            f"has {extent} of them along axis {found.axis}: declare {table.name} with values=({first}, "
            f"{after}), so that each of them is one"
        )
    if array.partial:
        return
    whole = table.permutation and len(table.shape) == 1 and table.shape[0].same_as(extent) and found.offset == 0
    if not whole or found.mask:
        raise DeclarationError(
            f"{site.origin}: which elements of {array.name} are stored is known from the values of {table.name} alone: "
            f"declare it with partial=True, f.array({array.name!r}, .., partial=True)"
        )


def _plus(e: Expr, by: int) -> Expr:
    """An expression and a constant, as one writes it."""
    return e + by if by > 0 else e - -by if by < 0 else e


def _holds(algorithm: Algorithm, reader: Affine, condition: Expr) -> bool:
    try:
        return bool(algorithm.context.params().is_subset(reader.condition(condition).params()))
    except NotAffine:
        return False


def _filled(
    algorithm: Algorithm, array: Filled, site: Site, whole: Executions, found: PlacesOfStores
) -> tuple[ProgramValue, StoreInstances]:
    names = [unused(f"i{k}", algorithm.params) for k in range(len(array.extents))]
    at = [unused(f"at{k}" if k else "at", algorithm.params) for k in range(len(found.position))]
    others = [name for k, name in enumerate(names) if k != found.axis]
    dims = [*at, *others]
    places = [*found.position, *(place for k, place in enumerate(whole.places) if k != found.axis)]
    bounded = [*found.table.shape, *(extent for k, extent in enumerate(array.extents) if k != found.axis)]
    try:
        forms = [found.reader.single(place) for place in places]
    except NotAffine as error:
        raise DeclarationError(
            f"{site.origin}: a store to {array.name} through {found.table.name}, whose other indices are no forms of "
            f"the numbers of programs, because of {error.part}: only one index may follow from a table"
        ) from None
    elements = sets.graph(sets.function(whole.space, array.name, forms)).intersect_domain(found.points)
    known = box(algorithm.frame(array.name, dims), tuple(bounded)).intersect_params(algorithm.context.params())
    _check(algorithm, array, site, whole, elements, known, found)
    instances = StoreInstances(site, whole.bounds, whole.programs, elements, tuple(places), whole.value)
    value, covered = chosen(Filled(array.name, array.dtype, array.extents, True), [instances], known, dims)
    if not array.partial and not known.is_subset(covered):
        params, left, _ = first_pair(known.subtract(covered).identity())
        raise DeclarationError(
            f"{site.origin}: no program stores the element of {array.name} at {found.table.name}[{left[0]}]"
            f"{_others(left[len(at) :])}{_sizes(params)}: let masks and the grid leave none out, or declare it with "
            f"partial=True, f.array({array.name!r}, .., partial=True)"
        )
    iterator = Iter(names[found.axis])
    element = Access(found.table.name, tuple(map(Iter, at)), found.table.dtype, whole.owner)
    where: Expr = element == _plus(iterator, -found.offset)
    inside = condition_of(covered, known, dims)
    for condition in (*([] if inside is None else [inside]), *_of_element(instances, found, known, dims)):
        where = where & condition
    domain: dict[Iter, Any] = dict(zip(map(Iter, at), found.table.shape, strict=True))
    domain |= {Iter(name): extent for name, extent in zip(names, array.extents, strict=True)}
    value_ = ProgramValue(array.name, domain, value, array.dtype, site.origin, where=where)
    ordered = [*found.position, *whole.places]
    ordered[len(at) + found.axis] = ZERO  # one iteration, whatever the program
    return value_, replace(instances, places=tuple(ordered), by_value=iterator.name)


def _of_element(instances: StoreInstances, found: PlacesOfStores, known: isl.Set, dims: Sequence[str]) -> list[Expr]:
    """The conditions of the mask on values, as conditions on an element."""
    own, name = list[Expr](), known.get_tuple_name()
    for condition in found.mask:
        value, _ = chosen(Filled(name, condition.dtype, (), True), [replace(instances, value=condition)], known, dims)
        own.append(value)
    return own


def _check(
    algorithm: Algorithm, array: Filled, site: Site, whole: Executions, elements: isl.Map, known: isl.Set,
    found: PlacesOfStores,
) -> None:  # fmt: skip
    """Refuse stores outside of the table and of the array, and two stores to one element."""
    count = len(found.position)
    outside = elements.subtract_range(known).intersect_params(algorithm.context.params())
    if not outside.is_empty():
        params, store, place = first_pair(outside)
        raise DeclarationError(
            f"{site.origin}: program {_tuple(store[: whole.programs])} stores to {array.name} at "
            f"{found.table.name}[{', '.join(map(str, place[:count]))}]{_others(place[count:])}: that is outside of "
            f"the table or of the array{_sizes(params)}; let its mask= leave it out"
        )
    stored = Stored((StoreSite(elements, whole.programs, site.origin),), array.partial)
    for pairs, _, _ in stored_twice(stored, algorithm.context):
        if not pairs.is_empty():
            params, one, other = first_pair(pairs)
            raise DeclarationError(
                f"{site.origin}: programs {_tuple(one[: whole.programs])} and {_tuple(other[: whole.programs])} store "
                f"one element of {array.name}, at the same place of {found.table.name}{_sizes(params)}: let the index "
                "in the table and the other indices tell who stores it"
            )


def _tuple(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values))})"


def _others(place: Sequence[int]) -> str:
    return f", and {list(place)} along other axes" if place else ""


def _sizes(params: Mapping[str, int]) -> str:
    return ", at " + ", ".join(f"{name} = {value}" for name, value in params.items()) if params else ""
