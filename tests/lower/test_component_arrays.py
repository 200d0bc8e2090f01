"""Reductions to several values: under every schedule the first least value and its index, as NumPy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import covering
from tiramisu_py.backends import emit
from tiramisu_py.interpret import run
from tiramisu_py.ir import ArrayArgument

N, K = tm.params("N K")
i, k, i0, i1, k0, k1 = tm.iters("i k i0 i1 k0 k1")
SIZES = [(1, 1), (7, 5), (17, 33)]
OPERATORS = {"argmin": (tm.argmin, np.argmin), "argmax": (tm.argmax, np.argmax)}
#: The types of values and of indices.
TYPES = [(tm.float32, tm.int32), (tm.float64, None), (tm.int16, tm.int16), (tm.uint8, tm.int64), (tm.bool, None)]


def lanes(best: Any, **options: Any) -> None:
    best.update.interchange(i, k)
    best.update.vectorize(i, 8, **options)


def partial_results(best: Any) -> Any:
    best.update.split(k, 4, k0, k1)
    return best.update.rfactor(k1)


def on_threads(best: Any) -> None:
    partial_results(best).update.parallelize(i)


def in_lanes(best: Any) -> None:
    """Four partial results of a row, one in each lane."""
    partial = partial_results(best)
    partial.update.interchange(k1, k)
    partial.update.vectorize(k1, 4)


def on_a_gpu(best: Any) -> None:
    best.split(i, 8, i0, i1)
    best.tag_gpu([i0], [i1])
    best._function.derive_transfers()


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "none": lambda best: None,
    "threads": lambda best: best.update.parallelize(i),
    "lanes": lanes,
    "masked lanes": lambda best: lanes(best, remainder="mask"),
    "reversed": lambda best: best.update.reverse(k),
    "unrolled": lambda best: best.update.unroll(k, 4),
    "partial results": partial_results,
    "partial results of threads": on_threads,
    "partial results in lanes": in_lanes,
    "blocks of a GPU": on_a_gpu,
}


def program(op: tm.Operator, dtype: tm.DType, index: tm.DType | None = None) -> tuple[tm.Function, Any]:
    f = tm.Function("f", params=[N, K], assume="K >= 1")
    a = f.input("a", dtype, [N, K])
    term = a[i, k] if index is None else (a[i, k], tm.cast(index, k))
    best = f.reduction("best", {i: N}, {k: K}, op, term)
    f.outputs(best)
    return f, best


def samples(shape: tuple[int, int], dtype: tm.DType) -> Any:
    """Few different values, so that there are ties; of floats also both zeros, infinities and NaN."""
    rng = np.random.default_rng(shape)
    found = rng.integers(0 if dtype.kind in "ub" else -3, 4, shape).astype(dtype.numpy)
    if dtype.is_float:
        for value in (np.nan, np.inf, -np.inf, -0.0):
            found[rng.random(shape) < 0.06] = value
    return found


def expect(found: tuple[Any, Any], x: Any, first: Callable[..., Any]) -> None:
    values, indices = found
    want = first(x, axis=1)
    np.testing.assert_array_equal(indices, want)
    chosen = x[np.arange(len(x)), want]
    np.testing.assert_array_equal(values, chosen)
    if x.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(values), np.signbit(chosen))


@pytest.mark.parametrize(("schedule", "name"), covering(list(SCHEDULES), list(OPERATORS)))
def test_the_first_end_is_that_of_numpy(name: str, schedule: str) -> None:
    op, first = OPERATORS[name]
    for dtype, index in TYPES[: 2 if "GPU" in schedule else None]:
        f, best = program(op, dtype, index)
        SCHEDULES[schedule](best)
        assert f.check().ok
        assert "bits preserved" in str(f.check())
        kernel = f.compile(device="simulator") if "GPU" in schedule else f.compile()
        for shape in SIZES:
            x = samples(shape, dtype)
            expect(kernel(x), x, first)
            expect(f.evaluate(x), x, first)


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if "GPU" not in name])
def test_the_loops_of_a_tuple_run_in_any_order(schedule: str) -> None:
    f, best = program(tm.argmin, tm.float32)
    SCHEDULES[schedule](best)
    function = f.show("lowered")
    for shape in [(0, 3), *SIZES[:2]]:
        x = samples(shape, tm.float32)
        arrays = {"a": x, "best_value": np.full(shape[0], 7, np.float32), "best_index": np.full(shape[0], 7)}
        run(function, arrays, {"N": shape[0], "K": shape[1]}, seed=1)
        expect((arrays["best_value"], arrays["best_index"]), x, np.argmin)


def test_of_no_terms_there_is_no_end_and_minima_of_nothing_are_the_identity() -> None:
    f = tm.Function("f", params=[N, K])
    x = f.input("x", tm.int16, [N, K])
    best = f.reduction("best", {i: N}, {k: K}, tm.argmax, x[i, k])
    least = f.reduction("least", {i: N}, {k: K}, tm.min, x[i, k])
    f.outputs(best, least)
    (violation,) = f.check().violations
    assert "best[0] is tm.argmax over no k" in violation.message and "N = 1, K = 0" in violation.message
    assert violation.repair is not None and violation.repair.startswith("assume K >= 1, or leave values without terms")
    g = tm.Function("g", params=[N, K])
    x = g.input("x", tm.int16, [N, K])
    g.outputs(g.reduction("least", {i: N}, {k: K}, tm.min, x[i, k]))
    np.testing.assert_array_equal(g.compile()(np.zeros((2, 0), np.int16)), [2**15 - 1] * 2)


def test_each_component_is_an_array_of_the_c_function() -> None:
    f, best = program(tm.argmin, tm.float32)
    arguments = [each for each in f.show("lowered").arguments if isinstance(each, ArrayArgument)]
    assert [(each.name, each.dtype) for each in arguments] == [
        ("a", tm.float32), ("best_value", tm.float32), ("best_index", tm.int64),
    ]  # fmt: skip
    kernel, mine = f.compile(), np.zeros(7, np.int64)
    _, indices = kernel(samples((7, 5), tm.float32), best_index=mine)
    assert indices is mine
    with pytest.raises(tm.ArgumentError, match="has no argument best"):
        kernel(samples((7, 5), tm.float32), best=mine)
    best.store_in(tm.Buffer("kept", [N], best.dtype), [i])
    again = f.compile()(samples((7, 5), tm.float32), best_index=np.zeros(7, np.int64))
    np.testing.assert_array_equal(again[1], indices)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_vectors_of_a_tuple_are_whole(vector_bytes: int) -> None:
    f, best = program(tm.argmin, tm.float32, tm.int32)
    best.init.vectorize(i, 8)
    lanes(best)
    text, lanes_of_32_bits = emit(f.show("lowered", vector_bytes))["f.c"], min(8, vector_bytes // 4)
    assert f"float32x{lanes_of_32_bits} " in text and f" int32x{lanes_of_32_bits} " in text and "lane < " not in text


def test_tuples_in_registers_and_in_copies_are_those_of_one_execution() -> None:
    f, best = program(tm.argmin, tm.float32)
    index = f.computation("index", {i: N}, best[i]["index"])
    worth = f.computation("worth", {i: N}, best[i][0] * 2)
    f.outputs(index, worth, replace=True)
    best.split(i, 4, i0, i1)
    x = samples((17, 33), tm.float32)
    want = np.argmin(x, axis=1)
    for each in (f.evaluate(x), f.compile()(x)):
        np.testing.assert_array_equal(each[0], want)
        np.testing.assert_array_equal(each[1], 2 * x[np.arange(17), want])
    g, best = program(tm.argmin, tm.float32)
    index = g.computation("index", {i: N}, best[i]["index"])
    g.outputs(index, replace=True)
    best.compute_at(index, i)
    best.store_in(tm.REGISTER)
    np.testing.assert_array_equal(g.compile()(x), want)


def test_threads_do_not_update_several_values_atomically() -> None:
    f, best = program(tm.argmin, tm.float32)
    best.update.parallelize(k, combine=tm.ATOMIC)
    report = f.check()
    assert [violation.kind for violation in report.violations] == ["reduction"]
    assert "by tm.ATOMIC, which is for one value, and best has several" in str(report)
    assert "use combine=tm.PRIVATE for loop k" in str(report)
    assert "best.update.split(k, 64, k0, k1) and then best.update.rfactor(k0)" in str(report)


def test_threads_of_a_gpu_do_not_update_several_values_atomically() -> None:
    f, best = program(tm.argmin, tm.float32)
    best.update.split(k, 4, k0, k1)
    best.init.tag_gpu([i])
    best.update.tag_gpu([i], [k1], combine=tm.ATOMIC)
    f.derive_transfers()
    (found,) = f.check().violations
    assert "by tm.ATOMIC, which is for one value" in found.message
    assert "each is in an array of its own, and no atomic update changes them together" in found.message
    assert found.repair is not None and "best.update combine=tm.TREE, with across=tm.TWO_PASS" in found.repair
    assert "best.update.rfactor(...)" in found.repair


def test_mpi_does_not_combine_several_values_at_once() -> None:
    _, best = program(tm.argmin, tm.float32)
    best.update.split(k, 4, k0, k1)
    with pytest.raises(tm.CommandError, match="MPI does not combine several values at once"):
        best.update.tag_distribute(k0, combine=tm.PRIVATE)


def test_a_message_of_several_values_is_refused() -> None:
    f = tm.Function("f", params=[])
    a = f.input("a", tm.float32, [16, 5])
    (q,) = tm.iters("q")
    best = f.reduction("best", {i: 16}, {k: 5}, tm.argmin, a[i, k])
    out = f.computation("out", {i: 16}, best[i][1] + best[(i + 1) % 16][1])
    f.outputs(out)
    a.distribute_array([i, k], rank=i // 4)
    out.distribute_array([i], rank=i // 4)
    best.split(i, 4, q, i1)
    best.tag_distribute(q)
    out.split(i, 4, q, i1)
    out.tag_distribute(q)
    f.derive_transfers()
    report = f.check()
    assert not report.ok
    assert "is a message of best, which has several values" in str(report)
