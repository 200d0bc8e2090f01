"""Terms of a scatter as terms of a gather: of each place those at the positions that an inverse has for it.

    out[n] over p where n == dst[p]: e(p)    -->    out[n] over q where start[n] <= q < start[n + 1]: e(order[q])

The runs of an inverse have each position once, in the run of its place, and in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Input, InverseOf
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter
from tiramisu_py.algorithm.traversal import substitute


def is_read(value: Expr, term: str, about: InverseOf) -> bool:
    """Whether a value is ``index[term]``, of the index of an inverse."""
    at = value.indices[0] if isinstance(value, Access) and value.source == about.of else None
    return isinstance(at, Iter) and at.name == term


def is_placement(condition: Expr, row: str, term: str, about: InverseOf) -> bool:
    """Whether a condition is ``row == index[term]``."""
    if not isinstance(condition, Binary) or condition.op != "==":
        return False
    return any(
        isinstance(one, Iter) and one.name == row and is_read(narrowest(other), term, about)
        for one, other in ((condition.left, condition.right), (condition.right, condition.left))
    )


def has_all_terms(points: isl.Set, axis: int, term: str, extent: Expr) -> bool:
    """Whether there are terms at all positions from 0 to `extent` where there are some; `axis` is their dimension."""
    reader = Affine(points.get_space(), {term: sets.variables(points.get_space())[axis]})
    every = sets.freed(points, axis).intersect(reader.condition((Iter(term) >= 0) & (Iter(term) < extent)))
    return bool(every.is_subset(points))


def is_in_runs(points: isl.Set, axis: int, row: str, count: Expr) -> bool:
    """Whether all places are runs, from 0 to `count`; `axis` is the dimension of places."""
    reader = Affine(points.get_space(), {row: sets.variables(points.get_space())[axis]})
    return bool(points.is_subset(reader.condition((Iter(row) >= 0) & (Iter(row) < count))))


def gathered(
    algorithm: Algorithm, order: Input, names: tuple[str, str, str], expr: Expr, guards: Sequence[Expr]
) -> tuple[Expr, tuple[Expr, ...]]:
    """A term and its conditions by positions of an inverse; `names` are the iterators of places, terms, positions."""
    about = order.inverts
    assert about is not None
    row, term, position = names
    q, n = Iter(position), Iter(row)
    taken = {term: Access(order.name, (q,), order.dtype, algorithm.owner)}
    every = [condition for guard in guards for condition in conjuncts(guard)]
    kept = [substitute(each, taken) for each in every if not is_placement(each, row, term, about)]
    kind = algorithm.inputs[about.start].dtype
    start = [Access(about.start, (index,), kind, algorithm.owner) for index in (n, n + 1)]
    bounds = (typed(start[0] <= q), typed(q < start[1]))
    return substitute(expr, taken), (*bounds, *kept)
