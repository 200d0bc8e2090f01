"""Reductions over ranks, run on simulated ranks: right in any order, and counted."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.interpret.test_machine import number
from tests.oracle.rank_arrays import agreed, ran_on_ranks
from tests.programs.ranks.sums import STORIES, again_and_again, product, shared_value, total, whole
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import sum_
from tiramisu_py.algorithm.expressions import Param, binary
from tiramisu_py.interpret import InterpretError, interpret_ranks
from tiramisu_py.ir import Allocate, AllReduce, Block, If, LoopFunction, Node, ProcessGrid, Store


@pytest.mark.parametrize("name", STORIES)
def test_it_is_right_and_as_much_as_was_counted(name: str) -> None:
    f, given = STORIES[name]()
    assert f.check().ok, f.check()
    for seed in range(3):
        ran = ran_on_ranks(f, seed=seed, **given)
        assert not agreed(f, ran.outputs[0], **given)
        counted = f.communication(**{name: given[name] for name in f.algorithm.params})
        traffic = ran.traffic
        assert traffic.elements > 0
        assert (traffic.elements, traffic.bytes, traffic.messages) == (
            counted.elements, counted.bytes, counted.messages,
        )  # fmt: skip
        for rank, mine in enumerate(counted.by_rank):
            assert (mine.sent.bytes, mine.received.bytes) == (
                traffic.sent_by(rank).bytes, traffic.received_by(rank).bytes,
            )  # fmt: skip


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


def test_a_rank_alone_gives_nothing() -> None:
    f, given = total(length=20)
    np.testing.assert_array_equal(f.simulate(**given), f.evaluate(**given))
    assert f.communication().messages == 0


def test_each_rank_gives_its_partial_result_once() -> None:
    f, _ = product()
    counted = f.communication()
    assert (counted.elements, counted.bytes, counted.messages) == (4 * 63, 4 * 63 * 8, 4)
    assert counted.of_rank(2).sent == counted.of_rank(2).received
    assert list(counted.channels()) == []
    assert "ranks -> all" in str(counted)
    f, _ = again_and_again()
    assert f.communication(N=12).messages == 12 * 3


def test_readers_on_all_ranks() -> None:
    f, _, _ = shared_value()
    x = whole(103, dtype=np.int64)
    np.testing.assert_array_equal(f.simulate(x=x), f.evaluate(x=x))


# -- by hand: what no program that has been proven does


def ranks_of(body: Node, count: int = 2) -> None:
    allocated = Allocate("s", (number(2),), ty.int64, body)
    grid = ProcessGrid((number(count),), ("rank0",))
    function = LoopFunction("f", (), (), (), allocated, (), (), (), grid=grid)
    interpret_ranks(function, [{}] * count, {})


def started(index: int) -> Node:
    return Store("s", (number(index),), number(1), "start")


COMBINED = AllReduce("s", ty.int64, sum_, (0,), "the sum")
ON_RANK_0 = binary("==", Param("rank0", ty.int64), number(0))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (Block((started(0), If(ON_RANK_0, COMBINED))), "rank 0 waits in the sum for rank 1 to combine partial results"),
        (Block((started(0), If(ON_RANK_0, started(1)), COMBINED)), "elements that some ranks have not started"),
        (
            Block((started(0), If(ON_RANK_0, AllReduce("s", ty.int64, sum_, (0,), "another")), COMBINED)),
            "combines .* where others combine",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(body: Node, words: str) -> None:
    ranks_of(Block((started(0), COMBINED)))
    with pytest.raises(InterpretError, match=words):
        ranks_of(body)
