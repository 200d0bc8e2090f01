"""Copies between the caller's arrays and those that ranks work in: the theorem of one rank, with and without them.

They are made when a program is cut down to one rank, after the proof. So what the proof says of a program is asked
again of one rank's part here, in which the caller's arrays hold this rank's elements alone: every read sees the value
it names, the caller's at the end too, and nothing is touched outside of an array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import islpy as isl
import pytest

import tiramisu_py as tm
from tests.lower.ranks.test_ranks import doubled, neighbours
from tests.programs.ranks.distributed import NONBLOCKING, exchanged
from tests.programs.ranks.sums import on_a_grid, shared_value
from tiramisu_py import sets
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.lower.ranks import block_copies as blocks
from tiramisu_py.lower.ranks.block_copies import Arrays
from tiramisu_py.lower.ranks.combining_code import collected
from tiramisu_py.lower.ranks.one_rank import on_one_rank
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.memory.places import extent_box, outside


class Held(MemoryAccesses):
    """The reads and writes of one rank, whose caller has the elements that the rank holds, and no others."""

    def __init__(self, program: Program, arrays: Arrays) -> None:
        super().__init__(program)
        self.arrays = arrays

    def _held(self, source: str) -> isl.Set:
        values = super()._held(source)
        storage = self.arrays.whole.program.storages[source]
        holding = self.arrays.holdings.get(storage.buffer)
        if holding is None:
            return values
        mine = sets.named(holding.elements(), None).apply(sets.graph(storage.index).reverse())
        return values.intersect(sets.named(mine, source))


def wrong(f: tm.Function) -> set[str]:
    """Who, on one rank, reads something else than what it names, or touches what is not there."""
    whole = on_one_rank(collected(f.completed).program)
    arrays = Arrays(whole, MemoryAccesses(whole.program))
    program = arrays.in_blocks().program
    flow = Flow(Held(program, arrays))
    accesses = [access for buffer in arrays.holdings for access in flow.accesses.of_buffer(buffer)]
    accesses += [t for name in program.buffers if name.endswith("_local") for t in flow.accesses.of_buffer(name)]
    found = {f"{t.actor.name} reads {t.source}" for t in accesses if not t.is_write and not flow.unserved(t).is_empty()}
    cut = [t for t in accesses if t.actor.statement is not None]
    return found | {
        f"{t.actor.name} is outside of {t.buffer.name}"
        for t in cut
        if not outside(t, extent_box(program, t.buffer)).is_empty()
    }


STORIES: dict[str, Callable[[], tm.Function]] = {
    "nothing received": lambda: doubled(tm.iters("r")[0] // 5),
    "rows received": neighbours,
    "rows received, in place": lambda: neighbours(in_place=True),
    "an exchange beside work": lambda: exchanged(**NONBLOCKING),
    "sums on a grid": lambda: on_a_grid()[0],
    "a sum for all": lambda: shared_value()[0],
}


@pytest.mark.parametrize("name", STORIES)
def test_on_one_rank_every_read_sees_its_value(name: str) -> None:
    f = STORIES[name]()
    assert f.check().ok and wrong(f) == set()


def nothing(_: Any, *__: Any) -> None:
    return None


def without_first_row(made: Callable[[Any], Statement | None]) -> Callable[[Any], Statement | None]:
    """A copy that leaves the first row of what it copies out."""

    def change(self: Any) -> Statement | None:
        statement = made(self)
        assert statement is not None
        rows = sets.graph(
            sets.function(statement.frame, None, sets.variables(statement.frame)[:1]), statement.instances
        )
        first = rows.range().lexmin()
        return replace(statement, instances=statement.instances.subtract(rows.intersect_range(first).domain()))

    return change


#: What is made wrong with the copies, and who then does not see its value.
MUTATIONS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "no entry": ("_entry", lambda made: nothing, "b reads a"),
    "no exit": ("_exit", lambda made: nothing, "the caller reads b"),
    "an entry without its first row": ("_entry", without_first_row, "b reads a"),
    "an exit without its first row": ("_exit", without_first_row, "the caller reads b"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_copy_that_is_wrong_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, change, words = MUTATIONS[name]
    f = neighbours(in_place=True)
    assert f.check().ok and wrong(f) == set()
    monkeypatch.setattr(blocks._Elsewhere, method, change(getattr(blocks._Elsewhere, method)))
    assert words in wrong(f)


def test_an_input_in_which_a_message_stores_is_copied() -> None:
    """Of what is there already, too: the caller's input may be read-only (scripts/fuzz, patterns 133022848)."""
    N, (i, j, d, q) = tm.params("N")[0], tm.iters("i j d q")
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int64, [4, N])
    s = f.computation("s", {q: 4, j: N}, 2 * a[q, j])
    f.outputs(s)
    s.tag_distribute(q)
    s.distribute_array([i, j], rank=i)
    sent, received = {q: 1, d: (1, 4), i: (d, d + 1), j: N}, {q: (1, 4), i: (q, q + 1), j: N}
    m = f.create_exchange(a[i, j], send=sent, to=d, recv=received, source=0)
    f.order(m.send, m.recv, s, at=tm.root)
    assert f.check().ok and wrong(f) == set()
    whole = on_one_rank(collected(f.completed).program)
    program = Arrays(whole, MemoryAccesses(whole.program)).in_blocks().program
    accesses = MemoryAccesses(program).of_buffer("a")
    assert not any(access.is_write and access.actor.statement is not None for access in accesses)
