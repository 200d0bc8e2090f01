"""What the generated code needs is part of the check: programs that only lowering used to refuse, and their repairs.

A case is (what is wrong, the program, the program with the repair taken, kind, the command to blame, words of the
message, words of the repair). The repaired program is proven, emitted, and computes what it should.
"""

# ruff: noqa: E501  (a case a line or two is what makes the table readable)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.refused.test_rank_words import wave

N, C = tm.params("N C")
i, j, k, q, s = tm.iters("i j k q s")
i0, i1, j0, j1, q1, k0 = tm.iters("i0 i1 j0 j1 q1 k0")
HOST, SIMULATED, RANKS = "host", "simulated", "ranks"


def square() -> tuple[tm.Function, Any, tm.Computation]:
    """``b[i, j] = a[i, j] + 1``."""
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N, N])
    b = f.computation("b", {i: N, j: N}, a[i, j] + 1)
    f.outputs(b)
    return f, a, b


def line(size: Any = N) -> tuple[tm.Function, Any, tm.Computation]:
    """``b[i] = a[i] + 1``."""
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [size])
    b = f.computation("b", {i: size}, a[i] + 1)
    f.outputs(b)
    return f, a, b


# -- private copies


def two_operators(repaired: bool) -> tm.Function:
    f = tm.Function("f", params=[N, C])
    a = f.input("a", tm.int32, [N, C])
    total = f.reduction("total", {i: N}, over={k: C}, op=tm.sum, expr=a[i, k])
    most = f.reduction("most", {i: N}, over={k: C}, op=tm.max, expr=a[i, k])
    f.outputs(f.computation("b", {i: N}, total[i] - most[i]))
    both = tm.Buffer("both", [2, N], tm.int32)
    total.store_in(both, [0, i])
    if not repaired:
        most.store_in(both, [1, i])
    f.order(total.init, most.init, total.update, at=tm.root)
    most.update.after(total.update, k)
    total.update.parallelize(k, combine=tm.PRIVATE)
    return f


def weighted(repaired: bool, vector: bool) -> tm.Function:
    """A sum of values that are kept in the same buffer, in other elements."""
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    twice = f.computation("twice", {i: N}, a[i] * 2)
    total = f.reduction("total", {j: N}, over={i: N}, op=tm.sum, expr=twice[i] * j)
    f.outputs(f.computation("b", {j: N}, total[j] + 1))
    both = tm.Buffer("both", [2, N], tm.int32)
    total.store_in(both, [0, j])
    if not repaired:
        twice.store_in(both, [1, i])
    if vector:
        total.update.vectorize(i, 4, combine=tm.PRIVATE)
    else:
        total.update.interchange(j, i).parallelize(i, combine=tm.PRIVATE)
    return f


def running(repaired: bool) -> tm.Function:
    """Each row reads the sum of the row before, in the loop that adds up its own."""
    f = tm.Function("f", params=[N, C])
    a = f.input("a", tm.int32, [N, C])
    total = f.reduction("total", {i: N}, over={k: C}, op=tm.sum, expr=a[i, k])
    b = f.computation("b", {i: N, k: C}, tm.select(i > 0, total[i - 1], 0) * a[i, k])
    f.outputs(total, b)
    b.after(total.update, k)
    total.update.parallelize(k, combine=tm.ATOMIC if repaired else tm.PRIVATE)
    return f


# -- what is repeated, prefetched, and made for constant sizes


def unrolled(repaired: bool) -> tm.Function:
    f, _, b = line(8192)
    b.unroll(i, 8) if repaired else b.unroll(i)
    return f


def unrolled_twice(repaired: bool) -> tm.Function:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [128, 128])
    b = f.computation("b", {i: 128, j: 128}, a[i, j] + 1)
    f.outputs(b)
    b.unroll(i, 8) if repaired else b.unroll(i)
    b.unroll(j)
    return f


def by_a_factor(repaired: bool) -> tm.Function:
    f, _, b = line()
    b.unroll(i, 8 if repaired else 5000)
    return f


def in_versions(repaired: bool) -> tm.Function:
    f, _, b = square()
    size = 4 if repaired else 32
    b.tile(i, j, size, size, i0, j0, i1, j1)
    b.unroll(i1, remainder="specialize")
    b.unroll(j1, remainder="specialize")
    return f


