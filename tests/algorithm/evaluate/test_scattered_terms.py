"""Scatters in the oracle: as many steps as terms, with the results of one term after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.evaluate import computing

B, K, N, M, R, C = tm.params("B K N M R C")
b, c, d, i, k, p, r = tm.iters("b c d i k p r")
SIZES = [0, 1, 7, 131]


def as_listed(monkeypatch: pytest.MonkeyPatch, f: tm.Function, given: dict[str, Any]) -> Any:
    """What the oracle finds where it looks at every point of the reduction."""
    with monkeypatch.context() as patched:
        patched.setattr(computing, "scattered_terms", lambda *_: None)
        return f.evaluate(**given)


def histogram(op: tm.Operator, dtype: tm.DType) -> tuple[tm.Function, Callable[[int], dict[str, Any]]]:
    f = tm.Function("f", params=[N, B])
    at, a = f.input("at", tm.int16, [N]), f.input("a", dtype, [N])
    f.outputs(f.scatter("h", {b: B}, over={p: N}, at=[at[p] + 2], op=op, expr=a[p], ordered=op is last))

    def given(n: int) -> dict[str, Any]:
        rng = np.random.default_rng(n)
        values = rng.normal(0, 9, n) if dtype.is_float else rng.integers(0, 2 if dtype.is_bool else 99, n)
        return {"at": rng.integers(-4, 9, n).astype(np.int16), "a": values.astype(dtype.numpy), "B": 6}

    return f, given


last = tm.operator("last", lambda a, b: a * 0 + b, identity=0)
OPERATORS = [
    (tm.sum, tm.float32), (tm.sum, tm.uint8), (tm.product, tm.float16), (tm.min, tm.float64), (tm.max, tm.int32),
    (tm.logical_or, tm.bool), (last, tm.int64), (tm.argmin, tm.float32),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("op", "dtype"), OPERATORS, ids=str)
def test_a_term_goes_to_the_value_that_it_names(
    monkeypatch: pytest.MonkeyPatch, op: tm.Operator, dtype: tm.DType, size: int
) -> None:
    f, given = histogram(op, dtype)
    arguments = given(size)
    np.testing.assert_equal(f.evaluate(**arguments), as_listed(monkeypatch, f, arguments))


def test_sums_of_floats_are_rounded_term_after_term() -> None:
    f, given = histogram(tm.sum, tm.float32)
    arguments = given(20_000)
    wanted, at = np.zeros(6, np.float32), arguments["at"] + 2
    for place, value in zip(at, arguments["a"], strict=True):
        if 0 <= place < 6:
            wanted[place] += value
    np.testing.assert_array_equal(f.evaluate(**arguments), wanted)


def test_the_work_does_not_grow_with_the_number_of_places() -> None:
    f = tm.Function("f", params=[R, C, B])
    level = f.input("level", tm.int32, [R, C])
    f.outputs(f.scatter("h", {b: B}, over={r: R, c: C}, at=[level[r, c]], op=tm.sum, expr=1))
    given = np.random.default_rng(0).integers(0, 1 << 20, (1_000, 1_003), dtype=np.int32)  # 10^12 points
    np.testing.assert_array_equal(f.evaluate(given, B=1 << 20), np.bincount(given.ravel(), minlength=1 << 20))


def clusters(f: tm.Function) -> dict[str, Any]:
    """Rows are summed by label: a place of the term, and one that is the iterator itself."""
    label, a = f.input("label", tm.int8, [N]), f.input("a", tm.float64, [N, M])
    f.outputs(f.scatter("s", {k: K, d: M}, over={i: N}, at=[label[i] - 1, d], op=tm.sum, expr=a[i, d] * k))
    rng = np.random.default_rng(1)
    return {"label": rng.integers(-2, 7, 23).astype(np.int8), "a": rng.normal(size=(23, 5)), "K": 4}


def triangle(f: tm.Function) -> dict[str, Any]:
    """The places lie in a triangle, the terms depend on an outer value, and conditions divide both."""
    to, keep = f.input("to", tm.int32, [N, N]), f.input("keep", tm.int32, [N])
    where = (k == to[i, p]) & (keep[i] > 0) & (to[i, p] % 3 != 1) & (k % 2 == p % 2)
    f.outputs(f.reduction("t", {i: N, k: (0, i + 1)}, {p: (i, N)}, tm.sum, i * 100 + p, where=where, shape=[N, N]))
    rng = np.random.default_rng(2)
    return {"to": rng.integers(-1, 13, (13, 13), dtype=np.int32), "keep": rng.integers(0, 3, 13, dtype=np.int32)}


def rows(f: tm.Function) -> dict[str, Any]:
    """Terms between bounds that are read: the columns of a sparse matrix are counted, each row to its label."""
    start, label = f.input("start", tm.int32, [N + 1], values=(0, M + 1), monotone=True), f.input("l", tm.int32, [N])
    a = f.input("a", tm.float32, [M])
    s = f.reduction("s", {b: 5}, {i: N, p: (start[i], start[i + 1])}, tm.sum, a[p], where=label[i] == b)
    f.outputs(s)
    rng = np.random.default_rng(3)
    ends = np.sort(rng.integers(0, 41, 12)).astype(np.int32)
    return {"start": ends, "l": rng.integers(0, 6, 11, dtype=np.int32), "a": rng.random(40, dtype=np.float32)}


def two_places(f: tm.Function) -> dict[str, Any]:
    """Two indices are chosen, one of them by an address that is computed."""
    x, y = f.input("x", tm.uint8, [N]), f.input("y", tm.int64, [N])
    f.outputs(f.scatter("g", {r: 4, c: 3}, {i: N}, [x[i] // 2, abs(y[i]) - 1], tm.max, i, where=x[i] != y[i]))
    rng = np.random.default_rng(4)
    return {"x": rng.integers(0, 11, 50).astype(np.uint8), "y": rng.integers(-5, 5, 50)}


@pytest.mark.parametrize("program", [clusters, triangle, rows, two_places], ids=lambda each: each.__name__)
def test_points_and_terms_give_the_same_values(
    monkeypatch: pytest.MonkeyPatch, program: Callable[[tm.Function], dict[str, Any]]
) -> None:
    f = tm.Function("f", params=[N, M, K])
    given = program(f)
    params = {"N": len(next(iter(given.values()))), "M": 5, "K": 4} | given
    if program is rows:
        params |= {"N": 11, "M": 40}
    found = f.evaluate(**params)
    np.testing.assert_array_equal(found, as_listed(monkeypatch, f, params))
    assert np.count_nonzero(found) > 3


def test_a_failing_read_names_the_value_and_the_term() -> None:
    f = tm.Function("f", params=[N])
    at, table = f.input("at", tm.int32, [N]), f.input("table", tm.int32, [4])
    f.outputs(f.scatter("h", {b: (1, 5)}, {p: N}, [table[at[p]]], tm.sum, 1))
    with pytest.raises(tm.ArgumentError, match=r"h\[1\] \(at p = 2\) reads table\[4\], which is outside table"):
        f.evaluate(at=np.int32([0, 3, 4]), table=np.zeros(4, np.int32))


@pytest.mark.parametrize("by", ["condition", "place and value"])
def test_reads_that_conditions_rule_out_are_not_made(by: str) -> None:
    f = tm.Function("f", params=[N])
    at, table = f.input("at", tm.int32, [N]), f.input("table", tm.int32, [4, 4])
    inner = table[at[p], 0] if by == "condition" else table[at[p], b]
    f.outputs(f.reduction("h", {b: 4}, {p: N}, tm.sum, 1, where=(at[p] == b) & (inner > 0)))
    given = {"at": np.int32([0, 3, 4, 1, 1, -7]), "table": np.int32([[1, 0, 2, 2], [0, 3, 0, 0], [0] * 4, [2] * 4])}
    np.testing.assert_array_equal(f.evaluate(**given), [1, 0 if by == "condition" else 2, 0, 1])
