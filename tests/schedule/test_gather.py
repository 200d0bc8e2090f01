"""Gathers: scatters as sums over the positions that an inverse has for each place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E = tm.params("N E")
n, p, d, q, n0, n1 = tm.iters("n p d q n0 n1")
D = 3
DST = np.array([2, 0, 2, 5, 5, 2, 2, 0], np.int32)
X = (np.random.default_rng(0).standard_normal((8, D)) * 10.0 ** np.arange(8)[:, None]).astype(np.float32)
GIVEN = {"dst": DST, "x": X}


def scattered(op: tm.Operator = tm.sum) -> tuple[tm.Function, tm.Computation]:
    f = tm.Function("scattered", params=[N, E])
    dst = f.input("dst", tm.int32, [E], values=(0, N))
    x = f.input("x", tm.float32, [E, D])
    out = f.scatter("out", {n: N, d: D}, over={p: E}, at=[dst[p], d], op=op, expr=x[p, d] * 3)
    f.outputs(out)
    return f, out


def right(op: np.ufunc = np.add) -> np.ndarray:
    out = np.full((7, D), 0 if op is np.add else -np.inf, np.float32)
    op.at(out, DST, X * np.float32(3))
    return out


SCHEDULES = {
    "plain": lambda out: None,
    "threads": lambda out: out.parallelize(n),
    "vectors": lambda out: out.vectorize(d, 4),
    "tiles of rows": lambda out: out.split(n, 4, n0, n1).parallelize(n0),
    "tiles of positions": lambda out: out.update.split(q, 2, n0, n1),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_gather_has_the_bits_of_the_scatter(schedule: str) -> None:
    f, out = scattered()
    into = f.inverse("into", f["dst"])
    out.gather(into, q)
    SCHEDULES[schedule](out)
    report = f.check()
    assert report.ok and report.bits == "bits preserved", report
    assert "declared: into is the inverse of dst, in order" in str(report)
    given = {**GIVEN, "into": tm.inverse(DST, 7)}
    np.testing.assert_array_equal(f.compile(threads=2)(**given), right())
    np.testing.assert_array_equal(f.evaluate(**given), right())
    np.testing.assert_array_equal(f.evaluate(**given, as_scheduled=True), right())


def test_a_gather_of_maxima_and_one_on_a_gpu() -> None:
    f, out = scattered(tm.max)
    out.gather(f.inverse("into", f["dst"]))
    given = {**GIVEN, "into": tm.inverse(DST, 7)}
    np.testing.assert_array_equal(f.compile()(**given), right(np.maximum))
    f, out = scattered()
    out.gather(f.inverse("into", f["dst"]))
    out.split(n, 4, n0, n1).tag_gpu([n0], [n1])
    f.derive_transfers()
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(**given), right())


def test_other_conditions_stay_those_of_the_term() -> None:
    f, _ = scattered()
    mask = f.input("mask", tm.int32, [E], values=(0, 2))
    h = f.scatter("masked", {n: N}, over={p: E}, at=[f["dst"][p]], op=tm.sum, expr=f["x"][p, 0], where=mask[p] == 1)
    f.outputs(h, replace=True)
    h.gather(f.inverse("into", f["dst"]))
    keep = np.array([1, 0, 1, 1, 0, 1, 1, 1], np.int32)
    wanted = np.zeros(7, np.float32)
    np.add.at(wanted, DST[keep == 1], X[keep == 1, 0])
    np.testing.assert_array_equal(f.compile()(**GIVEN, mask=keep, into=tm.inverse(DST, 7)), wanted)


def test_two_conditions_on_one_index_both_stay() -> None:
    f = tm.Function("both", params=[N, E])
    dst = f.input("dst", tm.int32, [E], values=(0, N))
    x = f.input("x", tm.float32, [E])
    out = f.reduction("out", {n: N}, {p: E}, tm.sum, x[p], where=(n == dst[p]) & (n == dst[E - 1 - p]))
    f.outputs(out)
    out.gather(f.inverse("into", dst))
    given = {"dst": DST, "x": X[:, 0].copy(), "into": tm.inverse(DST, 7)}
    mirrored = DST[::-1] == DST
    wanted = np.zeros(7, np.float32)
    np.add.at(wanted, DST[mirrored], X[mirrored, 0])
    np.testing.assert_array_equal(f.evaluate(**given), wanted)
    np.testing.assert_array_equal(f.compile()(**given), wanted)


def test_a_run_of_an_inverse_is_a_domain() -> None:
    f = tm.Function("by_place", params=[N, E])
    dst = f.input("dst", tm.int32, [E], values=(0, N))
    x = f.input("x", tm.float32, [E])
    into = f.inverse("into", dst)
    f.outputs(f.reduction("out", {n: N}, {q: into[n]}, tm.sum, x[into.order[q]]))
    wanted = np.zeros(7, np.float32)
    np.add.at(wanted, DST, X[:, 0])
    np.testing.assert_array_equal(f.compile()(dst=DST, x=X[:, 0].copy(), into=tm.inverse(DST, 7)), wanted)


@pytest.mark.parametrize(
    ("start", "order", "words"),
    [
        (None, [7, 1, 0, 2, 5, 6, 3, 4], r"into_order\[1\] = 1 comes after 7 in the run 0 of into: the positions of"),
        (None, [1, 7, 0, 2, 5, 3, 6, 4], r"into_order\[5\] = 3 is in the run 2 of into, but dst\[3\] = 5: into is not"),
        (None, [1, 1, 0, 2, 5, 6, 3, 4], r"into_order\[1\] = 1, which occurs before"),
        ([0, 2, 2, 6, 6, 6, 8, 9], None, r"into_start\[7\] = 9, but"),
        ([0, 2, 3, 6, 6, 6, 8, 8], None, r"into_order\[2\] = 0 is in the run 1 of into, but dst\[0\] = 2"),
    ],
)
def test_what_is_no_inverse_is_refused_at_the_call(start: Any, order: Any, words: str) -> None:
    f, out = scattered()
    out.gather(f.inverse("into", f["dst"]))
    own = tm.inverse(DST, 7)
    pair = tuple(own[k] if each is None else np.array(each, np.int32) for k, each in enumerate((start, order)))
    for call in (f.compile(), f.evaluate):
        with pytest.raises(tm.ArgumentError, match=words):
            call(**GIVEN, into=pair)


def test_the_inverse_of_another_array_is_refused_also_after_a_right_one() -> None:
    f, out = scattered()
    out.gather(f.inverse("into", f["dst"]))
    kernel, mine, other = f.compile(), tm.frozen(DST), tm.frozen(DST[::-1].copy())
    into = tm.inverse(mine, 7)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(dst=mine, x=X, into=into), right())
    with pytest.raises(tm.ArgumentError, match=r"into is not the inverse of dst, tm.inverse\(dst, ..\)"):
        kernel(dst=other, x=X, into=into)
    with pytest.raises(tm.ArgumentError, match="into is a pair, where runs begin and the order of positions"):
        kernel(dst=mine, x=X, into=DST)


def test_inverses_are_of_integers_in_their_range() -> None:
    with pytest.raises(tm.ArgumentError, match="the index is 5 at 3, which is not at least 0 and less than 5"):
        tm.inverse(DST, 5)
    with pytest.raises(tm.ArgumentError, match="an inverse is of integers in one dimension, not of float32 of shape"):
        tm.inverse(X, 5)
    start, order = tm.inverse(np.zeros(0, np.int32), 3)
    assert start.tolist() == [0, 0, 0, 0] and order.size == 0
    f, _ = scattered()
    with pytest.raises(tm.DeclarationError, match=r"x has no inverse: it is an input with one dimension and values="):
        f.inverse("into", f["x"])
    f.inverse("into", f["dst"])
    with pytest.raises(tm.DeclarationError, match="declared already"):
        f.inverse("into_order", f["dst"])


def test_gathers_that_mean_something_else_are_refused() -> None:
    f, out = scattered()
    other = f.input("src", tm.int32, [E], values=(0, N))
    into, of_src = f.inverse("into", f["dst"]), f.inverse("from_src", other)
    with pytest.raises(tm.CommandError, match=r"out adds its terms at dst\[p\], and from_src is the inverse of src"):
        out.gather(of_src)
    with pytest.raises(tm.CommandError, match="dst is no inverse: declare one"):
        out.gather(f["dst"])
    some = f.scatter("some", {n: N}, over={p: (1, E)}, at=[f["dst"][p]], op=tm.sum, expr=f["x"][p, 0])
    with pytest.raises(tm.CommandError, match="some adds some of the positions of p only"):
        some.gather(into)
    shifted = f.scatter("moved", {n: N}, over={p: E}, at=[f["dst"][p] - 1], op=tm.sum, expr=f["x"][p, 0])
    with pytest.raises(tm.CommandError, match="moved adds its terms at"):
        shifted.gather(into)
    whole = f.reduction("whole", {n: N}, {p: E}, tm.sum, f["x"][p, 0])
    with pytest.raises(tm.CommandError, match="whole is no scatter"):
        whole.gather(into)
    out.update.vectorize(d, 4)
    with pytest.raises(tm.CommandError, match="give gather first"):
        out.gather(into)


def test_a_file_keeps_inverses_and_gathers(tmp_path: Path) -> None:
    f, out = scattered()
    out.gather(f.inverse("into", f["dst"]), q)
    out.parallelize(n)
    f.save(tmp_path / "gathered.json")
    g = tm.load(tmp_path / "gathered.json")
    np.testing.assert_array_equal(g.compile()(**GIVEN, into=tm.inverse(DST, 7)), right())
    with pytest.raises(tm.ArgumentError, match="into"):
        g.compile()(**GIVEN, into=tm.inverse(DST[::-1], 7))
