"""Masks that always hold: with whole blocks no lane is outside, so that nothing is there to be masked.

A condition of a select is left out where it holds at all points of a value, for all sizes that the function assumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Const, Expr, Iter, Select, select
from tiramisu_py.algorithm.traversal import accesses, rewrite, walk
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.values.forms import ZERO


def without_implied_masks(algorithm: Algorithm, value: ProgramValue) -> ProgramValue:
    """::

    # p < N // 32, j < 32, N a multiple of 32
    select(32*p + j < N, x[32*p + j], 0)        -->        x[32*p + j]
    """
    if not any(isinstance(each, Select) for each in walk(value.expr)):
        return value
    whole = {**value.domain, **value.over}
    reader = Affine(algorithm.frame(None, [each.name for each in whole]))
    points = _points(algorithm, whole, reader)

    def change(e: Expr) -> Expr | None:
        if not isinstance(e, Select):
            return None
        every = list(conjuncts(e.condition))
        left = [each for each in every if not _holds(each, points, reader)]
        if len(left) == len(every):
            return None
        return select(reduce(lambda a, b: a & b, left), e.yes, e.no) if left else rewrite(e.yes, change)

    return replace(value, expr=rewrite(value.expr, change))


def _points(algorithm: Algorithm, whole: Mapping[Iter, Any], reader: Affine) -> isl.Set:
    """The points of a value; more of them, where a bound is a value."""
    points = sets.universe(reader.space).intersect_params(algorithm.context.params())
    for iterator, bounds in whole.items():
        for bound, is_low in zip(bounds if isinstance(bounds, tuple) else (0, bounds), (True, False), strict=True):
            given = Const(bound, ZERO.dtype) if isinstance(bound, int) else bound
            try:
                points = points.intersect(reader.condition(iterator >= given if is_low else iterator < given))
            except NotAffine:
                continue
    return points


def _holds(condition: Expr, points: isl.Set, reader: Affine) -> bool:
    if accesses(condition):
        return False
    try:
        return bool(points.is_subset(reader.condition(condition)))
    except NotAffine:
        return False
