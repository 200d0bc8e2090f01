"""Reads as values of their own: rows in a block's memory, bits, files, gradients, bounds, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

N, E, R = tm.params("N E R")
n, p, k, d, r, p0, p1, k0, k1 = tm.iters("n p k d r p0 p1 k0 k1")
DRAW = np.random.default_rng(5)
X, W = DRAW.integers(-9, 9, (11, 12)).astype(np.float32), DRAW.integers(-9, 9, (12, 6)).astype(np.float32)
INDEX = DRAW.integers(0, 11, 45).astype(np.int32)


def messages() -> tuple[tm.Function, tm.Reduction]:
    """Rows that an index chooses times a matrix."""
    f = tm.Function("messages", params=[N, E])
    index, x = f.input("index", tm.int32, [E], values=(0, N)), f.input("x", tm.float32, [N, 12])
    w = f.input("w", tm.float32, [12, 6])
    msg = f.reduction("msg", {p: E, d: 6}, {k: 12}, tm.sum, x[index[p], k] * w[k, d])
    f.outputs(msg)
    return f, msg


def test_rows_are_fetched_once_for_all_columns(tmp_path: Path) -> None:
    f, msg = messages()
    rows = msg.fetch(f["x"], "rows")
    msg.split(p, 4, p0, p1)
    msg.update.after(msg.init, p0)
    rows.compute_at(msg, p0)
    report = f.check()
    assert report.ok and report.bits == "bits preserved", report
    assert "allocate rows[4, 12] in memory" in f.show("pseudocode")
    f.save(tmp_path / "f.json")
    for each in (f, tm.load(tmp_path / "f.json")):
        np.testing.assert_array_equal(each.compile()(INDEX, X, W), X[INDEX] @ W)
    np.testing.assert_array_equal(f.evaluate(INDEX, X, W), X[INDEX] @ W)
    np.testing.assert_array_equal(f.evaluate(INDEX, X, W, as_scheduled=True), X[INDEX] @ W)
    assert [*f.algorithm.computations] == ["msg"]


def test_the_threads_of_a_block_share_rows() -> None:
    f, msg = messages()
    sums = msg.accumulate("sums")
    rows = sums.fetch(f["x"], "rows")
    msg.split(p, 8, p0, p1)
    sums.compute_at(msg, d)
    sums.store_in(tm.REGISTER)
    msg.tag_gpu([p0], [p1, d])
    rows.compute_at(msg, p0)
    rows.store_in(tm.SHARED)
    rows.split(k, 6, k0, k1).tag_gpu(threads=[p, k1])
    f.derive_transfers()
    assert f.check().bits == "bits preserved" and "x[" in f.source()["messages.cu"]
    kernel = f.compile(device="simulator", sanitize=True)
    for count in (0, 1, 45):
        np.testing.assert_array_equal(kernel(INDEX[:count], X, W), X[INDEX[:count]] @ W)


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_of_a_typed_product_share_rows_of_its_own_gradient(shared: bool) -> None:
    """``dx[p] = dy[p] w[r]^T`` and ``dw[r] = sum of x[src[p]]^T dy[p]`` in one kernel, a block for each run."""
    f = tm.Function("step", params=[N, E, R])
    types = f.segments("types", R, of=E)
    src, x = f.input("src", tm.int32, [E], values=(0, N)), f.input("x", tm.float32, [N, 8])
    w, dy = f.input("w", tm.float32, [R, 8, 16]), f.input("dy", tm.float32, [E, 16], memory=tm.HOST_MAPPED)
    dx = f.reduction("dx", {r: R, p: types[r], k: 8}, {d: 16}, tm.sum, dy[p, d] * w[r, k, d])
    dw = f.reduction("dw", {r: R, k: 8, d: 16}, {p: types[r]}, tm.sum, dy[p, d] * x[src[p], k])
    f.outputs(dx, dw)
    sums, products = dw.accumulate("sums"), dx.accumulate("products")
    if shared:
        rows = sums.fetch(dy, "rows", over=[r])
        assert products.fetch(dy, "rows", over=[r]).name == rows.name
    dx.split(p, 8, p0, p1)
    dx.reorder(r, p0, p1, k)
    products.compute_at(dx, k)
    products.store_in(tm.REGISTER)
    for stage in (dw, sums.init, sums.update):
        stage.split(k, 1, k0, k1)
    for copied in (dw, sums.init):
        copied.reorder(r, k0, d, k1)
    sums.update.split(p, 8, p0, p1).reorder(r, p0, k0, d, p1, k1)
    f.order(sums.init, sums.update, dw, at=r)
    f.order(sums.update, dx, at=p0)
    sums.store_in(tm.REGISTER).store_at(dw, r)
    if shared:
        rows.compute_at(sums.update, p0)
        rows.store_in(tm.SHARED)
    for stage in (dw, sums.init, sums.update):
        stage.tag_gpu([r], [k0, d])
    dx.tag_gpu([r], [p1, k])
    if shared:
        rows.tag_gpu(threads=[p, d])
    f.derive_transfers()
    report = f.check()
    assert report.ok and report.bits == "bits preserved", report
    lengths = [3, 0, 20, 7, 1]
    count, of = sum(lengths), np.repeat(np.arange(5), lengths)
    own = {"src": DRAW.integers(0, 9, count).astype(np.int32), "types": np.cumsum([0, *lengths]).astype(np.int32)}
    for name, shape in (("x", (9, 8)), ("w", (5, 8, 16)), ("dy", (count, 16))):
        own[name] = DRAW.integers(-9, 9, shape).astype(np.float32)
    own["dy"] = tm.to_unified(own["dy"], device="simulator")
    kernel = f.compile(device="simulator", sanitize=True)
    by_type = np.zeros((5, 8, 16), np.float32)
    np.add.at(by_type, of, own["x"][own["src"]][:, :, None] * own["dy"][:, None, :])
    for seed in range(3):
        drawn = kernel.seeded(seed, "lazy")
        rows_of_x, matrices = drawn(**own)
        np.testing.assert_array_equal(rows_of_x, np.einsum("pd,pkd->pk", own["dy"], own["w"][of]))
        np.testing.assert_array_equal(matrices, by_type)
        # Each of 8 columns of x reads all of dy, once for its gradient and once for that of its weights.
        assert drawn.traffic["dy"].read == count * 16 * 4 * (1 if shared else 16)


def test_gradients_of_what_is_fetched() -> None:
    f, msg = messages()
    wanted = tm.vjp(f).step.evaluate(INDEX, X, W, np.ones((45, 6), np.float32))
    msg.fetch(f["x"], "rows")
    found = tm.vjp(f).step.evaluate(INDEX, X, W, np.ones((45, 6), np.float32))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_a_condition_keeps_inside_is_refused_outside_of_it() -> None:
    f = tm.Function("neighbours", params=[N])
    x = f.input("x", tm.float32, [N])
    y = f.computation("y", {n: N}, tm.select(n < N - 1, x[n + 1], 0.0))
    f.outputs(y)
    assert f.check().ok
    y.fetch(x, "next")
    report = f.check()
    assert not report.ok and "next[0] reads x[1], which is outside the array x" in str(report), report


def test_fetch_refuses_with_the_users_names() -> None:
    f, msg = messages()
    w, refused = f["w"], tm.CommandError
    with pytest.raises(refused, match="msg does not read msg: it reads index, w, x"):
        msg.fetch(msg, "rows")
    with pytest.raises(refused, match="cannot be called w: an input has this name"):
        msg.fetch(w, "w")
    with pytest.raises(refused, match="the values that are fetched cannot be called 3: give a text"):
        msg.fetch(w, 3)  # type: ignore[arg-type]
    with pytest.raises(refused, match="over=n: msg has the iterators p, d, k"):
        msg.fetch(w, "columns", over=[n])
    with pytest.raises(refused, match="cannot be called rows"):
        msg.accumulate("rows").fetch(w, "rows")
    f, msg = messages()
    w = f["w"]
    msg.split(p, 4, p0, p1)
    with pytest.raises(refused, match="give fetch first"):
        msg.fetch(w, "columns")
    g = tm.Function("two", params=[N])
    x, s = g.input("x", tm.float32, [N + 1]), g.input("s", tm.float32, [1])
    y = g.computation("y", {n: N}, (x[n] + x[n + 1]) * s[0])
    g.outputs(y)
    with pytest.raises(refused, match=r"y reads x in several ways, x\[n\], x\[n \+ 1\]: let a computation of its own"):
        y.fetch(x, "both")
    h = tm.Function("sums", params=[N])
    a, b = h.input("a", tm.float32, [N]), h.input("b", tm.float32, [N])
    z = h.computation("z", {n: N}, a[n] + b[n])
    h.outputs(z)
    z.fetch(a, "each")
    with pytest.raises(refused, match="cannot be called each"):
        z.fetch(b, "each")
    with pytest.raises(refused, match=r"s\[0\] is one value for all of y: there is nothing to fetch but once"):
        y.fetch(s, "one")
