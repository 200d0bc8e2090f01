"""Generated C under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import pytest

from tests.sanitizers import check_clean

PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_every_command_is_clean_under_the_sanitizers(part):
    check_clean("tests.schedule.under_sanitizers", str(part), str(PARTS))


def test_time_tiles_are_clean_under_the_sanitizers():
    check_clean("tests.schedule.tiles_under_sanitizers")


def test_sparse_programs_are_clean_under_the_sanitizers():
    check_clean("tests.schedule.sparse_under_sanitizers")
