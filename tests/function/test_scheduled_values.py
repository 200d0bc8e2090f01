"""`evaluate(as_scheduled=True)`: the bits of compiled kernels, for sums that a schedule rounds in another order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.oracle.judges.rank_arrays import ran_on_ranks
from tests.programs.ranks.sums import by_halves, in_a_tree, total
from tests.proof.reductions.test_grades import i, in_the_last_block, in_two_passes, k, k0, k1, on_blocks, rows, split, t
from tests.selection import covering, first
from tiramisu_py.algorithm.evaluate.given_values import checked_arguments
from tiramisu_py.errors import ArgumentError
from tiramisu_py.function.scheduled_values import interpreted

i0, i1 = tm.iters("i0 i1")
FEW, SEEDS = 10, 50
SIZES = [(1, 0), (2, 1), (3, 31), (2, 67), (1, 257)]
Schedule = Callable[[tm.Function, Any], Any]


def terms(seed: int, n: int, count: int, dtype: Any = np.float32) -> Any:
    """Numbers of very different magnitudes: another order of their sum has other bits."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, count)) * 10.0 ** rng.integers(-4, 5, (n, count))).astype(dtype)


def several_accumulators(f: tm.Function, s: Any) -> None:
    s.update.split(k, 4, k0, k1)
    partial = s.update.rfactor(k1)
    partial.compute_at(s.update, i)
    partial.store_in(tm.REGISTER)


EVERYWHERE: dict[str, Schedule] = {
    "backwards": lambda f, s: s.update.reverse(k),
    "lanes": lambda f, s: s.update.vectorize(k, 8, combine=tm.PRIVATE),
    "lanes of several registers": lambda f, s: s.update.vectorize(k, 64, combine=tm.PRIVATE),
    "blocks on threads": lambda f, s: split(s).rfactor(k0).parallelize(k0),
    "trees of threads": lambda f, s: split(s).update.parallelize(k0, combine=tm.TREE),
    "several accumulators": several_accumulators,
    "blocks of lanes": lambda f, s: split(s).rfactor(k0).update.vectorize(k, 4, combine=tm.PRIVATE),
}


def bits(array: Any) -> bytes:
    return bytes(np.ascontiguousarray(array).tobytes())


@pytest.mark.parametrize("seeds", first([FEW, SEEDS], 1))
@pytest.mark.parametrize("schedule", EVERYWHERE)
def test_bits_that_hold_everywhere_are_those_of_the_kernel(schedule: str, seeds: int) -> None:
    f, s = rows(determinism="everywhere")
    EVERYWHERE[schedule](f, s)
    kernel = f.compile()
    for seed in range(seeds):
        a = terms(seed, *SIZES[seed % len(SIZES)])
        assert bits(kernel(a)) == bits(f.evaluate(a, as_scheduled=True))
    a = terms(1, 8, 257)
    assert bits(f.evaluate(a)) != bits(f.evaluate(a, as_scheduled=True))  # or the test would show nothing


def threads_of(f: tm.Function, s: Any, count: int) -> None:
    s.update.split(k, count, k0, t)
    s.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    f.derive_transfers()


def a_warp_a_row(f: tm.Function, s: Any) -> None:
    s.split(i, 4, i0, i1)
    s.update.split(k, 32, k0, t)
    s.init.tag_gpu(blocks=[i0], threads=[i1])
    s.update.tag_gpu(blocks=[i0], threads=[i1, t], combine=tm.TREE)
    f.derive_transfers()


TREES: dict[str, Schedule] = {
    "two warps": lambda f, s: threads_of(f, s, 64),
    "a warp a row": a_warp_a_row,
    "three warps": lambda f, s: threads_of(f, s, 96),
    "two passes": in_two_passes,
    "the last block": in_the_last_block,
    "no whole warp": lambda f, s: threads_of(f, s, 20),
}


