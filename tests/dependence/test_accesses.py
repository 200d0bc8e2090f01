"""Reads and writes with their places, and their order, against plain enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as pairs_of

import islpy as isl
import pytest

from tests.programs.drafts import Draft
from tests.programs.stories import (
    M,
    N,
    Stages,
    blur,
    c,
    c0,
    c1,
    heat,
    i,
    i0,
    i1,
    j,
    k,
    product,
    r,
    r0,
    r1,
    root,
    seidel,
    stages,
    t,
    t0,
    t1,
)  # fmt: skip
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import select
from tiramisu_py.algorithm.types import float32, int64
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.precedence import Precedence
from tiramisu_py.program.storage import Home
from tiramisu_py.sets import smallest

SIZES = {"N": 4, "M": 3, "K": 2, "R": 3, "C": 2, "T": 2}


def at(draft: Draft, of: isl.Set) -> list[tuple[int, ...]]:
    """The elements of a set at the sizes of these tests."""
    return sets.points(sets.fixed(of, {name: SIZES[name] for name in draft.algorithm.params}))


def relation(draft: Draft, of: isl.Map) -> set[tuple[int, ...]]:
    return set(at(draft, sets.flat_pairs(of, "pairs")))


# -- what is accessed


def test_a_stencil_reads_a_window_of_values() -> None:
    story = stages()
    accesses = MemoryAccesses(story.draft.program)
    q = story.draft.program.statements["q"]
    found = accesses.read_relation(q, "p")
    assert found is not None
    assert relation(story.draft, found) == {(x, x + d) for x in range(4) for d in (0, 1)}


def test_a_lazy_select_reads_only_the_branch_that_is_taken() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N])
    f.computation("b", {i: N}, select(i >= 2, a[i - 2], a[0]))
    found = MemoryAccesses(f.program).read_relation(f.program.statements["b"], "a")
    assert found is not None
    assert relation(f, found) == {(x, x - 2 if x >= 2 else 0) for x in range(4)}


def test_an_index_that_is_a_value_reads_all_that_it_may_be() -> None:
    f = Draft("f", "N M", N >= 1)
    x = f.input("x", float32, [M])
    col = f.input("col", int64, [N], values=(1, M))
    f.computation("y", {i: N}, x[col[i]])
    found = MemoryAccesses(f.program).read_relation(f.program.statements["y"], "x")
    assert found is not None
    assert relation(f, found) == {(n, m) for n in range(4) for m in range(1, 3)}


def test_the_place_of_a_folded_value_is_its_element() -> None:
    story = stages()
    story.p.store_in([i % 2])
    accesses = MemoryAccesses(story.draft.program)
    write = accesses.write(story.draft.program.statements["p"])
    assert write is not None
    assert relation(story.draft, write.places) == {(x, x % 2) for x in range(5)}


def test_the_place_in_a_local_buffer_has_the_iteration_that_owns_it() -> None:
    story = blur()
    story.q.split(r, 2, r0, r1)
    story.p.compute_at(story.q, r0)
    accesses = MemoryAccesses(story.draft.program)
    read = accesses.read(story.draft.program.statements["by"], "bx")
    assert read is not None
    for row, column, _, read_column, owner, *element in relation(story.draft, read.places):
        assert owner == row // 2 and element[1] == column == read_column


def test_the_caller_writes_inputs_and_reads_outputs_and_inputs_back() -> None:
    story = stages()
    accesses = MemoryAccesses(story.draft.program)
    assert [w.actor.name for w in accesses.writers(Home("a", None))] == ["the caller"]
    assert [x.actor.name for x in accesses.readers(Home("a", None))] == ["p", "the caller"]
    assert [x.actor.name for x in accesses.readers(Home("q", None))] == ["the caller"]


# -- order


def fused() -> Draft:
    story = blur()
    story.q.after(story.p, r)
    story.q.shift(r, 2)
    return story.draft


def tiled() -> Draft:
    story = blur()
    for stage in (story.p, story.q):
        stage.tile(r, c, 2, 2, r0, c0, r1, c1)
    story.q.after(story.p, c0)
    return story.draft


def apart() -> Draft:
    story = stages()
    story.p.after(story.q, root)
    return story.draft


def skewed() -> Draft:
    f, u = heat()
    u.skew(t, i, 1)
    u.tile(t, i, 2, 2, t0, i0, t1, i1)
    return f


def reduced() -> Draft:
    f, result = product()
    result.update.reorder(i, k, j)
    result.update.after(result.init, i)
    return f


def backwards() -> Draft:
    f, u = seidel()
    u.reverse(i)
    return f


@pytest.mark.parametrize("make", [fused, tiled, apart, skewed, reduced, backwards])
def test_precedence_is_the_lexicographic_order_of_the_time_maps(make: Callable[[], Draft]) -> None:
    draft = make()
    program, accesses = draft.program, MemoryAccesses(draft.program)
    order = Precedence(program)
    writes = [w for w in map(accesses.write, program.statements.values()) if w is not None]
    for a, b in pairs_of(writes, writes):
        everything = isl.Map.from_domain_and_range(a.domain, b.domain)
        found = order.before(a, b, everything)
        expected = {(*x, *y) for x, y in pairs_of(at(draft, a.domain), at(draft, b.domain))
                    if _time(draft, a, x) < _time(draft, b, y)}  # fmt: skip
        assert (relation(draft, found) if found is not None else set()) == expected


def _time(draft: Draft, access: MemoryAccess, instance: tuple[int, ...]) -> tuple[int, ...]:
    sizes = {name: SIZES[name] for name in draft.algorithm.params}
    return smallest.evaluated(draft.program.times[access.actor.name], instance, sizes)


def test_an_execution_reads_before_it_writes() -> None:
    f, _ = seidel()
    accesses, order = MemoryAccesses(f.program), Precedence(f.program)
    statement = f.program.statements["u"]
    read, write = accesses.read(statement, "u"), accesses.write(statement)
    assert read is not None and write is not None
    same = sets.graph(read.instance, read.domain)
    assert order.before(read, write, same) is same
    assert order.before(write, read, same.reverse()) is None


def test_entry_comes_first_and_exit_last() -> None:
    story: Stages = stages()
    accesses, order = MemoryAccesses(story.draft.program), Precedence(story.draft.program)
    entry, (use, leave) = accesses.writers(Home("a", None))[0], accesses.readers(Home("a", None))
    assert order.always(entry, use) is True and order.always(use, leave) is True
    assert order.always(leave, use) is False


# -- flow


def test_a_place_of_its_own_holds_one_value() -> None:
    story = stages()
    flow = Flow(MemoryAccesses(story.draft.program))
    assert flow.determined(flow.accesses.writers(Home("p", None))[0])
    story.p.store_in([i % 2])
    flow = Flow(MemoryAccesses(story.draft.program))
    assert not flow.determined(flow.accesses.writers(Home("p", None))[0])


@pytest.mark.parametrize("modulo", [1, 2, 3, 5])
def test_what_is_not_served_is_what_a_plain_run_finds(modulo: int) -> None:
    """p fused with q (one later), folded: the reads that fail are those of a run with a dictionary for memory."""
    story = stages()
    story.q.after(story.p, i)
    story.q.shift(i, 1)
    story.p.store_in([i % modulo])
    flow = Flow(MemoryAccesses(story.draft.program))
    (read,) = [x for x in flow.accesses.readers(Home("p", None)) if x.actor.name == "q"]
    memory: dict[int, int] = {}
    failed = set()
    for step in range(6):
        if step <= 4:
            memory[step % modulo] = step
        if step >= 1 and step - 1 < 4:
            x = step - 1
            failed |= {(x, v) for v in (x, x + 1) if memory.get(v % modulo) != v}
    assert set(at(story.draft, flow.unserved(read))) == failed
