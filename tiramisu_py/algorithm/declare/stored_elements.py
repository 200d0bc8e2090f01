"""The stores of block programs: inside of the array, each element by one program, once, and none left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, LoadSite, Stored, StoreSite
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.sets import smallest


def wrong_stores(c: Computation, elements: isl.Set, context: isl.Set) -> list[Violation]:
    """The violations of the stores that fill an array with these elements; at most one violation of each kind."""
    if c.stored is None:
        return []
    return [
        *_outside(c, c.stored, elements, context),
        *_twice(c, c.stored, context),
        *_missing(c, c.stored, elements),
    ]


def unstored(stored: Stored, elements: isl.Set) -> isl.Set:
    """The elements that no program stores."""
    for site in stored.sites:
        elements = elements.subtract(sets.as_set(site.elements.range()))
    return elements


def stored_outside(site: StoreSite, elements: isl.Set, context: isl.Set) -> isl.Map:
    """The stores that are outside of the array."""
    return site.elements.subtract_range(elements).intersect_params(context.params())


def loaded_outside(site: LoadSite, elements: isl.Set, context: isl.Set) -> isl.Map:
    """The loads that are outside of the array."""
    return site.elements.subtract_range(elements).intersect_params(context.params())


def stored_twice(stored: Stored, context: isl.Set) -> Iterator[tuple[isl.Map, StoreSite, StoreSite]]:
    """Pairs of different stores to one element, ``store -> store``, and the places in the source of both."""
    if stored.accumulate:
        return
    known = [site.elements.intersect_params(context.params()) for site in stored.sites]
    for k, (site, own) in enumerate(zip(stored.sites, known, strict=True)):
        back = own.reverse()
        if not back.is_single_valued():
            pairs = own.apply_range(back)
            yield pairs.subtract(isl.Map.identity(pairs.get_space())), site, site
        for other, theirs in zip(stored.sites[:k], known[:k], strict=True):
            shared = theirs.apply_range(back)
            if not shared.is_empty():
                yield shared, other, site


def _outside(c: Computation, stored: Stored, elements: isl.Set, context: isl.Set) -> Iterator[Violation]:
    for site in stored.sites:
        bad = stored_outside(site, elements, context)
        if not bad.is_empty():
            params, store, element = first_pair(bad)
            witness = Witness(params, writer=(c.name, store[: site.programs]), element=(c.name, element))
            message = (
                f"program {_tuple(store[: site.programs])} stores {_element(c.name, element)}, outside of {c.name}, "
                f"{witness}, in {site.origin}"
            )
            yield Violation("bounds", message, witness, repair="let its mask= leave it out")
            return


def wrong_loads(c: Computation, context: isl.Set, elements_of: Callable[[str], isl.Set]) -> Iterator[Violation]:
    """The first load, beside the stores that fill an array, that is outside of the elements of its source."""
    for site in () if c.stored is None else c.stored.loads:
        bad = loaded_outside(site, elements_of(site.source), context)
        if not bad.is_empty():
            params, load, element = first_pair(bad)
            witness = Witness(params, element=(site.source, element))
            message = (
                f"program {_tuple(load[: site.programs])} reads {_element(site.source, element)}, which is outside the "
                f"array {site.source}, {witness}, in {site.origin}"
            )
            yield Violation("bounds", message, witness, repair="let its mask= leave it out")
            return


def _twice(c: Computation, stored: Stored, context: isl.Set) -> Iterator[Violation]:
    for pairs, first, second in stored_twice(stored, context):
        params, one, other = first_pair(pairs)
        store = smallest.alone(sets.as_set(first.elements.domain()), one, params)
        element = smallest.first(sets.fixed(store.apply(first.elements), params))
        programs = one[: first.programs], other[: second.programs]
        witness = Witness(params, writer=(c.name, programs[0]), reader=(c.name, programs[1]), element=(c.name, element))
        who = (
            f"program {_tuple(programs[0])} stores {_element(c.name, element)} twice"
            if programs[0] == programs[1]
            else f"programs {_tuple(programs[0])} and {_tuple(programs[1])} both store {_element(c.name, element)}"
        )
        where = f"in {first.origin}" if first is second else f"in {first.origin} and in {second.origin}"
        repair = (
            "add the blocks up, tl.accumulate(place, value, combine=tm.ORDERED), or let each program store its own "
            "elements"
        )
        yield Violation("race", f"{who}, {witness}, {where}", witness, repair=repair)
        return


def _missing(c: Computation, stored: Stored, elements: isl.Set) -> Iterator[Violation]:
    left = elements if stored.partial else unstored(stored, elements)
    if stored.partial or left.is_empty():
        return
    params = smallest.smallest_params(left)
    element = smallest.first(sets.fixed(left, params))
    witness = Witness(params, element=(c.name, element))
    message = f"no program stores {_element(c.name, element)}, {witness}, in {stored.sites[0].origin}"
    repair = f"launch programs for all of {c.name}, or declare it with partial=True"
    yield Violation("algorithm", message, witness, repair=repair)


def first_pair(bad: isl.Map) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]]:
    """The first pair of a relation, at the smallest sizes at which there is one."""
    params = smallest.smallest_params(bad)
    pair = smallest.first(sets.fixed(sets.flat_pairs(bad, "pair"), params))
    return params, pair[: sets.in_size(bad)], pair[sets.in_size(bad) :]


def _tuple(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name
