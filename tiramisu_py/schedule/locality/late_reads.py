"""Reads of a recurrence's levels: soon after they are computed, or late, by loops that walk through all of them again.

A *level* is one index of the recurrence, that along which it recurs. A statement outside of the recurrence's nest reads
early if all the levels that it reads are among the last few, and so does one that shares the loop over the levels and
reads the last few of each iteration. Of each other statement, a loop with the coordinate c says which levels it reads:
``sign * c + low`` to ``sign * c + high``.
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.dependence.values_read import needed_values
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.locality.compute_at import reads


@dataclass(frozen=True)
class Recurrence:
    """A computation along its index `axis`, by the statements `own`: each value reads up to `depth` levels before.

    `level_loop` is the loop of each statement over the levels. Levels begin at `base`.
    """

    source: str
    iterator: str
    axis: int
    own: tuple[Statement, ...]
    depth: int
    level_loop: tuple[LoopId, ...]
    base: int


@dataclass(frozen=True)
class LevelWalk:
    """A loop in which levels are read late: ``sign * step * c + low`` to ``.. + high`` where its coordinate is c.

    A `step` of more than 1 is that of a loop over segments, which is there already.
    """

    loop: LoopId
    sign: int
    low: int
    high: int
    step: int = 1

    @property
    def spread(self) -> int:
        """How many levels an iteration may read beside the first one."""
        return self.high - self.low

    def segment(self, statement: Statement, base: int, every: int) -> isl.Aff:
        """The coordinate of an instance's segment: the number of its `every` levels, negative where c runs down."""
        c = sets.outputs(statement.coords)[statement.depth(self.loop)]
        levels = sets.plus(sets.scaled(c, self.sign * self.step), self.low - base)
        return sets.scaled(sets.floor_div(levels, every), self.sign)


@dataclass(frozen=True)
class LevelReads:
    """The readers of a recurrence: `lag` is how far back early ones read; each late one has its walk, by its name."""

    lag: int
    late: dict[str, LevelWalk]


def recurrence(program: Program, own: Sequence[Statement], source: str, iterator: str) -> Recurrence:
    """A computation as a recurrence along one of its indices; raises `CommandError` for what is none."""
    declared = program.algorithm.computations[source]
    _check_plain(program, own, declared, iterator)
    if iterator not in declared.iterators:
        raise CommandError(f"{iterator} is not an index of {source}: choose one of {', '.join(declared.iterators)}")
    axis = declared.iterators.index(iterator)
    depths = [_depth(program, statement, source, axis) for statement in own]
    distances = [each for each in depths if each is not None]
    if not distances:
        raise CommandError(
            f"{source} is no recurrence along {iterator}: no value reads another level of {source}; values that are "
            f"cheap to make again are computed where they are read, by {source}.compute_at(...) or {source}.inline()"
        )
    low, high = min(first for first, _ in distances), max(last for _, last in distances)
    if low < 1:
        raise CommandError(
            f"{source} does not recur along {iterator} alone: a value reads level {iterator}"
            f"{f' + {-low}' if low < 0 else ''}; recompute needs values that read earlier levels only"
        )
    first = sets.smallest_value(sets.component_of(declared.domain, axis), 0)
    if first is None:
        raise CommandError(f"the first level of {source} along {iterator} is no constant: let it begin with 0")
    loops = tuple(_level_loop(program, statement, iterator, axis) for statement in own)
    return Recurrence(source, iterator, axis, tuple(own), high, loops, first)


def _check_plain(program: Program, own: Sequence[Statement], declared: Computation, iterator: str) -> None:
    """Refuse what is not computed by values of its own, in memory of its own."""
    source = declared.name
    if declared.is_reduction or any(statement.role is not Role.VALUE or statement.is_call for statement in own):
        raise CommandError(f"{source} is a reduction, or computed by calls: recompute is for recurrences of values")
    if declared.guards:
        raise CommandError(f"{source} has bounds or conditions that are values: its levels cannot be computed again")
    if declared.group:
        others = ", ".join(each.name for each in program.algorithm.together(declared.group) if each.name != source)
        raise CommandError(
            f"{source} is computed together with {others}, which its levels need, and recompute is for one recurrence: "
            f"declare them as one of several values, f.computation({source!r}, ..., lambda {source}: (..., ...)), or "
            f"put its levels in a file, {source}.offload({iterator}), which takes each by itself"
        )
    if any(statement.memory.target != source for statement in own):
        raise CommandError(f"{source} is kept in several places already: give recompute first")
    buffer = program.buffers[program.storages[source].buffer]
    if buffer.argument:
        raise CommandError(
            f"{source} is in the caller's array {buffer.name}, which keeps all its levels: recompute is for values "
            "that the function does not return"
        )
    if len(list(program.storages_in(buffer.name))) > 1:
        raise CommandError(f"buffer {buffer.name} is shared by several computations: recompute needs one of its own")


