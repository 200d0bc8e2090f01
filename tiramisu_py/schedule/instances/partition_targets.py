"""Runs the parts of a partition on their targets: ranks, host threads, blocks and threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_loop
from tiramisu_py.program.loops import Launch, Loop, LoopId, Parallel, Rank, Vector
from tiramisu_py.program.program import Program, adds_up
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.targets import Cores, GpuThreads, Target
from tiramisu_py.schedule.command_arguments import find
from tiramisu_py.schedule.devices.tag_gpu import tag_gpu
from tiramisu_py.schedule.devices.tagging import Tagging
from tiramisu_py.schedule.instances.partition_cuts import Span
from tiramisu_py.schedule.loops.tags import parallelize, tag_loop, tagged
from tiramisu_py.schedule.loops.transforms import split, tile
from tiramisu_py.schedule.ranks.distribute import check_axes

#: Threads of a block along the level and the next loop, and along the level alone, where the user chooses none.
TILE = (4, 64)
THREADS = 256

#: Strips of vector lanes in a block of a level that is both dealt out to threads and run in lanes.
STRIPS = 32


# -- ranks


def dealt_to_ranks(
    program: Program, names: Sequence[str], level: str, span: Span, over: range, command: str
) -> Program:
    """Run a part on its ranks, in a new loop just outside the level; several ranks get equal, consecutive blocks."""
    made: dict[LoopId, LoopId] = {}
    for name in names:
        statement = program.statements[name]
        loop = _level(program, statement, level)
        if loop not in made:
            made[loop] = program.next_loop()
            program = program.with_loop(Loop(made[loop], _fresh(program, [name], f"{level}_rank")))
        changed = _with_rank(program, statement, loop, made[loop], span, over)
        program = program.with_statement(changed)
    for rank_loop in made.values():
        program = tagged(program, rank_loop, Rank(0), command)
    check_axes(program)
    return program


def _with_rank(
    program: Program, statement: Statement, loop: LoopId, rank_loop: LoopId, span: Span, over: range
) -> Statement:
    depth = statement.depth(loop)
    even = _even_blocks(span, len(over))
    if len(over) == 1:
        rank = sets.constant(statement.frame, over[0])
    elif even is not None:
        moved = sets.outputs(statement.coords)[depth].sub(sets.on_frame(even[0], statement.frame))
        rank = sets.plus(sets.floor_div(moved, even[1]), over[0])
    else:
        statement = _on_several(statement, depth, program.loops[rank_loop].name, span, over)
        rank = sets.variables(statement.frame)[-1]
    coords = sets.outputs(statement.coords)
    coords.insert(depth, rank)
    loops = (*statement.loops[:depth], rank_loop, *statement.loops[depth:])
    return replace(statement, loops=loops, coords=sets.function(statement.frame, None, coords))


def _even_blocks(span: Span, count: int) -> tuple[isl.Aff, int] | None:
    """The lower bound of a part and the iterations per rank; None unless several ranks get the same constant number."""
    if count == 1 or span.of.is_empty():
        return None
    starts = [span.at(number, count) for number in range(count + 1)]
    lower, sizes = sets.pieces(starts[0]), [sets.pieces(b.sub(a)) for a, b in pairwise(starts)]
    if len(lower) != 1 or any(len(size) != 1 or not sets.is_constant(size[0]) for size in sizes):
        return None
    found = {sets.constant_of(size[0]) for size in sizes}
    size = found.pop()
    return (lower[0], size) if not found and size > 0 else None


def _on_several(statement: Statement, depth: int, dim: str, span: Span, over: range) -> Statement:
    """A statement with the coordinate of its rank as an additional dimension, on which its point does not depend."""
    everyone = sets.within(sets.variables(sets.sized_frame(statement.frame, None, 1))[0], over[0], over[-1] + 1)
    instances = sets.flat_product(sets.named(statement.instances, None), everyone, statement.name)
    dims = (*statement.dims, dim)
    frame = instances.get_space()
    variables = sets.variables(frame)
    original = sets.function(frame, statement.name, variables[:-1])
    coords = sets.compose(original, statement.coords)
    place = sets.function(frame, None, [sets.outputs(coords)[depth], variables[-1]])
    mine = sets.preimage(_blocks(span, over), place)
    return replace(
        statement,
        dims=dims,
        instances=sets.with_dims(instances.intersect(mine).coalesce(), dims),
        point=sets.compose(original, statement.point),
        coords=coords,
    )


def _blocks(span: Span, over: range) -> isl.Set:
    """The pairs of an iteration of a part and the rank that runs it: blocks whose sizes differ by at most one."""
    space = sets.sized_frame(span.of.get_space(), None, 2)
    iteration, rank = sets.variables(space)
    first = sets.function(space, None, [iteration])
    x = iteration.to_pw_aff()
    found = sets.empty(space)
    for k, number in enumerate(over):
        low, high = (sets.pulled(span.at(end, len(over)), first) for end in (k, k + 1))
        block = sets.as_set(x.ge_set(low)).intersect(sets.as_set(x.lt_set(high)))
        found = found.union(block.intersect(sets.within(rank, number, number + 1)))
    return found


# -- threads of the host, and GPUs


def on_target(
    program: Program, names: Sequence[str], level: str, target: Target, command: str
) -> tuple[Program, str | None]:
    """Run a part on host threads or a GPU; also returns the name of the host loop over its chunks, if there is one."""
    if isinstance(target, Cores):
        return _on_cores(program, names, level, target, command), None
    return _on_gpu(program, names, level, target, command)


def _on_cores(program: Program, names: Sequence[str], level: str, target: Cores, command: str) -> Program:
    dealt = level
    if target.vector is not None:
        inner = {name: _innermost(program, program.statements[name], level) for name in names}
        if target.parallel and level in inner.values():
            dealt = _fresh(program, names, f"{level}_block")
            program = split(program, names, level, STRIPS * target.vector, dealt, level)
        for name in names:
            program = tag_loop(program, [name], inner[name], Vector(target.vector), command)
    return parallelize(program, names, [dealt], Parallel(), command) if target.parallel else program


def _on_gpu(
    program: Program, names: Sequence[str], level: str, target: GpuThreads, command: str
) -> tuple[Program, str | None]:
    chunk = None
    if target.chunk is not None:
        chunk = _fresh(program, names, f"{level}_chunk")
        program = split(program, names, level, target.chunk, chunk, level)
    if target.tile is None:
        return program, chunk
    following = None if isinstance(target.tile, int) else _following(program, names, level)
    if isinstance(target.tile, tuple) and following is None:
        raise CommandError(
            f"{target} has threads along two loops, but directly inside {level} no loop of {', '.join(names)} runs "
            f"over separate values: give one number, tile={target.tile[0] * target.tile[1]}"
        )
    tiled = [level] if following is None else [level, following]
    sizes = _threads(target, len(tiled))
    blocks = [_fresh(program, names, f"{loop}_block") for loop in tiled]
    threads = [_fresh(program, names, f"{loop}_thread") for loop in tiled]
    program = tile(program, names, tiled, sizes, [*blocks, *threads])
    launch = Launch(target.stream, target.device)
    return tag_gpu(program, names, Tagging(tuple(blocks), tuple(threads), launch), command), chunk


def _threads(target: GpuThreads, count: int) -> list[int]:
    if isinstance(target.tile, tuple):
        return list(target.tile)
    if isinstance(target.tile, int):
        return [target.tile]
    return [THREADS] if count == 1 else list(TILE)


def _following(program: Program, names: Sequence[str], level: str) -> str | None:
    """The name of the loop just inside the level, if all statements have the same one and no reduction runs over it."""
    found = set()
    for name in names:
        statement = program.statements[name]
        depth = statement.depth(_level(program, statement, level)) + 1
        loop = statement.loops[depth] if depth < len(statement.loops) else None
        if loop is None or adds_up(program, statement, loop):
            return None
        found.add(program.loops[loop].name)
    return found.pop() if len(found) == 1 else None


def _innermost(program: Program, statement: Statement, level: str) -> str:
    """The name of the innermost loop, from the level inwards, over which no reduction runs."""
    inside = statement.loops[statement.depth(_level(program, statement, level)) :]
    over_values = [loop for loop in inside if not adds_up(program, statement, loop)]
    return program.loops[(over_values or inside)[-1]].name


def _level(program: Program, statement: Statement, level: str) -> LoopId:
    found = find(program, statement, level)
    assert found is not None
    return found


def _fresh(program: Program, names: Sequence[str], wanted: str) -> str:
    """A name for a new loop around the statements of these names."""
    return free_loop(program, [program.statements[name] for name in names], wanted)
