"""Sections of a set: some coordinates are given as functions, the others are those of a point."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py.sets.affine_functions import preimage

_SET = isl.dim_type.set


def section(of: isl.Set, at: isl.MultiAff, given: Sequence[int]) -> isl.Set:
    """The points that `at` maps into a set, and those that it misses only because its `given` coordinates are outside.

    Given ``{ h[i, j] : 0 <= i < N and 0 <= j < 8 }`` and ``[j] -> [5, j]`` with i given, this is ``0 <= j < 8`` for
    every N: if ``N <= 5``, the point (5, j) is not in the set.
    """
    found = preimage(of, at)
    for given_alone, others in (_with_others(of, given), _apart(of, given)):
        outside = preimage(of.universe(of.get_space()).subtract(given_alone), at)
        missing = preimage(others, at).intersect(outside)
        if missing.is_bounded():
            found = found.union(missing)
    return found.coalesce()


def _with_others(of: isl.Set, given: Sequence[int]) -> tuple[isl.Set, isl.Set]:
    """The projections of a set onto its given coordinates and onto the others (as sets of the same frame)."""
    alone, others = of, of
    for axis in range(of.dim(_SET)):
        if axis in given:
            others = others.eliminate(_SET, axis, 1)
        else:
            alone = alone.eliminate(_SET, axis, 1)
    return alone, others


def _apart(of: isl.Set, given: Sequence[int]) -> tuple[isl.Set, isl.Set]:
    """The section with the constraints of one group alone, which hold even if no element exists."""
    alone, others = of, of
    for axis in range(of.dim(_SET)):
        if axis in given:
            others = others.drop_constraints_involving_dims(_SET, axis, 1)
        else:
            alone = alone.drop_constraints_involving_dims(_SET, axis, 1)
    return alone, others
