"""Selections of families of tests: nothing is lost with `--all`, and every value occurs without it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.selection import covering, first, some


def plain(parameters: list[Any]) -> list[tuple[Any, ...]]:
    """The parameters of a plain run."""
    return [each.values for each in parameters if not each.marks]


@pytest.mark.parametrize("lengths", [(3, 5), (4, 2, 3), (1, 1), (6, 6), (2,)])
@pytest.mark.parametrize("each", [1, 2])
def test_every_value_of_every_axis_occurs_in_a_plain_run(lengths: tuple[int, ...], each: int) -> None:
    axes = [[f"{name}{k}" for k in range(length)] for name, length in zip("abc", lengths, strict=False)]
    found = covering(*axes, each=each)
    assert [parameters.values for parameters in found] == list(product(*axes))
    chosen = plain(found)
    assert max(lengths) <= len(chosen) <= each * max(lengths)
    for k, axis in enumerate(axes):
        assert {values[k] for values in chosen} == set(axis)


def test_values_that_belong_together_stay_so() -> None:
    assert plain(covering([("a", 1), ("b", 2)], ["x"])) == [("a", 1, "x"), ("b", 2, "x")]
    assert covering([1, 2], []) == []


def test_some_and_the_first_of_a_list_are_plain() -> None:
    assert plain(some([("a", 1), ("b", 2)], lambda each: each[1] > 1)) == [("b", 2)]
    assert plain(first([3, 2, 1], 2)) == [(3,), (2,)]
