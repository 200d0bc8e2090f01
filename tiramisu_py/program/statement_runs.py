"""The runs of a statement: those that its conditions make, as forms of its instances."""

from __future__ import annotations

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.implied_bounds import RunBounds
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def run_bounds(program: Program, statement: Statement) -> RunBounds:
    """The runs of a statement's conditions, and which conditions follow from them."""
    forms = sets.outputs(statement.point)
    reader = Affine(statement.frame, dict(zip(program.point_names(statement), forms, strict=False)))
    points = statement.instances.intersect_params(program.context.params())
    return RunBounds.of(program.algorithm, reader, points, statement.guards)