@pytest.mark.parametrize("seeds", first([FEW, SEEDS], 1))
@pytest.mark.parametrize("schedule", TREES)
def test_trees_of_blocks_have_the_bits_of_the_simulator(schedule: str, seeds: int) -> None:
    f, s = rows(determinism="everywhere")
    TREES[schedule](f, s)
    kernel = f.compile(device="simulator")
    for seed in range(seeds):
        a = terms(seed, *SIZES[seed % len(SIZES)])
        expected = bits(f.evaluate(a, as_scheduled=True))
        assert bits(kernel.seeded(seed)(a)) == bits(kernel.seeded(seeds + seed)(a)) == expected
    a = terms(1, 2, 300)
    expected = bits(f.evaluate(a, as_scheduled=True))
    assert bits(f.evaluate(a)) != expected


@pytest.mark.parametrize("vector_bytes", [8, 16, 32])
def test_lanes_are_combined_alike_on_all_processors(vector_bytes: int) -> None:
    f, s = rows()
    s.update.vectorize(k, 32, combine=tm.PRIVATE)
    for seed in range(5):
        given = checked_arguments(f.algorithm, {"a": terms(seed, 2, 131)}, {})
        narrow = interpreted(f.show("lowered", vector_bytes), given, threads=1)[0]
        assert bits(narrow) == bits(f.evaluate(given.inputs["a"], as_scheduled=True))


