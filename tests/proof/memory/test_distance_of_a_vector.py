"""A recurrence over as many iterations as a vector has lanes: refused, with the split that makes it legal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j = tm.iters("i j")


def recurrence(distance: int, dtype: tm.DType = tm.int32) -> tuple[tm.Function, Any]:
    """``h[j, i] = h[j, i - distance] + x[j, i]``, with as many ghost cells in front."""
    f = tm.Function("f", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", dtype, [M, N])
    h = f.computation("h", {j: M, i: N}, lambda h: tm.select(i < distance, x[j, i], h[j, i - distance] + x[j, i]))
    f.outputs(h)
    return f, h


def wanted(x: Any, distance: int) -> Any:
    h = x.copy()
    for k in range(distance, x.shape[1]):
        h[:, k] += h[:, k - distance]
    return h


@pytest.mark.parametrize("remainder", ["scalar", "mask", "overlap"])
@pytest.mark.parametrize("distance", [8, 9, 20])
def test_the_repair_is_legal_and_right(distance: int, remainder: str) -> None:
    f, h = recurrence(distance)
    h.vectorize(i, 8, remainder=remainder)
    violation = next(v for v in f.check().violations if v.kind == "race")
    repair, _, why = violation.repair.partition(" runs ")
    assert repair == "h.split(i, 8, i, i_lane).vectorize(i_lane, 8)"
    assert why.startswith("one vector after another")
    f.undo()
    eval(repair, {"h": h, "i": i, "i_lane": tm.iters("i_lane")[0]})
    assert f.check().ok
    kernel = f.compile()
    for size in (1, 7, 8, 9, 16, 40, 61):
        x = np.arange(3 * size, dtype=np.int32).reshape(3, size)
        np.testing.assert_array_equal(kernel(x), wanted(x, distance))


@pytest.mark.parametrize("distance", [1, 7])
def test_a_shorter_one_has_no_such_repair_and_stays_refused_after_the_split(distance: int) -> None:
    f, h = recurrence(distance)
    h.vectorize(i, 8)
    violation = next(v for v in f.check().violations if v.kind == "race")
    assert "split" not in violation.repair
    f.undo()
    lane, outer = tm.iters("lane outer")
    h.split(i, 8, outer, lane).vectorize(lane, 8)
    assert any(v.kind == "race" for v in f.check().violations)
