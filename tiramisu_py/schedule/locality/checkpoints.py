"""recompute(every="binomial"): levels of a recurrence computed again by sweeps from a few places (Revolve).

With the tree of `binomial`, whose units are paths (k1, .., kr), the program becomes

    for k1: for t, to the first unit of child k1: u[t % window];   u_kept[k1] = that unit
    for k1 (down):
        for k2 > 0: for t, to the first unit of its child k2: u_between[t % 2];   u_kept[k1 + k2] = that unit
        for k2 (down):
            ..
                what reads u late, the iterations that read the unit of this path, from u_kept[k1 + .. + kr]

All of these are statements of the program, and which levels belong to a path is a condition of their instances: a table
of constants, since no affine form says it. So there is one program for each greatest number of levels; of functions
with fewer ones the last units are missing.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.spellings import fresh_name
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.values_read import needed_values
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_loop, free_name, names_in
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.locality.binomial import BinomialTree, TableRow, as_relation, beyond, binomial_tree
from tiramisu_py.schedule.locality.compute_at import moved_into
from tiramisu_py.schedule.locality.late_reads import LevelReads, LevelWalk, Recurrence
from tiramisu_py.schedule.locality.level_copies import folded, levels_again, levels_copied, with_ring
from tiramisu_py.schedule.locality.segments import SegmentedNests, groups, with_segments


@dataclass(frozen=True)
class Checkpoints:
    """The tree of a recurrence's units, the one group that reads them late, and the buffer of those kept."""

    of: Recurrence
    tree: BinomialTree
    group: SegmentedNests
    kept: str

    def level(self, unit: int) -> int:
        """The first level of a unit."""
        return self.of.base + unit * self.of.depth

    def levels(self, program: Program, rows: list[TableRow], *signs: int) -> isl.Map:
        """``[path] -> [level]``, of all levels of the units of rows."""
        return as_relation(rows, program.context.get_space(), signs, self.of.depth, self.of.base)

    def values(self, program: Program, rows: list[TableRow], *signs: int) -> isl.Map:
        """``[path] -> value``, of all values of the levels of the units of rows."""
        domain = sets.named(program.algorithm.computations[self.of.source].domain, None)
        domain = domain.intersect_params(program.context)
        level = sets.function(domain.get_space(), None, [sets.variables(domain.get_space())[self.of.axis]])
        return self.levels(program, rows, *signs).apply_range(sets.graph(level, domain).reverse())


def checkpoints(program: Program, of: Recurrence, reads: LevelReads, places: int, command: str) -> Program:
    """Keep levels of a recurrence in some places, and compute the others again in the loops that read them late."""
    group = _one_group(program, of, reads)
    tree = binomial_tree(_units(program, of, reads), places - 1)
    if tree.sweeps < 2:
        raise CommandError(
            f"levels={places}: {of.source} has {len(tree.paths) * of.depth} levels, which these places hold, so that "
            f"none is computed again: give fewer, from 2"
        )
    kept = free_name(program, f"{of.source}_kept")
    here = Checkpoints(of, tree, group, kept)
    own = program.buffers[program.storages[of.source].buffer]
    extents = (*own.extents[: of.axis], Const(places * of.depth, int64), *own.extents[of.axis + 1 :])
    program = program.with_buffer(replace(own, name=kept, extents=extents, scope=(), passed=None))
    program, before = _first_sweep(program, here, command)
    program, loops = _path_loops(program, of, group, tree.sweeps)
    within = _late_levels(program, here)

    def placed(statement: Statement, walk: LevelWalk) -> Statement:
        level = sets.plus(sets.scaled(sets.outputs(statement.coords)[statement.depth(walk.loop)], walk.sign), walk.low)
        return _moved(program, statement, loops, within, level)

    program = with_segments(program, group, loops, placed, command)
    for depth in range(1, tree.sweeps):
        program, before = _sweep(program, here, loops[:depth], before, command)
    program, last = _with_place(program, here, loops, (group.sign,) * tree.sweeps)
    orders = [Order(before, late, loops[-2], command) for late in group.late]
    for reader in (program.statements[name] for name in group.late):
        program = program.with_statement(reader.loading(of.source, last))
    return folded(program.with_(orders=(*program.orders, *orders)), of, reads.lag + 1)


