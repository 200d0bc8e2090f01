"""Elements of sets, listed dimension by dimension: the same as isl's, and found without trying all values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import islpy as isl
import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py import sets
from tiramisu_py.algorithm.evaluate.lattice import Column, Lattice, Mask

N, M = tm.params("N M")
i, j, k = tm.iters("i j k")


@pytest.mark.parametrize(
    "text",
    [
        "{ [k, i] : k = 7i and 0 <= i < 9 }",
        "{ [k, i] : k = -3i + 2 and -4 <= i < 9 }",
        "{ [k, i] : 2k = 3i and 0 <= i < 20 }",
        "{ [x, y, z] : 0 <= x < 6 and x <= 2y + z < 9 and -3 <= z <= y }",
        "{ [x, y] : 0 <= x < 20 and (y = floor(x / 3) or y = 3x + 1) }",
        "{ [x, y] : 0 <= x, y < 12 and (x + y) mod 3 = 1 and y <= floor(x / 2) }",
        "{ [x, y] : 0 <= x < 5 and (y < x and y >= 0 or 2 * x <= y and y <= 9) }",
        "{ [x, y] : 0 <= x < 5 and 3 * floor(y / 4) = x and y >= 0 }",
        "{ [x, y, z] : x = 2 and y = 3x - 1 and z = y - 4x }",
        "{ [x, y] : false }",
    ],
)
def test_the_elements_of_a_set_are_those_of_isl_in_their_order(text: str) -> None:
    of = isl.Set(text)
    found = zip(*(column.tolist() for column in Lattice(of, {}).elements()), strict=True)
    assert list(found) == sorted(sets.points(of))


def test_terms_at_every_seventh_place_are_found_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[int]()
    contains = Lattice.contains

    def counting(self: Lattice, columns: Sequence[Column]) -> Mask:
        tried.append(len(columns[0]) if columns else 0)
        return contains(self, columns)

    monkeypatch.setattr(Lattice, "contains", counting)
    f = tm.Function("apart", params=[N])
    a = f.input("a", tm.float64, [N])
    f.outputs(f.scatter("h", {k: 7 * N + 1}, over={i: N}, at=[7 * i], op=tm.sum, expr=a[i]))
    given: Any = np.random.default_rng(1).random(2000)
    found = f.evaluate(a=given)
    expected = np.zeros(14001)
    expected[:14000:7] = given
    np.testing.assert_array_equal(found, expected)
    assert sum(tried) < 4 * len(expected)