def prefetched(repaired: bool) -> tm.Function:
    f, a, b = line()
    if not repaired:
        b.prefetch(a, i, 4)
    b.split(i, 8, i0, i1)
    if repaired:
        b.prefetch(a, i0, 4)
    return f


def in_one_case(repaired: bool) -> tm.Function:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    c = f.input("c", tm.int32, [N])
    b = f.computation("b", {i: N}, tm.select(i < 4, a[i], c[i]) + 1)
    f.outputs(b)
    if not repaired:
        b.prefetch(c, i, 4)
    _, rest = b.separate_cases(i)
    if repaired:
        rest.prefetch(c, i, 4)
    return f


def versions_on_a_gpu(repaired: bool) -> tm.Function:
    f, _, b = line()
    b.split(i, 32, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    if not repaired:
        f.specialize(N=64)
    return f


def versions_on_ranks(repaired: bool) -> tm.Function:
    f, a, b = line(64)
    if not repaired:
        f.specialize(N=64)
    b.split(i, 16, i0, i1)
    for array in (a, b):
        array.distribute_array([i], rank=i // 16)
    b.tag_distribute(i0)
    f.derive_transfers()
    return f


# -- memory


def in_threads(repaired: bool, memory: tm.Memory) -> tm.Function:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N, N])
    p = f.computation("p", {i: N, j: N}, a[i, j] + 1)
    b = f.computation("b", {i: N, j: N}, p[i, j] * 2)
    f.outputs(b)
    p.compute_at(b, i)
    p.store_in(tm.HOST if repaired else memory)
    b.parallelize(i)
    return f


