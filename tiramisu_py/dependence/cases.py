"""Cases: instances cut by the affine conditions of the selects in an expression."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr, Select, as_typed
from tiramisu_py.algorithm.traversal import rewrite

#: Beyond this number of bodies a select stays in place: a box has an inside, four edges and four corners.
MOST_BODIES = 9

Part = tuple[isl.Set, Expr]
#: The branch taken at each cut: 0 if the condition holds, 1 if not.
Branch = tuple[int, ...]


def chooses(body: Expr) -> bool:
    """Whether a body has a select."""
    return next(_selects(body), None) is not None


def by_branch(reader: Affine, instances: isl.Set, body: Expr) -> list[tuple[Branch, Part]]:
    """The parts of `split_by_cases`, each with the branches that lead to it."""
    return _Splitter(reader).by_branch(instances, body)


def split_by_cases(reader: Affine, instances: isl.Set, body: Expr) -> list[Part]:
    """Parts of `instances`, each with a body in which selects decided there are resolved."""
    return _Splitter(reader).split(instances, body)


class _Splitter:
    """Cuts instances by the conditions of the selects in their body."""

    def __init__(self, reader: Affine) -> None:
        self.reader = reader

    def split(self, instances: isl.Set, body: Expr) -> list[Part]:
        """Parts of `instances`, each with a body in which selects decided there are resolved.

        Parts that grow with the sizes in every dimension are cut first, so that with too many parts only edges keep a
        select.
        """
        return [part for _, part in self.by_branch(instances, body)]

    def by_branch(self, instances: isl.Set, body: Expr) -> list[tuple[Branch, Part]]:
        """The parts of `split`, each with the branches that lead to it."""
        done: list[tuple[Branch, Part]] = []
        waiting: list[tuple[int, int, Branch, Part]] = [(0, 0, (), (instances, body))]
        number = 0
        while waiting and len(done) + len(waiting) < MOST_BODIES:
            _, _, branch, part = waiting.pop(waiting.index(min(waiting, key=lambda entry: entry[:2])))
            cut = self._cut(*part)
            if len(cut) == 1:
                done.append((branch, cut[0]))
            for which, each in enumerate(cut) if len(cut) > 1 else ():
                number += 1
                waiting.append((sets.thin_dimensions(each[0]), number, (*branch, which), each))
        return done + [(branch, part) for _, _, branch, part in waiting]

    def _cut(self, instances: isl.Set, body: Expr) -> list[Part]:
        """The parts on which the outermost affine select of a body is decided; the part alone if it has none."""
        while (found := self._affine(body)) is not None:
            select, holds = found
            inside, outside = instances.intersect(holds).coalesce(), instances.subtract(holds).coalesce()
            if not outside.is_empty() and not inside.is_empty():
                return [(inside, _decided(body, select, True)), (outside, _decided(body, select, False))]
            body = _decided(body, select, outside.is_empty())
        return [(instances, body)]

    def _affine(self, body: Expr) -> tuple[Select, isl.Set] | None:
        """The outermost affine select of a body, and where its condition holds."""
        for select in _selects(body):
            try:
                return select, self.reader.condition(select.condition)
            except NotAffine:
                continue
        return None


def _selects(body: Expr) -> Iterator[Select]:
    """The selects of a body, outer ones first, also those inside indices (neighbours that wrap or are clamped)."""
    waiting, seen = [body], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Select):
            yield node
        waiting += reversed(node.children())


def _decided(body: Expr, decided: Select, holds: bool) -> Expr:
    """The body with one select, and all others of the same condition, replaced by the branch taken."""
    key = decided.condition.key()
    known: dict[int, Expr] = {}  # of selects, by their ids: they may be shared, and stand inside each other

    def branch(e: Expr) -> Expr | None:
        if not isinstance(e, Select) or e.condition.key() != key:
            return None
        if id(e) not in known:
            known[id(e)] = rewrite(as_typed(e.yes if holds else e.no, e.dtype), branch)
        return known[id(e)]

    return rewrite(body, branch)