def _one_group(program: Program, of: Recurrence, reads: LevelReads) -> SegmentedNests:
    """The nests that read late, which share all loops over nodes; raises `CommandError` where they cannot."""
    if len(of.own) > 1 or program.statements[of.own[0].name].loops[0] != of.level_loop[0]:
        raise CommandError(
            f"{of.source} is computed in parts, or in other loops outside of that over its levels: give "
            "recompute(every='binomial') before the commands that do this"
        )
    found = groups(program, of, reads.late, of.depth)
    names = " and ".join(reads.late)
    if found[0].sign > 0:
        raise CommandError(
            f"{names} reads levels of {of.source} in the order in which they are computed, and a binomial schedule is "
            "for those that are read last one first: give every=20, say"
        )
    if len(found) > 1:
        raise CommandError(
            f"{names} walk through levels of {of.source} one after another, and a binomial schedule has each level "
            "once: give every=20, say"
        )
    wide = next((name for name in found[0].late if found[0].walks[name].spread), None)
    if wide is not None:
        raise CommandError(
            f"the loop of {wide} reads {found[0].walks[wide].spread + 1} levels of {of.source} in one iteration, and a "
            "binomial schedule has one at a time: give every=20, say, whose segments hold several"
        )
    return found[0]


def _units(program: Program, of: Recurrence, reads: LevelReads) -> int:
    """The most units that are read late, each of as many levels as a value reads."""
    late = [
        sets.component(needed_values(program, program.statements[name], of.source), of.axis).range()
        for name in reads.late
    ]
    last = sets.largest_value(sets.union_of(late).intersect_params(program.context), 0)
    if last is None:
        raise CommandError(
            f"every='binomial': nothing says how many levels {of.source} has at most, and its schedule is a table for "
            f'so many: declare the function with a bound, assume="T <= 1000", or give every=(100, 10), which is for '
            "each number of levels"
        )
    return (last - of.base) // of.depth + 1


def _path_loops(
    program: Program, of: Recurrence, group: SegmentedNests, count: int
) -> tuple[Program, tuple[LoopId, ...]]:
    """New loops over children of nodes, outermost first, around what reads late."""
    taken = [*(program.statements[name] for name in group.walks), *of.own]
    fresh: list[LoopId] = []
    for k in range(count):
        program, loop = _new_loop(program, taken, f"{of.iterator}_segment{k + 1 if k else ''}")
        fresh.append(loop)
    return program, tuple(fresh)


def _new_loop(program: Program, taken: list[Statement], wanted: str) -> tuple[Program, LoopId]:
    loop = Loop(program.next_loop(), free_loop(program, taken, wanted))
    return program.with_loop(loop), loop.id


def _moved(
    program: Program, statement: Statement, loops: tuple[LoopId, ...], within: isl.Map, level: isl.Aff
) -> Statement:
    """The statement in outer loops, in the iterations ``x -> [level]`` of `within` that have its level."""
    levels = sets.graph(sets.function(statement.frame, None, [level]), statement.instances)
    return moved_into(program, statement, loops, within.apply_range(levels.reverse()))


def _first_sweep(program: Program, here: Checkpoints, command: str) -> tuple[Program, str]:
    """The program with a loop over the first children outside of that over levels, and with copies of their levels."""
    of, (own,) = here.of, here.of.own
    loop = of.level_loop[0]
    program, outer = _new_loop(program, list(program.with_this_loop(loop)), f"{of.iterator}_part")
    parts = _all_levels(program, here)
    shift = sets.outputs(program.value_of(own))[of.axis].sub(sets.outputs(own.coords)[own.depth(loop)])
    away = sets.constant_of(shift)
    for statement in program.with_this_loop(loop):
        at = sets.plus(sets.outputs(statement.coords)[statement.depth(loop)], away)
        program = program.with_statement(_moved(program, statement, (outer,), parts, at))
    program, place = _with_place(program, here, (outer,), (1,))
    name = free_name(program, place)
    first = here.values(program, here.tree.firsts(1), 1)
    program = levels_copied(program, of, (outer,), first, name, (of.source, place), command)
    return program.with_(orders=(*program.orders, Order(own.name, name, outer, command))), name


