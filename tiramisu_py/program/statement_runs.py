"""The runs of a statement: those that its conditions make, as forms of its instances."""

from __future__ import annotations

import islpy as isl

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


def depths_of(statement: Statement, form: isl.Aff) -> list[int]:
    """The depths of the loops that say what a form of instances is; none if they do not say it."""
    value = sets.graph(sets.function(statement.frame, None, [form]))
    of_loops = statement.coords_map.reverse().apply_range(value)
    if not of_loops.is_single_valued():
        return []
    pieces = sets.pieces(isl.PwMultiAff.from_map(of_loops).get_at(0))
    return sorted({axis for piece in pieces for axis in sets.axes_of(piece)})
