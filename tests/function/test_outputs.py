"""Outputs: named once, and slices of computations that are read like other values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, T = tm.params("N T")
i, j, t = tm.iters("i j t")
A = np.arange(24, dtype=np.int32).reshape(3, 8)


def _grid(assume: str | None = None, domain: Any = None) -> tuple[tm.Function, tm.Computation]:
    f = tm.Function("f", params=[N], assume=assume)
    a = f.input("a", tm.int32, [N, 8])
    return f, f.computation("h", domain or {i: N, j: 8}, a[i, j] * 2)


def test_outputs_that_are_named_again_are_refused_with_the_one_call_that_names_all():
    f, h = _grid()
    g = f.computation("g", {i: N, j: 8}, h[i, j] + 1)
    f.outputs(h)
    with pytest.raises(tm.DeclarationError, match=r"f returns h already: .*f\.outputs\(h, g\)"):
        f.outputs(g)
    assert f.algorithm.outputs == ("h",)
    f.outputs(h, g, replace=True)
    both = f.compile()(A)
    assert np.array_equal(both[0], A * 2) and np.array_equal(both[1], A * 2 + 1)


def test_outputs_that_are_refused_leave_no_slice_behind():
    f, h = _grid()
    with pytest.raises(tm.DeclarationError):
        f.outputs(h[i, 3], "g")
    assert set(f.algorithm.computations) == {"h"}


def test_several_slices_of_one_computation_are_outputs_under_names_that_are_free():
    f, h = _grid()
    f.computation("h_out", {i: N}, h[i, 0])
    f.outputs(h[i, 3], h[i, 4], h[i, 1])
    assert f.algorithm.outputs == ("h_out2", "h_out3", "h_out4")
    columns = f.compile()(A)
    assert [c.tolist() for c in columns] == [(A[:, 3] * 2).tolist(), (A[:, 4] * 2).tolist(), (A[:, 1] * 2).tolist()]


Slice = Callable[[Any], Any]
OUTSIDE: list[tuple[Slice, dict[str, int], str]] = [
    (lambda h: h[5, j], {"N": 0}, "N >= 6"),
    (lambda h: h[2, 3], {"N": 0}, "N >= 3"),
    (lambda h: h[N - 1, j], {"N": 0}, "N >= 1"),
]


@pytest.mark.parametrize(("wanted", "params", "missing"), OUTSIDE)
def test_a_slice_outside_of_the_values_is_refused_and_right_with_the_missing_assumption(wanted, params, missing):
    f, h = _grid()
    f.outputs(wanted(h))
    with pytest.raises(tm.LegalityError) as refused:
        f.compile()
    assert refused.value.kind == "bounds" and dict(refused.value.witness.params) == params
    repair = refused.value.violations[0].repair
    taken = re.match(r"assume (.*?)(, or|$)", repair)
    assert taken is not None and taken.group(1) == missing
    f, h = _grid(taken.group(1))
    f.outputs(wanted(h))
    values = np.arange(8 * 7, dtype=np.int32).reshape(7, 8)
    assert np.array_equal(f.compile()(values), f.evaluate(values))


def test_a_slice_that_is_outside_at_every_size_is_not_repaired_by_one_without_values():
    f, h = _grid()
    f.outputs(h[i, 8])
    (violation,) = f.check().violations
    assert violation.kind == "bounds" and dict(violation.witness.params) == {"N": 1}
    assert "assume" not in violation.repair


@pytest.mark.parametrize("index", [-1, 8, 100])
def test_no_assumption_makes_a_column_outside_of_the_array_right_but_that_there_are_no_rows(index):
    f, h = _grid("N >= 1")
    f.outputs(h[i, index])
    violation = f.check().violations[0]
    assert violation.kind == "bounds" and f"reads h[0, {index}]" in violation.message


INSIDE: list[tuple[Any, Slice, Any]] = [
    ({i: N, j: 8}, lambda h: h[i, 7], A[:, 7] * 2),
    ({i: N, j: 8}, lambda h: h[i, i], np.diag(A) * 2),
    ({i: N, j: (0, i + 1)}, lambda h: h[i, 0], A[:, 0] * 2),
    ({i: N, j: (0, i + 1)}, lambda h: h[0, j], A[0, :1] * 2),
    ({i: N, j: (0, i + 1)}, lambda h: h[N - 1, j], A[2, :3] * 2),
]


@pytest.mark.parametrize(("domain", "wanted", "values"), INSIDE)
def test_a_slice_has_the_values_that_exist(domain, wanted, values):
    f, h = _grid("N <= 8", domain)
    f.outputs(wanted(h))
    assert np.array_equal(f.compile()(A), values)


def test_the_last_level_of_a_recurrence_is_an_output_for_every_number_of_steps():
    f = tm.Function("f", params=[N, T])
    a = f.input("a", tm.int32, [N])
    c = f.computation("c", {t: T + 1, i: N}, lambda c: tm.select(t == 0, a[i], c[t - 1, i] + 1), dtype=tm.int32)
    f.outputs(c[T, i])
    assert f.compile()(A[0], T=3).tolist() == (A[0] + 3).tolist()


def test_a_slice_of_a_reduction_is_checked_like_others():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N, 8])
    s = f.reduction("s", {i: N}, {j: 8}, tm.sum, a[i, j])
    f.outputs(s[3])
    assert f.check().violations[0].witness.params == {"N": 0}
