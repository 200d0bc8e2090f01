"""Sections of a set: where some coordinates are given, and the others are those of a point."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py.sets.functions import preimage

_SET = isl.dim_type.set


def section(of: isl.Set, at: isl.MultiAff, given: Sequence[int]) -> isl.Set:
    """The points that `at` sends into a set, and where its `given` coordinates lie outside, those that should be there.

    Given ``{ h[i, j] : 0 <= i < N and 0 <= j < 8 }`` and ``[j] -> [5, j]`` with i given, this is ``0 <= j < 8`` for
    every N: where ``N <= 5`` the point (5, j) is missing.
    """
    found = preimage(of, at)
    for given_alone, others in (_with_others(of, given), _apart(of, given)):
        outside = preimage(of.universe(of.get_space()).subtract(given_alone), at)
        missing = preimage(others, at).intersect(outside)
        if missing.is_bounded():
            found = found.union(missing)
    return found.coalesce()


def _with_others(of: isl.Set, given: Sequence[int]) -> tuple[isl.Set, isl.Set]:
    """What the given coordinates of a set's elements are, and what the others are."""
    alone, others = of, of
    for axis in range(of.dim(_SET)):
        if axis in given:
            others = others.eliminate(_SET, axis, 1)
        else:
            alone = alone.eliminate(_SET, axis, 1)
    return alone, others


def _apart(of: isl.Set, given: Sequence[int]) -> tuple[isl.Set, isl.Set]:
    """The same, by the constraints of each alone: what the ones can be where there are none of the others."""
    alone, others = of, of
    for axis in range(of.dim(_SET)):
        if axis in given:
            others = others.drop_constraints_involving_dims(_SET, axis, 1)
        else:
            alone = alone.drop_constraints_involving_dims(_SET, axis, 1)
    return alone, others
