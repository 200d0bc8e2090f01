"""Elements of an output without a value keep the caller's, also where the output comes from a GPU.

Of values in runs a transfer moves the positions of the runs, and no others; what other conditions decide is refused.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tiramisu_py as tm

N, P = tm.params("N P")
i, e, i0, i1 = tm.iters("i e i0 i1")
START, GIVEN = np.array([1, 2, 2, 4], np.int32), np.arange(1.0, 6.0)


def entries(kind: str) -> tuple[tm.Function, tm.Computation]:
    """Values in runs: by their domain, by a condition, under another one, or everywhere, chosen in place of it."""
    f = tm.Function("entries", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    a = f.input("a", tm.float64, [P])
    inside = (e >= start[i]) & (e < start[i + 1])
    if kind == "domain":
        m = f.computation("m", {i: N, e: (start[i], start[i + 1])}, 2 * a[e])
    elif kind == "filtered":
        m = f.computation("m", {i: N, e: (start[i], start[i + 1])}, 2 * a[e], where=a[e] > 2)
    elif kind == "condition":
        m = f.computation("m", {i: N, e: P}, 2 * a[e], where=inside)
    else:
        m = f.computation("m", {i: N, e: P}, tm.select(inside, 2 * a[e], 0.0))
    return f, m


def on_gpu(f: tm.Function, m: tm.Computation) -> tm.Function:
    m.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    return f


def test_a_transfer_of_values_under_another_condition_to_the_callers_array_is_refused() -> None:
    f, m = entries("filtered")
    f.outputs(m)
    report = on_gpu(f, m).check()
    (violation,) = report.violations
    assert violation.kind == "overwritten"
    assert "m_to_cpu copies whole boxes of m to an array of the caller" in violation.message
    assert violation.repair.startswith("leave m on the GPU, m.store_in(tm.GPU_MEMORY)")
    with pytest.raises(tm.LegalityError, match="m_to_cpu"):
        f.compile(device="simulator")


@pytest.mark.parametrize("kind", ["domain", "condition"])
@pytest.mark.parametrize("layout", ["by position", "by index"])
def test_the_positions_of_runs_come_to_the_callers_array_and_no_others(kind: str, layout: str) -> None:
    f, m = entries(kind)
    f.outputs(m)
    if layout == "by index":
        m.store_in(tm.Buffer("kept", [N, P], tm.float64), [i, e])
    kernel = on_gpu(f, m).compile(device="simulator", sanitize=True)
    shape = (5,) if layout == "by position" else (3, 5)
    mine = np.full(shape, -7.0)
    found = kernel(START, GIVEN, m=mine)
    wanted = np.full(shape, -7.0)
    for row, (first, end) in enumerate(pairwise(START)):
        wanted[(slice(first, end),) if layout == "by position" else (row, slice(first, end))] = 2 * GIVEN[first:end]
    np.testing.assert_array_equal(found, wanted)
    none = kernel(np.array([2], np.int32), GIVEN, m=np.full((5,) if layout == "by position" else (0, 5), -7.0))
    assert (none == -7).all()  # no rows, no positions


def test_runs_of_runs_come_back_by_position() -> None:
    Q = tm.params("Q")[0]
    (q,) = tm.iters("q")
    f = tm.Function("nested", params=[N, P, Q])
    outer = f.input("outer", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    inner = f.input("inner", tm.int32, [P + 1], values=(0, Q + 1), monotone=True)
    y = f.computation("y", {i: N, e: (outer[i], outer[i + 1]), q: (inner[e], inner[e + 1])}, q + 10 * e + 100 * i)
    f.outputs(y)
    kernel = on_gpu(f, y).compile(device="simulator", sanitize=True)
    given = {"outer": np.array([1, 2, 2, 3], np.int32), "inner": np.array([0, 1, 1, 3, 4], np.int32)}
    found = kernel(**given, y=np.full(6, -7, np.int64))
    np.testing.assert_array_equal(found, [-7, 221, 222, -7, -7, -7])


def test_positions_from_the_last_one_come_back_too() -> None:
    f = tm.Function("back", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    a = f.input("a", tm.float64, [P])
    at = P - 1 - e
    y = f.computation("y", {i: N, e: P}, 2 * a[e], where=(start[i] <= at) & (at < start[i + 1]) & (e >= 2))
    f.outputs(y)
    found = on_gpu(f, y).compile(device="simulator", sanitize=True)(START, GIVEN, y=np.full(5, -7.0))
    np.testing.assert_array_equal(found, [-7, -7, 6, 8, -7])


def test_values_in_runs_that_go_to_a_gpu_and_back_are_counted_by_position() -> None:
    f, m = entries("domain")
    f.outputs(m)
    on_gpu(f, m)
    moved = {each.name: each.elements for each in f.cost("communication", N=3, P=60).transfers}
    assert moved["m_to_cpu"] == 60


@pytest.mark.parametrize("kind", ["domain", "condition"])
@pytest.mark.parametrize("by_index", [False, True])
def test_an_output_that_stays_on_the_gpu_is_right(kind: str, by_index: bool) -> None:
    f, m = entries(kind)
    f.outputs(m)
    if by_index:
        m.store_in(tm.Buffer("kept", [N, P], tm.float64, memory=tm.GPU_MEMORY), [i, e])
    else:
        m.store_in(tm.GPU_MEMORY)
    found = on_gpu(f, m).compile(device="simulator", sanitize=True)(START, GIVEN)
    assert isinstance(found, tm.DeviceArray)
    wanted = [[0, 4, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 6, 8, 0]] if by_index else [0, 4, 6, 8, 0]
    np.testing.assert_array_equal(found.get(), wanted)


def test_a_value_everywhere_is_right() -> None:
    f, m = entries("choice")
    f.outputs(m)
    found = on_gpu(f, m).compile(device="simulator", sanitize=True)(START, GIVEN)
    np.testing.assert_array_equal(found, [[0, 4, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 6, 8, 0]])


@pytest.mark.parametrize("kind", ["domain", "condition"])
def test_on_cores_elements_without_a_value_stay(kind: str) -> None:
    f, m = entries(kind)
    f.outputs(m)
    mine = np.full(f.evaluate(START, GIVEN).shape, -7.0)
    found = f.compile()(START, GIVEN, m=mine)
    assert sorted(found.ravel()) == sorted([*[-7.0] * (found.size - 3), 4, 6, 8])


def test_values_under_a_condition_that_stay_on_the_gpu_are_proven() -> None:
    f, m = entries("domain")
    s = f.reduction("s", {i: N}, {e: (f["start"][i], f["start"][i + 1])}, tm.sum, m[i, e])
    f.outputs(s)
    for each in (m, s):
        each.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile(device="simulator")(START, GIVEN), [4, 0, 14])
