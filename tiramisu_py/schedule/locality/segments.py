"""A loop over segments of a recurrence's levels, around the loops that walk through these levels.

A loop whose coordinate c stands for the levels ``sign * c + low`` and on is cut where a new segment of levels begins;
the number of the segment, negative where c runs down through the levels, is an outermost loop that all of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.values_read import needed_values
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.locality.late_reads import LevelWalk, Recurrence


@dataclass(frozen=True)
class SegmentedNests:
    """Nests that share a loop over segments: the walk of each statement in them, and which of these read late."""

    walks: Mapping[str, LevelWalk]
    late: tuple[str, ...]

    @property
    def sign(self) -> int:
        """Whether the segments come in the order of the levels (1), or of descending levels (-1)."""
        return next(iter(self.walks.values())).sign

    @property
    def loop(self) -> LoopId | None:
        """The innermost loop over segments that some nests are in already, by this command on another recurrence."""
        return next((walk.loop for walk in self.walks.values() if walk.step > 1), None)


def groups(program: Program, of: Recurrence, late: Mapping[str, LevelWalk], every: int) -> list[SegmentedNests]:
    """The nests of late readers, in order; those that can share a loop over segments are one group."""
    nests = dict[LoopId, SegmentedNests]()
    for name in sorted(late, key=lambda name: program.positions[name]):
        outermost = late[name].loop if late[name].step > 1 else program.statements[name].loops[0]
        if outermost not in nests:
            nests[outermost] = _nest(program, outermost, late)
    found: list[SegmentedNests] = []
    for one in nests.values():
        if found and _fits(program, of, found[-1], one, every):
            found[-1] = SegmentedNests({**found[-1].walks, **one.walks}, (*found[-1].late, *one.late))
        else:
            found.append(one)
    return found


def _nest(program: Program, outermost: LoopId, late: Mapping[str, LevelWalk]) -> SegmentedNests:
    """The statements inside an outermost loop, or one over segments: the loop of each through levels, and which."""
    inside = program.with_this_loop(outermost)
    own = {s.name: late[s.name] for s in inside if s.name in late}
    lows = {walk.loop: min(each.low for each in own.values() if each.loop == walk.loop) for walk in own.values()}
    highs = {walk.loop: max(each.high for each in own.values() if each.loop == walk.loop) for walk in own.values()}
    steps = {walk.loop: walk.step for walk in own.values()}
    signs = {(walk.loop, walk.sign) for walk in own.values()}
    if len({sign for _, sign in signs}) > 1:
        raise CommandError(
            f"{' and '.join(own)} share loop {program.loops[outermost].name}, and walk through levels in opposite "
            "directions: give them loops of their own"
        )
    walks = dict[str, LevelWalk]()
    for statement in inside:
        loop = next((loop for loop in statement.loops if loop in lows), None)
        if loop is None:
            raise CommandError(
                f"{statement.handle} shares loop {program.loops[outermost].name} with {next(iter(own))}, but not the "
                f"loop that walks through levels ({nest(program, statement)}): put that outermost, or part the two; "
                "recurrences that the same loops read late are computed again in the same segments, every= alike"
            )
        walks[statement.name] = LevelWalk(loop, next(iter(signs))[1], lows[loop], highs[loop], steps[loop])
    return SegmentedNests(walks, tuple(own))


def _fits(program: Program, of: Recurrence, first: SegmentedNests, second: SegmentedNests, every: int) -> bool:
    """Whether segments of two nests can take turns: no value is read before its segment, or made between the two."""
    if first.sign != second.sign or (first.loop is not None and second.loop is not None):
        return False
    _, following = _between(program, first.walks, second.walks)
    made = {program.statements[name].memory.target for name in following}
    if any(made & program.statements[name].loads for name in second.walks):
        return False
    for name, walk in second.walks.items():
        reader = program.statements[name]
        for made_by, its in first.walks.items():
            maker = program.statements[made_by]
            if maker.source not in reader.loads and maker.source != reader.source:
                continue
            if not _in_turn(program, of, (maker, its), (reader, walk), every):
                return False
    return True


def _between(program: Program, first: Iterable[str], second: Iterable[str]) -> tuple[list[str], list[str]]:
    """The statements in nests between two sets of nests: those that need nothing of the first, and the others."""
    at = program.positions
    low, high = min(at[name][0] for name in first), max(at[name][0] for name in second)
    inside = [(at[s.name], s.name) for s in program.statements.values() if low < at[s.name][0] < high]
    inside = [each for each in inside if each[1] not in first]
    needed = set[str]()
    preceding, following = list[str](), list[str]()
    for _, name in sorted([*inside, *((at[name], name) for name in first)]):
        statement = program.statements[name]
        if name in first:
            needed.add(statement.memory.target)
        elif name in second:
            continue
        elif needed & {*statement.loads, statement.memory.target}:
            following.append(name)
            needed.add(statement.memory.target)
        else:
            preceding.append(name)
    return preceding, following


def _in_turn(
    program: Program,
    of: Recurrence,
    maker: tuple[Statement, LevelWalk],
    reader: tuple[Statement, LevelWalk],
    every: int,
) -> bool:
    """Whether each value is read in its maker's segment, or a later one."""
    making, reading = (_segment(one, walk, of, every) for one, walk in (maker, reader))
    if maker[0].source == reader[0].source:
        read = sets.graph(program.value_of(reader[0]), reader[0].instances)
    else:
        read = needed_values(program, reader[0], maker[0].source)
    made = sets.graph(program.value_of(maker[0]), maker[0].instances)
    pairs = sets.range_named(read, None).apply_range(sets.range_named(made, None).reverse())
    turns = reading.reverse().apply_range(pairs).apply_range(making)
    return bool(sets.less_at(turns, 0).is_empty())


