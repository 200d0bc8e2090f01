"""Reductions over ranks, run on simulated ranks: right in any order, and counted."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.interpret.test_machine import number
from tests.oracle.judges.rank_arrays import agreed, ran_on_ranks
from tests.programs.ranks.sums import (
    STORIES,
    again_and_again,
    by_halves,
    i,
    i1,
    i2,
    i3,
    in_a_tree,
    j,
    product,
    q,
    shared_value,
    total,
    whole,
)
from tests.programs.ranks.sums import number as a_number
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Param, binary
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.interpret import InterpretError, interpret_ranks
from tiramisu_py.ir import Allocate, AllReduce, Block, If, LoopFunction, Node, ProcessGrid, Store
from tiramisu_py.lower import lower


@pytest.mark.parametrize("name", STORIES)
def test_it_is_right_and_as_much_as_was_counted(name: str) -> None:
    f, given = STORIES[name]()
    assert f.check().ok, f.check()
    function = lower(f.completed)
    counted = f.cost("communication", **{name: given[name] for name in f.algorithm.params})
    for seed in range(3):
        ran = ran_on_ranks(f, seed=seed, function=function, **given)
        assert not agreed(f, ran.outputs[0], **given)
        traffic = ran.traffic
        assert traffic.elements > 0
        assert (traffic.elements, traffic.bytes, traffic.messages) == (
            counted.elements, counted.bytes, counted.messages,
        )  # fmt: skip
        for rank, mine in enumerate(counted.by_rank):
            assert (mine.sent.bytes, mine.received.bytes) == (
                traffic.sent_by(rank).bytes, traffic.received_by(rank).bytes,
            )  # fmt: skip


@pytest.mark.parametrize(("length", "share"), [(9, 9), (100, 50), (100, 40), (103, 26), (700, 100)])
def test_a_tree_over_ranks_has_the_bits_of_its_description(length: int, share: int) -> None:
    f, given = in_a_tree(length, share)
    report = f.check()
    assert report.ok and str(report.determinism["s"]) == ("ordered" if length == share else "everywhere")
    for _ in range(3):
        np.testing.assert_array_equal(f.simulate(**given), by_halves(given["x"], share))


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [
        (tm.product, tm.uint8), (tm.min, tm.float32), (tm.max, tm.int16), (tm.logical_and, tm.bool),
        (tm.logical_or, tm.bool), (tm.logical_or, tm.uint16),
    ],
)  # fmt: skip
def test_operators(operator: tm.Operator, dtype: tm.DType) -> None:
    f, given = total(operator, dtype)
    np.testing.assert_array_equal(f.simulate(**given), f.evaluate(**given))


@pytest.mark.parametrize("buffer", ["", "result"])
@pytest.mark.parametrize("owner", [None, 0, 2])
def test_a_sum_without_dimensions_is_one_number_on_the_ranks_that_hold_it(owner: int | None, buffer: str) -> None:
    f, given = a_number(buffer, owner)
    assert f.check().ok, f.check()
    for ranks in (4, 6):
        found = f.simulate(ranks, **given)
        assert np.shape(found) == () and found == given["x"].sum()


def test_a_distributed_output_may_be_in_a_buffer_of_another_name() -> None:
    f = tm.Function("blur", params=[])
    x = f.input("x", tm.int64, [103])
    y = f.computation("y", {i: 103}, 2 * x[i] + 1)
    w = f.computation("w", {i: (1, 103)}, y[i] + y[i - 1])
    f.outputs(y, w)
    for array in (x, y):
        array.distribute_array([i], rank=i // 26)
    y.store_in(tm.Buffer("result", [103], tm.int64), [i])
    w.distribute_array([i], rank=i // 26)
    w.store_in(tm.Buffer("sums", [103], tm.int64), [i])
    for stage in (y, w):
        stage.split(i, 26, q, i1)
        stage.tag_distribute(q)
    f.derive_transfers()
    assert f.check().ok, f.check()
    given = whole(103, dtype=np.int64)
    first, second = f.simulate(x=given)
    np.testing.assert_array_equal(first, 2 * given + 1)
    np.testing.assert_array_equal(second[1:], first[1:] + first[:-1])
    np.testing.assert_array_equal(f.part("result", first, 3), first[78:])
    np.testing.assert_array_equal(f.part("y", first, 3), first[78:])


@pytest.mark.parametrize("operator", [tm.sum, tm.product, tm.min])
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_partial_results_without_terms_are_not_read(operator: tm.Operator, threads: bool, alone: bool) -> None:
    """Threads and lanes add nothing to what no rank has started; the result is the identity."""
    n, most = tm.params("N K")
    f = tm.Function("sums", params=[n, most], assume="N <= 32")
    x = f.input("x", tm.int64, [3, n])
    s = f.reduction("s", {j: 3}, {i: n}, operator, x[j, i], where=i < most)
    f.outputs(s)
    if not alone:
        f.grid(4)
    x.distribute_array([j, i], rank=i // 8)
    s.update.split(i, 8, q, i1)
    s.update.reorder(q, j, i1)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    if threads:
        s.update.split(i1, 4, i2, i3)
        s.update.parallelize(i2, combine=tm.PRIVATE)
    else:
        s.update.vectorize(i1, 4, combine=tm.PRIVATE)
    assert f.check().ok, f.check()
    for length, limit in ((0, 0), (0, 9), (1, 0), (1, 1), (7, 3), (13, 20), (29, 0), (29, 11)):
        given = whole(3, length, dtype=np.int64) % 3 + 1
        expected = f.evaluate(x=given, N=length, K=limit)
        np.testing.assert_array_equal(f.simulate(x=given, N=length, K=limit), expected)


def test_a_rank_alone_gives_nothing() -> None:
    f, given = total(length=20)
    np.testing.assert_array_equal(f.simulate(**given), f.evaluate(**given))
    assert f.cost("communication").messages == 0


def test_each_rank_gives_its_partial_result_once() -> None:
    f, _ = product()
    counted = f.cost("communication")
    assert (counted.elements, counted.bytes, counted.messages) == (4 * 63, 4 * 63 * 8, 4)
    assert counted.of_rank(2).sent == counted.of_rank(2).received
    assert list(counted.channels()) == []
    assert "ranks -> all" in str(counted)
    f, _ = again_and_again()
    assert f.cost("communication", N=12).messages == 12 * 3


def test_readers_on_all_ranks() -> None:
    f, _, _ = shared_value()
    x = whole(103, dtype=np.int64)
    np.testing.assert_array_equal(f.simulate(x=x), f.evaluate(x=x))


# -- by hand: what no program that has been proven does


def ranks_of(body: Node, count: int = 2) -> None:
    allocated = Allocate("s", (number(2),), ty.int64, body)
    grid = ProcessGrid((number(count),), ("rank0",))
    function = LoopFunction("f", (), (), (), allocated, grid=grid)
    interpret_ranks(function, [{}] * count, {})


def started(index: int) -> Node:
    return Store("s", (number(index),), number(1), "start")


COMBINED = AllReduce(("s",), ty.int64, sum_, (0,), "the sum")
ON_RANK_0 = binary("==", Param("rank0", ty.int64), number(0))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (Block((started(0), If(ON_RANK_0, COMBINED))), "rank 0 waits in the sum for rank 1 to combine partial results"),
        (Block((started(0), If(ON_RANK_0, started(1)), COMBINED)), "elements that some ranks have not started"),
        (
            Block((started(0), If(ON_RANK_0, AllReduce(("s",), ty.int64, sum_, (0,), "another")), COMBINED)),
            "combines .* where others combine",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(body: Node, words: str) -> None:
    ranks_of(Block((started(0), COMBINED)))
    with pytest.raises(InterpretError, match=words):
        ranks_of(body)