def _all_levels(program: Program, here: Checkpoints) -> isl.Map:
    """``[k] -> [level]``: the levels up to the first unit of the first child, of each other one, and all after that."""
    steps = here.tree.steps(0)
    (number,), last, _ = here.tree.nodes(1)[-1]
    ends = ((0,), here.level(1)), ((number + 1,), here.level(last + 1))
    return here.levels(program, steps, 1).union(beyond(*ends, program.context.get_space(), (1,)))


def _late_levels(program: Program, here: Checkpoints) -> isl.Map:
    """``[path] -> [level]``: those of each unit; what is before the first one, or after the last one, joins these."""
    depth, paths = here.tree.sweeps, here.tree.paths
    signs = (here.group.sign,) * depth
    ends = (paths[0], here.level(0)), (paths[-1], here.level(len(paths)))
    return here.levels(program, here.tree.whole(depth), *signs).union(beyond(*ends, program.context.get_space(), signs))


def _sweep(
    program: Program, here: Checkpoints, loops: tuple[LoopId, ...], before: str, command: str
) -> tuple[Program, str]:
    """The program with the sweep of each node that `loops` run through; returns the statement that ends it."""
    of, sign, depth = here.of, here.group.sign, len(loops)
    ring = free_name(program, f"{of.source}_between")
    program = with_ring(program, of, loops, ring)
    program, start_place = _with_place(program, here, loops, (sign,) * depth)
    start = free_name(program, f"{ring}_start")
    starts = here.values(program, here.tree.firsts(depth), *[sign] * depth)
    program = levels_copied(program, of, loops, starts, start, (start_place, ring), command)
    taken = [program.statements[name] for name in here.group.walks]
    program, child = _new_loop(program, taken, f"{of.iterator}_part")
    inner = (*loops, child)
    ends = here.values(program, here.tree.ends(depth), *[sign] * depth, 1)
    ahead = here.values(program, here.tree.steps(depth), *[sign] * depth, 1)
    program, again = levels_again(program, of, inner, ahead.intersect_domain(ends.domain()), ring)
    program, place = _with_place(program, here, inner, (*(sign,) * depth, 1))
    kept = free_name(program, f"{here.kept}_again")
    program = levels_copied(program, of, inner, ends, kept, (ring, place), command)
    orders = [Order(before, start, loops[-2] if depth > 1 else None, command)]
    orders += [Order(start, each, loops[-1], command) for each in again]
    orders += [Order(each, kept, child, command) for each in again]
    return program.with_(orders=(*program.orders, *orders)), kept


def _with_place(
    program: Program, here: Checkpoints, loops: tuple[LoopId, ...], signs: tuple[int, ...]
) -> tuple[Program, str]:
    """The program with a storage in the buffer of kept levels: the place of the unit of an iteration of `loops`."""
    of, storage = here.of, program.storages[here.of.source]
    taken = {*names_in(program), *program.storages}
    name = here.kept if here.kept not in program.storages else fresh_name(here.kept, taken)
    extra, space = len(loops), sets.extended_frame(storage.index.get_space().domain(), len(loops))
    variables = sets.variables(space)
    inner = sets.function(space, None, variables[extra:])
    forms = sets.outputs(sets.compose(inner, storage.index))
    place = sets.modulo(sets.plus(variables[extra + of.axis], -of.base), of.depth)
    for coordinate, sign in zip(variables, signs, strict=False):
        place = place.add(sets.scaled(coordinate, sign * of.depth))
    forms[of.axis] = place
    return program.with_storage(
        Storage(name, of.source, here.kept, sets.function(space, None, forms), inner=loops)
    ), name
