"""Elements of an output without a value keep the caller's, also where the output comes from a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

N, P = tm.params("N P")
i, e, i0, i1 = tm.iters("i e i0 i1")
START, GIVEN = np.array([1, 2, 2, 4], np.int32), np.arange(1.0, 6.0)


def entries(kind: str) -> tuple[tm.Function, tm.Computation]:
    """Values in runs: by their domain, by a condition, or everywhere with a choice in place of the condition."""
    f = tm.Function("entries", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    a = f.input("a", tm.float64, [P])
    inside = (e >= start[i]) & (e < start[i + 1])
    if kind == "domain":
        m = f.computation("m", {i: N, e: (start[i], start[i + 1])}, 2 * a[e])
    elif kind == "condition":
        m = f.computation("m", {i: N, e: P}, 2 * a[e], where=inside)
    else:
        m = f.computation("m", {i: N, e: P}, tm.select(inside, 2 * a[e], 0.0))
    return f, m


def on_gpu(f: tm.Function, m: tm.Computation) -> tm.Function:
    m.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    return f


@pytest.mark.parametrize("kind", ["domain", "condition"])
def test_a_transfer_of_values_under_a_condition_to_the_callers_array_is_refused(kind: str) -> None:
    f, m = entries(kind)
    f.outputs(m)
    report = on_gpu(f, m).check()
    (violation,) = report.violations
    assert violation.kind == "overwritten"
    assert "m_to_cpu copies whole boxes of m to an array of the caller" in violation.message
    assert violation.repair.startswith("leave m on the GPU, m.store_in(tm.GPU)")
    with pytest.raises(tm.LegalityError, match="m_to_cpu"):
        f.compile(device="simulator")


@pytest.mark.parametrize("kind", ["domain", "condition"])
@pytest.mark.parametrize("by_position", [False, True])
def test_an_output_that_stays_on_the_gpu_is_right(kind: str, by_position: bool) -> None:
    f, m = entries(kind)
    f.outputs(m)
    if by_position:
        m.store_in(tm.Buffer("kept", [P], tm.float64, memory=tm.GPU), [e])
    else:
        m.store_in(tm.GPU)
    found = on_gpu(f, m).compile(device="simulator", sanitize=True)(START, GIVEN)
    assert isinstance(found, tm.DeviceArray)
    wanted = [0, 4, 6, 8, 0] if by_position else [[0, 4, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 6, 8, 0]]
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
