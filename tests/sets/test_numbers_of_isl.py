"""Numbers that isl has computed, and those that it has not."""

from __future__ import annotations

import islpy as isl
import pytest

from tiramisu_py import sets


def test_a_number_is_what_isl_says_also_beyond_machine_words():
    context = isl.Context()
    assert [sets.number(sets.integer(context, value)) for value in (0, -7, 2**70)] == [0, -7, 2**70]


def test_where_the_budget_ends_there_is_an_error_of_isl_and_no_none():
    class Unfinished:
        def to_str(self) -> None:
            return None

    with pytest.raises(isl.Error, match="maximal number of operations"):
        sets.number(Unfinished())
