"""Names that differ by a suffix."""

from __future__ import annotations

import pytest

from tiramisu_py.algorithm.spellings import Spelling, counted, distinct, fresh_name, indexed, numbered, underscored


@pytest.mark.parametrize(
    ("spelled", "names"),
    [
        (numbered, ["x", "x2", "x3", "x4"]),
        (indexed, ["x", "x_1", "x_2", "x_3"]),
        (counted, ["x", "x_2", "x_3", "x_4"]),
        (underscored, ["x", "x_", "x__", "x___"]),
    ],
)
def test_names_asked_for_one_after_the_other_differ_by_their_spelling(spelled: Spelling, names: list[str]) -> None:
    taken: list[str] = []
    for _ in names:
        taken.append(fresh_name("x", taken, spelled))
    assert taken == names


def test_a_gap_in_the_numbers_is_used_first() -> None:
    assert fresh_name("x", {"x", "x3"}) == "x2"
    assert fresh_name("x", {"x2"}) == "x"


def test_names_that_repeat_are_made_different_in_their_order() -> None:
    assert distinct(["i", "j", "i", "i_", "i"]) == ["i", "j", "i_", "i__", "i___"]
