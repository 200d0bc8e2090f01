"""The levels at which a function is partitioned: their parts and cuts, and the part that each statement belongs to.

Stages with the same points share a level.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tiramisu_py import GpuThreads, Partition
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import (
    LoopId,
    Program,
    Rank,
    Statement,
    accesses,
    extent_value,
    params_of,
    part_ranges,
    ranks_of,
)
from tiramisu_py.queries import PartTarget as Target
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.splitting import Division, LevelCut

Params = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Slot:
    """The k-th part of all stages that are cut at the same points; a slot runs on one target.

    `parts` are the names of the parts, stage by stage; `statements` are the names of all statements executed there:
    the parts, and the computations placed at one of their loops.
    """

    parts: tuple[str, ...]
    target: Target
    statements: frozenset[str]

    @property
    def name(self) -> str:
        """The names of its parts."""
        return " + ".join(self.parts)

    @property
    def gpu(self) -> int | None:
        """The number of its GPU; None for threads of the host."""
        return self.target.device if isinstance(self.target, GpuThreads) else None

    @property
    def ranks(self) -> range | None:
        """The ranks among which it is distributed; None if the partition names no ranks."""
        return ranks_of(self.target)

    @property
    def where(self) -> str:
        """Its target, in words: ``gpu 0``, ``cores of rank 1``, ``gpu 0 of ranks 0 to 3``."""
        device = "cores" if self.gpu is None else f"gpu {self.gpu}"
        if self.ranks is None:
            return device
        last = self.ranks[-1]
        return f"{device} of rank {last}" if len(self.ranks) == 1 else f"{device} of ranks {self.ranks[0]} to {last}"


@dataclass(frozen=True, eq=False)
class Level:
    """Stages that are cut at the same points, for the same targets: they share the values of the points.

    The last stage represents them: the cost of all stages is expressed per iteration of its loop.
    """

    stages: tuple[Partition, ...]
    slots: tuple[Slot, ...]

    @property
    def stage(self) -> Partition:
        """The stage whose iterations are counted."""
        return self.stages[-1]

    @property
    def name(self) -> str:
        """The computations that are cut, and the loop."""
        return f"{' + '.join(stage.source for stage in self.stages)} at {self.stage.level}"

    @property
    def chosen(self) -> tuple[str, ...]:
        """The parameters that its points depend on."""
        names = (name for point in self.stage.points for name in sorted(params_of(point)))
        return tuple(dict.fromkeys(names))

    def division(self, known: Params, some: Params) -> Division:
        """The level as cut at `known` sizes; `some` are allowed values of all parameters, which give its bounds."""
        sides = part_ranges(self.stage, some)
        low = min((side[0] for side in sides if side is not None), default=0)
        high = max((side[1] + 1 for side in sides if side is not None), default=low)
        cuts = tuple(self._cut(position, known) for position in range(len(self.stage.points)))
        return Division(low, high, cuts, tuple(_executor(slot, self.slots) for slot in self.slots))

    def _cut(self, position: int, known: Params) -> LevelCut:
        point = self.stage.points[position]
        name = next(iter(params_of(point) - set(known)), None)
        return LevelCut(
            name, lambda value: extent_value(point, dict(known) if name is None else {**known, name: value})
        )


def levels(program: Program, known: Collection[str]) -> tuple[Level, ...]:
    """The levels whose points are to be chosen, given values of the parameters `known`; raises `ArgumentError`."""
    name = program.algorithm.name
    if not program.targets.partitions:
        raise ArgumentError(
            f"{name} has no partition, so that there is nothing to balance: cut a level for several targets first, as "
            "in by.partition(r, [G], [tm.gpu(), tm.cores()])"
        )
    open_: dict[tuple[object, ...], list[Partition]] = {}
    for partition in program.targets.partitions:
        unknown = tuple(tuple(sorted(params_of(point) - set(known))) for point in partition.points)
        for point, names in zip(partition.points, unknown, strict=True):
            if len(names) > 1:
                raise ArgumentError(
                    f"balance cannot choose the point {point} of {partition.source}, which depends on "
                    f"{' and '.join(names)}: let each point depend on one parameter, as in "
                    f"{partition.source}.partition({partition.level}, [G, H], ...)"
                )
        if any(unknown):
            where = tuple((t.device if isinstance(t, GpuThreads) else None, ranks_of(t)) for t in partition.targets)
            open_.setdefault((unknown, where), []).append(partition)
    if not open_:
        raise ArgumentError(_nothing_to_choose(program, known))
    found = tuple(_level(program, tuple(stages)) for stages in open_.values())
    _require_apart(found, known)
    return found


def _nothing_to_choose(program: Program, known: Collection[str]) -> str:
    given = [
        name for p in program.targets.partitions for point in p.points for name in params_of(point) if name in known
    ]
    first = program.targets.partitions[0]
    if given:
        names = ", ".join(dict.fromkeys(given))
        return (
            f"the points of {program.algorithm.name} depend on {names}, given in sizes: leave out the parameters that "
            "balance chooses"
        )
    return (
        f"the points at which {first.source} is cut are constants: make them parameters, "
        f'(G,) = tm.params("G"), params=[..., G] and {first.source}.partition({first.level}, [G], ...), '
        "and balance proposes their values, which are passed at each call"
    )


def _require_apart(found: tuple[Level, ...], known: Collection[str]) -> None:
    seen: dict[str, Level] = {}
    for level in found:
        for name in level.chosen:
            if name in seen and name not in known:
                raise ArgumentError(
                    f"{name} cuts {seen[name].name} and {level.name} differently: stages that share a parameter are "
                    "balanced where all their points and targets are the same"
                )
            seen[name] = level


def _level(program: Program, stages: tuple[Partition, ...]) -> Level:
    named = [
        [name for stage in stages for part in stage.parts[k] for name in _of_part(program, part)]
        for k in range(len(stages[0].targets))
    ]
    slots = []
    for k, target in enumerate(stages[0].targets):
        others = {name for j, names in enumerate(named) if j != k for name in names}
        parts = tuple(stage.parts[k][-1] for stage in stages)
        slots.append(Slot(parts, target, frozenset(_inside(program, named[k], others))))
    return Level(stages, tuple(slots))


def _of_part(program: Program, part: str) -> list[str]:
    """The statements of a part now: itself, or the statements into which it was split."""
    return [s.name for s in program.storing if part == s.name or part in s.origin.part_of]


def _inside(program: Program, names: list[str], others: Collection[str]) -> set[str]:
    """The given statements and those placed at their loops, which share a loop with no `others`."""

    def loops(of: Statement) -> set[LoopId]:
        return {loop for loop in of.loops if not isinstance(program.loops[loop].tag, Rank)}

    statements = program.statements
    shared = {loop for name in others for loop in loops(statements[name])}
    own = {loop for name in names for loop in loops(statements[name])} - shared
    inside = {s.name for s in program.storing if s.name not in others and s.link.transfer is None and own & loops(s)}
    return inside | set(names)


def _executor(slot: Slot, slots: tuple[Slot, ...]) -> tuple[object, ...]:
    """The executor of a slot: slots with the same device on a common rank have the same one."""
    for other in slots:
        apart = slot.ranks is not None and other.ranks is not None and not set(slot.ranks) & set(other.ranks)
        if other.gpu == slot.gpu and not apart:
            return (other.gpu, other.ranks)
    return (slot.gpu, slot.ranks)


def owners(program: Program, levels: Sequence[Level]) -> dict[str, Slot]:
    """The part that each statement belongs to, by name, without statements outside all parts.

    An upload belongs to the first part on its GPU that reads the uploaded values, a download to the first part that
    computes the downloaded values.
    """
    slots = [slot for level in levels for slot in level.slots]
    found = {name: slot for slot in slots for name in slot.statements}
    for statement in program.statements.values():
        if statement.link.transfer is not None:
            served = _served(program, statement, slots)
            if served is not None:
                found[statement.name] = served
    return found


def _served(program: Program, transfer: Statement, slots: Sequence[Slot]) -> Slot | None:
    assert transfer.link.transfer is not None
    ends = (transfer.link.transfer.source, transfer.link.transfer.target)
    near = [slot for slot in slots if slot.gpu is not None and slot.gpu in ends]
    for slot in near:
        statements = [program.statements[name] for name in slot.statements]
        if slot.gpu == ends[1] and any(transfer.source in _read(s) for s in statements):
            return slot
        if slot.gpu == ends[0] and any(transfer.source == s.source for s in statements):
            return slot
    return near[0] if near else None


def _read(statement: Statement) -> set[str]:
    return {access.source for e in (statement.body, *statement.guards) for access in accesses(e)}