def _segment(statement: Statement, walk: LevelWalk, of: Recurrence, every: int) -> isl.Map:
    form = walk.segment(statement, of.base, every)
    return sets.graph(sets.function(statement.frame, None, [form]), statement.instances)


def with_segments(
    program: Program,
    group: SegmentedNests,
    loops: tuple[LoopId, ...],
    placed: Callable[[Statement, LevelWalk], Statement],
    command: str,
) -> Program:
    """The program with loops over segments outside of all loops of a group's statements, where `placed` puts each."""
    walks = {name: walk for name, walk in group.walks.items() if walk.step == 1}
    moved = {program.statements[name].loops[0] for name in walks}
    preceding, following = _between(program, group.walks, group.walks)
    for name, walk in walks.items():
        program = program.with_statement(placed(program.statements[name], walk))
    first = next(iter(group.walks))
    orders = [Order(name, first, None, command) for name in preceding]
    orders += [Order(first, name, None, command) for name in following]
    own = {name: program.statements[name].loops[len(loops)] for name in walks}
    parts = [(a, b) for a, b in pairwise(walks) if own[a] != own[b]]
    parts += [pair for name in walks for other in group.walks for pair in _in_order(program, name, other, walks)]
    orders += [Order(a, b, loops[-1], command) for a, b in parts]
    return _scopes(program.with_(orders=(*program.orders, *orders)), moved, loops)


def _in_order(program: Program, name: str, other: str, walks: Mapping[str, LevelWalk]) -> Iterable[tuple[str, str]]:
    """The order of a statement that comes into a loop over segments, and one that has been there."""
    new, old = program.statements[name], program.statements[other]
    if other in walks:
        return []
    if new.memory.target in old.loads:
        return [(name, other)]
    return [(other, name)] if old.memory.target in new.loads else []


def _scopes(program: Program, moved: set[LoopId], loops: tuple[LoopId, ...]) -> Program:
    """The program in which buffers that are local to iterations of moved loops have the loops over segments, too."""
    for storage in list(program.storages.values()):
        buffer = program.buffers[storage.buffer]
        if not moved.intersection(program.frame(storage)[:1]):
            continue
        space = sets.sized_frame(storage.index.get_space(), None, sets.in_size(storage.index) + len(loops))
        rest = sets.function(space, None, sets.variables(space)[len(loops) :])
        index = sets.compose(rest, storage.index)
        if buffer.scope:
            program = program.with_storage(replace(storage, index=index))
        else:
            program = program.with_storage(replace(storage, index=index, inner=(*loops, *storage.inner)))
    for buffer in list(program.buffers.values()):
        if moved.intersection(buffer.scope[:1]):
            program = program.with_buffer(replace(buffer, scope=(*loops, *buffer.scope)))
    return program
