"""Generated C under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import pytest

from tests.oracle.seeds import first_of
from tests.sanitizers import check_clean
from tests.selection import first

PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_every_command_is_clean_under_the_sanitizers(part):
    check_clean("tests.schedule.under_sanitizers", str(part), str(PARTS))


def test_time_tiles_are_clean_under_the_sanitizers():
    check_clean("tests.schedule.tiles_under_sanitizers")


@pytest.mark.parametrize("count", first([1, 40], 1))
def test_random_programs_are_clean_under_the_sanitizers(count):
    check_clean(
        "tests.oracle.under_sanitizers",
        str(first_of(61)),
        str(count),
        "cores",
        "any",
        "groups",
        "whole",
        "facts",
        "stages",
    )


def test_sparse_programs_are_clean_under_the_sanitizers():
    check_clean("tests.schedule.sparse_under_sanitizers")
