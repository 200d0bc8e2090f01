"""Uniform loops around barriers and trees, whatever each thread of a block executes inside.

isl bounds a loop by the instances inside, of which barriers and trees are only a part; the bound of all of them may
depend on the thread although no thread misses a barrier. An anchor that does nothing, in every iteration that any
thread of the block executes, makes the bound the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.lower.loops.anchors import Anchor
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.program.loops import GpuThread, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role


def gathering_anchors(
    program: Program, pieces: Sequence[DomainPiece], outer: int, threads: Sequence[str]
) -> list[Anchor]:
    """The anchors of the loops around the barriers and trees of a kernel, inside its `outer` block and host loops.

    The pieces are those of one thread; `threads` are the parameters that identify it.
    """
    paths: dict[tuple[LoopId, ...], None] = {}
    for piece in pieces:
        loops = piece.statement.loops
        if piece.statement.role in (Role.BARRIER, Role.COMBINE):
            paths |= dict.fromkeys(loops[:depth] for depth in range(outer, len(loops) + 1))
    return [_anchor(program, pieces, path, threads) for path in paths]


def _anchor(
    program: Program, pieces: Sequence[DomainPiece], path: tuple[LoopId, ...], threads: Sequence[str]
) -> Anchor:
    depth = len(path)
    inside = [piece for piece in pieces if piece.statement.loops[:depth] == path]
    name = f"@gather{'_'.join(map(str, path))}"
    found = sets.union_of(piece.instances.apply(sets.graph(_clock(program, piece, depth))) for piece in inside)
    iterations = sets.with_more_params(sets.without_params(found, threads), threads).coalesce()
    positions = [program.positions[piece.statement.name] for piece in inside]
    first = min(position[depth] for position in positions) - 1
    instances = sets.named(iterations, name)
    return Anchor(name, path[-1], instances, _time(program, instances, [*positions[0][:depth], first]))


def _clock(program: Program, piece: DomainPiece, depth: int) -> isl.MultiAff:
    """The coordinates of a piece's outermost loops, with 0 for thread loops."""
    space = piece.instances.get_space()
    forms = sets.outputs(sets.from_frame(piece.statement.coords, space))[:depth]
    zero = sets.constant(space, 0)
    tags = [program.loops[loop].tag for loop in piece.statement.loops[:depth]]
    clock = [zero if isinstance(tag, GpuThread) else form for form, tag in zip(forms, tags, strict=True)]
    return sets.function(space, None, clock)


def _time(program: Program, instances: isl.Set, statics: Sequence[int]) -> isl.MultiAff:
    space = instances.get_space()
    vector = [sets.constant(space, statics[0])]
    for dynamic, static in zip(sets.variables(space), statics[1:], strict=True):
        vector += [dynamic, sets.constant(space, static)]
    vector += [sets.constant(space, 0)] * (program.time_size - len(vector))
    return sets.function(space, None, vector)
