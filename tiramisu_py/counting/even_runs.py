"""Runs of equal length, in place of those that values say: what a schedule's cost counts.

An input that is monotone from `low` to `high` over `rows` intervals is counted as ``low + u * (high - low) // rows`` at
u. So each position from `low` to `high` is in one run, as in all arrays that begin at `low` and end at `high`: counts
of positions are exact, whatever the lengths of the runs. ``start[u] <= p < start[u + 1]`` is then ``u =
((p - low + 1) * rows - 1) // (high - low)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value
from tiramisu_py.algorithm.domains.runs import runs, start_bounds
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def with_even_runs(program: Program, sizes: Mapping[str, int]) -> Program:
    """The program at these sizes, with the executions that take place if all runs have the same length."""
    changed = []
    for statement in program.acting:
        instances = statement.instances
        for condition in _conditions(program, statement, sizes):
            instances = instances.intersect(condition)
        if instances is not statement.instances:
            changed.append(replace(statement, instances=instances.coalesce()))
    return program.with_statement(*changed) if changed else program


def _conditions(program: Program, statement: Statement, sizes: Mapping[str, int]) -> Iterator[isl.Set]:
    """Where an execution takes place."""
    if not statement.guards:
        return
    inputs = program.algorithm.inputs
    forms = sets.outputs(statement.point)
    reader = Affine(statement.frame, dict(zip(program.point_names(statement), forms, strict=False)))
    for run in runs(list(start_bounds(inputs, reader, statement.guards))):
        values, (extent,) = inputs[run.start].values, inputs[run.start].shape
        if values is None:
            continue
        low, high = (extent_value(each, sizes) for each in values)
        rows, positions = extent_value(extent, sizes) - 1, high - 1 - low
        if rows <= 0 or positions <= 0:
            yield sets.empty(statement.frame)
            continue
        scaled = sets.plus(sets.plus(run.position, 1 - low).scale_val(sets.integer(run.position.get_ctx(), rows)), -1)
        row = scaled.scale_down_val(sets.integer(run.position.get_ctx(), positions)).floor()
        yield sets.as_set(run.row.eq_basic_set(row))
