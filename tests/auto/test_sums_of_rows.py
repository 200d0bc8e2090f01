"""Results that depend on sums of their row: automatic schedules put all stages of a row before the next one."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

N, K = tm.params("N K")
i, k = tm.iters("i k")


def normalised() -> tm.Function:
    f = tm.Function("normalised", params=[N, K], assume="N >= 1 and K >= 1")
    a, scale = f.input("a", tm.float32, [N, K]), f.input("scale", tm.float32, [K])
    mean = f.reduction("mean", {i: N}, {k: K}, tm.sum, a[i, k] / tm.cast(tm.float32, K))
    spread = f.reduction("spread", {i: N}, {k: K}, tm.sum, (a[i, k] - mean[i]) ** 2)
    f.outputs(f.computation("out", {i: N, k: K}, (a[i, k] - mean[i]) / tm.sqrt(spread[i] + 1) * scale[k]))
    return f


@pytest.mark.parametrize("threads", [1, 2])
def test_a_gradient_is_one_loop_over_rows_with_the_sums_of_columns(threads: int) -> None:
    g = tm.vjp(normalised(), wrt=["a", "scale"])
    chosen = g.step.auto_schedule("x86-64-v3", threads=threads)
    said = chosen.explain()
    assert "row by row" in said and "d_scale.update.reorder(i, k)" in str(chosen)
    assert [line for line in g.step.show("pseudocode").splitlines() if line.startswith("    for i in")] == [
        "    for i in 0 .. N" + ("  parallel(static):" if threads > 1 else ":")
    ]
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (3, 19), (8, 64)):
        given = {
            "a": rng.standard_normal((rows, columns)).astype(np.float32),
            "scale": rng.standard_normal(columns).astype(np.float32),
            "d_out": rng.standard_normal((rows, columns)).astype(np.float32),
        }
        kernel = g.step.compile(threads=threads)
        for found, right in zip(kernel(**given), g.step.evaluate(**given), strict=True):
            np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5)


def test_products_stay_apart_from_rows() -> None:
    f = tm.Function("apart", params=[N, K])
    a, b = f.input("a", tm.float32, [N, K]), f.input("b", tm.float32, [K, K])
    j = tm.Iter("j")
    product = f.reduction("product", {i: N, j: K}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(f.computation("out", {i: N, j: K}, tm.maximum(product[i, j], 0.0)))
    assert "row by row" not in f.auto_schedule("x86-64-v3", threads=1).explain()


def test_columns_alone_are_no_rows() -> None:
    f = tm.Function("columns", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    total = f.reduction("total", {k: K}, {i: N}, tm.sum, a[i, k])
    f.outputs(f.computation("out", {i: N, k: K}, a[i, k] / total[k]))
    assert "row by row" not in f.auto_schedule("x86-64-v3", threads=1).explain()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_matrix_is_made_of_is_fetched_ahead_while_its_columns_are_summed(threads: int) -> None:
    f = tm.Function("columns", params=[N, K])
    a, b, v = f.input("a", tm.float32, [N, K]), f.input("b", tm.float32, [K, N]), f.input("v", tm.float32, [K])
    made = f.computation("made", {i: N, k: K}, a[i, k] * v[k] + b[k, i])
    f.outputs(made, f.reduction("total", {k: K}, {i: N}, tm.sum, made[i, k] * 2))
    said = str(f.auto_schedule("x86-64-v3", threads=threads))
    assert "made.prefetch(a, k, 512)" in said and "prefetch(b" not in said and "prefetch(v" not in said
    draw = np.random.default_rng(0)
    for rows, columns in ((1, 1), (11, 19), (24, 64)):
        given = {
            name: draw.random(shape, dtype=np.float32)
            for name, shape in (("a", (rows, columns)), ("b", (columns, rows)), ("v", columns))
        }
        for found, right in zip(f.compile(threads=threads)(**given), f.evaluate(**given), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-5)


@pytest.mark.parametrize(("other", "processor", "rows"), [(0, "v3", 4), (1, "v3", 6), (0, "v4", 8), (1, "v4", 8)])
def test_a_triangle_has_tiles_of_as_many_rows_as_registers_hold_but_those_of_one_panel(
    other: int, processor: str, rows: int
) -> None:
    j = tm.Iter("j")
    f = tm.Function("triangle", params=[N, K])
    a, b = f.input("a", tm.float64, [N, K]), f.input("b", tm.float64, [N, K])
    f.outputs(f.reduction("s", {i: N, j: i + 1}, {k: K}, tm.sum, (a, b)[other][i, k] * a[j, k], shape=[N, N]))
    assert f"s.tile(i, j, {rows}, " in str(f.auto_schedule(f"x86-64-{processor}", threads=1))
