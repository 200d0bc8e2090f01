"""Cuts along the innermost loop alone, for a body of so many cases that a cut for each would make mostly copies.

    S[i, j]: select(1 <= i & 1 <= j, a, 0) + select(i < N - 1 & 1 <= j, b, 0) + ..
    -->  S[i, j]: 0  on j = 0;   S[i, j]: select(1 <= i, a, 0) + select(i < N - 1, b, 0) + ..  on 1 <= j

What is left of a condition is the same in the whole innermost loop: one test for all lanes of a vector. The border of
an adjoint is of this kind, a term for each read and a condition for each term.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Const, Expr, Select, Unary, as_typed
from tiramisu_py.algorithm.traversal import mentions, rewrite, walk
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.dependence.cases import Part

#: With more parts than this, the last ones keep their conditions.
MOST_PARTS = 9
YES, NO = Const(True, bool_), Const(False, bool_)


def split_along(reader: Affine, instances: isl.Set, body: Expr, moving: Collection[str]) -> list[Part]:
    """Parts on which the outermost selects of a body are decided, and all comparisons of the iterators `moving`."""
    return [
        (part, own)
        for points, each in _outermost(reader, instances, body)
        for part, own in _by_comparisons(reader, points, each, moving)
    ]


def _outermost(reader: Affine, instances: isl.Set, body: Expr) -> Iterator[Part]:
    """The parts on which a body that is a select is one of its sides."""
    while isinstance(body, Select):
        try:
            holds = reader.condition(body.condition)
        except NotAffine:
            break
        inside = instances.intersect(holds).coalesce()
        if not inside.is_empty():
            yield inside, as_typed(body.yes, body.dtype)
        instances, body = instances.subtract(holds).coalesce(), as_typed(body.no, body.dtype)
    if not instances.is_empty():
        yield instances, body


def _by_comparisons(reader: Affine, instances: isl.Set, body: Expr, moving: Collection[str]) -> list[Part]:
    """The parts on which the comparisons of some iterators, in conditions of selects, hold everywhere or nowhere."""
    done: list[Part] = []
    waiting: list[Part] = [(instances, body)]
    while waiting:
        points, each = waiting.pop()
        cut = None
        for comparison, holds in _comparisons(reader, each, moving):
            inside, outside = points.intersect(holds).coalesce(), points.subtract(holds).coalesce()
            if inside.is_empty() or outside.is_empty():
                each = _decided(each, comparison, outside.is_empty())
            elif len(done) + len(waiting) + 2 <= MOST_PARTS:
                cut = [(inside, _decided(each, comparison, True)), (outside, _decided(each, comparison, False))]
                break
        if cut is None:
            done.append((_in_one(points), each))
        else:
            waiting += reversed(cut)
    return done


def _in_one(points: isl.Set) -> isl.Set:
    """A set as one convex piece, if it is one."""
    hull = sets.hull(points)
    return hull if hull.is_equal(points) else points


def _comparisons(reader: Affine, body: Expr, moving: Collection[str]) -> list[tuple[Expr, isl.Set]]:
    """The affine comparisons of some iterators in the conditions of selects, and where they hold."""
    found: dict[object, tuple[Expr, isl.Set]] = {}
    for select in walk(body):
        for part in walk(select.condition) if isinstance(select, Select) else ():
            if isinstance(part, Binary) and part.op in COMPARISONS and mentions(part, moving):
                try:
                    found.setdefault(part.key(), (part, reader.condition(part)))
                except NotAffine:
                    continue
    return list(found.values())


def _decided(body: Expr, comparison: Expr, holds: bool) -> Expr:
    """The body with a comparison replaced by its value, and what follows from that."""
    key = comparison.key()

    def folded(e: Expr) -> Expr | None:
        if isinstance(e, Binary) and e.op in COMPARISONS and e.key() == key:
            return YES if holds else NO
        if isinstance(e, Unary) and e.op == "~" and e.dtype == bool_:
            inner = rewrite(e.operand, folded)
            return {True: NO, False: YES}[bool(inner.value)] if isinstance(inner, Const) else e.rebuilt((inner,))
        if isinstance(e, Binary) and e.op in ("&", "|") and e.dtype == bool_:
            return _joined(e, rewrite(e.left, folded), rewrite(e.right, folded))
        if isinstance(e, Select):
            condition = rewrite(e.condition, folded)
            yes, no = (as_typed(rewrite(side, folded), e.dtype) for side in (e.yes, e.no))
            return (
                (yes if condition.value else no)
                if isinstance(condition, Const)
                else Select(condition, yes, no, e.dtype)
            )
        return None

    return rewrite(body, folded)


def _joined(e: Binary, left: Expr, right: Expr) -> Expr:
    """A conjunction or disjunction of two conditions, one of which may be known."""
    for known, other in ((left, right), (right, left)):
        if isinstance(known, Const):
            return other if bool(known.value) == (e.op == "&") else known
    return e.rebuilt((left, right))
