"""Each group of TIRAMISU's tests has a program here, and the page in the documentation has its row."""

from __future__ import annotations

import pytest

from tests.parity import devices, legality, loops, places  # noqa: F401 (each registers its groups)
from tests.parity.groups import GROUPS, Group


@pytest.mark.parametrize("each", GROUPS, ids=lambda each: each.numbers)
def test_what_a_group_of_tiramisu_does_is_right_here(each: Group) -> None:
    each.run()
