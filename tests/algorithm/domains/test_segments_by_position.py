"""Segments by position: ``x[k + o[i]]`` for ``k < o[i + 1] - o[i]``, which two values of one array bound together."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.types import DType

N, P = tm.params("N P")
i, k = tm.iters("i k")
Made = Callable[[Any], tm.Expr]


def segments(
    index: Made, terms: Callable[[Any], tuple[Any, Any]], dtype: DType = tm.int32, low: int = 0, **declared: Any
) -> tm.Function:
    """Sums of x at an index, over the terms that an array of offsets gives."""
    f = tm.Function("segments", params=[N, P])
    o = f.input("o", dtype, [N + 1], values=(low, P + 1), **declared)
    x = f.input("x", tm.float64, [P])
    f.outputs(f.reduction("s", {i: N}, {k: terms(o)}, tm.sum, x[index(o)]))
    return f


def of_own(o: Any) -> tuple[Any, Any]:
    return 0, o[i + 1] - o[i]


@pytest.mark.parametrize(
    ("index", "terms", "dtype"),
    [
        (lambda o: k + o[i], of_own, tm.int32),
        (lambda o: k + o[i], of_own, tm.int64),
        (lambda o: o[i + 1] - 1 - k, of_own, tm.int32),
        (lambda o: o[i] + k - 2, lambda o: (2, o[i + 1] - o[i] + 2), tm.int64),
    ],
    ids=["from the first", "in 64 bits", "from the last", "counted from 2"],
)
def test_positions_in_a_segment_are_inside_the_array(index: Made, terms: Any, dtype: DType) -> None:
    f = segments(index, terms, dtype, monotone=True)
    assert f.check().ok, f.check()
    for offsets in ([0], [0, 0], [0, 3], [0, 2, 2, 7, 8]):
        given = {"o": np.array(offsets, dtype.numpy), "x": np.arange(float(offsets[-1])) ** 2}
        wanted = [given["x"][a:b].sum() for a, b in pairwise(offsets)]
        np.testing.assert_allclose(f.compile()(**given), wanted)
        np.testing.assert_allclose(f.evaluate(**given), wanted)


@pytest.mark.parametrize(
    ("index", "terms", "declared"),
    [
        (lambda o: k + o[i] + 1, of_own, {}),
        (lambda o: k + o[i], lambda o: (0, o[i + 1]), {}),
        (lambda o: k + o[i], lambda o: (0, o[i + 1] - o[i] + 1), {}),
        (lambda o: k + o[i], lambda o: (-1, o[i + 1] - o[i]), {}),
        (lambda o: k + o[i + 1], of_own, {}),
        (lambda o: k + o[i], lambda o: (0, o[i + 1] - o[0]), {}),
        (lambda o: k + o[i], of_own, {"low": -1}),
        (lambda o: k + o[i], of_own, {"dtype": tm.uint16}),
        (lambda o: o[i] + k - 2, lambda o: (2, o[i + 1] - o[i] + 2), {}),
    ],
    ids=[
        "one on",
        "no difference",
        "one more",
        "one before",
        "of the next",
        "of the first",
        "negative",
        "wraps",
        "int32",
    ],
)
def test_what_the_difference_does_not_bound_is_refused(index: Made, terms: Any, declared: dict[str, Any]) -> None:
    kinds = {violation.kind for violation in segments(index, terms, monotone=True, **declared).check().violations}
    assert "bounds" in kinds
