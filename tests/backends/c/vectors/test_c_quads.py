"""Sums of four products of bytes: which are one operation, and that all others are as right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

(M,) = tm.params("M")
j, j0, j1 = tm.iters("j j0 j1")
PLAIN = [(0, 0), (1, 1), (2, 2), (3, 3)]


def sums(
    pairs: Sequence[tuple[int, int]], first: tm.DType, second: tm.DType, apart: int = 4,
    term: Callable[[tm.Expr, tm.Expr], tm.Expr] | None = None, lanes: int = 16,
) -> tm.Function:  # fmt: skip
    """``out[j] = s[j] + sum of a[1 + p] * b[j, q]`` over the pairs."""
    f = tm.Function("sums", params=[M])
    a, b = f.input("a", first, [8]), f.input("b", second, [M, apart])
    s = f.input("s", tm.int32, [M])
    term = term or (lambda x, y: tm.cast(tm.int32, x) * tm.cast(tm.int32, y))
    total: tm.Expr = s[j]
    for p, q in pairs:
        total = total + term(a[1 + p], b[j, q])
    out = f.computation("out", {j: M}, total)
    f.outputs(out)
    out.split(j, lanes, j0, j1)
    out.vectorize(j1, lanes)
    return f


def given(f: tm.Function, m: int) -> dict[str, Any]:
    """Bytes of which every third is the least or the greatest."""
    rng, made = np.random.default_rng(m), {}
    for declared in f.algorithm.inputs.values():
        ends = np.iinfo(declared.dtype.name)
        shape = [m if str(extent) == "M" else int(str(extent)) for extent in declared.shape]
        values = rng.integers(ends.min, ends.max, shape, dtype=declared.dtype.name, endpoint=True)
        made[declared.name] = np.where(
            rng.integers(3, size=shape) == 0, rng.choice([ends.min, ends.max], shape), values
        )
        made[declared.name] = made[declared.name].astype(declared.dtype.name)
    return made


def is_one(f: tm.Function) -> bool:
    """Whether four products are one operation in the source."""
    return "quads_int32x16_from_" in f.source()["sums.c"]


def check(f: tm.Function) -> None:
    for target in (None, "x86-64"):
        kernel = f.compile(target=target)
        for m in (0, 1, 16, 53):
            arrays = given(f, m)
            np.testing.assert_array_equal(kernel(**arrays), f.evaluate(**arrays))


@pytest.mark.parametrize("first", [tm.uint8, tm.int8])
@pytest.mark.parametrize("second", [tm.uint8, tm.int8])
def test_four_neighbours_are_one_operation_whatever_their_signs(first: tm.DType, second: tm.DType) -> None:
    f = sums(PLAIN, first, second)
    assert is_one(f)
    check(f)


def test_their_order_does_not_matter_and_other_terms_are_added() -> None:
    f = sums([(2, 2), (0, 0), (5, 1), (3, 3), (1, 1)], tm.uint8, tm.int8)
    assert is_one(f)
    check(f)


@pytest.mark.parametrize(
    "pairs",
    [PLAIN[:3], [(0, 0), (1, 1), (2, 3), (3, 2)], [(0, 0), (1, 1), (2, 2), (4, 3)], [(0, 0)] * 4],
    ids=["three", "crossed", "a gap", "the same"],
)
def test_other_products_are_added_one_by_one(pairs: list[tuple[int, int]]) -> None:
    f = sums(pairs, tm.uint8, tm.int8)
    assert not is_one(f)
    check(f)


def test_bytes_that_are_further_apart_are_added_one_by_one() -> None:
    f = sums(PLAIN, tm.uint8, tm.int8, apart=5)
    assert not is_one(f)
    check(f)


def test_products_that_wrap_are_no_products_of_bytes() -> None:
    """``a * b`` of two bytes is a byte."""
    f = sums(PLAIN, tm.int8, tm.int8, term=lambda x, y: tm.cast(tm.int32, x * y))
    assert not is_one(f)
    check(f)


def test_an_accumulator_is_an_operand_of_the_operation() -> None:
    """So that no addition follows it."""
    (K,) = tm.params("K")
    (g,) = tm.iters("g")
    f = tm.Function("sums", params=[K])
    a, b = f.input("a", tm.uint8, [4 * K]), f.input("b", tm.int8, [K, 16, 4])
    terms = [tm.cast(tm.int32, a[4 * g + q]) * tm.cast(tm.int32, b[g, j, q]) for q in range(4)]
    total = f.reduction("total", {j: 16}, {g: K}, tm.sum, terms[0] + terms[1] + terms[2] + terms[3])
    out = f.computation("out", {j: 16}, total[j])
    f.outputs(out)
    out.split(j, 16, j0, j1)
    out.vectorize(j1, 16)
    total.compute_at(out, j0)
    total.store_in(tm.REGISTER)
    total.update.reorder(g, j)
    total.vectorize(j, 16)
    source = f.source()["sums.c"]
    assert "total_0 = quads_int32x16_from_uint8_t_int8_t(total_0, " in source
    rng = np.random.default_rng(0)
    for size in (0, 1, 7):
        left = rng.integers(0, 256, 4 * size).astype(np.uint8)
        right = rng.integers(-128, 128, (size, 16, 4)).astype(np.int8)
        np.testing.assert_array_equal(f.compile()(left, right), f.evaluate(left, right))
