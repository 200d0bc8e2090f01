"""Which guarded updates may run in the lanes that their guards exclude."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.dependence.spare_updates import may_run_anywhere

N, W, M = tm.params("N W M")
i, w, v = tm.iters("i w v")


def rows(term: Callable[[Any], Any] = lambda a: a[w, i], where: Any = None, **options: Any) -> tuple[tm.Function, Any]:
    """``y[i] += term`` for w < length[i], in vectors along i"""
    f = tm.Function("rows", params=[N, W])
    a = f.input("a", options.get("dtype", tm.float32), [W, N])
    length = f.input("length", tm.int32, [N], values=(0, W + 1))
    condition = w < length[i] if where is None else where(length)
    y = f.reduction("y", {i: N}, over={w: W}, op=tm.sum, expr=term(a), where=condition)
    f.outputs(y)
    y.update.interchange(i, w).vectorize(i, 8, combine=options.get("combine"))
    return f, y


def anywhere(f: tm.Function, name: str = "y_update") -> bool:
    assert f.check().ok, f.check()
    return may_run_anywhere(f._program, f._program.statements[name])


def test_a_vector_of_rows_may_run_to_the_end_of_the_longest() -> None:
    f, _ = rows()
    assert anywhere(f)
    assert "for (int64_t lane" not in "".join(f.source().values())


def test_a_condition_on_the_value_alone_leaves_elements_that_nothing_has_started() -> None:
    f, _ = rows(where=lambda length: (length[i] > 2) & (w < length[i]))
    assert not anywhere(f)


def test_a_division_needs_its_guard() -> None:
    f, _ = rows(lambda a: 7 // a[w, i], dtype=tm.int32)
    assert not anywhere(f)
    f, _ = rows(lambda a: a[w, i] // 7, dtype=tm.int32)
    assert anywhere(f)


def test_a_function_of_c_needs_its_guard() -> None:
    third = tm.extern("third_of", [tm.float32], tm.float32, lambda x: x / 3, source="float third_of(float x);")
    f, _ = rows(lambda a: third(a[w, i]))
    assert not anywhere(f)


@pytest.mark.parametrize("parallel", [False, True])
def test_lanes_whose_places_a_fact_keeps_apart_need_their_guards(parallel: bool) -> None:
    f = tm.Function("scatter", params=[N])
    index = f.input("index", tm.int32, [N], values=(0, N), permutation=True)
    y = f.reduction("y", {v: N}, over={i: N}, op=tm.sum, expr=i, where=index[i] == v, dtype=tm.int64)
    f.outputs(y)
    if parallel:
        y.update.parallelize(i).vectorize(v, 8)
    else:
        y.update.vectorize(i, 8)
    assert not anywhere(f)  # the old element, stored again, would hide what another iteration has stored


def test_rows_on_threads_that_share_no_element_may() -> None:
    i0, i1 = tm.iters("i0 i1")
    g = tm.Function("on_threads", params=[N, W])
    a = g.input("a", tm.float32, [W, N])
    length = g.input("length", tm.int32, [N], values=(0, W + 1))
    y = g.reduction("y", {i: N}, over={w: W}, op=tm.sum, expr=a[w, i], where=w < length[i])
    g.outputs(y)
    y.update.split(i, 8, i0, i1).reorder(i0, w, i1).vectorize(i1, 8).parallelize(i0)
    assert anywhere(g)


def below(options: dict[str, Any], op: Any = tm.sum, dtype: Any = tm.float32) -> tm.Function:
    """``y[i] += a[w, i]`` for terms below a limit, in lanes with partial results of their own."""
    f = tm.Function("below", params=[N, W])
    a, limit = f.input("a", dtype, [N, W]), f.input("limit", dtype, [N])
    y = f.reduction("y", {i: N}, over={w: W}, op=op, expr=a[i, w], where=a[i, w] < limit[i])
    f.outputs(y)
    y.update.vectorize(w, 8, combine=tm.PRIVATE)
    if options.get("threads"):
        y.parallelize(i)
    return f


@pytest.mark.parametrize("dtype", [tm.float32, tm.int32])
@pytest.mark.parametrize("op", [tm.sum, tm.product, tm.max])
@pytest.mark.parametrize("threads", [False, True])
def test_lanes_with_partial_results_choose_what_they_add(op: Any, dtype: Any, threads: bool) -> None:
    f = below({"threads": threads}, op, dtype)
    assert anywhere(f)
    assert "for (int64_t lane" not in f.source()["below.c"]
    random = np.random.default_rng(2)
    kernel = f.compile(threads=2)
    for size in (0, 7, 8, 29):
        array = (random.random((5, size)) * 4 - 2).astype(dtype.numpy)
        limits = np.array([0.5, -9, 9, 1, -0.5]).astype(dtype.numpy)
        got = kernel(array, limits, N=5, W=size)
        assert got.tobytes() == f.evaluate(array, limits, N=5, W=size, as_scheduled=True).tobytes()
        np.testing.assert_allclose(got, f.evaluate(array, limits, N=5, W=size), rtol=1e-4, atol=1e-5)


def test_what_lanes_add_to_an_element_that_other_threads_use_keeps_its_guard() -> None:
    """Rows on threads, each position in one row alone: a sum of no terms would store what another row adds to."""
    E, (n, p, d) = tm.params("E")[0], tm.iters("n p d")
    f = tm.Function("sums", params=[N, E])
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    x = f.input("x", tm.float32, [E, 64])
    a = f.reduction("a", {n: N, p: (start[n], start[n + 1])}, {d: 64}, tm.sum, x[p, d])
    f.outputs(a)
    a.update.reorder(p, n, d).parallelize(n).vectorize(d, 8, combine=tm.PRIVATE)
    assert f.check().ok
    (body,) = f.source()["sums.c"].split("#pragma omp parallel for")[1:]
    # nothing is combined where the row has not this position: the loop has the row of the position, or none
    assert "n < n_end; n++" in body[: body.index("a_partial")]
    given = {"start": np.arange(0, 401, 10).astype(np.int32), "x": np.ones((400, 64), np.float32)}
    np.testing.assert_array_equal(f.compile(threads=2)(**given), f.evaluate(**given))


def test_lanes_whose_terms_a_loop_inside_chooses_combine_nothing_in_elements_of_other_threads() -> None:
    E, (n, p, d, q) = tm.params("E")[0], tm.iters("n p d q")
    f = tm.Function("sums", params=[N, E])
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    x, taken = f.input("x", tm.float32, [E, 3, 64]), f.input("taken", tm.int32, [E, 3])
    domain = {n: N, p: (start[n], start[n + 1])}
    a = f.reduction("a", domain, {q: 3, d: 64}, tm.sum, x[p, q, d], where=taken[p, q] > 0)
    f.outputs(a)
    a.update.reorder(p, n, d, q).parallelize(n).vectorize(d, 8, combine=tm.PRIVATE)
    assert f.check().ok and not anywhere(f, "a_update")
    assert "a_partial" not in f.source()["sums.c"]
    random = np.random.default_rng(4)
    taken_at = random.integers(0, 2, (400, 3)).astype(np.int32)
    given = {"start": np.arange(0, 401, 10).astype(np.int32), "x": np.ones((400, 3, 64), np.float32), "taken": taken_at}
    np.testing.assert_array_equal(f.compile(threads=2)(**given), f.evaluate(**given))
