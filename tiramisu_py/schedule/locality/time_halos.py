"""The reach of the steps of a time loop: the distances of their reads, and the halos that several levels need.

A tile computes several levels. At a level followed by `r` further levels of the tile, it computes its own points
widened by ``slope * r + offset`` on each side. All computations of a step have the same slope; a computation also has
an offset if others of the same level read it beside their own point.
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.domains.reads import readings
from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class StepDistance:
    """A read of `source` by the statement `reader`, `least` to `most` levels back.

    `below` and `above` are how far it reaches on either side of the reader's point, by dimension.
    """

    reader: str
    by: str
    source: str
    least: int
    most: int
    below: tuple[int, ...]
    above: tuple[int, ...]


@dataclass(frozen=True)
class Halo:
    """The growth of tiles on one side of a dimension: `slope` per level back, plus an offset for each computation."""

    slope: int
    offsets: dict[str, int]


def distances(
    program: Program, steps: Sequence[Statement], sources: Sequence[str], time: str, dims: Sequence[str]
) -> list[StepDistance]:
    """The reads of the sources by the statements of a step; raises `CommandError` where one has no constant reach."""
    return [
        _distance(program, statement, access, relation, time, dims)
        for statement in steps
        for access, relation in _readings(program, statement)
        if access.source in sources
    ]


def _readings(program: Program, statement: Statement) -> list[tuple[Access, isl.Map]]:
    space = program.algorithm.frame(statement.source, program.point_names(statement))
    points = sets.graph(statement.point, statement.instances).range().intersect_params(program.context.params())
    found = []
    for body in (statement.body, *statement.guards):
        for reading in readings(program.algorithm, body, space):
            relation = reading.relation.intersect_domain(points)
            if not relation.is_empty():
                found.append((reading.access, relation))
    return found


def _distance(
    program: Program, statement: Statement, access: Access, relation: isl.Map, time: str, dims: Sequence[str]
) -> StepDistance:
    source = access.source
    own = value_names(program.algorithm.source(statement.source))
    theirs = value_names(program.algorithm.source(source))
    variables = sets.variables(relation.get_space().domain())
    spans = []
    for dim in (time, *dims):
        if dim not in theirs:
            raise CommandError(
                f"{statement.name} reads {access}, and {source} has no {dim}: it is not part of the step"
            )
        reach = sets.component(relation, theirs.index(dim))
        span = sets.span_above(reach, variables[own.index(dim)])
        if span is None:
            why = (
                "a pass keeps only its last levels: keep such values in a computation of their own"
                if dim == time
                else f"a tile needs a halo of constant width; leave {dim} untiled"
            )
            raise CommandError(f"{statement.name} reads {access}, at no constant distance along {dim}: {why}")
        spans.append(span)
    (low, high), *others = spans
    if high > 0:
        raise CommandError(f"{statement.name} reads {access}, of a later level: {time} is not the loop over time")
    return StepDistance(
        statement.name,
        statement.source,
        source,
        -high,
        -low,
        tuple(-below for below, _ in others),
        tuple(above for _, above in others),
    )


def halos(
    reads: Sequence[StepDistance], sources: Sequence[str], dim: str, position: int, level: str
) -> tuple[Halo, Halo]:
    """The halos along a dimension, below and above."""
    sides = []
    for amounts in ([d.below[position] for d in reads], [d.above[position] for d in reads]):
        edges = [(d.by, d.source, d.least, amount) for d, amount in zip(reads, amounts, strict=True)]
        sides.append(_halo(edges, sources, dim, level))
    return sides[0], sides[1]


def _halo(edges: Sequence[tuple[str, str, int, int]], sources: Sequence[str], dim: str, level: str) -> Halo:
    """The least slope for which the offsets (longest paths from readers to the sources they read) are finite."""
    for slope in range(1 + sum(max(amount, 0) for *_, amount in edges)):
        offsets = dict.fromkeys(sources, 0)
        for _ in range(len(offsets) + 1):
            changed = False
            for reader, source, back, amount in edges:
                wanted = offsets[reader] + amount - slope * back
                if wanted > offsets[source]:
                    offsets[source], changed = wanted, True
            if not changed:
                return Halo(slope, offsets)
    raise CommandError(
        f"{' and '.join(sources)} read values of the same level of {level} in a cycle along {dim}: a tile would need "
        f"all of {dim}; leave {dim} untiled"
    )
