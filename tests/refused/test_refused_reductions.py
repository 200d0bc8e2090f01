"""Wrong reductions are refused: with the smallest counterexample where sizes matter, and with what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, K, B = tm.params("N K B")
i, k, k0, k1, b, t, t1, j, q, z = tm.iters("i k k0 k1 b t t1 j q z")
FIRST = tm.operator("first", lambda a, b: tm.select(a == 0, b, a), 0, commutative=False)
PAIR = tm.operator("pair", lambda a, b: (a[0] + b[0], a[1] + b[1]), (0.0, 0.0), names=("one", "other"))
Made = tuple[tm.Function, Any]


def rows(op: Any = tm.sum, dtype: tm.DType = tm.float32, twice: bool = False, **options: Any) -> Made:
    """A reduction of each row; of two values if asked."""
    f = tm.Function("rows", params=[N, K])
    a = f.input("a", dtype, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, op, (a[i, k], a[i, k]) if twice else a[i, k], **options)
    f.outputs(s)
    return f, s


def blocks(made: Made, start: bool = True, **options: Any) -> tm.Function:
    """Terms on 64 threads of several blocks."""
    f, s = made
    s.update.split(k, 256, b, k)
    s.update.split(k, 64, k0, t)
    if start:
        s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i, b], threads=[t], **options)
    f.derive_transfers()
    return f


def apart() -> tm.Function:
    """A tree whose threads have a row each."""
    f, s = rows()
    s.init.tag_gpu(blocks=[i])
    s.update.tile(i, k, 8, 32, b, k0, t, k1)
    s.update.tag_gpu(blocks=[b, k0], threads=[t], combine=tm.TREE)
    f.derive_transfers()
    return f


def along_the_diagonal() -> tm.Function:
    """Threads that have terms of several rows, and a tree for each row: right, though it looks like the other."""
    f = tm.Function("turned", params=[N])
    a = f.input("a", tm.int32, [N, 32])
    s = f.reduction("s", {i: N}, {k: 32}, tm.sum, a[i, k])
    f.outputs(s)
    s.update.split(i, 4, b, j)
    s.update.skew(j, k, 1, new=t)
    s.update.reorder(b, t, j)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[b], threads=[t], combine=tm.TREE)
    f.derive_transfers()
    return f


def before_the_last_block() -> tm.Function:
    """A reader in each block that adds to the sum."""
    f = tm.Function("rows", params=[N])
    a = f.input("a", tm.float32, [N, 256])
    s = f.reduction("s", {i: N}, {k: 256}, tm.sum, a[i, k])
    y = f.computation("y", {i: N, b: 4}, s[i] * 2)
    f.outputs(y)
    s.update.split(k, 64, b, t)
    y.after(s.update, b)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE)
    f.derive_transfers()
    return f


def left_on_a_gpu(transfers: bool = False) -> tm.Function:
    """Partial results of two GPUs, which GPU 0 adds up."""
    f = tm.Function("rows", params=[N])
    s = f.reduction("s", {i: N}, {k: 256}, tm.sum, tm.cast(tm.int32, i * k))
    f.outputs(s)
    s.update.split(k, 128, q, k1)
    part = s.update.rfactor(q, name="part")
    part.init.reorder(q, i)
    part.update.reorder(q, i, k)
    halves = zip(part.init.separate_at(q, [1]), part.update.separate_at(q, [1]), strict=True)
    for device, (init, update) in enumerate(halves):
        update.split(k, 64, k0, t)
        init.tag_gpu(blocks=[i], device=device)
        update.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE, device=device)
    s.tag_gpu(blocks=[i])
    if transfers:
        f.derive_transfers()
    else:
        f.create_xfer({i: N}, s[i], tm.GPU2CPU)
    return f


def on_ranks(asked: str) -> tm.Function:
    """The sum of everything, a quarter on each rank, in the order of MPI."""
    f = tm.Function("total", params=[])
    x = f.input("x", tm.float32, [100])
    s = f.reduction("s", {z: 1}, {i: 100}, tm.sum, x[i], determinism=asked)
    f.outputs(s)
    x.distribute_array([i], rank=i // 25)
    s.update.split(i, 25, q, j)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    return f


def scheduled(made: Callable[[], Made], command: Callable[[Any], object]) -> Callable[[], tm.Function]:
    """A reduction with a command or several."""

    def make() -> tm.Function:
        f, s = made()
        command(s)
        return f

    return make


def asked(grade: str, command: Callable[[Any], object]) -> Callable[[], tm.Function]:
    """A schedule that gives less than the reduction asks for."""
    return scheduled(lambda: rows(determinism=grade), command)


def first(command: Callable[[Any], object]) -> Callable[[], tm.Function]:
    """A schedule of an operator that does not commute."""
    return scheduled(lambda: rows(FIRST, tm.int32), command)


def pair(command: Callable[[Any], object]) -> Callable[[], tm.Function]:
    """A schedule of a reduction of two values at once, of 8 bytes each."""
    return scheduled(lambda: rows(PAIR, tm.float64, twice=True), command)


TERMS = "run the loops over k in order, without combine= and rfactor"
NEIGHBOURS = "keep the order of the loops over k, without combine= but parallelize(..., combine=tm.PRIVATE)"
CHUNKS = "s.update.parallelize(k, combine=tm.TREE), after split"
#: What the proof refuses: the kind, the smallest sizes, words of the message, and of the repair.
PROVEN: dict[str, tuple[Callable[[], tm.Function], str, dict[str, int], str, str]] = {
    "terms on threads": (
        scheduled(rows, lambda s: s.update.parallelize(k)), "race", {"N": 1, "K": 2}, "both update s[0]", "tm.PRIVATE"),
    "terms in lanes": (
        scheduled(rows, lambda s: s.update.vectorize(k, 8)), "race", {"N": 1, "K": 2}, "vector loop k", "tm.PRIVATE"),
    "terms on threads of a GPU": (
        lambda: blocks(rows()), "race", {"N": 1, "K": 2}, "both update s[0]", "tm.TREE"),
    "a start after its terms": (
        scheduled(rows, lambda s: s.init.after(s.update, i)), "reduction", {"N": 1, "K": 1},
        "the term k = 0 is added to s[0] before its start", "s.update.after(s.init, i)"),
    "a tree over threads with different elements": (
        apart, "reduction", {"N": 2, "K": 1}, "combine=tm.TREE", "combine=tm.ATOMIC"),
    "a reader before the last block": (
        before_the_last_block, "reduction", {"N": 1}, "reads s[0] before all of its terms are added", "y"),
    "partial results left on another GPU": (
        left_on_a_gpu, "communication", {"N": 1}, "part[0, 1]", "derive_transfers"),
    "atomic blocks and the same bits in each run": (
        lambda: blocks(rows(determinism="run_to_run"), combine=tm.ATOMIC), "reduction", {"N": 1, "K": 257},
        "in the order in which they arrive", "across=tm.TWO_PASS"),
    "trees of several blocks and the same bits in each run": (
        lambda: blocks(rows(determinism="run_to_run"), combine=tm.TREE), "reduction", {"N": 1, "K": 257},
        "in the order in which they end", "across=tm.TWO_PASS"),
    "trees of several blocks and the same bits everywhere": (
        lambda: blocks(rows(determinism="gpu_to_gpu"), combine=tm.TREE), "reduction", {"N": 1, "K": 257},
        "determinism='everywhere'", "across=tm.TWO_PASS"),
    "atomic threads and the same bits everywhere": (
        asked("everywhere", lambda s: s.update.parallelize(k, combine=tm.ATOMIC)), "reduction", {"N": 1, "K": 2},
        "in the order in which they arrive", CHUNKS),
    "copies of threads and the same bits everywhere": (
        asked("everywhere", lambda s: s.update.parallelize(k, combine=tm.PRIVATE)), "reduction", {"N": 1, "K": 2},
        "bits depend on the number of threads", CHUNKS),
    "dynamic threads and the same bits in each run": (
        asked("run_to_run", lambda s: s.update.parallelize(k, combine=tm.PRIVATE, schedule="dynamic")), "reduction",
        {"N": 1, "K": 2}, "as they come", 'schedule="static"'),
    "lanes and the bits of the order": (
        asked("ordered", lambda s: s.update.vectorize(k, 8, combine=tm.PRIVATE)), "reduction", {"N": 1, "K": 2},
        "two terms are combined in another order", TERMS),
    "backwards and the bits of the order": (
        asked("ordered", lambda s: s.update.reverse(k)), "reduction", {"N": 1, "K": 2},
        "two terms are combined in another order", TERMS),
    "blocks inside out and the bits of the order": (
        asked("ordered", lambda s: s.update.split(k, 8, k0, k1).interchange(k0, k1)), "reduction", {"N": 1, "K": 9},
        "two terms are combined in another order", TERMS),
    "partial results and the bits of the order": (
        asked("ordered", lambda s: s.update.split(k, 8, k0, k1).rfactor(k0)), "reduction", {},
        "rfactor sums its terms in partial results", TERMS),
    "chunks of threads and the bits of the order": (
        asked("ordered", lambda s: s.update.split(k, 8, k0, k1).parallelize(k0, combine=tm.TREE)), "reduction", {},
        "partial results, s_chunks", TERMS),
    "the order of MPI": (
        lambda: on_ranks("run_to_run"), "reduction", {}, "MPI combines the partial results", "combine=tm.TREE"),
    "atomic updates that do not commute": (
        first(lambda s: s.update.parallelize(k, combine=tm.ATOMIC)), "reduction", {"N": 1, "K": 2},
        "the operator first of s is not commutative", NEIGHBOURS),
    "dynamic threads that do not commute": (
        first(lambda s: s.update.parallelize(k, combine=tm.PRIVATE, schedule="dynamic")), "reduction",
        {"N": 1, "K": 2}, "is not commutative", NEIGHBOURS),
    "lanes that do not commute": (
        first(lambda s: s.update.vectorize(k, 8, combine=tm.PRIVATE)), "reduction", {"N": 1, "K": 2},
        "is not commutative", NEIGHBOURS),
    "backwards without commutativity": (
        first(lambda s: s.update.reverse(k)), "reduction", {"N": 1, "K": 2}, "is not commutative", NEIGHBOURS),
    "a tree of a block that does not commute": (
        lambda: blocks(rows(FIRST, tm.int32), combine=tm.TREE), "reduction", {"N": 1, "K": 257},
        "is not commutative", "on a GPU, give each thread neighbours before the loops are tagged: s.update.split("),
    "atomic updates of 16 bytes": (
        pair(lambda s: s.update.parallelize(k, combine=tm.ATOMIC)), "reduction", {},
        "tm.ATOMIC, which is for one value, and s has several", "use combine=tm.PRIVATE for loop k, or without"),
    "atomic lanes of two values": (
        pair(lambda s: s.update.vectorize(k, 8, combine=tm.ATOMIC)), "reduction", {},
        "each is in an array of its own", "s.update.split(k, 64, k0, k1) and then s.update.rfactor(k0)"),
    "blocks that merge two values": (
        lambda: blocks(rows(PAIR, tm.float64, twice=True), combine=tm.TREE), "reduction", {"N": 1, "K": 257},
        "several blocks merge what they collect into s[0], which has several values", "s.update across=tm.TWO_PASS"),
    "any order of a reduction that is ordered": (
        scheduled(lambda: rows(ordered=True), lambda s: s.update.parallelize(k, combine=tm.ATOMIC)), "reduction",
        {"N": 1, "K": 2}, "s is ordered", "keep the order of the loops over k"),
}  # fmt: skip


@pytest.mark.parametrize("case", PROVEN)
def test_the_proof_names_the_smallest_sizes_and_a_repair(case: str) -> None:
    make, kind, sizes, words, repair = PROVEN[case]
    violation = make().check().violations[0]
    assert (violation.kind, dict(violation.witness.params)) == (kind, sizes), violation
    assert words in violation.message and repair in violation.repair, violation
    assert violation.command, violation


def scaled(name: str, combined: Callable[[Any, Any], Any], identity: float, **options: Any) -> Callable[[], Made]:
    """A declaration with an operator of the user's."""
    return lambda: rows(tm.operator(name, combined, identity, **options))


