"""The recipe of products over the rows of a sparse matrix: what it commands, that it is right, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.sparse import LENGTHS, M, N, P, csr, i, p
from tests.recipes.texts import commands
from tiramisu_py.recipes import Cpu

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
NARROW = Cpu(vector_bytes=16, registers=16, first=32 << 10, second=256 << 10)
MIDDLE = Cpu(vector_bytes=32, registers=16, first=32 << 10, second=512 << 10)
TEXT = """\
y.update.after(y.init, i)
y.parallelize(i, balance=start)
y.update.vectorize(p, 8, combine=tm.PRIVATE, remainder='mask')
y.update.prefetch(column, p, 512)
y.update.prefetch(value, p, 512)"""


def given(lengths: list[int], columns: int = 9) -> dict[str, Any]:
    """Small integers, whose sums are exact."""
    rng = np.random.default_rng(len(lengths))
    start = np.cumsum([0, *lengths]).astype(np.int32)
    column = rng.integers(0, columns, start[-1]).astype(np.int32)
    value, x = (rng.integers(-9, 10, size).astype(np.float32) for size in (start[-1], columns))
    return {"start": start, "column": column, "value": value, "x": x}


@pytest.mark.parametrize("cpu", [WIDE, MIDDLE, NARROW], ids=["wide", "middle", "narrow"])
def test_a_product_is_right_for_any_rows(cpu: Cpu) -> None:
    f, y = csr()
    tm.recipes.spmv(y, cpu=cpu)
    assert f.check().ok
    kernel = f.compile(threads=2)
    for lengths in (*LENGTHS, [0, 100, 7, 8, 9, 0]):
        arguments = given(lengths)
        np.testing.assert_array_equal(kernel(**arguments), f.evaluate(**arguments))


def test_its_text_makes_the_same_schedule_again() -> None:
    f, y = csr()
    text = tm.recipes.spmv(y, cpu=WIDE)
    assert "\n".join(commands(text)) == TEXT
    again, _ = csr()
    exec(text, {"tm": tm, "f": again})
    assert again.commands == f.commands


def test_entries_at_once_follow_from_the_processor() -> None:
    _, y = csr()
    assert "vectorize(p, 4, combine=tm.PRIVATE)" in tm.recipes.spmv(y, cpu=NARROW)
    _, y = csr()
    assert "vectorize(p, 8, combine=tm.PRIVATE, remainder='mask')" in tm.recipes.spmv(y, cpu=MIDDLE)


def test_what_is_no_product_over_rows_is_refused_with_the_reason() -> None:
    f = tm.Function("f", params=[N, M, P])
    a = f.input("a", tm.float32, [N, M])
    j = tm.iters("j")[0]
    plain = f.reduction("plain", {i: N}, {j: M}, tm.sum, a[i, j])
    twice = f.computation("twice", {i: N}, 2 * plain[i])
    f.outputs(twice)
    for stage, words in (
        (plain, "are not those from start"),
        (twice, "no reduction whose order is free"),
        (a, "takes computations"),
    ):
        with pytest.raises(tm.ArgumentError, match=words):
            tm.recipes.spmv(stage)
    assert not f.commands


def test_a_product_that_has_been_scheduled_is_refused() -> None:
    _, y = csr()
    y.update.split(p, 4, *tm.iters("p0 p1"))
    with pytest.raises(tm.ArgumentError, match="scheduled already: give the recipe before"):
        tm.recipes.spmv(y)


def test_a_refused_command_takes_all_back() -> None:
    f, y = csr()
    y.update.vectorize(i, 4)  # a loop that threads cannot have
    before = f.commands
    with pytest.raises(tm.CommandError):
        tm.recipes.spmv(y)
    assert f.commands == before
