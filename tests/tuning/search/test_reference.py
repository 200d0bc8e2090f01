"""Wrong values are found, whatever they are compared with; rounding is not taken for one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiramisu_py as tm
from tests.tuning.search.laboratory import SIZES, K, Laboratory, M, N, i, j, k, make
from tiramisu_py.toolchain import Kernel
from tiramisu_py.tuning.search import reference
from tiramisu_py.tuning.search.reference import difference, is_exact, with_rows_innermost


def broken(monkeypatch: pytest.MonkeyPatch, lanes: int) -> None:
    """Kernels with vectors of this length write one wrong number."""
    call = Kernel.__call__

    def wrong(kernel: Kernel, *inputs: Any, **named: Any) -> Any:
        result = call(kernel, *inputs, **named)
        if f"j += {lanes})" in "".join(kernel.source.values()):
            result[2, 3] += 1  # type: ignore[index,operator]
        return result

    monkeypatch.setattr(Kernel, "__call__", wrong)


def test_a_wrong_result_ends_the_search(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, 8)
    with pytest.raises(tm.TuningError) as raised:
        laboratory.tune()
    said = str(raised.value)
    assert "product with lanes=8, loop='i' computes wrong values: c[2, 3] is " in said
    assert "(1 of 95 elements differ) at N = 5, M = 19, K = 3" in said


def test_a_wrong_result_is_found_by_the_unscheduled_program_where_evaluation_takes_long(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "EVALUATED", 10)
    monkeypatch.setattr(tm.Function, "evaluate", None)
    assert laboratory.tune().measured == 3
    broken(monkeypatch, 4)
    with pytest.raises(tm.TuningError, match="lanes=4"):
        laboratory.tune(sizes={**SIZES, "N": 6})


def test_without_verification_nothing_is_compared(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, 8)
    monkeypatch.setattr(tm.Function, "evaluate", None)
    assert laboratory.tune(verify=False).measured == 3


def test_a_reference_of_the_user_is_asked_once_for_each_size(laboratory: Laboratory) -> None:
    asked = []

    def right(a: Any, b: Any, N: int, M: int, K: int) -> Any:
        asked.append((N, M, K))
        return a @ b

    laboratory.tune(verify=right, sizes=[SIZES, {"N": 2, "M": 3, "K": 4}])
    assert asked == [(5, 19, 3), (2, 3, 4)]
    with pytest.raises(tm.TuningError, match="computes wrong values"):
        laboratory.tune(verify=lambda a, b, **sizes: a @ b + 1, sizes={**SIZES, "N": 8})
    a = np.ones((5, 3), np.int32)
    given = {"a": a, "b": np.ones((3, 19), np.int32)}
    one = laboratory.folder / "one.sqlite"
    assert laboratory.tune(verify=np.full((5, 19), 3, np.int32), sizes=None, arguments=given, database=one).measured
    with pytest.raises(tm.ArgumentError, match="verify= has 2 outputs: give c"):
        laboratory.tune(verify=(a, a), sizes={**SIZES, "N": 9})
    with pytest.raises(tm.ArgumentError, match="give a function of arguments"):
        laboratory.tune(verify=a, sizes=[SIZES, SIZES])


def test_sums_in_another_order_are_right(laboratory: Laboratory) -> None:
    def summed(lanes: int) -> tm.Function:
        f = tm.Function("summed", params=[N, M, K])
        a, b = f.input("a", tm.float32, [N, K]), f.input("b", tm.float32, [K, M])
        c = f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
        f.outputs(c)
        c.update.parallelize(k, combine=tm.PRIVATE)
        return f

    assert laboratory.tune({"lanes": [2]}, summed, sizes={"N": 3, "M": 5, "K": 1000}, threads=2).measured == 1


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (np.array([1, 2]), np.array([1, 2]), ""),
        (np.array([1, 3]), np.array([1, 2]), "[1] is 3, not 2 (1 of 2 elements differ)"),
        (np.zeros((2, 3)), np.zeros((3, 2)), "shape (2, 3), not (3, 2)"),
        (np.zeros((0, 3)), np.zeros((0, 3)), ""),
        (np.array(1.0), np.array(2.0), " is 1.0, not 2.0"),
        (np.array([1.0 + 1e-9]), np.array([1.0]), ""),
        (np.array([1.0 + 1e-6]), np.array([1.0]), "[0] is "),
        (np.array([1e-12, 1.0]), np.array([0.0, 1.0]), ""),
        (np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), ""),
        (np.array([np.nan]), np.array([1.0]), "[0] is nan"),
        (np.array([1.0]), np.array([np.nan]), "not nan"),
        (np.array([np.inf]), np.array([1.0]), "[0] is inf"),
        (np.array([-np.inf]), np.array([np.inf]), "[0] is -inf"),
        (np.array([1.0, 2.0], ml_dtypes.bfloat16), np.array([1.0, 2.02], ml_dtypes.bfloat16), ""),
        (np.array([1.0, 2.0], ml_dtypes.bfloat16), np.array([1.0, 3.0], ml_dtypes.bfloat16), "[1] is 2.0, not 3.0"),
        (np.array([1.0], np.float16), np.array([1.01], np.float16), ""),
        (np.array([1.0], np.float16), np.array([1.1], np.float16), "[0] is 1.0, not 1.0996"),
        (np.array([True, False]), np.array([True, True]), "[1] is False, not True"),
    ],
)
def test_the_first_difference_is_named(got: Any, expected: Any, says: str) -> None:
    found = difference(got, expected)
    assert bool(found) == bool(says)
    assert says in found


def test_what_must_be_equal_in_every_bit_is_compared_so() -> None:
    almost = np.array([1.0 + 1e-15, np.nan, -0.0])
    assert difference(almost, almost.copy(), exact=True) == ""
    assert difference(almost, np.array([1.0 + 1e-15, np.nan, 0.0]), exact=True) == ""
    assert difference(almost, np.array([1.0, np.nan, -0.0])) == ""
    assert difference(almost, np.array([1.0, np.nan, -0.0]), exact=True).startswith("[0] is 1.00000000000000")


@pytest.mark.parametrize(
    ("dtype", "op", "ordered", "function", "exact"),
    [
        (tm.float32, tm.sum, False, False, False),
        (tm.float32, tm.sum, True, False, True),
        (tm.float32, tm.max, False, False, True),
        (tm.int32, tm.sum, False, False, True),
        (tm.float32, tm.max, False, True, False),
    ],
)
def test_sums_in_free_order_and_functions_need_not_be(
    dtype: tm.DType, op: Any, ordered: bool, function: bool, exact: bool
) -> None:
    f = tm.Function("f", params=[N, K])
    a = f.input("a", dtype, [N, K])
    term = tm.exp(a[i, k]) if function else a[i, k]
    f.outputs(f.reduction("c", {i: N}, {k: K}, op, term, ordered=ordered))
    assert is_exact(f.algorithm) == exact


def test_the_schedules_of_the_laboratory_are_right() -> None:
    a, b = np.arange(15, dtype=np.int32).reshape(5, 3), np.arange(57, dtype=np.int32).reshape(3, 19)
    assert np.array_equal(make(8, "i").compile()(a, b), a @ b)


def test_the_reference_of_a_large_product_runs_along_rows() -> None:
    f = tm.Function("product", params=[N, M, K])
    a, b = f.input("a", tm.float32, [N, K]), f.input("b", tm.float32, [K, M])
    f.outputs(f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j]))
    swift = with_rows_innermost(f.algorithm)
    assert [str(command) for command in swift.commands] == ["c.update.reorder(i, k, j)", "c.update.parallelize(i)"]
    given = {name: np.random.default_rng(0).random(shape, np.float32) for name, shape in [("a", (5, 7)), ("b", (7, 9))]}
    assert np.array_equal(swift.compile()(**given), swift.evaluate(**given)), "terms are added in the same order"


def test_the_reference_keeps_what_is_not_legal_out() -> None:
    f = tm.Function("recurrence", params=[N])
    a = f.input("a", tm.float32, [N])
    c = f.computation("c", {i: N}, lambda c: tm.select(i == 0, a[i], c[i - 1] * a[i]))
    d = f.reduction("d", {i: N}, {k: N}, tm.sum, c[i] * a[k])
    f.outputs(c, d)
    swift = with_rows_innermost(f.algorithm)
    assert swift.check().ok
    assert [str(command) for command in swift.commands] == ["d.update.parallelize(i)"]
    given = np.random.default_rng(0).random(6, np.float32)
    for got, wanted in zip(swift.compile()(given), swift.evaluate(given), strict=True):
        assert np.array_equal(got, wanted)
