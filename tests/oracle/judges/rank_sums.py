"""Terms that ranks collect apart, and combine where their loop ends: ``tag_distribute(..., combine=...)``.

Each rank has a partial result of its own, to which its terms go. After the last iteration of the loop all of these
terms are added to the value on every rank along the axis, on ranks without terms, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, product

from tests.oracle.judges.events import Misplaced
from tests.oracle.judges.plain import Point
from tests.oracle.judges.rank_acts import Act
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.combined_reductions import combined_loops
from tiramisu_py.program.statement import Statement

#: Later than every iteration of a loop.
END = 1 << 60


def with_combinations(program: Program, grid: Sequence[int], acts: Iterator[Act]) -> Iterator[Act]:
    """The executions, and after the loop of one whose terms ranks combine, the addition of each term on each rank.

    Raises `Misplaced` where the value is kept in memory of a loop that has ended by then.
    """
    numbers = count()
    loops = {statement.name: combined_loops(program, statement) for statement in program.statements.values()}
    for act in acts:
        if not loops[act.statement]:
            yield act
            continue
        statement = program.statements[act.statement]
        depth = statement.depth(next(iter(loops[act.statement].values())))
        if not _outlives(program, statement, depth):
            raise Misplaced(f"{act} is combined after the loop that {statement.memory.target} is kept in")
        own = f"{statement.memory.target}, collected in loop {depth}"
        yield replace(act, target=(own, (), act.value[1]), collects=True)
        for rank in _line(act.rank, loops[act.statement], grid):
            time = (*act.time[: 2 * depth + 1], END, next(numbers), *(0 for _ in act.time[2 * depth + 3 :]))
            yield replace(act, reads=(), rank=rank, time=time)


def _outlives(program: Program, statement: Statement, depth: int) -> bool:
    """Whether the memory of a value is there after a loop of its update: no loop inside owns it but those of ranks."""
    storage = program.storages[statement.memory.target]
    frame = program.buffers[storage.buffer].scope + storage.inner
    return all(program.loops[loop].is_rank for loop in frame[depth:])


def _line(rank: Point, axes: dict[int, int], grid: Sequence[int]) -> Iterator[Point]:
    """All ranks that differ from one along some axes only."""
    return product(*(range(n) if axis in axes else (rank[axis],) for axis, n in enumerate(grid)))
