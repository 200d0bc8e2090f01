"""parallelize(threads=): so many threads share a loop at most, whatever the kernel has; sums in the bits of so many."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
i, b, i0, i1 = tm.iters("i b i0 i1")
team = tm.extern(
    "team", [tm.int32], tm.int32, lambda x: x,
    source="#include <omp.h>\nstatic int team(int x) { return x + omp_get_num_threads(); }",
)  # fmt: skip


@pytest.mark.parametrize(("asked", "kernel", "found"), [(1, 3, 1), (2, 3, 2), (3, 2, 2), (None, 3, 3)])
def test_threads_of_a_loop_are_at_most_so_many(asked: int | None, kernel: int, found: int) -> None:
    f = tm.Function("teams", params=[N])
    y = f.computation("y", {i: N}, team(tm.cast(tm.int32, 0)))
    f.outputs(y)
    y.parallelize(i, threads=asked)
    assert set(f.compile(threads=kernel)(N=7).tolist()) == {found}


def sums(**how: Any) -> tm.Function:
    f = tm.Function("total", params=[N])
    x = f.input("x", tm.float32, [N])
    total = f.reduction("total", {}, {i: N}, tm.sum, x[i])
    f.outputs(total)
    total.update.split(i, 8, i0, i1)
    total.update.parallelize(i0, combine=tm.PRIVATE, **how)
    return f


def test_a_sum_has_no_more_partial_results_than_threads() -> None:
    x = np.random.default_rng(0).random(1000, np.float32) + np.float32(1e-3)
    two, all_of_three = sums(threads=2).compile(threads=3)(x), sums().compile(threads=3)(x)
    assert two == sums(threads=2).evaluate(x, as_scheduled=True, threads=3) == sums().compile(threads=2)(x)
    assert two != all_of_three  # these numbers show it


def test_the_text_and_the_nest_say_it_and_a_copy_keeps_it() -> None:
    f = sums(threads=2)
    assert "omp parallel num_threads(tm_threads() < 2 ? tm_threads() : 2)" in f.source()["total.c"]
    assert "at most 2 threads" in str(f.show("loops")) and "at most 2 threads" in str(f.show("lowered"))
    assert "threads=2" in str(tm.Function.of(f.algorithm, f.commands).commands[-1])
    assert "num_threads" not in sums().source()["total.c"]


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "all"])
def test_what_is_no_number_of_threads_is_refused(threads: Any) -> None:
    with pytest.raises(tm.CommandError, match=re.escape(f"threads is {threads!r}: give an integer of at least 1")):
        sums(threads=threads)
