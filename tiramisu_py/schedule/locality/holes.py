"""The values that iterations need, with the holes between them: loops over both need no tests inside."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.values_read import existing
from tiramisu_py.program.program import Program

#: Relations of more pieces than this, and what is composed of them, take isl long.
MOST_PIECES = 16


def without_holes(program: Program, source: str, needed: isl.Map) -> isl.Map:
    """The needed values with the holes between their pieces filled by existing values of the source."""
    whole = filled(needed.intersect_params(program.context))
    if whole.is_equal(needed):
        return whole
    exists = existing(program, source)
    return whole if _all_exist(whole, exists) else whole.intersect_range(exists).coalesce()


def _all_exist(whole: isl.Map, exists: isl.Set) -> bool:
    """Whether all values of a filled relation exist, where parts with divisions say which do: these multiply."""
    return exists.n_basic_set() > 1 and sets.has_divisions(exists) and bool(whole.range().is_subset(exists))


def filled(needed: isl.Map) -> isl.Map:
    """The relation with the holes between its pieces filled, so that loops over it need no tests inside.

    More values than needed may be computed, but only in iterations that need some.
    """
    needed = needed.coalesce()
    if len(needed.get_basic_maps()) == 1:
        return needed
    hull = sets.as_map(needed.compute_divs().simple_hull())
    return hull.intersect_domain(_in_one_piece(needed.domain().coalesce())).coalesce()


def _in_one_piece(iterations: isl.Set) -> isl.Set:
    """Iterations as one piece if they are one, though divisions may say so in many: coalescing these has no end."""
    if iterations.n_basic_set() == 1 or not sets.has_divisions(iterations):
        return iterations
    hull = sets.hull(iterations.compute_divs())
    return hull if hull.is_subset(iterations) else iterations


def in_few_pieces(program: Program, source: str, needed: isl.Map) -> isl.Map:
    """The needed values of a source, with their holes where they have many pieces.

    Each stage of a network of exchanges has several cases, so that what is needed of a stage has several times as many
    pieces as what is needed of the next one, though it is all of its values.
    """
    needed = sets.in_few_pieces(needed)
    return needed if needed.n_basic_map() <= MOST_PIECES else without_holes(program, source, needed)
