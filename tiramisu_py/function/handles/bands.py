"""Bands of loops: the nest that a function has, and the commands that `skew_for` finds and applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_arguments import find, loop_name
from tiramisu_py.schedule.loops.bands import Band
from tiramisu_py.schedule.loops.wavefronts import skewed_for

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled


def nest_of(program: Program, loops: Sequence[str]) -> list[str]:
    """The statements of a whole function that have these loops, in order; without loops all, if they share one."""
    ordered = sorted(program.statements.values(), key=lambda each: program.positions[each.name])
    having = [each for each in ordered if all(find(program, each, name) is not None for name in loops)]
    if not having:
        raise CommandError(f"no computation has {'the loops' if len(loops) > 1 else 'a loop'} {', '.join(loops)}")
    if not loops and len({each.loops[:1] for each in having}) > 1:
        raise CommandError(
            f"{having[0].handle} and {having[-1].handle} share no loop: name the loops of the band, as t, i"
        )
    return [each.name for each in having]


def apply_skew_for(
    function: Scheduled, names: Sequence[str], goal: object, loops: Sequence[Iter], tiles: object
) -> Band:
    """Find the commands for a goal and apply them, all or none."""
    wanted = [loop_name(loop) for loop in loops] or None
    if tiles is not None and not isinstance(tiles, Mapping):
        raise CommandError(f"tiles={tiles!r}: give a dict of the sizes of tiles by loop, as in {{i: 32, j: 256}}")
    sizes = {loop_name(loop): by for loop, by in tiles.items()} if tiles else None
    band = skewed_for(function.program, names, goal, wanted, sizes)
    with function.all_or_nothing():
        for command in band.commands:
            function.apply(command)
    return band
