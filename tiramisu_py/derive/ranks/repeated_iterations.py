"""Groups of iterations of a loop: the values that ranks read and other ranks compute in the same group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import axes, depth_of
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass

#: ``instance -> coordinates of the ranks`` that execute it, by statement.
Ranks = dict[str, isl.Map]


@dataclass(frozen=True, eq=False)
class Repeated:
    """The statements inside a loop that compute values on ranks; iterations are grouped by ``t // count``.

    `own` gives the ranks that execute each of them originally.
    """

    program: Program
    loop: LoopId
    count: int
    inside: dict[str, Statement]
    own: Ranks
    _pairs: dict[tuple[str, str], isl.Map | None] = field(default_factory=dict)

    def pairs(self) -> Iterator[tuple[Statement, Statement]]:
        """The pairs of a reader and a writer."""
        for reader in self.inside.values():
            for writer in self.inside.values():
                if self._together(reader, writer) is not None:
                    yield reader, writer

    def needed(self, reader: Statement, writer: Statement, ranks: isl.Map) -> isl.Map | None:
        """``value -> rank``: values that the writer computes and the ranks executing the reader read, in one group."""
        together = self._together(reader, writer)
        if together is None:
            return None
        return together.reverse().apply_range(ranks).apply_domain(values_of(self.program, writer)).coalesce()

    def having(self, writer: Statement, ranks: isl.Map) -> isl.Map:
        """``value -> rank`` that computes it."""
        return values_of(self.program, writer).reverse().apply_range(ranks)

    def computing(self, writer: Statement, needed: isl.Map) -> isl.Map:
        """``instance -> rank`` that is to execute it too."""
        values = values_of(self.program, writer)
        if not values.is_injective():
            raise CommandError(
                f"{writer.name} is computed on several ranks already, for other iterations: undo that before asking "
                "for another depth"
            )
        return values.apply_range(needed)

    def is_enough(self, ranks: Ranks) -> bool:
        """Whether ranks compute all values that they read in the same group."""
        for reader, writer in self.pairs():
            needed = self.needed(reader, writer, ranks[reader.name])
            if needed is not None and not needed.is_subset(self.having(writer, ranks[writer.name])):
                return False
        return True

    def iteration(self, statement: Statement) -> isl.Aff:
        """The iteration of the loop that an instance is in."""
        return sets.outputs(statement.coords)[statement.depth(self.loop)]

    def _together(self, reader: Statement, writer: Statement) -> isl.Map | None:
        """``instance that reads -> instance that computes``, in the same group."""
        key = reader.name, writer.name
        if key not in self._pairs:
            self._pairs[key] = self._found(reader, writer)
        return self._pairs[key]

    def _found(self, reader: Statement, writer: Statement) -> isl.Map | None:
        program, accesses = self.program, MemoryAccesses(self.program)
        read = accesses.read_relation(reader, writer.source) if writer.source in accesses.sources(reader) else None
        if read is None or program.storage_for(reader, writer.source).name != writer.memory.target:
            return None
        pairs = sets.range_named(read, writer.source).apply_range(values_of(program, writer).reverse())
        numbers = [self._number(statement) for statement in (reader, writer)]
        return pairs.intersect(numbers[0].apply_range(numbers[1].reverse())).coalesce()

    def _number(self, statement: Statement) -> isl.Map:
        """``instance -> number`` of its group."""
        form = sets.floor_div(self.iteration(statement), self.count)
        return sets.graph(sets.function(statement.frame, None, [form]), statement.instances)


def repeated(program: Program, loop: LoopId, count: int) -> Repeated:
    """The iterations of a loop, in groups of `count`."""
    inside = {statement.name: statement for statement in on_ranks(program, loop)}
    return Repeated(program, loop, count, inside, {name: ranks_of(program, s) for name, s in inside.items()})


def on_ranks(program: Program, loop: LoopId) -> list[Statement]:
    """The statements inside a loop that compute values, each on ranks along all axes of the grid."""
    found = []
    for statement in program.with_this_loop(loop):
        on_all = all(depth_of(program, statement, axis) is not None for axis in range(axes(program)))
        if statement.role is Role.VALUE and on_all and axes(program):
            found.append(statement)
    return found


def rank_depths(program: Program, statement: Statement) -> list[int]:
    """The depths of a statement's loops over ranks, by axis."""
    found = [depth_of(program, statement, axis) for axis in range(axes(program))]
    return [depth for depth in found if depth is not None]


def ranks_of(program: Program, statement: Statement) -> isl.Map:
    """``instance -> coordinates of the rank`` that executes it."""
    forms = sets.outputs(statement.coords)
    mine = [forms[depth] for depth in rank_depths(program, statement)]
    instances = statement.instances.intersect_params(program.context.params())
    return sets.graph(sets.function(statement.frame, None, mine), instances)


def values_of(program: Program, statement: Statement) -> isl.Map:
    """``instance -> value`` that it computes."""
    return sets.graph(sets.renamed(program.value_of(statement), statement.source), statement.instances)
