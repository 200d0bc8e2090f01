"""skew_for: the commands that make loops a band for tiles (locality), or run it on threads (parallel).

In a permutable band no dependence points backwards along a loop, nor does one along its loops over tiles. So the tiles
T and I with one sum ``w = T + I`` do not depend on one another: with w outside, I is parallel. Source: Wolfe, Loop
Skewing: The Wavefront Method Revisited; Bondhugula et al., section 5.3 (pipelined parallel start).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.spellings import fresh_name
from tiramisu_py.errors import CommandError
from tiramisu_py.program.command import Command
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_arguments import size, statements
from tiramisu_py.schedule.command_fields import Named
from tiramisu_py.schedule.loops.bands import Band, band_range, permutable_band
from tiramisu_py.schedule.loops.correcting_shifts import references
from tiramisu_py.schedule.loops.nest_dependences import nest_dependences
from tiramisu_py.schedule.loops.tags import Parallelize
from tiramisu_py.schedule.loops.transforms import Reorder, Tile
from tiramisu_py.schedule.loops.unimodular import Transform


class Goal(Enum):
    """The purpose of `skew_for`: tiles that keep values in caches, or threads."""

    LOCALITY = "locality"
    PARALLEL = "parallel"


def skewed_for(
    program: Program,
    names: Sequence[str],
    goal: object,
    loops: Sequence[str] | None = None,
    tiles: Mapping[str, int] | None = None,
) -> Band:
    """The band of these loops, with the commands that reach the goal; raises `CommandError` where none do."""
    if not isinstance(goal, Goal):
        raise CommandError(f"{goal!r} is no goal: choose tm.LOCALITY or tm.PARALLEL")
    if goal is Goal.PARALLEL and not tiles:
        found = parallel_loops(program, names, loops)
        if found is not None and any(found.parallel):
            return _on_threads(program, names, found, found.loops[found.parallel.index(True)])
    band = permutable_band(program, names, loops)
    if tiles:
        band = _tiled(band, _base(program, names), tiles)
    return band if goal is Goal.LOCALITY else _parallel(program, names, band, dict(tiles or {}))


def parallel_loops(program: Program, names: Sequence[str], loops: Sequence[str] | None = None) -> Band | None:
    """The loops as they stand, and which of them are parallel; None if the statements do not share them all."""
    chosen = statements(program, names)
    outer, depth = band_range(program, chosen, loops)
    if any(s.loops[:depth] != chosen[0].loops[:depth] for s in chosen):
        return None
    own = [program.loops[loop].name for loop in chosen[0].loops[outer:depth]]
    pairs = [one.pairs for one in nest_dependences(program, program, names, outer, depth)]
    apart = [[_differs(each, outer + k) for each in pairs] for k in range(len(own))]
    inside = [[_differs(sets.equal_prefix(each, outer + k), outer + k) for each in pairs] for k in range(len(own))]
    return Band(
        loops=tuple(own),
        factors=tuple((0,) * k for k in range(len(own))),
        turned=(),
        shifts={s.name: (0,) * len(own) for s in chosen},
        independent=tuple(not any(each) for each in apart),
        parallel=tuple(not any(each) for each in inside),
        commands=(),
    )


def _differs(pairs: isl.Map, position: int) -> bool:
    """Whether some pair differs in this coordinate."""
    return not all(side(pairs, position).is_empty() for side in (sets.less_at, sets.greater_at))


def _base(program: Program, names: Sequence[str]) -> Named:
    return references(program, names[:1])[0]


def _tiled(band: Band, base: Named, tiles: Mapping[str, int]) -> Band:
    """The band with these of its loops in tiles."""
    missing = [name for name in tiles if name not in band.loops]
    if missing:
        raise CommandError(f"tiles={dict(tiles)}: {missing[0]} is not in the band of {', '.join(band.loops)}")
    ordered = [name for name in band.loops if name in tiles]
    command = Tile(base, ({Iter(name): size(tiles[name], f"the block size of {name}") for name in ordered},))
    return replace(band, tiles=tuple(f"{name}0" for name in ordered), commands=(*band.commands, command))


def _parallel(program: Program, names: Sequence[str], band: Band, tiles: Mapping[str, int]) -> Band:
    """The band with a loop on threads: an independent one moved outwards, or the second loop of a wavefront."""
    base = _base(program, names)
    over = [name for name in band.loops if name in tiles] if tiles else list(band.loops)
    free = [name for name in over if band.independent[band.loops.index(name)]]
    loops = [f"{name}0" for name in over] if tiles else over
    made: list[Command] = []
    if free:
        chosen = loops[over.index(free[0])]
        if chosen != loops[0]:
            made.append(Reorder(base, tuple(Iter(name) for name in (chosen, *(n for n in loops if n != chosen)))))
    elif len(loops) < 2:
        raise CommandError(
            f"{over[0]} carries dependences, and a wavefront needs two loops of the band of {', '.join(band.loops)}: "
            f"{'tile two of them' if tiles else 'name more loops'}"
        )
    else:
        chosen, taken = loops[1], {loop.name for loop in program.loops.values()} | set(loops)
        wave = fresh_name("wave", taken)
        pair = [Iter(loops[0]), Iter(chosen)]
        made.append(Transform(base, pair, [[1, 1], [0, 1]], [Iter(wave), Iter(chosen)]))
    return _on_threads(program, names, replace(band, commands=(*band.commands, *made)), chosen)


def _on_threads(program: Program, names: Sequence[str], band: Band, loop: str) -> Band:
    command = Parallelize(_base(program, names), (Iter(loop),))
    return replace(band, threads=loop, commands=(*band.commands, command))
