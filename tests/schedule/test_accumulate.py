"""Sums apart from what is stored: tiles of registers, bits, files, gradients, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E = tm.params("N E")
n, p, k, d, n0, n1, k0, k1 = tm.iters("n p k d n0 n1 k0 k1")
DRAW = np.random.default_rng(3)
X, W = DRAW.integers(-9, 9, (11, 12)).astype(np.float32), DRAW.integers(-9, 9, (12, 6)).astype(np.float32)


def product() -> tuple[tm.Function, tm.Reduction]:
    """Rows of data times a matrix."""
    f = tm.Function("product", params=[N])
    x, w = f.input("x", tm.float32, [N, 12]), f.input("w", tm.float32, [12, 6])
    y = f.reduction("y", {n: N, d: 6}, {k: 12}, tm.sum, x[n, k] * w[k, d])
    f.outputs(y)
    return f, y


def in_tiles(y: tm.Reduction) -> tm.Reduction:
    """The sums of a tile in registers, stored when they are whole."""
    total = y.accumulate("total")
    y.split(n, 4, n0, n1)
    total.compute_at(y, n0)
    total.update.reorder(k, n, d)
    for stage in (total.init, total.update):
        stage.unroll(n)
        stage.vectorize(d, 2)
    y.unroll(n1)
    y.vectorize(d, 2)
    y.parallelize(n0)
    return total


def test_sums_grow_in_registers_and_are_stored_once(tmp_path: Path) -> None:
    f, y = product()
    in_tiles(y)
    report = f.check()
    assert report.ok and report.bits == "bits preserved" and str(report.determinism["y"]) == "ordered", report
    (text,) = (text for file, text in f.source().items() if file.endswith("product.c"))
    assert "total_3_2 +=" in text and text.count("&y[") == 12 + 3, text  # 12 vectors of a tile, 3 of another one's row
    f.save(tmp_path / "f.json")
    for each in (f, tm.load(tmp_path / "f.json")):
        np.testing.assert_array_equal(each.compile(threads=2)(X, W), X @ W)
    np.testing.assert_array_equal(f.evaluate(X, W), X @ W)
    np.testing.assert_array_equal(f.evaluate(X, W, as_scheduled=True), X @ W)
    assert [*f.algorithm.computations] == ["y"]


def test_a_gathered_scatter_keeps_its_bits() -> None:
    f = tm.Function("nodes", params=[N, E])
    dst, a = f.input("dst", tm.int32, [E], values=(0, N)), f.input("a", tm.float32, [E, 4])
    out = f.scatter("out", {n: N, d: 4}, over={p: E}, at=[dst[p], d], op=tm.sum, expr=a[p, d])
    f.outputs(out)
    given = {"dst": DRAW.integers(0, 7, 40).astype(np.int32), "a": DRAW.standard_normal((40, 4)).astype(np.float32)}
    right = f.compile()(**given, N=7)
    with pytest.raises(tm.CommandError, match=r"out is a scatter, whose terms choose a place: out.gather\(..\) first"):
        out.accumulate("total")
    into = f.inverse("into", dst)
    out.gather(into)
    total = out.accumulate("total")
    total.compute_at(out, n)
    total.update.vectorize(d, 4)
    out.parallelize(n, balance=f["into_start"])
    assert f.check().bits == "bits preserved", f.check()
    given["into"] = tm.inverse(given["dst"], 7)
    np.testing.assert_array_equal(f.compile(threads=2)(**given), right)
    np.testing.assert_allclose(f.evaluate(**given), right, rtol=1e-5)
    assert next(each for each in f.cost(N=7, E=40).statements if each.name == "total.update").instances == 160


def test_what_becomes_of_bits_is_said_of_the_sums() -> None:
    f, y = product()
    total = y.accumulate("total")
    total.update.split(k, 4, k0, k1).interchange(k0, k1)
    assert f.check().bits != "bits preserved" and str(f.check().determinism["y"]) == "everywhere", f.check()
    f, y = product()
    total = y.accumulate("total")
    total.update.split(k, 4, k0, k1).rfactor(k0)
    assert f.check().bits != "bits preserved" and str(f.check().determinism["y"]) == "everywhere", f.check()
    np.testing.assert_array_equal(f.compile()(X, W), X @ W)


def test_gradients_and_maxima_are_as_declared() -> None:
    f, y = product()
    wanted = tm.vjp(f).step.compile()(X, W, d_y=np.ones((11, 6), np.float32))
    y.accumulate("total")
    for one, other in zip(tm.vjp(f).step.compile()(X, W, d_y=np.ones((11, 6), np.float32)), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    f = tm.Function("tops", params=[N])
    x = f.input("x", tm.float32, [N, 12])
    top = f.reduction("top", {n: N}, {k: 12}, tm.max, x[n, k])
    f.outputs(top)
    best = top.accumulate("best")
    best.compute_at(top, n)
    assert f.check().bits == "bits preserved", f.check()
    np.testing.assert_array_equal(f.compile()(X), X.max(1))


def _refused(made: Any, words: str) -> None:
    f, y = product()
    before = f.program
    with pytest.raises(tm.CommandError, match=words):
        made(f, y)
    assert f.program is before


def test_what_has_no_sums_of_its_own_is_refused() -> None:
    _refused(lambda f, y: y.accumulate("w"), r"called w: an input has this name")
    _refused(lambda f, y: y.accumulate(3), "cannot be called 3: give a text")
    with pytest.raises(tm.CommandError, match=r"y\.\w+ has been scheduled: give accumulate first"):
        f, y = product()
        y.update.vectorize(d, 2)
        y.accumulate("total")
    f = tm.Function("others", params=[N])
    x = f.input("x", tm.float64, [N])
    plain = f.computation("plain", {n: N}, x[n] + 1)
    whole = f.reduction("whole", {}, {n: N}, tm.sum, plain[n])
    f.outputs(plain, whole)
    with pytest.raises(tm.CommandError, match="plain is no reduction: accumulate keeps the terms of a sum apart"):
        plain.accumulate("total")
    with pytest.raises(tm.CommandError, match="whole is one value, which compilers keep in a register"):
        whole.accumulate("total")


@pytest.mark.parametrize("first", ["reassociate", "accumulate"])
def test_products_in_another_order_are_said_of_the_sums(first: str) -> None:
    f = tm.Function("weighed", params=[N])
    x, w, v = f.input("x", tm.float32, [N, 8]), f.input("w", tm.float32, [8, 6]), f.input("v", tm.float32, [6])
    h = f.reduction("h", {n: N, d: 6}, {k: 8}, tm.sum, x[n, k] * w[k, d])
    y = f.reduction("y", {n: N}, {d: 6}, tm.sum, h[n, d] * v[d])
    f.outputs(y)
    sums = y.accumulate("total") if first == "accumulate" else y
    sums.reassociate(h)
    if first == "reassociate":
        y.accumulate("total")
    report = f.check()
    assert report.ok and report.bits != "bits preserved" and str(report.determinism["y"]) == "everywhere", report


@pytest.mark.parametrize("op", [tm.sum, tm.max])
def test_a_condition_on_values_is_that_of_the_copy(op: Any) -> None:
    f = tm.Function("chosen", params=[N])
    x, c = f.input("x", tm.float32, [N, 12]), f.input("c", tm.int32, [N], values=(0, 13))
    y = f.reduction("y", {n: N}, {k: 12}, op, x[n, k], where=(c[n] > 0) & (k < c[n]) if op is tm.sum else c[n] > 0)
    f.outputs(y)
    counts = np.arange(11, dtype=np.int32)
    right = f.evaluate(X, counts)
    y.accumulate("total").compute_at(y, n)
    assert f.check().bits == "bits preserved", f.check()
    np.testing.assert_array_equal(f.compile()(X, counts), right)
