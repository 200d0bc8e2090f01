"""Parallel loops: pragmas, private copies, atomic updates, memory of each thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.compiled import SANITISERS, Compiled
from tests.programs.loop_ir.short_names import (
    function,
    given,
    load,
    loop,
    number,
    result,
    size,
    store,
    temporary,
    updated,
    var,
)
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Cast, select
from tiramisu_py.algorithm.operators import (
    Operator,
    logical_and,
    logical_or,
    max_,
    min_,
    product,
    sum_,
)
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends import emit
from tiramisu_py.ir import LoopFunction, Private
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.loops import Combine, Parallel, Vector

N, M, i, j = size("N"), size("M"), var("i"), var("j")
farther = Operator("farther", lambda a, b: select(a < b, b, a), lambda dtype: -1000)


def histogram(operator: Operator, combine: Combine, dtype: DType) -> LoopFunction:
    """``h[k[i]] = operator(h[k[i]], x[i])`` in parallel over i, over 5 places."""
    index = Cast(load("k", i, dtype=ty.int32), ty.int64)
    update = updated("h", index, operator, load("x", i, dtype=dtype), dtype)
    tag = Parallel(combine=combine)
    return function(
        "f",
        "N",
        [given("k", N, dtype=ty.int32), given("x", N, dtype=dtype), result("h", 5, dtype=dtype, is_input=True)],
        loop("i", N, update, tag=tag, reductions=(Private("h", operator, combine),)),
    )


def at(function: Any, start: Any, k: Any, x: Any) -> Any:
    """One update after another, in NumPy."""
    found = start.copy()
    function.at(found, k, x)
    return found


CASES = [
    (sum_, np.add, ty.int32),
    (sum_, np.add, ty.int8),
    (sum_, np.add, ty.float64),
    (product, np.multiply, ty.uint64),
    (min_, np.minimum, ty.float32),
    (max_, np.maximum, ty.int16),
    (max_, np.maximum, ty.float16),
    (logical_and, np.bitwise_and, ty.bool_),
    (logical_or, np.bitwise_or, ty.uint16),
    (farther, np.maximum, ty.int64),
]


@pytest.mark.parametrize("combine", [Combine.PRIVATE, Combine.ATOMIC], ids=str)
@pytest.mark.parametrize(("operator", "numpy", "dtype"), CASES, ids=lambda value: getattr(value, "name", "ufunc"))
def test_updates_of_threads_lose_nothing(operator: Operator, numpy: Any, dtype: DType, combine: Combine) -> None:
    compiled = Compiled(histogram(operator, combine, dtype), "-O1")
    rng = np.random.default_rng(0)
    for n in (0, 1, 1000):
        k = rng.integers(0, 5, n).astype(np.int32)
        x = rng.integers(0, 2 if dtype.is_bool else 50, n).astype(dtype.numpy)  # sums of these are exact in any order
        start = np.ones(5, dtype.numpy)
        found = start.copy()
        compiled({"N": n}, k=k, x=x, h=found)
        np.testing.assert_array_equal(found, at(numpy, start, k, x))


@pytest.mark.parametrize("combine", [Combine.PRIVATE, Combine.ATOMIC], ids=str)
def test_updates_are_right_without_openmp(combine: Combine) -> None:
    compiled = Compiled(histogram(sum_, combine, ty.int32), threads=False)
    found = np.zeros(5, np.int32)
    compiled({"N": 10}, k=np.arange(10, dtype=np.int32) % 5, x=np.ones(10, np.int32), h=found)
    np.testing.assert_array_equal(found, 2)


def text(operator: Operator, combine: Combine, dtype: DType) -> str:
    return emit(optimise(histogram(operator, combine, dtype)))["f.c"]


def test_updates_that_may_meet_are_atomic() -> None:
    """In the text: threads that happen not to meet would show nothing."""
    assert "#pragma omp atomic\n" in text(sum_, Combine.ATOMIC, ty.int32)
    exchanged = text(min_, Combine.ATOMIC, ty.float32)
    assert "} while (!__atomic_compare_exchange(tm_place, &tm_old, &tm_new, 0," in exchanged
    assert "omp atomic" not in exchanged and "__atomic_store" not in exchanged


def test_copies_of_threads_have_cache_lines_of_their_own_and_are_complete_before_they_are_combined() -> None:
    private = text(sum_, Combine.PRIVATE, ty.int32)
    assert "h_slot = (h_elements + 15)/16*16;" in private
    assert "#pragma omp for schedule(static)\n" in private and "nowait" not in private


def test_private_sums_of_floats_are_the_same_in_every_run() -> None:
    compiled = Compiled(histogram(sum_, Combine.PRIVATE, ty.float32))
    x = np.random.default_rng(0).normal(size=10000).astype(np.float32)
    k = np.zeros(10000, np.int32)
    results = set()
    for _ in range(20):
        found = np.zeros(5, np.float32)
        compiled({"N": 10000}, k=k, x=x, h=found)
        results.add(found.tobytes())
    assert len(results) == 1


def test_elements_that_no_thread_updates_keep_their_bits() -> None:
    compiled = Compiled(histogram(sum_, Combine.PRIVATE, ty.float32))
    found = np.full(5, -0.0, np.float32)
    compiled({"N": 1}, k=np.zeros(1, np.int32), x=np.ones(1, np.float32), h=found)
    assert np.signbit(found[1:]).all()


def test_a_matrix_of_partial_sums_is_combined_over_collapsed_vector_loops() -> None:
    k = var("k")
    update = updated("C", (i, j), sum_, load("A", i, k) * load("B", k, j))
    body = loop("i", N, loop("j", M, update, tag=Vector(8)))
    mm = function(
        "mm",
        "N M K",
        [given("A", N, size("K")), given("B", size("K"), M), result("C", N, M)],
        loop("i", N, loop("j", M, store("C", (i, j), 0.0), tag=Vector(8)), tag=Parallel()),
        loop(
            "k",
            size("K"),
            body,
            tag=Parallel(combine=Combine.PRIVATE),
            reductions=(Private("C", sum_, Combine.PRIVATE),),
        ),
    )
    compiled = Compiled(mm)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (5, 17)).astype(np.float32), rng.integers(0, 9, (17, 19)).astype(np.float32)
    found = np.empty((5, 19), np.float32)
    compiled({"N": 5, "M": 19, "K": 17}, A=a, B=b, C=found)
    np.testing.assert_array_equal(found, a @ b)


def rows_of(extent: Any) -> LoopFunction:
    """A temporary of `extent` elements for each iteration of a parallel loop."""
    body = temporary(
        "row",
        (extent,),
        loop("j", M, store("row", j, load("x", i, j) * 2.0), tag=Vector(4)),
        loop("j", M, store("y", (i, j), load("row", M - 1 - j))),
    )
    return function("f", "N M", [given("x", N, M), result("y", N, M)], loop("i", N, body, tag=Parallel("dynamic", 2)))


@pytest.mark.parametrize(("extent", "deals"), [(M, "omp for"), (number(70), "omp parallel for")], ids=["heap", "stack"])
def test_each_thread_has_its_own_temporary(extent: Any, deals: str) -> None:
    compiled = Compiled(rows_of(extent))
    assert f"#pragma {deals} schedule(dynamic, 2)" in compiled.source
    x = np.random.default_rng(0).random((50, 67), dtype=np.float32)
    found = np.empty_like(x)
    compiled({"N": 50, "M": 67}, x=x, y=found)
    np.testing.assert_array_equal(found, x[:, ::-1] * 2)


def test_missing_memory_in_a_thread_is_an_error_of_the_call() -> None:
    compiled = Compiled(rows_of(M * number(2**44)))
    x = np.zeros((2, 16), np.float32)
    code, error = compiled.outcome({"N": 2, "M": 16}, x=x, y=x.copy())
    assert code == 5
    assert "memory" in error


def test_loops_collapse_only_where_their_bounds_allow_it() -> None:
    def nest(inner_upper: Any) -> LoopFunction:
        inner = loop("j", inner_upper, store("y", (i, j), 1.0), tag=Parallel(collapse=0))
        return function("f", "N M", [result("y", N, M)], loop("i", N, inner, tag=Parallel(collapse=2)))

    assert "collapse(2)" in Compiled(nest(M)).source
    triangle = Compiled(nest(i + 1))
    assert "collapse" not in triangle.source
    found = np.zeros((6, 6), np.float32)
    triangle({"N": 6, "M": 6}, y=found)
    np.testing.assert_array_equal(found, np.tril(np.ones((6, 6), np.float32)))


def test_parallel_code_is_free_of_undefined_behaviour() -> None:
    compiled = Compiled(rows_of(M), "-O0", *SANITISERS)
    x = np.ones((9, 7), np.float32)
    found = compiled.sanitised({"N": 9, "M": 7}, x=x, y=np.zeros((9, 7), np.float32))
    np.testing.assert_array_equal(found["y"], 2)
    compiled = Compiled(histogram(min_, Combine.ATOMIC, ty.float32), "-O0", *SANITISERS)
    found = compiled.sanitised(
        {"N": 9}, k=np.arange(9, dtype=np.int32) % 5, x=np.arange(9, dtype=np.float32), h=np.ones(5, np.float32)
    )
    np.testing.assert_array_equal(found["h"], [0, 1, 1, 1, 1])