@pytest.mark.parametrize(("options", "threads"), covering([{}, {"chunk": 3}], [1, 2, 3]))
def test_private_copies_depend_on_the_number_of_threads(options: dict[str, Any], threads: int) -> None:
    f, s = rows(determinism="run_to_run")
    s.update.parallelize(k, combine=tm.PRIVATE, **options)
    kernel = f.compile(threads=threads)
    for seed in range(5):
        for n, count in SIZES:
            a = terms(seed, n, count)
            assert bits(kernel(a)) == bits(f.evaluate(a, as_scheduled=True, threads=threads))
    a = terms(2, 8, 257)
    found = {bits(f.evaluate(a, as_scheduled=True, threads=each)) for each in (1, 2, 3)}
    assert len(found) == 3


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_trees_of_ranks_have_the_bits_of_their_halves(ranks: int) -> None:
    share = -(-7 * 17 // ranks)
    f, _ = in_a_tree(7 * 17, share)
    in_order = 0
    for seed in range(SEEDS):
        x = terms(seed, 1, 7 * 17)[0]
        found = bits(f.simulate(ranks, x=x))
        assert found == bits(by_halves(x, share, ranks)) == bits(f.evaluate(x=x, as_scheduled=True))
        in_order += found == bits(f.evaluate(x=x))
    assert (in_order == SEEDS) == (ranks == 1)  # or the test would show nothing


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_of_ranks_have_their_shares(threads: int) -> None:
    """Each rank deals its terms out to threads; what they have is added in their order."""
    f = tm.Function("f", params=[])
    x = f.input("x", tm.float32, [103])
    s = f.reduction("s", {}, {i: 103}, tm.sum, x[i], determinism="run_to_run")
    f.outputs(s)
    x.distribute_array([i], rank=i // 26)
    s.update.split(i, 26, i0, i1)
    s.update.tag_distribute(i0, combine=tm.TREE)
    s.update.parallelize(i1, combine=tm.PRIVATE)
    given = terms(3, 1, 103)[0]
    parts = []
    for start in range(0, 103, 26):
        own = given[start : start + 26]
        shares = np.array_split(own, threads)  # the first ones have one more
        parts.append(sum((sum(each, np.float32(0)) for each in shares), np.float32(0)))
    a, b, c, d = parts
    assert bits(f.evaluate(given, as_scheduled=True, threads=threads)) == bits((a + c) + (b + d))


def test_ranks_in_the_order_of_mpi_have_other_bits() -> None:
    f, _ = total(dtype=tm.float32)
    x = terms(0, 1, 103)[0]
    assert len({bits(ran_on_ranks(f, seed=seed, x=x).outputs[0]) for seed in range(8)}) > 1


@pytest.mark.parametrize("options", [{"combine": tm.ATOMIC}, {"combine": tm.PRIVATE, "schedule": "dynamic"}], ids=str)
def test_threads_that_come_as_they_like_have_other_bits(options: dict[str, Any]) -> None:
    f, s = rows()
    s.update.parallelize(k, **options)
    a = terms(0, 1, 5003)
    kernel = f.compile(threads=4)
    found = set[bytes]()
    for _ in range(20_000):
        found.add(bits(kernel(a)))
        if len(found) > 1:
            return
    pytest.fail("all calls gave the same bits")


def test_what_is_not_guaranteed_has_no_order_to_compute_in() -> None:
    f, s = rows()
    s.update.parallelize(k, combine=tm.ATOMIC)
    with pytest.raises(
        ArgumentError, match="the terms of s are combined follows from the schedule, which is not_guaranteed"
    ):
        f.evaluate(terms(0, 2, 3), as_scheduled=True)
    with pytest.raises(ArgumentError, match="threads=0: give the number of threads"):
        rows()[0].evaluate(terms(0, 2, 3), as_scheduled=True, threads=0)


def test_blocks_that_come_in_another_order_change_bits() -> None:
    f, s = rows()
    on_blocks(f, s, combine=tm.ATOMIC)
    a = terms(3, 2, 200)
    kernel = f.compile(device="simulator")
    assert len({bits(kernel.seeded(seed)(a)) for seed in range(6)}) > 1


def test_values_of_several_components_are_returned_by_component() -> None:
    f, s = rows(tm.float32, tm.argmax)
    split(s).rfactor(k0).parallelize(k0)
    a = terms(4, 3, 40)
    for found, expected in zip(f.evaluate(a, as_scheduled=True), f.evaluate(a), strict=True):
        assert bits(found) == bits(expected)


def test_arrays_whose_dimensions_are_joined_keep_their_shape() -> None:
    f = tm.Function("joined", params=[(n := tm.params("n")[0])])
    x = f.input("x", tm.int32, [n, 2, 8])
    total = f.reduction("total", {i: n, i0: 2}, {k: 8}, tm.sum, x[i, i0, k])
    f.outputs(total)
    total.update.coalesce(i, i0, k, into=t).parallelize(t, combine=tm.PRIVATE)
    for size in (0, 3):
        given = np.ones((size, 2, 8), np.int32)
        found = f.evaluate(given, as_scheduled=True, threads=3)
        np.testing.assert_array_equal(found, np.full((size, 2), 8), strict=False)
        assert found.shape == (size, 2)


def test_values_are_by_index_and_as_scheduled_as_they_are_stored() -> None:
    n = tm.params("n")[0]
    f = tm.Function("inverse", params=[n])
    order = f.input("order", tm.int32, [n], values=(0, n), permutation=True)
    place = f.computation("place", {i: n, t: n}, tm.cast(tm.int32, i) + 4, where=order[i] == t)
    place.store_in(tm.Buffer("inverse", [n], tm.int32), [t])
    f.outputs(place)
    given = np.array([2, 0, 1], dtype=np.int32)
    assert f.evaluate(given).tolist() == [[0, 0, 4], [5, 0, 0], [0, 6, 0]]
    assert f.evaluate(given, as_scheduled=True).tolist() == [5, 6, 4] == f.compile()(given).tolist()


def test_values_in_runs_are_by_position_everywhere() -> None:
    n, p = tm.params("n p")
    f = tm.Function("scaled", params=[n, p])
    start = f.input("start", tm.int32, [n + 1], values=(0, p + 1), monotone=True)
    a = f.input("a", tm.float64, [p])
    f.outputs(f.computation("entry", {i: n, t: (start[i], start[i + 1])}, a[t] * tm.cast(tm.float64, i + 1)))
    given = np.array([0, 1, 1, 3], dtype=np.int32), np.array([2.0, 5.0, 7.0])
    for found in (f.evaluate(*given), f.evaluate(*given, as_scheduled=True), f.compile()(*given)):
        assert found.tolist() == [2, 15, 21]
