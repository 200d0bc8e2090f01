"""The command `partition`: cuts a loop into parts, each for host threads or a GPU, on all or some ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import in_place_of, on_instances
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.targets import Cores, GpuThreads, Partition, Shares, Target, ranks_of
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, find, listed, loop_name, loops_named, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.instances.partition_cuts import parts_of, verify
from tiramisu_py.schedule.instances.partition_targets import dealt_to_ranks, on_target
from tiramisu_py.schedule.instances.target_kinds import checked

#: At which iterations a loop is cut: points, shares, or ranges.
Where = Shares | Sequence[Expr | int] | Sequence[tuple[Expr | int, Expr | int]]
#: The statements to cut, each with its loop of the level's name.
Chosen = list[tuple[Statement, LoopId]]


def partition(
    program: Program, names: Sequence[str], loop: object, where: object, given: object, command: str
) -> Program:
    """Cut statements into parts at a level, each on its target; the record is added to `Program.targets.partitions`."""
    level = loop_name(loop)
    targets = _targets(program, given)
    chosen = _chosen(program, names, level)
    taken = _iterations(program, chosen)
    wanted = parts_of(program, taken, level, where, len(targets))
    verify(program, chosen, taken, wanted)
    program, parts = _cut(program, chosen, wanted.sets)
    chunks: list[str | None] = []
    for k, (part, target) in enumerate(zip(parts, targets, strict=True)):
        over = ranks_of(target)
        if over is not None:
            program = dealt_to_ranks(program, part, level, wanted.span(k, taken), over, command)
        program, chunk = on_target(program, part, level, target, command)
        chunks.append(chunk)
    return program.with_(
        targets=replace(
            program.targets,
            partitions=(
                *program.targets.partitions,
                Partition(
                    chosen[0][0].source,
                    level,
                    wanted.points,
                    tuple(parts),
                    targets,
                    tuple(sets.plain(own.intersect(taken)) for own in wanted.sets),
                    tuple(chunks),
                ),
            ),
        )
    )


# -- what is given


def _targets(program: Program, given: object) -> tuple[Target, ...]:
    targets = listed(given, "the list of targets")
    if not targets:
        raise CommandError("there is no target: give one for each part, [tm.gpu(), tm.cores()]")
    for target in targets:
        if not isinstance(target, Cores | GpuThreads):
            raise CommandError(f"{_word(target)} is not a target: give tm.cores(...) or tm.gpu(...)")
    found = tuple(checked(target) for target in targets if isinstance(target, Cores | GpuThreads))
    without = [target for target in found if target.ranks is None]
    if without and len(without) < len(found):
        raise CommandError(
            f"{without[0]} has no ranks=, but other targets have: give each target ranks=, or none (then every rank "
            "runs all parts of what it has)"
        )
    if not without:
        _check_ranks(program, found)
    return found


def _word(given: object) -> str:
    return f"{given.__name__}, without parentheses," if callable(given) and hasattr(given, "__name__") else repr(given)


def _check_ranks(program: Program, targets: Sequence[Target]) -> None:
    if bounds := told_ranks(program).bounds:
        raise CommandError(
            "ranks= names ranks by their numbers, but blocks have bounds that are known at run time "
            f"({', '.join(bounds)}): leave ranks= out, and partition what each rank has"
        )
    along = program.ranks.grid[0] if program.ranks.grid else None
    number = getattr(along, "value", None)
    for target in targets:
        ranks = ranks_of(target)
        if ranks is not None and number is not None and ranks[-1] >= number:
            raise CommandError(
                f"{target} names rank {ranks[-1]}, but the process grid has ranks 0 to {int(number) - 1}: see grid(...)"
            )


def _chosen(program: Program, names: Sequence[str], level: str) -> Chosen:
    own = statements(program, names)
    found = [(s, find(program, s, level)) for s in own]
    chosen = [(s, loop) for s, loop in found if loop is not None]
    if not chosen:
        loops_named(program, names, level)
    for statement, loop in found:
        if loop is None:
            raise CommandError(_without_level(program, statement, [s for s, _ in chosen], level))
    for statement, loop in chosen:
        _check_level(program, statement, loop, [s.name for s in own])
    return chosen


def _without_level(program: Program, statement: Statement, others: Sequence[Statement], level: str) -> str:
    update = others[0]
    if statement.role is Role.INIT and update.role is Role.UPDATE:
        both = [name for name in program.loop_names(statement) if name in program.loop_names(update)]
        advice = f"{', '.join(both)}" if both else "there is none"
        return (
            f"loop {level} is the one over which {update.source} adds up its terms, and {statement.handle} has no such "
            f"loop: partition a loop of both ({advice}), or the terms alone, {update.handle}.partition({level}, ...)"
        )
    earlier = next((p for p in program.targets.partitions if any(statement.name in part for part in p.parts)), None)
    if earlier is not None:
        return (
            f"{earlier.source} is partitioned already, along {earlier.level}, and {statement.handle} has no loop "
            f"{level} any more: partition one of its parts, or undo() the first partition"
        )
    return f"{nest(program, statement)}, and no loop {level}: partition the others on their own"


def _check_level(program: Program, statement: Statement, loop: LoopId, names: Sequence[str]) -> None:
    found = program.loops[loop]
    if found.tag is not None:
        raise CommandError(
            f"loop {found.name} of {statement.handle} is tagged already, by {found.tagged_by}: partition it first, "
            "and then tag the parts"
        )
    sharing = [s.handle for s in program.with_this_loop(loop) if s.name not in names]
    if sharing:
        raise CommandError(
            f"loop {found.name} of {statement.handle} is shared with {', '.join(sharing)}: partition before fusing them"
        )
    kept = [b.name for b in program.buffers.values() if loop in b.scope]
    kept += [s.name for s in program.storages.values() if loop in s.inner]
    if kept:
        raise CommandError(
            f"{kept[0]} is kept for each iteration of loop {found.name}: partition before the command that keeps it "
            "there"
        )


def _iterations(program: Program, chosen: Chosen) -> isl.Set:
    """All iterations of the level, as a one-dimensional set."""
    parts = list[isl.Set]()
    for statement, loop in chosen:
        within = statement.instances.intersect_params(program.context.params())
        parts.append(within.apply(sets.graph(_coordinate(statement, loop))))
    found = sets.union_of(parts)
    return sets.plain(found)


def _coordinate(statement: Statement, loop: LoopId) -> isl.MultiAff:
    """``instance -> [iteration of a loop]``."""
    return sets.function(statement.frame, None, [sets.outputs(statement.coords)[statement.depth(loop)]])


# -- cutting


def _cut(program: Program, chosen: Chosen, pieces: Sequence[isl.Set]) -> tuple[Program, list[tuple[str, ...]]]:
    """The program with each statement in parts; statements that shared the level share it in each part again."""
    fresh: dict[tuple[LoopId, int], LoopId] = {}
    parts: list[list[str]] = [[] for _ in pieces]
    inside = _orders_inside(program, chosen)
    program = program.with_(orders=tuple(order for order in program.orders if order not in inside))
    for statement, loop in chosen:
        current = program.statements[statement.name]
        made = []
        for k, piece in enumerate(pieces):
            name = f"{statement.name}_{k}"
            check_new_name(program, name, f"part {k} of {statement.handle}")
            program, loops = _loops_of_part(program, current, loop, k, fresh)
            instances = sets.preimage(piece, _coordinate(current, loop)).intersect(current.instances).coalesce()
            made.append(on_instances(current, name, sets.named(instances, name), loops))
            parts[k].append(name)
        program = in_place_of(program, current, made)
    orders = [
        replace(
            o,
            before=f"{o.before}_{k}",
            after=f"{o.after}_{k}",
            level=None if o.level is None else fresh.get((o.level, k), o.level),
        )
        for o in inside
        for k in range(len(pieces))
    ]
    return program.with_(orders=(*program.orders, *orders)), [tuple(part) for part in parts]


def _orders_inside(program: Program, chosen: Chosen) -> list[Order]:
    """The orders between statements that share the level: they hold within each part, not across parts."""
    level = {statement.name: loop for statement, loop in chosen}
    return [o for o in program.orders if o.before in level and level[o.before] == level.get(o.after)]


def _loops_of_part(
    program: Program, statement: Statement, level: LoopId, part: int, fresh: dict[tuple[LoopId, int], LoopId]
) -> tuple[Program, tuple[LoopId, ...]]:
    depth = statement.depth(level)
    loops = list(statement.loops[:depth])
    for old in statement.loops[depth:]:
        if (old, part) not in fresh:
            new = replace(program.loops[old], id=program.next_loop())
            program = program.with_loop(new)
            fresh[old, part] = new.id
        loops.append(fresh[old, part])
    return program, tuple(loops)


# -- the commands as values


@dataclass(frozen=True, eq=False)
class DealOut(OnStatements):
    """Cut the computation into parts at a level, and let each run on a target: threads of the host, or a GPU.

    ::

        for r in 0..R:          -->   kernel on GPU 0:
            for c in 0..C:                r in 0..G, c in 0..C: by_0[r, c]
                by[r, c]              #pragma omp parallel for
                                      for r in G..R:
                                          for c in 0..C: by_1[r, c]    (partition(r, [G], [tm.gpu(), tm.cores()]))

    `where` says which iterations of the level each target gets::

        by.partition(r, [G, H], targets)              points, one fewer than targets: r < G, G <= r < H, H <= r
        by.partition(r, tm.shares(3, 1), targets)     shares of the level, one for each target
        by.partition(r, [(0, G), (G, R)], targets)    ranges from a lower bound up to an upper one, likewise

    Points and bounds are integers or affine in the parameters; a parameter makes a split that is chosen at run
    time, without compiling again. Each iteration belongs to exactly one part, which the command proves; a part may
    be empty. In a program with ranks, a target says on which ranks it runs::

        by.partition(r, [G, H], [tm.gpu(ranks=0), tm.cores(ranks=0), tm.cores(ranks=1)])
        by.partition(r, [G], [tm.gpu(ranks=range(0, 2)), tm.cores(ranks=range(2, 4))])

    Then each part has a loop over its ranks just outside of the level (``r_rank``), tagged as by `tag_distribute`;
    several ranks get consecutive blocks, whose sizes differ by at most one iteration. `Function.derive_transfers`
    adds transfers, waits and messages between the parts. The statements of a reduction are cut alike, at a loop
    that both its start and its update have.

    Returns the parts, in order: ``by_0``, ``by_1``, which can be scheduled further like those of `separate_at`; the
    loops of a part are new, for example ``r_block`` and ``r_thread`` on a GPU (see `gpu`, `cores`).
    `Program.targets.partitions` keeps the record. Raises `CommandError` for a loop that does not exist, is tagged, or
    is shared with other computations, for points, shares or ranges that do not fit the targets, and, with the smallest
    counterexample, for ranges that overlap or leave something out. Source: TIRAMISU, ``separate_at`` and
    ``rank_offset``.
    """

    verb = "partition"
    lists = ("where",)
    former = (("level", "loop"),)

    loop: Iter
    where: Where
    targets: Sequence[Target]

    def applied(self, program: Program) -> Program:
        return partition(program, self.names(program), self.loop, self.where, self.targets, self.text)
