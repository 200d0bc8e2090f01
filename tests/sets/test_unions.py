"""Unions of several sets, against the points of their parts."""

from __future__ import annotations

import islpy as isl
import pytest

from tiramisu_py import sets

PARTS = ("{ [0]; [4] }", "{ [x] : 2 <= x < 5 }", "{ [x] : false }", "{ [9] }")


@pytest.mark.parametrize("count", range(1, len(PARTS) + 1))
def test_a_union_has_the_points_of_its_parts(count: int) -> None:
    parts = [isl.Set(text) for text in PARTS[:count]]
    points = {x for part in parts for x in range(-1, 11) if isl.Set(f"{{ [{x}] }}").is_subset(part)}
    found = sets.union_of(parts)
    assert {x for x in range(-1, 11) if isl.Set(f"{{ [{x}] }}").is_subset(found)} == points
    assert found.count_val().to_python() == len(points)
    again = sets.united(iter(parts))
    assert again is not None
    assert again.is_equal(found)


def test_relations_and_unions_of_spaces_are_united_likewise() -> None:
    assert sets.union_of([isl.Map("{ [0] -> [1] }"), isl.Map("{ [1] -> [2] }")]).is_equal(
        isl.Map("{ [i] -> [i + 1] : 0 <= i < 2 }")
    )
    both = sets.union_of([isl.UnionSet("{ A[0] }"), isl.UnionSet("{ B[0] }")])
    assert both.is_equal(isl.UnionSet("{ A[0]; B[0] }"))


def test_of_no_parts_there_is_no_union() -> None:
    nothing: list[isl.Set] = []
    assert sets.united(nothing) is None
    with pytest.raises(ValueError, match="has no space"):
        sets.union_of(nothing)


def test_each_key_has_the_union_of_its_own_parts_in_the_order_of_the_keys() -> None:
    found = sets.united_by_key([("b", isl.Set("{ [0] }")), ("a", isl.Set("{ [5] }")), ("b", isl.Set("{ [1] }"))])
    assert list(found) == ["b", "a"]
    assert found["b"].is_equal(isl.Set("{ [x] : 0 <= x < 2 }"))
    assert found["a"].is_equal(isl.Set("{ [5] }"))
