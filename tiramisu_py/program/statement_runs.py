"""The runs of a statement: those that its conditions make, as forms of its instances; conditions of what is moved."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.implied_bounds import RunBounds
from tiramisu_py.algorithm.domains.runs import runs_of_values
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def run_bounds(program: Program, statement: Statement) -> RunBounds:
    """The runs of a statement's conditions, and which conditions follow from them."""
    forms = sets.outputs(statement.point)
    reader = Affine(statement.frame, dict(zip(program.point_names(statement), forms, strict=False)))
    points = statement.instances.intersect_params(program.context.params())
    return RunBounds.of(program.algorithm, reader, points, statement.guards)


def depths_of(statement: Statement, form: isl.Aff) -> list[int]:
    """The depths of the loops that say what a form of instances is; none if they do not say it."""
    value = sets.graph(sets.function(statement.frame, None, [form]))
    of_loops = statement.coords_map.reverse().apply_range(value)
    if not of_loops.is_single_valued():
        return []
    pieces = sets.pieces(isl.PwMultiAff.from_map(of_loops).get_at(0))
    return sorted({axis for piece in pieces for axis in sets.axes_of(piece)})


def conditions_of_values(program: Program, source: str) -> tuple[Expr, ...]:
    """The conditions of the runs that a computation's values are in, where the host knows all of these runs."""
    declared = program.algorithm.source(source)
    if not isinstance(declared, Computation) or not declared.guards:
        return ()
    found = runs_of_values(program.algorithm, declared)
    if any(program.algorithm.inputs[run.start].device is not None for run in found):
        return ()
    return tuple(condition for run in found for condition in run.conditions)


def conditions_of_message(program: Program, source: str) -> tuple[Expr, ...]:
    """The conditions of the runs that the values of a message are in, where each rank knows all of them."""
    conditions = conditions_of_values(program, source)
    read = {each.source for condition in conditions for each in accesses(condition)}
    return () if program.ranks.blocks is not None or read & program.ranks.distributions.keys() else conditions