def _depth(program: Program, statement: Statement, source: str, axis: int) -> tuple[int, int] | None:
    """The least and the largest distance of the levels that a value reads; None if it reads none."""
    read = sets.component(needed_values(program, statement, source), axis)
    if read.is_empty():
        return None
    level = sets.outputs(program.value_of(statement))[axis]
    span = sets.span_above(read, level)
    if span is None:
        raise CommandError(
            f"{source} reads levels of its own that are not a constant number of levels before: recompute needs "
            "distances that are constants"
        )
    return -span[1], -span[0]


def _level_loop(program: Program, statement: Statement, iterator: str, axis: int) -> LoopId:
    level = sets.outputs(program.value_of(statement))[axis]
    for loop, coordinate in zip(statement.loops, sets.outputs(statement.coords), strict=True):
        if sets.is_constant(level.sub(coordinate)):
            return loop
    raise CommandError(
        f"no loop of {statement.handle} runs through its levels {iterator}, one after another "
        f"({nest(program, statement)}): give recompute before the commands that tile, skew or reverse it"
    )


def all_reads(program: Program, of: Recurrence, widths: tuple[int, ...]) -> LevelReads:
    """How each statement reads the levels of a recurrence; raises `CommandError` for one that walks in no loop."""
    levels = sets.component_of(sets.named(program.algorithm.computations[of.source].domain, None), of.axis)
    last = sets.largest(levels.intersect_params(program.context), 0)
    mine = {statement.name for statement in of.own}
    has_end = sets.greatest(last) is not None  # so that each reader is a constant number of levels behind
    lag, late = of.depth, dict[str, LevelWalk]()
    for reader in program.acting:
        if reader.name in mine or not reads(reader, of.source):
            continue
        read = sets.component(needed_values(program, reader, of.source), of.axis)
        shared = next((loop for loop in of.level_loop if loop in reader.loops), None)
        behind = _behind(reader, read, last, shared, of)
        if behind is not None and not (has_end and shared is None and _reads_late(reader, read, behind, lag)):
            lag = max(lag, behind)
        elif shared is not None:
            raise CommandError(
                f"{reader.handle} shares the loop over {of.iterator} with {of.source}, and reads levels far from the "
                "one that is computed: nothing can be left out; give it loops of its own"
            )
        else:
            late[reader.name] = _walk(program, reader, read, of, widths)
    return LevelReads(lag, late)


def _behind(reader: Statement, read: isl.Map, last: isl.PwAff, shared: LoopId | None, of: Recurrence) -> int | None:
    """How many levels back from the last one that is computed an early reader reads; None if it is no early one."""
    if read.is_empty():
        return 0
    if shared is not None:
        own = next(s for s, loop in zip(of.own, of.level_loop, strict=True) if loop == shared)
        level = sets.outputs(own.point)[of.axis].sub(sets.outputs(own.coords)[own.depth(shared)])
        span = sets.span_above(read, sets.outputs(reader.coords)[reader.depth(shared)])
        ahead = sets.number(level.get_constant_val())
        return None if span is None else max(0, ahead - span[0])
    first = sets.smallest_coordinate(read.range(), 0)
    return sets.greatest(last.sub(first))


def _walk(program: Program, reader: Statement, read: isl.Map, of: Recurrence, widths: tuple[int, ...]) -> LevelWalk:
    """The loop that walks through the levels: over segments of as many, if there are such loops outermost."""
    outermost = sets.outputs(reader.coords)[: len(widths)]
    for sign in (-1, 1) if widths and len(outermost) == len(widths) else ():
        spans = [
            sets.span_above(read, sets.scaled(c, sign * every)) for c, every in zip(outermost, widths, strict=True)
        ]
        inner = spans[-1]
        if inner is not None and None not in spans and inner[0] >= of.base:
            return LevelWalk(reader.loops[len(widths) - 1], sign, *inner, widths[-1])
    found = _walks(reader, read)
    if found is not None:
        return found
    raise CommandError(
        f"{reader.handle} reads levels of {of.source} that no loop of it walks through ({nest(program, reader)}): "
        "each iteration of a loop is to read a constant number of levels, at constant distances from its index: give "
        "it the level that it reads as an index, and reverse(...) that loop where the last level comes first; what "
        "reads single levels, such as the last one, is a computation of its own"
    )


def _reads_late(reader: Statement, read: isl.Map, behind: int, lag: int) -> bool:
    """Whether a reader that is a constant number of levels behind walks through them, where few would not be kept."""
    walk = _walks(reader, read)
    return behind > lag and walk is not None and walk.spread < behind


def _walks(reader: Statement, read: isl.Map) -> LevelWalk | None:
    """The loop of a reader whose iterations read the fewest levels each, as far as constants say how many."""
    found: list[LevelWalk] = []
    for loop, coordinate in zip(reader.loops, sets.outputs(reader.coords), strict=True):
        for sign in (-1, 1):
            span = sets.span_above(read, sets.scaled(coordinate, sign))
            if span is not None:
                found.append(LevelWalk(loop, sign, *span))
    return min(found, key=lambda walk: walk.spread, default=None)
