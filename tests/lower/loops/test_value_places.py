"""Scatters: loops whose variable is equal to a value are one iteration, several at once and around other loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.by_hand import every
from tiramisu_py.ir import For, If
from tiramisu_py.lower.lowering import lower

P, K, D, X, Z = tm.params("P K D X Z")
p, k, d, x, z, p0, p1 = tm.iters("p k d x z p0 p1")

Array = np.ndarray[Any, np.dtype[Any]]


def means() -> tuple[tm.Function, tm.Reduction]:
    """Sums of the rows with the same label, as k-means makes them."""
    f = tm.Function("means", params=[P, K, D])
    label, a = f.input("label", tm.int32, [P], values=(0, K)), f.input("a", tm.float32, [P, D])
    s = f.reduction("s", {k: K, d: D}, over={p: P}, op=tm.sum, expr=a[p, d], where=k == label[p])
    f.outputs(s)
    return f, s


def splat(dtype: Any = tm.int32) -> tuple[tm.Function, tm.Reduction]:
    """Terms whose places have two coordinates that are values; what is outside is left out."""
    f = tm.Function("splat", params=[P, X, Z])
    px, pz = f.input("px", tm.int32, [P]), f.input("pz", dtype, [P])
    a = f.input("a", tm.int64, [P])
    g = f.reduction("g", {x: X, z: Z}, over={p: P}, op=tm.sum, expr=a[p], where=(x + 1 == px[p]) & (z == pz[p]))
    f.outputs(g)
    return f, g


def variables(f: tm.Function) -> list[str]:
    return [loop.variable for loop in every(lower(f.program).body, For)]


def sums(label: Array, a: Array, count: int) -> Array:
    wanted = np.zeros((count, a.shape[1]), a.dtype)
    np.add.at(wanted, label, a)
    return wanted


@pytest.mark.parametrize("width", [None, 8])
@pytest.mark.parametrize(("points", "labels", "columns"), [(0, 3, 4), (1, 1, 1), (7, 3, 9), (23, 5, 17), (5, 1, 0)])
def test_a_loop_stays_inside_the_iteration_that_a_value_chooses(
    points: int, labels: int, columns: int, width: int | None
) -> None:
    f, s = means()
    s.update.reorder(p, k, d)
    if width:
        s.update.vectorize(d, width)
    assert variables(f) == ["k", "d", "p", "d"]
    rng = np.random.default_rng(points)
    label, a = rng.integers(0, labels, points).astype(np.int32), rng.random((points, columns), np.float32)
    np.testing.assert_array_equal(f.compile()(label, a, K=labels), sums(label, a, labels))


@pytest.mark.parametrize("dtype", [tm.int32, tm.uint8, tm.int16])
@pytest.mark.parametrize("points", [0, 1, 40])
def test_several_indices_are_values(points: int, dtype: tm.DType) -> None:
    f, g = splat(dtype)
    g.update.reorder(p, x, z)
    assert variables(f) == ["x", "z", "p"]
    rng = np.random.default_rng(points)
    px, pz = rng.integers(-1, 9, points).astype(np.int32), rng.integers(0, 9, points).astype(dtype.numpy)
    a = rng.integers(-5, 5, points)
    wanted = np.zeros((6, 7), np.int64)
    kept = (px >= 1) & (px < 7) & (pz < 7)
    np.add.at(wanted, (px[kept] - 1, pz[kept]), a[kept])
    np.testing.assert_array_equal(f.compile()(px, pz, a, X=6, Z=7), wanted)


def test_the_order_of_the_loops_over_places_does_not_matter() -> None:
    f, g = splat()
    g.update.reorder(p, z, x)
    px, pz, a = np.array([1, 3, 9, 1], np.int32), np.array([0, 1, 0, 0], np.int32), np.array([1, 2, 4, 8])
    assert variables(f) == ["x", "z", "p"]
    np.testing.assert_array_equal(f.compile()(px, pz, a, X=4, Z=2), [[9, 0], [0, 0], [0, 2], [0, 0]])


@pytest.mark.parametrize(("dtype", "tested"), [(tm.uint8, False), (tm.int8, True), (tm.uint16, True)])
def test_a_type_whose_values_lie_in_the_loop_needs_no_test(dtype: tm.DType, tested: bool) -> None:
    f = tm.Function("histogram", params=[P])
    level = f.input("level", dtype, [P])
    h = f.reduction("h", {k: 256}, over={p: P}, op=tm.sum, expr=1, where=k == level[p], dtype=tm.int32)
    f.outputs(h)
    assert bool(every(lower(f.program).body, If)) == tested
    given = np.arange(-300, 300).astype(dtype.numpy)
    inside = given[(given >= 0) & (given < 256)].astype(np.int64)
    np.testing.assert_array_equal(f.compile()(given), np.bincount(inside, minlength=256))


def test_a_loop_whose_end_depends_on_the_variable_keeps_its_iterations() -> None:
    f = tm.Function("triangle", params=[P, K])
    label, a = f.input("label", tm.int32, [P]), f.input("a", tm.int64, [P])
    s = f.reduction("s", {k: K, d: k + 1}, over={p: P}, op=tm.sum, expr=a[p] + d, where=k == label[p])
    f.outputs(s)
    s.update.reorder(p, k, d)
    label_, a_ = np.array([0, 2, 2, 5, -1], np.int32), np.array([1, 2, 3, 4, 5])
    np.testing.assert_array_equal(f.compile()(label_, a_, K=3), f.evaluate(label=label_, a=a_, K=3))


def scheduled_on_a_gpu() -> tm.Function:
    f, g = splat()
    g.init.split(x, 4, "x0", "x1").tag_gpu(blocks=["x0"], threads=["x1"])
    g.update.reorder(p, x, z).split(p, 4, p0, p1).tag_gpu(blocks=[p0], threads=[p1], combine=tm.ATOMIC)
    f.derive_transfers()
    return f


@pytest.mark.parametrize(("wide", "tested"), [(True, False), (False, True)])
def test_a_place_that_a_value_chooses_among_every_fourth_is_not_searched(wide: bool, tested: bool) -> None:
    f = tm.Function("blocks", params=[P, K])
    label, a = f.input("label", tm.int32, [P], values=(0, K)), f.input("a", tm.int64, [P, 4])
    own = 4 * tm.cast(tm.int64, label[p]) if wide else tm.cast(tm.int64, 4 * label[p])  # which may wrap in 32 bits
    s = f.scatter("s", {k: 4 * K}, over={p: P, d: 4}, at=[own + d], op=tm.sum, expr=a[p, d])
    f.outputs(s)
    s.update.reorder(p, d, k)
    assert variables(f) == ["k", "p", "d"]
    assert ("% 4 == 0" in str(lower(f.program).body)) == tested
    kernel, rng = f.compile(), np.random.default_rng(3)
    for points, labels in ((0, 1), (1, 1), (9, 3)):
        given = {"label": rng.integers(0, labels, points).astype(np.int32), "a": rng.integers(0, 9, (points, 4))}
        wanted = sums(given["label"], given["a"], labels).reshape(-1)
        np.testing.assert_array_equal(kernel(**given, K=labels), wanted)


def test_a_value_that_is_no_iteration_of_a_loop_with_a_step_adds_nothing() -> None:
    f = tm.Function("third", params=[P, K])
    label, a = f.input("label", tm.int32, [P]), f.input("a", tm.int64, [P])
    s = f.reduction("s", {k: K}, over={p: P}, op=tm.sum, expr=a[p], where=(k == label[p]) & (k % 3 == 1))
    f.outputs(s)
    s.update.reorder(p, k)
    assert variables(f) == ["k", "p"]
    given = {"label": np.array([0, 1, 4, 4, 5, -2, 7, 10], np.int32), "a": np.arange(1, 9)}
    np.testing.assert_array_equal(f.compile()(**given, K=8), [0, 2, 0, 0, 7, 0, 0, 7])


def test_threads_of_a_gpu_update_their_places_atomically() -> None:
    f = scheduled_on_a_gpu()
    update = f.show("pseudocode").partition("kernel g_update_kernel")[2]
    assert "(atomic)" in update and "for " not in update
    kernel = f.compile(device="simulator", sanitize=True)
    for points in (1, 5, 41):
        rng = np.random.default_rng(points)
        px, pz, a = (
            rng.integers(-1, 9, points).astype(np.int32),
            rng.integers(0, 9, points, np.int32),
            np.arange(points),
        )
        np.testing.assert_array_equal(kernel(px, pz, a, X=6, Z=7), f.evaluate(px=px, pz=pz, a=a, X=6, Z=7))


@pytest.mark.parametrize("combine", [tm.PRIVATE, tm.ATOMIC])
def test_threads_of_cores_combine_what_they_scatter(combine: tm.Combine) -> None:
    f, g = splat()
    g.update.reorder(p, x, z).parallelize(p, combine=combine)
    kernel = f.compile(threads=3)
    for points in (0, 1, 5, 41):
        rng = np.random.default_rng(points)
        px, pz, a = (
            rng.integers(-1, 9, points).astype(np.int32),
            rng.integers(0, 9, points, np.int32),
            np.arange(points),
        )
        np.testing.assert_array_equal(kernel(px, pz, a, X=6, Z=7), f.evaluate(px=px, pz=pz, a=a, X=6, Z=7))


def test_threads_that_scatter_without_combining_are_refused() -> None:
    f, g = splat()
    g.update.reorder(p, x, z).parallelize(p)
    (found,) = f.check().violations
    assert (found.kind, found.witness.params) == ("race", {"P": 2, "X": 1, "Z": 1})
    assert "g.update.parallelize(p, combine=tm.PRIVATE)" in found.repair
