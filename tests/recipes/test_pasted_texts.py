"""The text of each recipe runs where it is pasted, whatever names the program has: `f` and `tm` are all that it needs.

A computation has the name of the function, another one is called `f`, a third has that of an iterator, and a keyword of
Python is one, too.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.test_recipes import NARROW, WIDE

N, M, K, T, P, H, W, C, F = tm.params("N M K T P H W C F")
i, j, k, t, p, y, x, c, q, r, s = tm.iters("i j k t p y x c q r s")
f32 = tm.float32
Recipe = Callable[[tm.Function], str]
SPACE = "N >= 1 and M >= 1"


def stencil() -> tm.Function:
    fn = tm.Function("smooth", params=[N, M], assume=SPACE)
    a = fn.input("r0", f32, [N + 2, M + 2])
    f = fn.computation("f", {i: N + 2, j: M}, a[i, j] + a[i, j + 1] + a[i, j + 2])
    fn.outputs(fn.computation("smooth", {i: N, j: M}, f[i, j] + f[i + 1, j] + f[i + 2, j]))
    return fn


def pointwise() -> tm.Function:
    fn = tm.Function("bright", params=[N, M], assume=SPACE)
    a = fn.input("a", f32, [N, M])
    f = fn.computation("f", {i: N, j: M}, a[i, j] * 2)
    fn.outputs(fn.computation("bright", {i: N, j: M}, f[i, j] + 1))
    return fn


def time_stencil() -> tm.Function:
    fn = tm.Function("u", params=[T, N, M], assume="T >= 0 and N >= 3 and M >= 3")
    a = fn.input("a", f32, [N, M])

    def value(u: Any) -> Any:
        inside = (i > 0) & (i < N - 1) & (j > 0) & (j < M - 1)
        near = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        return tm.select(t == 0, a[i, j], tm.select(inside, near, u[t - 1, i, j]))

    u = fn.computation("u", {t: T + 1, i: N, j: M}, value)
    fn.outputs(fn.computation("f", {i: N, j: M}, 2 * u[T, i, j]))
    return fn


def softmax() -> tm.Function:
    fn = tm.Function("soft", params=[N, M], assume="N >= 0 and M >= 1")
    a = fn.input("a", f32, [N, M])
    top = fn.reduction("lambda", {i: N}, {j: M}, tm.max, a[i, j])
    power = fn.computation("f", {i: N, j: M}, tm.exp(a[i, j] - top[i]))
    total = fn.reduction("def", {i: N}, {j: M}, tm.sum, power[i, j])
    fn.outputs(fn.computation("soft", {i: N, j: M}, power[i, j] / total[i]))
    return fn


def total(name: str = "total") -> tm.Function:
    fn = tm.Function(name, params=[N, M], assume=SPACE)
    a = fn.input("f", f32, [N, M])
    fn.outputs(fn.reduction("total", {i: N}, {j: M}, tm.sum, a[i, j]))
    return fn


def everything(extent: Any = N) -> tm.Function:
    fn = tm.Function("i0", params=[N], assume="N >= 1")
    a = fn.input("f", f32, [extent])
    fn.outputs(fn.reduction("i0", {}, {i: extent}, tm.sum, a[i]))
    return fn


def sums_together() -> tm.Function:
    fn = tm.Function("s1", params=[N, M], assume=SPACE)
    a = fn.input("a", f32, [N, M])
    s1 = fn.reduction("s1", {i: N}, {j: M}, tm.sum, a[i, j])
    s2 = fn.reduction("f", {i: N}, {j: M}, tm.sum, a[i, j] * a[i, j])
    fn.outputs(s1, s2)
    return fn


def columns() -> tm.Function:
    fn = tm.Function("f", params=[N, M], assume=SPACE)
    a = fn.input("a", f32, [N, M])
    fn.outputs(fn.reduction("f", {j: M}, {i: N}, tm.sum, a[i, j]))
    return fn


def product() -> tm.Function:
    fn = tm.Function("C", params=[N, M, K], assume="N >= 1 and M >= 1 and K >= 1")
    a, b = fn.input("f", f32, [N, K]), fn.input("i0", f32, [K, M])
    sums = fn.reduction("C", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
    fn.outputs(fn.computation("pass", {i: N, j: M}, tm.maximum(sums[i, j], 0)))
    return fn


def sparse() -> tm.Function:
    fn = tm.Function("y", params=[N, M, K])
    start = fn.input("f", tm.int32, [N + 1], values=(0, K + 1), monotone=True)
    column = fn.input("column", tm.int32, [K], values=(0, M))
    value, of = fn.input("value", f32, [K]), fn.input("x", f32, [M])
    inside = (start[i] <= p) & (p < start[i + 1])
    fn.outputs(fn.reduction("y", {i: N}, {p: K}, tm.sum, value[p] * of[column[p]], where=inside))
    return fn


def convolved() -> tm.Function:
    fn = tm.Function("result", params=[P, H, W, C, F], assume="P >= 1 and H >= 1 and W >= 1 and C >= 1 and F >= 1")
    image = fn.input("f", f32, [P, H + 2, W + 2, C])
    weights = fn.input("weights", f32, [3, 3, C, F])
    term = image[p, y + r, x + s, c] * weights[r, s, c, q]
    sums = fn.reduction("result", {p: P, y: H, x: W, q: F}, {r: 3, s: 3, c: C}, tm.sum, term)
    fn.outputs(fn.computation("p0", {p: P, y: H, x: W, q: F}, tm.maximum(sums[p, y, x, q], 0)))
    return fn


def typed_product() -> tm.Function:
    fn = tm.Function("p0", params=[N, P, T])
    types = fn.segments("types", T, of=P)
    src = fn.input("src", tm.int32, [P], values=(0, N))
    a, b = fn.input("a", f32, [N, 16]), fn.input("b", f32, [T, 16, 16])
    f = fn.reduction("f", {t: T, p: types[t], j: 16}, {k: 16}, tm.sum, a[src[p], k] * b[t, k, j])
    fn.outputs(fn.computation("p1", {t: T, p: types[t], j: 16}, f[t, p, j]))
    return fn


def traversed() -> tm.Function:
    fn = tm.Function("p0", params=[N, P])
    rows = fn.segments("rows", N, of=P)
    a, column = fn.input("a", f32, [P]), fn.input("column", tm.int32, [P], values=(0, N))
    f = fn.computation("f", {t: N, p: rows[t]}, a[p] * 2)
    fn.outputs(fn.scatter("p1", {i: N}, over={p: P}, at=[column[p]], op=tm.sum, expr=f[rows.of(p), p]))
    return fn


def outputs(fn: tm.Function) -> list[Any]:
    return [fn[name] for name in fn.algorithm.outputs]


def of(recipe: Any, *stages: str, **options: Any) -> Recipe:
    """A recipe of some stages, or of the outputs."""
    return lambda fn: recipe(*([fn[name] for name in stages] or outputs(fn)), **options)


#: A program, its recipe, and the processor that the recipe is for.
CASES: dict[str, tuple[Callable[[], tm.Function], Recipe]] = {
    "stencil": (stencil, of(tm.recipes.stencil, "f", "smooth", cpu=WIDE)),
    "stencil, narrow": (stencil, of(tm.recipes.stencil, "f", "smooth", cpu=NARROW)),
    "pointwise": (pointwise, of(tm.recipes.pointwise, "f", "bright", cpu=WIDE)),
    "time_stencil": (time_stencil, of(tm.recipes.time_stencil, "u", cpu=WIDE)),
    "rows": (softmax, of(tm.recipes.rows, cpu=WIDE)),
    "columns": (columns, of(tm.recipes.columns, cpu=WIDE)),
    "reduction": (total, of(tm.recipes.reduction, cpu=WIDE)),
    "reduction of all": (everything, of(tm.recipes.reduction, cpu=WIDE)),
    "reduction of columns": (columns, of(tm.recipes.reduction, cpu=WIDE)),
    "reductions together": (sums_together, of(tm.recipes.reduction, cpu=WIDE)),
    "reduction, softmax": (softmax, of(tm.recipes.reduction, cpu=WIDE)),
    "reduction on a GPU": (total, of(tm.recipes.reduction, on=tm.gpu())),
    "reduction of all on a GPU": (everything, of(tm.recipes.reduction, on=tm.gpu(), across=tm.LAST_BLOCK)),
    "reductions together on a GPU": (softmax, of(tm.recipes.reduction, on=tm.gpu())),
    "reduction on ranks": (lambda: everything(1000), of(tm.recipes.reduction, on=tm.cores(ranks=range(4)), cpu=WIDE)),
    "matmul": (product, of(tm.recipes.matmul, cpu=WIDE)),
    "matmul, of sums": (product, of(tm.recipes.matmul, "C", cpu=NARROW)),
    "spmv": (sparse, of(tm.recipes.spmv, cpu=WIDE)),
    "typed_matmul": (typed_product, of(tm.recipes.typed_matmul, cpu=WIDE)),
    "typed_matmul on a GPU": (typed_product, of(tm.recipes.typed_matmul, on=tm.gpu())),
    "traversal": (traversed, of(tm.recipes.traversal, "f", "p1", by="positions", cpu=WIDE)),
    "traversal on a GPU": (traversed, of(tm.recipes.traversal, "f", "p1", by="positions", on=tm.gpu())),
    "convolution": (convolved, of(tm.recipes.convolution, cpu=WIDE)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_text_of_a_recipe_runs_where_it_is_pasted(case: str) -> None:
    make, recipe = CASES[case]
    fn, again = make(), make()
    text = recipe(fn)
    exec(text, {"tm": tm, "f": again})
    assert again.commands == fn.commands
    assert len(fn.commands) > 1


def test_each_recipe_is_pasted() -> None:
    public = {
        name for name, each in vars(tm.recipes).items() if isinstance(each, types.FunctionType) and name[0] != "_"
    }
    makers = {name for name in public if not name.endswith("_space") and name != "blocks"}  # that is a program's own
    assert makers and {name for name in makers if not any(case.startswith(name) for case in CASES)} == set()


def test_a_schedule_that_was_pasted_computes_the_same() -> None:
    fn = total()
    exec(tm.recipes.reduction(total()["total"], cpu=WIDE), {"tm": tm, "f": fn})
    given = np.random.default_rng(0).integers(-9, 9, (3, 40)).astype(np.float32)
    np.testing.assert_array_equal(fn.compile(threads=2)(given), given.sum(1))
