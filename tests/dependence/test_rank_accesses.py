"""Accesses of programs on ranks: each rank has its own memory, and its own time."""

from __future__ import annotations

from tests.programs.ranks.stories import blur, q, waited
from tiramisu_py import sets
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.happens_before import Happens
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import local_time, spread
from tiramisu_py.program.storage import Home


def spread_blur() -> Program:
    """The blur, each instance with its rank."""
    return spread(blur().f.program)


def test_a_place_begins_with_the_rank() -> None:
    program = spread_blur()
    write = MemoryAccesses(program).write(program.statements["bx"])
    assert write is not None and write.ranks == 1
    assert sets.out_size(write.places) == 3
    assert sets.points(sets.fixed(write.domain.apply(write.on_ranks), {"C": 1})) == [(0,), (1,), (2,), (3,)]


def test_the_callers_array_is_where_the_distribution_says() -> None:
    accesses = MemoryAccesses(spread_blur())
    entry = accesses.writers(Home("image", None))[0]
    ranks = sets.points(sets.fixed(entry.domain.apply(entry.places), {"C": 1}))
    assert len(ranks) == 4 * 25 * 3
    assert all(row // 25 == rank for rank, row, _ in ranks)


def test_time_is_without_ranks_and_ties_go_to_the_first() -> None:
    program = spread_blur()
    statement = program.statements["by"]
    assert program.loops[statement.loops[0]].name == q.name
    time = local_time(program, statement)
    found = sets.points(sets.fixed(statement.instances.apply(sets.graph(time)), {"C": 1}))
    assert found[:3] == [(0, 0, 1), (0, 0, 2), (0, 0, 3)]  # row 0 of rank 0 has no value


def test_asynchronous_messages_go_on_until_a_wait_on_their_rank() -> None:
    s = waited()
    happens = Happens(spread(s.f.program))
    assert [half.name for half in happens.messages] == ["down_send", "down_receive", "up_send", "up_receive"]
    assert all(happens.unfinished(half).is_empty() for half in happens.messages)
    s.f.remove(s.waits[0])
    happens = Happens(spread(s.f.program))
    open_ = [half.name for half in happens.messages if not happens.unfinished(half).is_empty()]
    assert open_ == ["down_send"]
