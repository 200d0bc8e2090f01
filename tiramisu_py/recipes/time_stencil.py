"""The recipe for time loops over a grid: several steps at a time, in tiles that fit in a core's cache."""

from __future__ import annotations

from tiramisu_py import Computation, Iter, Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import halos
from tiramisu_py.queries import step_distances as distances
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.read_offsets import sources
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor
from tiramisu_py.recipes.time_plans import best_plan

#: The comment in the text if steps are not tiled.
NO_TILE = "# no tiles over time: their halos would cost more than they save"


def time_stencil(
    field: Computation, *, steps: int | None = None, cpu: Cpu | Target | str | None = None
) -> AppliedCommands:
    """Schedule a field over time and space (time outermost) in overlapping time tiles.

    ::

        print(tm.recipes.time_stencil(heat))
            -->   t, i, j, t0, i0, j0 = tm.iters("t i j t0 i0 j0")
                  heat = f["heat"]
                  heat.time_tile(t, 8, {i: 80, j: 512}, [t0, i0, j0])
                  heat.parallelize(i0)
                  heat.vectorize(j, 16, remainder="mask")
                  heat_out = f["heat_out"]
                  heat_out.parallelize(i)
                  heat_out.vectorize(j, 16)

    Each level is computed from the one before. A tile computes `steps` levels while two of them are in the second-level
    cache of `cpu` (default: this machine's), including the halo that it needs from its neighbours. The number of levels
    and the tile sizes are chosen by counting the points computed per useful point, and the memory traffic: typically
    many levels in two dimensions, two to four in three. If no tile pays (wide stencils in three dimensions), the text
    says so in a comment, and each step is a sweep in vectors on all threads; with `steps` given, tiles are always used.
    The copy of the result (``f.outputs(heat[T, i, j])``) runs in vectors on all threads too. Returns the commands that
    were applied, to be pasted and edited, over the function `f`.

    Raises `ArgumentError` for a field with fewer than two loops, and the error of a command that is refused; then none
    of the commands is applied.
    """
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise ArgumentError(f"time_stencil: steps is {steps!r}: give an integer of at least 1")
    recipe = Recipe("time_stencil", [field])
    cpu = processor("time_stencil", cpu)
    time, *space = recipe.loops(field)
    if not space:
        raise ArgumentError(f"time_stencil: {field} has one loop, and needs at least two: time, then space")
    lanes = cpu.lanes(field.dtype.bytes)
    plan = best_plan(_reach(recipe, field, time, space), lanes, field.dtype.bytes, cpu, steps)
    with recipe.together():
        if plan is None:
            _swept(field, space, lanes)
        else:
            outer = [recipe.fresh(f"{loop.name}0") for loop in (time, *space)]
            field.time_tile(time, plan.steps, dict(zip(space, plan.sides, strict=True)), outer)
            field.parallelize(outer[1])
            field.vectorize(space[-1], lanes, remainder="mask")
        for reader in _readers(recipe, field):
            loops = recipe.loops(reader)
            reader.parallelize(loops[0])
            reader.vectorize(loops[-1], lanes)
    return recipe.commands() if plan is not None else recipe.commands(NO_TILE)


def _swept(field: Computation, space: list[Iter], lanes: int) -> None:
    """Schedule each step as a sweep in vectors on all threads, if no time tile pays."""
    if len(space) > 1:
        field.parallelize(space[0])
    field.vectorize(space[-1], lanes, remainder="mask")


def _reach(recipe: Recipe, field: Computation, time: Iter, space: list[Iter]) -> list[int]:
    """The growth of a tile per earlier level along each dimension, on both sides together."""
    program, dims = recipe.function.program, [loop.name for loop in space]
    reads = distances(program, [recipe.statement(field)], [field.name], time.name, dims)
    sides = [halos(reads, [field.name], dim, position, time.name) for position, dim in enumerate(dims)]
    return [below.slope + above.slope for below, above in sides]


def _readers(recipe: Recipe, field: Computation) -> list[Computation]:
    """The outputs that copy the result of the field (no stencils), with at least two loops and one statement."""
    function, found = recipe.function, []
    for name in function.algorithm.outputs:
        statements = function.program.statements_of(name)
        copies = name != field.name and len(statements) == 1 and sources(statements[0]) == (field.name,)
        if copies and len(statements[0].loops) > 1:
            found.append(function[name])
    return found
