"""Elements of finite sets, counted without listing them: any number of ranks falls into a few classes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Class:
    """Elements `keys` of the domain of a relation, each with the same number of images."""

    keys: isl.Set
    images: int


def count(of: isl.Set) -> int:
    """The number of elements of a finite set without parameters."""
    return sum(_in_piece(piece) for piece in sets.basic_sets(of.coalesce()))


def few_points(of: isl.Set, most: int) -> list[tuple[int, ...]] | None:
    """The elements of a set without parameters; None if there are more than `most`, or infinitely many."""
    if not of.is_bounded() or sum(_volume(piece) for piece in sets.basic_sets(of)) > 64 * most:
        return None
    found = sets.points(of)
    return found if len(found) <= most else None


def _volume(piece: isl.Set) -> int:
    sides = [sets.interval(piece, axis) for axis in range(sets.size(piece))]
    return prod(0 if side is None else side[1] - side[0] + 1 for side in sides)


def _in_piece(piece: isl.Set) -> int:
    piece = _without_determined(piece)
    sides = [sets.interval(piece, axis) for axis in range(sets.size(piece))]
    total, inside = 1, sets.universe(piece.get_space())
    for variable, side in zip(sets.variables(piece.get_space()), sides, strict=True):
        if side is None:
            return 0
        total *= side[1] - side[0] + 1
        inside = inside.intersect(sets.within(variable, side[0], side[1] + 1))
    if inside.is_subset(piece):
        return total
    if sets.size(piece) > 1:
        first, rest = sets.variables(piece.get_space())[:1], sets.variables(piece.get_space())[1:]
        split = [sets.graph(sets.function(piece.get_space(), None, forms)) for forms in (first, rest)]
        found = list(_alike(split[0].reverse().intersect_range(piece).apply_range(split[1])))
        if all(alike is not None for alike in found):
            return sum(count(alike.keys) * alike.images for alike in found if alike is not None)
    return sets.number(piece.count_val())


def _without_determined(piece: isl.Set) -> isl.Set:
    """A set projected onto dimensions that determine the others, so that the number of elements is the same."""
    axis = 0
    while axis < sets.size(piece):
        variables = sets.variables(piece.get_space())
        kept = sets.function(piece.get_space(), None, [*variables[:axis], *variables[axis + 1 :]])
        dropping = sets.graph(kept, piece)
        if sets.equalities(piece) and dropping.is_injective():
            piece = dropping.range().coalesce()
        else:
            axis += 1
    return piece


# -- classes


def classes(of: isl.Map) -> Iterator[Class]:
    """The domain of a relation without parameters, in classes of elements with equally many images."""
    of = sets.range_named(of, None)
    for piece in _domains(of):
        yield from _alike_or_by_slices(of.intersect_domain(piece))


def _alike_or_by_slices(of: isl.Map) -> Iterator[Class]:
    """Classes of a relation: of its whole domain where images are translates of each other, else of slices."""
    found = list(_alike(of))
    if all(alike is not None for alike in found):
        yield from (alike for alike in found if alike is not None)
    else:
        yield from _by_slices(of)


def _by_slices(of: isl.Map) -> Iterator[Class]:
    """Classes of the slices of one dimension of a domain: of one whose slices are alike, as windows that move round
    a ring are for each step, or else of the one with the fewest.
    """
    domain = of.domain()
    variables = sets.variables(domain.get_space())
    lines = [domain.apply(sets.graph(sets.function(domain.get_space(), None, [each]))) for each in variables]
    values = {axis: [at for (at,) in sets.points(line)] for axis, line in enumerate(lines)}
    free = sorted((axis for axis in values if len(values[axis]) > 1), key=lambda axis: len(values[axis]))
    if len(free) < 2:
        yield from _one_by_one(of)
        return

    def sliced(axis: int, at: int) -> isl.Map:
        return of.intersect_domain(domain.intersect(sets.within(variables[axis], at, at + 1)))

    middles = {axis: sliced(axis, values[axis][len(values[axis]) // 2]) for axis in free}
    chosen = next((axis for axis in free if None not in list(_alike(middles[axis]))), free[0])
    for at in values[chosen]:
        yield from _alike_or_by_slices(sliced(chosen, at))


def _domains(of: isl.Map) -> list[isl.Set]:
    """A partition of a relation's domain: the elements of a part lie in the same basic maps."""
    found: list[isl.Set] = []
    for piece in sets.basic_maps(of.coalesce()):
        left, parts = piece.domain(), []
        for known in found:
            parts += [part for part in (known.intersect(left), known.subtract(left)) if not part.is_empty()]
            left = left.subtract(known)
        found = [*parts, left] if not left.is_empty() else parts
    return found


def _alike(of: isl.Map) -> Iterator[Class | None]:
    """Classes of keys whose images are translates of each other; None for a part where they are not."""
    lows, highs = sets.component_bounds(of)
    for keys in _together(of.domain(), [*lows, *highs]):
        here = of.intersect_domain(keys)
        low = sets.component_bounds(here)[0]
        start = sets.map_of_forms(low, keys.get_space(), None)
        moved = sets.difference(here, start)
        images = moved.range().coalesce()
        product = isl.Map.from_domain_and_range(keys, images)
        yield Class(keys, count(images)) if product.is_subset(moved) else None


def _together(domain: isl.Set, forms: list[isl.PwAff]) -> list[isl.Set]:
    """A partition of a domain such that every form has one piece on each part."""
    parts = [domain.coalesce()]
    for form in forms:
        pieces = sets.pieces_of(form)
        if len(pieces) > 1:
            parts = [cut for part in parts for piece in pieces if not (cut := part.intersect(piece)).is_empty()]
    return parts


def _one_by_one(of: isl.Map) -> Iterator[Class]:
    for point in sets.points(of.domain()):
        key = sets.singleton(of.domain(), point)
        yield Class(key, count(key.apply(of)))
