"""The values that a statement reads: compute_at and caches must provide them."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, value_names
from tiramisu_py.algorithm.declare.soundness import box
from tiramisu_py.algorithm.domains.reads import readings
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def needed_values(program: Program, statement: Statement, source: str) -> isl.Map:
    """``instance -> source[value indices]`` that a statement reads (over-approximated if indices are values)."""
    return named_values(program, statement, source).intersect_range(existing(program, source))


def named_values(program: Program, statement: Statement, source: str) -> isl.Map:
    """These values, and indices outside the domain, which iterations past the end of a vector loop read."""
    space = program.algorithm.frame(statement.source, program.point_names(statement))
    point = sets.graph(statement.point, statement.instances)
    rank = len(value_names(program.algorithm.source(source)))
    found = sets.no_pairs(statement.frame, sets.sized_frame(space, None, rank))
    for body in (statement.body, *statement.guards):
        for reading in readings(program.algorithm, body, space):
            if reading.access.source == source:
                values = sets.range_named(reading.relation, None)
                found = found.union(point.apply_range(values))
    return found


def existing(program: Program, source: str) -> isl.Set:
    """The indices of a source's values."""
    declared = program.algorithm.source(source)
    if isinstance(declared, Computation):
        return sets.named(declared.domain, None)
    return box(sets.sized_frame(program.algorithm.param_space, None, len(declared.shape)), declared.shape)
