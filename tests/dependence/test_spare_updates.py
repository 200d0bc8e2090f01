"""Which guarded updates may run in the lanes that their guards exclude."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
