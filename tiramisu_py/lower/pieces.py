"""Index-set splitting: a statement whose body chooses by an affine condition becomes one piece a branch.

    S[i]: select(i == 0, a, b)  on 0 <= i < N
    -->  S[i]: a  on i = 0;  S[i]: b  on 0 < i < N

The pieces have the time of their statement, so that nothing is reordered; inner loops come out without branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Expr, Select, as_typed
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement

#: Beyond so many bodies a select stays in place.
MOST_BODIES = 8
#: Beyond so many convex pieces in all, pieces stay unions.
MOST_PIECES = 16


@dataclass(frozen=True, eq=False)
class Piece:
    """Some instances of a statement (in the tuple `name`), and the body that holds on them."""

    name: str
    statement: Statement
    instances: isl.Set
    body: Expr

    @property
    def frame(self) -> isl.Space:
        """The space of the instances."""
        return self.instances.get_space()


def iterator_names(program: Program, statement: Statement) -> tuple[str, ...]:
    """The names under which a statement's body knows the components of its point."""
    if statement.role is Role.COPY and isinstance(statement.body, Access):
        return tuple(str(getattr(index, "name", "")) for index in statement.body.indices)
    source = program.algorithm.source(statement.source)
    return tuple(getattr(source, "point_iterators", ()))


def point_forms(program: Program, statement: Statement) -> dict[str, isl.Aff]:
    """The iterators of a statement's body as forms on its instances."""
    names = iterator_names(program, statement)
    return dict(zip(names, sets.outputs(statement.point), strict=False))


def pieces_of(program: Program, statement: Statement, split: bool = True) -> list[Piece]:
    """The pieces of a statement, disjoint and convex; one where nothing is to be split, none where nothing is done.

    Unless `split`, bodies keep their choices: a thread of a GPU, which executes one instance, has no loop to cut.
    """
    instances = statement.instances.intersect_params(program.context)
    if instances.is_empty():
        return []
    parts: list[Part] = [(instances, statement.body)]
    if split and next(_selects(statement.body), None) is not None:
        parts = _Splitter(Affine(statement.frame, point_forms(program, statement))).split(instances, statement.body)
    if len(parts) > 1 or instances.n_basic_set() > 1:
        parts = _convex(parts)
    if len(parts) == 1:
        return [Piece(statement.name, statement, *parts[0])]
    named = ((f"{statement.name}#{number}", part, body) for number, (part, body) in enumerate(parts))
    return [Piece(name, statement, sets.named(part, name), body) for name, part, body in named]


Part = tuple[isl.Set, Expr]


def _convex(parts: list[Part]) -> list[Part]:
    convex = [(each, body) for part, body in parts for each in sets.basic_sets(part.coalesce())]
    return convex if len(convex) <= MOST_PIECES else parts


class _Splitter:
    def __init__(self, reader: Affine) -> None:
        self.reader = reader

    def split(self, instances: isl.Set, body: Expr) -> list[Part]:
        """Parts of `instances`, each with a body from which the selects that are decided there are gone.

        Parts of full dimension are cut first: where there are too many, it is edges that keep a select.
        """
        done: list[Part] = []
        waiting: list[tuple[int, int, Part]] = [(0, 0, (instances, body))]
        number = 0
        while waiting and len(done) + len(waiting) < MOST_BODIES:
            part = waiting.pop(waiting.index(min(waiting, key=lambda entry: entry[:2])))[2]
            cut = self._cut(*part)
            if len(cut) == 1:
                done += cut
            for each in cut if len(cut) > 1 else ():
                number += 1
                waiting.append((sets.equalities(each[0]), number, each))
        return done + [part for _, _, part in waiting]

    def _cut(self, instances: isl.Set, body: Expr) -> list[Part]:
        """The parts on which the outermost affine select of a body is decided; the part alone if it has none."""
        for select in _selects(body):
            try:
                holds = self.reader.condition(select.condition)
            except NotAffine:
                continue
            inside, outside = instances.intersect(holds).coalesce(), instances.subtract(holds).coalesce()
            if outside.is_empty():
                return self._cut(instances, _decided(body, select, True))
            if inside.is_empty():
                return self._cut(instances, _decided(body, select, False))
            return [(inside, _decided(body, select, True)), (outside, _decided(body, select, False))]
        return [(instances, body)]


def _selects(body: Expr) -> Iterator[Select]:
    """The selects of a body, outer ones first; those inside indices are left to the index."""
    if isinstance(body, Access):
        return
    if isinstance(body, Select):
        yield body
    for child in body.children():
        yield from _selects(child)


def _decided(body: Expr, decided: Select, holds: bool) -> Expr:
    """The body where the condition of one select (and of all that have the same one) is known."""
    key = decided.condition.key()

    def branch(e: Expr) -> Expr | None:
        if isinstance(e, Select) and e.condition.key() == key:
            return rewrite(as_typed(e.yes if holds else e.no, e.dtype), branch)
        return None

    return rewrite(body, branch)
