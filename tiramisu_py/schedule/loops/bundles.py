"""Loops with several symbolic extents joined to a bundle, which some commands take as one loop.

::

    for h in 0..N: for x in 0..M: for y in 0..K: S[h, x, y]    -->    for j = (h, x, y): S[h, x, y]

Nothing runs in another order than before. Only a box is numbered without gaps, with sides that do not depend on the
loops around; that is shown here, and the numbers of its iterations are tested at run time to fit 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import BundledLoops
from tiramisu_py.program.loops import Bundle, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.command_arguments import unused
from tiramisu_py.sets import smallest


def bundled(program: Program, run: tuple[LoopId, ...], into: str) -> Program:
    """The program with a run of adjacent loops, which all statements in them share, as a bundle."""
    loops = BundledLoops(program, run)
    if loops.sides is None:
        raise CommandError(
            f"the loops {loops.names} have no first and last iterations that are affine in the parameters: join fewer "
            "loops, or name their bounds with assume="
        )
    _check_box(loops)
    bundle = Bundle(into)
    return program.with_loop(*(replace(program.loops[loop], bundle=bundle) for loop in run))


def _check_box(bundled: BundledLoops) -> None:
    """Refuse loops that lack an iteration of their box, with the smallest one that is missing."""
    program, missing = bundled.program, bundled.missing
    if missing.is_empty():
        return
    sizes = smallest.smallest_params(missing)
    element = smallest.first(smallest.at(missing, sizes))
    loops = program.with_this_loop(bundled.run[0])[0].loops[: sets.size(missing)]
    place = ", ".join(f"{program.loops[loop].name} = {at}" for loop, at in zip(loops, element, strict=True))
    needed = sets.involved_params(missing.gist_params(program.context.params()))
    shown = [f"{name} = {sizes[name]}" for name in needed]
    given = f", for {', '.join(shown)}" if shown else ""
    raise CommandError(
        f"the loops {bundled.names} are no box: nothing runs at {place}{given}; give the terms a box, with where= for "
        "those that count, or keep the loops"
    )


def split_bundle(
    program: Program, statement: Statement, run: tuple[LoopId, ...], by: int, new: Sequence[str]
) -> Program:
    """A bundle over values in blocks of `by` iterations, which its two loops number."""
    bundle = program.loops[run[0]].bundle
    assert bundle is not None
    if bundle.within:
        raise CommandError(
            f"{bundle.name} and {bundle.within} are the blocks of a bundle already: undo the split before, and give one"
        )
    unused(program, program.with_this_loop(run[0]), new, apart=run)
    parts = Bundle(new[0], new[1], by)
    return program.with_loop(*(replace(program.loops[loop], bundle=parts) for loop in run))
