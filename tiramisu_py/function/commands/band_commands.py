"""Commands that find what makes loops a band: skew_for, and the description of a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.applied import AppliedStatements
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_arguments import find, loop_name
from tiramisu_py.schedule.loops.bands import Band, permutable_band
from tiramisu_py.schedule.loops.wavefronts import Goal, skewed_for

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled


class BandCommands(AppliedStatements):
    """Commands that find the skews, shifts and wavefronts of a nest."""

    def skew_for(self, goal: Goal, *loops: Iter, tiles: Mapping[Iter, int] | None = None) -> Band:
        """Find and apply the commands that make loops tilable (`tm.LOCALITY`), or run them on threads (`tm.PARALLEL`).

        ::

            for t: for i: h[t, i]   -->   h.skew(t, i, 1)
                                          h.tile({t: 32, i: 256})
                                          h.transform([t0, i0], [[1, 1], [0, 1]], [wave, i0])
                                          h.parallelize(i0)        (skew_for(tm.PARALLEL, tiles={t: 32, i: 256}))

        From the exact dependences follow the least skews, reversals and shifts after which none points backwards along
        any of the loops: they are a band, which can be tiled and permuted. Without `loops` the band has as many of the
        outermost loops as possible. `tiles` are the sizes of tiles along some of them. For threads, a loop that carries
        no dependence is taken, if need be moved outwards; where each carries one, the first two are skewed to a
        wavefront, whose inner loop is parallel. Without `tiles`, a loop that is parallel as it stands is enough.

        The commands are ordinary ones, in the log one by one. Returns the `Band`: its printed form is their text.
        Several computations, ``f.schedule(p, q).skew_for(...)``, are fused and shifted first. Raises `CommandError` if
        no constant skews do, with a pair of iterations that shows it. Source: Feautrier; Bondhugula et al., Pluto.
        """
        return apply_skew_for(self._function, self.statement_names(), goal, loops, tiles)

    def band(self, *loops: Iter) -> Band:
        """The band that `skew_for(tm.LOCALITY, ...)` would make of loops, without a change of the program.

        ::

            for t in 0..T:          -->   the same loops; what would make them tilable is
                for i in 0..N:            h.skew(t, i, 1)                 (print(h.band(t, i)))
                    h[t, i]
        """
        wanted = [loop_name(loop) for loop in loops] or None
        return permutable_band(self._function.program, self.statement_names(), wanted)


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
    before = function.program
    try:
        for command in band.commands:
            function.apply(command)
    except CommandError:
        function._program = before
        raise
    return band