#: What commands and declarations refuse, with words of the message.
AT_ONCE: dict[str, tuple[Callable[[], object], str]] = {
    "a subtraction": (
        scaled("minus", lambda a, b: a - b, 0.0), "not associative.* at a = -1.0, b = -2.0, c = -3.0 it gives 4.0 and"),
    "another neutral element": (
        scaled("more", lambda a, b: a + b, 1.0), "another neutral element.*at a = 2.0.*give that as identity"),
    "an identity that absorbs": (
        scaled("times", lambda a, b: a * b, 0.0), "gives its identity 0.0, whatever the term"),
    "an operator that does not commute": (
        scaled("one", lambda a, b: tm.select(a == 0, b, a), 0.0), r"not commutative.*give .*commutative=False"),
    "partial results of terms apart": (
        first(lambda s: s.update.split(k, 8, k0, k1).rfactor(k1)), "no neighbours: name the loop over blocks"),
    "two passes of one block": (
        lambda: rows()[1].tag_gpu(blocks=[i], threads=[k], combine=tm.TREE, across=tm.TWO_PASS),
        "one block has all of them: leave across= out"),
    "two passes of atomics": (
        lambda: blocks(rows(), False, combine=tm.ATOMIC, across=tm.TWO_PASS), "combine=tm.TREE"),
    "a tree over values": (
        scheduled(rows, lambda s: s.update.parallelize(i, combine=tm.TREE)), "i runs over no terms of s; leave it out"),
    "a tree of ranks over values": (
        scheduled(rows, lambda s: s.update.tag_distribute(i, combine=tm.TREE)), "leave combine= out"),
    "a triangle as one loop": (
        lambda: box("{ o[i, j] : 0 <= j <= i < 10 }"), "no box: nothing runs at i = 0, j = 1"),
    "a gap in one loop": (
        lambda: box("[N] -> { o[i, j] : 0 <= i < N and 0 <= j < 9 and j != 4 }"), "no box: nothing runs at i = 0, j"),
    "a product beyond 64 bits": (
        lambda: box({i: 2**31 - 1, b: 4, j: 2**31 - 1}), "more than 64 bits hold: join fewer"),
}  # fmt: skip


def box(domain: Any) -> None:
    """A computation whose loops are joined."""
    f = tm.Function("box", params=[N])
    o = f.computation("o", domain, 1.0)
    f.outputs(o)
    o.coalesce(*(domain if isinstance(domain, dict) else (i, j)), into=q)


@pytest.mark.parametrize("case", AT_ONCE)
def test_commands_and_declarations_say_what_to_do(case: str) -> None:
    make, words = AT_ONCE[case]
    with pytest.raises((tm.CommandError, tm.DeclarationError), match=words):
        make()


def test_there_are_at_least_forty_of_them() -> None:
    assert len(PROVEN) + len(AT_ONCE) >= 40


def test_what_looks_like_these_and_is_right_is_proven() -> None:
    assert left_on_a_gpu(transfers=True).check().ok
    f = along_the_diagonal()
    assert f.check().ok
    kernel = f.compile(device="simulator", sanitize=True)
    for size in (0, 1, 7):
        a = np.random.default_rng(size).integers(-9, 9, (size, 32), np.int32)
        np.testing.assert_array_equal(kernel(a), a.sum(1))