def rows_in_registers(repaired: bool) -> tm.Function:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N, N])
    p = f.computation("p", {i: N, j: N}, a[i, j] + 1)
    b = f.computation("b", {i: N, j: N}, p[i, j] * 2 + p[i, N - 1 - j])
    f.outputs(b)
    b.split(i, 8, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    if repaired:
        p.split(i, 8, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
        p.store_in(tm.GPU_MEMORY)
    else:
        p.compute_at(b, i1)
        p.store_in(tm.REGISTER)
    f.derive_transfers()
    return f


def tree_over_blocks(repaired: bool) -> tm.Function:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [64, 64])
    b = f.reduction("b", {j: 64}, over={i: 64}, op=tm.sum, expr=a[i, j])
    f.outputs(b)
    b.update.split(j, 32, j0, j1).reorder(i, j0, j1)
    if repaired:
        b.update.tag_gpu(blocks=[i], threads=[j1], combine=tm.ATOMIC)
    else:
        b.update.tag_gpu(blocks=[i], combine=tm.TREE)
        b.update.tag_gpu(threads=[j1])
    b.init.split(j, 32, j0, j1).tag_gpu(blocks=[j0], threads=[j1])
    f.derive_transfers()
    return f


# -- ranks


def one_array(repaired: bool) -> tm.Function:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [16])
    b = f.computation("b", {i: 16}, a[i] + 1)
    c = f.computation("c", {i: 16}, a[i] + 2)
    f.outputs(b, c)
    if not repaired:
        both = tm.Buffer("both", [32], tm.int32)
        b.store_in(both, [i])
        c.store_in(both, [i + 16])
    for array in (a, b):
        array.distribute_array([i], rank=i // 4)
    b.split(i, 4, q, i1)
    b.tag_distribute(q)
    f.derive_transfers()
    return f


def summed_on_ranks(repaired: bool) -> tm.Function:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [16, N])
    b = f.reduction("b", {j: N}, over={i: 16}, op=tm.sum, expr=a[i, j])
    f.outputs(b)
    a.distribute_array([i, j], rank=i // 4)
    b.update.split(i, 4, q, i1).reorder(q, j, i1)
    b.update.tag_distribute(q, combine=tm.PRIVATE)
    if not repaired:
        b.init.split(j, 32, j0, j1).tag_gpu(blocks=[j0], threads=[j1])
        b.update.split(j, 32, j0, j1).tag_gpu(blocks=[j0], threads=[j1])
    f.derive_transfers()
    return f


def ranks_inside(repaired: bool) -> tm.Function:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [16, 8, N])
    t = f.reduction("t", {j: 8, k: N}, over={i: 16}, op=tm.sum, expr=a[i, j, k])
    b = f.computation("b", {j: 8, k: N}, t[j, k] + 1)
    f.outputs(b)
    a.distribute_array([i, j, k], rank=(i // 4, j // 4))
    t.update.split(i, 4, q, i1).split(j, 4, q1, j1).reorder(k, q, q1, j1, i1)
    t.update.tag_distribute(q, axis=0, combine=tm.PRIVATE)
    t.update.tag_distribute(q1, axis=1)
    if repaired:
        t.update.reorder(q1, k, q, j1, i1)
    for other in (t.init, b):
        other.split(j, 4, q1, j1)
        other.tag_distribute(q1, axis=1)
    f.derive_transfers()
    return f


def to_all() -> tm.Function:
    f = tm.Function("f", params=[N])
    p = f.computation("p", {q: 3, i: 4}, i + q, dtype=tm.int64)
    b = f.computation("b", {q: 3, i: 4}, p[0, i] + 1)
    f.outputs(b)
    b.distribute_array([q, i], rank=q)
    for stage in (p, b):
        stage.tag_distribute(q)
    found = f.create_exchange(p[q, i], send={q: 1, i: 4, s: (1, 3)}, to=s, recv={q: (1, 3), i: 4}, source=0, name="all")
    found.send.collapse_many(s)
    f.order(p, found.send, found.recv, b, at=tm.root)
    return f


@dataclass(frozen=True)
class Case:
    """One program, what is said of it, and where its repair runs."""

    make: Callable[[bool], tm.Function]
    kind: str
    command: str
    message: str
    repair: str
    runs: str = HOST
    sizes: tuple[tuple[int, ...], ...] = ()


CASES = {
    "two operators in one buffer": Case(two_operators, "reduction", "total.update.parallelize(k, combine=tm.PRIVATE)", "total.update and most.update, which combine partial results in different ways", "keep most in a buffer of its own"),
    "another value beside private sums": Case(lambda r: weighted(r, vector=False), "reduction", "total.update.parallelize(i, combine=tm.PRIVATE)", "total[0] reads twice[0] in both inside loop i", "keep twice in a buffer of its own"),
    "another value beside lanes of sums": Case(lambda r: weighted(r, vector=True), "reduction", "total.update.vectorize(i, 4, combine=tm.PRIVATE)", "total[0] reads twice[0] in both inside loop i", "keep twice in a buffer of its own"),
    "complete sums beside private ones": Case(running, "reduction", "total.update.parallelize(k, combine=tm.PRIVATE)", "b[1, 0] reads total[0] in total inside loop k", "move b out of loop k, or use combine=tm.ATOMIC"),
    "a loop unrolled too often": Case(unrolled, "bounds", "b.unroll(i)", "unrolling loop i of b makes 8,192 statements", "b.unroll(i, 8)"),
    "two loops unrolled too often": Case(unrolled_twice, "bounds", "b.unroll(j)", "unrolling loop i of b makes 16,384 statements", "b.unroll(i, 8)"),
    "a factor that is too large": Case(by_a_factor, "bounds", "b.unroll(i, 5000)", "unrolling loop i of b makes 5,000 statements", "b.unroll(i, 8)"),
    "too many versions of tiles": Case(in_versions, "bounds", "b.unroll(j1, remainder='specialize')", "a version of loop i1 of b for each number", 'make the tiles smaller, or leave out remainder="specialize" of b.unroll(i1) and b.unroll(j1)'),
    "a prefetch whose loop is split": Case(prefetched, "reach", "b.split(i, 8, i0, i1)", "b.prefetch(a, i): the loop i is no longer there (b has the loops i0, i1)", "give it after all changes of the loops, along one of them"),
    "a prefetch of what a part does not read": Case(in_one_case, "reach", "b.separate_cases(i)", "b_0.prefetch(c, i): b_0 no longer reads c", "leave it out"),
    "versions of a function of a GPU": Case(versions_on_a_gpu, "reach", "f.specialize(N=64)", "f uses GPUs, and has versions for some calls", "leave f.specialize(N=64) out", SIMULATED),
    "versions of a function of ranks": Case(versions_on_ranks, "reach", "a.distribute_array([i], rank=i // 16)", "f uses ranks, and has versions for some calls", "leave f.specialize(N=64) out", RANKS),
    "pinned memory of each thread": Case(lambda r: in_threads(r, tm.PINNED), "reach", "b.parallelize(i)", "p stores to p, which is in pinned memory, once for each iteration of the concurrent loop i", "p.store_in(tm.HOST)"),
    "mapped memory of each thread": Case(lambda r: in_threads(r, tm.HOST_MAPPED), "reach", "b.parallelize(i)", "p stores to p, which is in host_mapped memory", "p.store_in(tm.HOST)"),
    "registers of any number": Case(rows_in_registers, "bounds", "p.store_in(tm.REGISTER)", "p is in registers of the kernel of b and has the shape [1, N], which is not constant", "keep p in memory=tm.GPU_MEMORY, outside of the kernel", SIMULATED),
    "a tree over blocks of other elements": Case(tree_over_blocks, "reduction", "b.update.tag_gpu(threads=[j1])", "thread 1 and thread 0 add to b[1] and b[0]", "b.update.tag_gpu(blocks=[i], threads=[j1], combine=tm.ATOMIC)", SIMULATED),
    "two outputs in one array on ranks": Case(one_array, "reach", "b.distribute_array([i], rank=i // 4)", "c is held by ranks in parts, but its layout in both is not that of its indices", "keep c in an array of its own", RANKS),
    "ranks that combine on a GPU": Case(summed_on_ranks, "reach", "b.update.tag_gpu(blocks=[j0], threads=[j1])", "b.update runs on a GPU, and ranks combine its partial results at the end of loop q", "keep b.update on the host", RANKS),
    "ranks inside of a combination": Case(ranks_inside, "reach", "t.update.tag_distribute(q1, axis=1)", "the loop over ranks q1 of t.update is inside of loop q", "t.update.reorder(q1, k, q, j1, i1)", RANKS),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_the_code_needs_is_refused_by_the_check(case: Case) -> None:
    f = case.make(False)
    found = next(v for v in f.check().violations if case.message in v.message)
    assert found.kind == case.kind
    assert found.command == case.command
    assert case.repair in found.repair
    with pytest.raises(tm.LegalityError):
        f.source()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_its_repair_is_proven_and_right(case: Case) -> None:
    f = case.make(True)
    assert f.check().ok, f.check()
    assert_right(f, case.runs)


def assert_right(f: tm.Function, runs: str) -> None:
    """The function computes what `evaluate()` says, at several sizes."""
    kernel = None if runs == RANKS else f.compile(device="simulator" if runs == SIMULATED else None)
    for size in (0, 1, 7, 19):
        given = arguments(f, size)
        wanted = f.evaluate(**{name: np.copy(value) for name, value in given.items()})
        got = f.simulate(**given) if kernel is None else kernel(**given)
        pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)


def arguments(f: tm.Function, size: int) -> dict[str, Any]:
    """Arrays of small numbers for all inputs, and the parameters that no shape gives."""
    program, given, known = f.program, dict[str, Any](), set[str]()
    for name, declared in program.algorithm.inputs.items():
        sizes = [str(extent) for extent in declared.shape]
        known.update(sizes)
        shape = [size if text in ("N", "C") else int(text) for text in sizes]
        given[name] = (np.arange(int(np.prod(shape)), dtype=np.int32) % 11 - 5).reshape(shape)
    return given | {name: size for name in program.algorithm.params if name not in known}


def test_a_persistent_request_for_several_places_has_the_first_of_its_messages_as_witness() -> None:
    found = wave(slots=False).check().violations
    assert {violation.kind for violation in found} == {"communication"}
    first = found[0]
    assert "down.send cannot be persistent: the request of the message with u[0, 24] on rank 0" in first.message
    assert (first.witness.params, first.witness.writer) == ({"T": 2}, ("u", (0, 24)))
    assert "down.send.set_wait_access(t % 3)" in first.repair
    assert wave(slots=True).check().ok


def test_a_message_to_several_ranks_is_refused_with_an_element_of_it() -> None:
    words = "one message of all.send on rank 0 is for rank 1, with p[0, 0], and for other ranks too"
    found = next(v for v in to_all().check().violations if words in v.message)
    assert (found.kind, found.command) == ("communication", "all.send.collapse_many(s)")
    assert (found.witness.writer, found.witness.reader) == (("p", (0, 0)), None)
    assert found.repair == "collapse in all.send.collapse_many only loops inside of which the other rank is one"
