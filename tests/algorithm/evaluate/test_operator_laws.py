"""Operators of users obey the laws that their reductions need, or are refused with operands; ranges of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, K = tm.params("N K")
i, k, k0, k1, a, b = tm.iters("i k k0 k1 a b")

TYPES = [tm.float32, tm.float64, tm.float16, tm.bfloat16, tm.int32, tm.int8, tm.uint8, tm.uint64]


def reduced(op: Any, dtype: tm.DType = tm.int32, term: Any = lambda x: x, **options: Any) -> tuple[tm.Function, Any]:
    f = tm.Function("reduced", params=[N, K])
    x = f.input("x", dtype, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, op, term(x[i, k]), **options)
    f.outputs(s)
    return f, s


def affine(a: Any, b: Any) -> Any:
    return a[0] * b[0], a[1] * b[0] + b[1]


def larger(a: Any, b: Any) -> Any:
    return tm.select(a < b, b, a)


@pytest.mark.parametrize("dtype", TYPES)
def test_operators_with_these_laws_are_taken_in_each_type(dtype: tm.DType) -> None:
    low = float("-inf") if dtype.is_float else dtype.limits[0]
    reduced(tm.operator("larger", larger, low), dtype)
    reduced(tm.operator("grown", lambda a, b: a + b + a * b, 0), dtype)
    reduced(tm.operator("affine", affine, (1, 0), commutative=False), dtype, lambda x: (x, x))


def test_laws_are_needed_for_partial_results_only() -> None:
    reduced(tm.operator("hypotenuse", lambda a, b: tm.sqrt(a * a + b * b), 0), tm.float32)
    reduced(tm.operator("last", lambda a, b: b, -1), ordered=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_subtraction_is_refused_with_three_operands(dtype: tm.DType) -> None:
    with pytest.raises(tm.DeclarationError, match=r"is not associative.*at a = .*, b = .*, c = .* it gives .* and .*;"):
        reduced(tm.operator("minus", lambda a, b: a - b, 0), dtype)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (tm.operator("mean", lambda a, b: (a + b) / 2, 0), "has another neutral element"),
        (tm.operator("more", lambda a, b: a + b, 1), r"another neutral element.*a = 2.0, .* it gives 3.0 and 2.0"),
        (tm.operator("times", lambda a, b: a * b, 0), "gives its identity 0.0, whatever the term: give an identity"),
        (tm.operator("apart", lambda a, b: tm.absolute(a - b), 0), "is not associative"),
    ],
)
def test_others_are_refused(op: Any, message: str) -> None:
    with pytest.raises(tm.DeclarationError, match=message):
        reduced(op, tm.float64)


def test_an_operator_that_does_not_commute_says_so() -> None:
    with pytest.raises(tm.DeclarationError, match=r"is not commutative.*give tm.operator\(..., commutative=False\)"):
        reduced(tm.operator("affine", affine, (1.0, 0.0)), tm.float64, lambda x: (x, x))


FIRST = tm.operator("first", lambda a, b: tm.select(a == 0, b, a), 0, commutative=False)


@pytest.mark.parametrize("extent", [0, 1, 31, 33, 1025])
def test_threads_combine_ranges_of_neighbours(extent: int) -> None:
    f, s = reduced(FIRST)
    s.update.parallelize(k, combine=tm.PRIVATE)
    assert f.check().ok
    x = np.random.default_rng(extent).integers(0, 3, (7, extent), np.int32)
    x[:, : extent // 3] = 0
    expected = [next((value for value in row if value), 0) for row in x]
    np.testing.assert_array_equal(f.compile()(x), expected)
    np.testing.assert_array_equal(f.evaluate(x), expected)


@pytest.mark.parametrize(
    "command",
    [
        lambda s: s.parallelize(k, schedule="dynamic", combine=tm.PRIVATE),
        lambda s: s.parallelize(k, chunk=3, combine=tm.PRIVATE),
        lambda s: s.parallelize(k, combine=tm.ATOMIC),
        lambda s: s.vectorize(k, 8, combine=tm.PRIVATE),
        lambda s: s.reverse(k),
        lambda s: s.reverse(k).parallelize(k, combine=tm.PRIVATE),
        lambda s: s.split(k, 4, k0, k1).interchange(k0, k1),
    ],
)
def test_terms_that_are_no_neighbours_are_refused(command: Any) -> None:
    f, s = reduced(FIRST)
    command(s.update)
    report = f.check()
    assert "reduction" in [violation.kind for violation in report.violations]
    assert "first of s is not commutative, but two terms of s[0]" in str(report)


def test_trees_of_a_block_are_refused() -> None:
    f, s = reduced(FIRST)
    s.update.split(k, 32, k0, k1).tag_gpu(blocks=[i], threads=[k1], combine=tm.TREE)
    s.init.tag_gpu(blocks=[i], threads=[])
    f.derive_transfers()
    assert "first of s is not commutative, but two terms of s[0]" in str(f.check())


@pytest.mark.parametrize("extent", [0, 1, 7, 8, 9, 101])
def test_blocks_of_neighbours_on_threads_have_results_of_their_own(extent: int) -> None:
    f, s = reduced(tm.operator("affine", affine, (1, 0), commutative=False), tm.int32, lambda x: (x, x + 1))
    s.update.split(k, 8, k0, k1).parallelize(k0, combine=tm.TREE)
    assert f.check().ok
    x = np.random.default_rng(extent).integers(-9, 9, (3, extent), np.int32)
    for found, wanted in zip(f.compile(threads=3)(x), f.evaluate(x), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "command",
    [
        lambda s: s.split(k, 4, k0, k1).rfactor(k1),
        lambda s: s.split(k, 4, k0, k1).reverse(k0).rfactor(k0),
        lambda s: s.split(k, 4, k0, k1).split(k0, 4, a, b).rfactor(b),
    ],
)
def test_rfactor_of_terms_that_are_no_neighbours_is_refused(command: Any) -> None:
    with pytest.raises(tm.CommandError, match="first of s is not commutative, and partial results"):
        command(reduced(FIRST)[1].update)


def test_the_law_is_saved(tmp_path: Any) -> None:
    f, _ = reduced(FIRST)
    f.save(tmp_path / "first.json")
    op = tm.load(tmp_path / "first.json").algorithm.computations["s"].op
    assert op is not None and not op.commutative
