"""The recipe for time loops over a grid: several steps at a time in tiles that a core's cache holds."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import ArgumentError
from tiramisu_py.function import Computation
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.reads import sources
from tiramisu_py.recipes.recorded import Recorded, processor

#: Levels of a pass: memory is then no longer what a step waits for, and halos are still small.
STEPS = 12
#: The part of the second-level cache that the levels of a tile may fill; two levels are kept.
FILLED, LEVELS = 0.4, 2
#: Vectors of a row of a tile, and the fewest rows.
VECTORS, FEWEST = 32, 8


def time_stencil(field: Computation, *, steps: int = STEPS, cpu: Cpu | None = None) -> str:
    """A field over time and space (time outermost), each level from the one before: tiles that overlap in time.

    ::

        print(tm.recipes.time_stencil(heat))
            -->   t0, i0, j0 = tm.iters("t0 i0 j0")
                  heat.time_tile(t, 12, {i: 64, j: 512}, [t0, i0, j0])
                  heat.parallelize(i0)
                  heat.vectorize(j, 16, remainder="mask")
                  heat_out = f["heat_out"]
                  heat_out.parallelize(i)
                  heat_out.vectorize(j, 16)

    A tile computes `steps` levels while two of them lie in the second-level cache of `cpu` (default: this machine's);
    what it needs of its neighbours it computes as well. What copies the result (``f.outputs(heat[T, i, j])``) runs in
    vectors on all threads too. Returns the commands that were applied, to be pasted and edited, over the function `f`.

    Raises `ArgumentError` for a field with fewer than two loops; what commands raise goes on, and then none of them is
    applied.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ArgumentError(f"time_stencil: steps is {steps!r}: give an integer of at least 1")
    recipe = Recorded("time_stencil", [field])
    cpu = processor("time_stencil", cpu)
    time, *space = recipe.loops(field)
    if not space:
        raise ArgumentError(f"time_stencil: {field} has one loop, and needs at least two: time, then space")
    lanes = cpu.lanes(field.dtype.bytes)
    outer = [recipe.fresh(f"{loop.name}0") for loop in (time, *space)]
    with recipe.together():
        field.time_tile(time, steps, _tiles(space, steps, lanes, field.dtype.bytes, cpu), outer)
        field.parallelize(outer[1])
        field.vectorize(space[-1], lanes, remainder="mask")
        for reader in _readers(recipe, field):
            recipe.from_function(reader)
            loops = recipe.loops(reader)
            reader.parallelize(loops[0])
            reader.vectorize(loops[-1], lanes)
    return recipe.text()


def _tiles(space: list[Iter], steps: int, lanes: int, element: int, cpu: Cpu) -> dict[Iter, int]:
    """Sizes of a tile: long rows, and as many of them as the cache holds with their halos."""
    room = int(cpu.second * FILLED) // (LEVELS * element)
    row = VECTORS * lanes
    if len(space) == 1:
        return {space[0]: max(room // 2, row)}
    others = len(space) - 1
    side = int((room / (row + 2 * steps)) ** (1 / others)) - 2 * steps
    rows = max(side // FEWEST * FEWEST, FEWEST)
    return {**dict.fromkeys(space[:-1], rows), space[-1]: row}


def _readers(recipe: Recorded, field: Computation) -> list[Computation]:
    """The outputs that copy the result of the field: no stencils, of two loops or more, in one statement."""
    function, found = recipe.function, []
    for name in function.algorithm.outputs:
        statements = function.program.statements_of(name)
        copies = name != field.name and len(statements) == 1 and sources(statements[0]) == (field.name,)
        if copies and len(statements[0].loops) > 1:
            found.append(function[name])
    return found
