"""All kinds of processors have a run, and each turn begins with another one."""

from __future__ import annotations

import pytest

from tests.processors import OWN
from tests.tiers.families import VARIABLE
from tests.tiers.processors import LEVELS, processors
from tiramisu_py.build.toolchains.processor import VARIABLE as STANDS


def test_each_kind_of_processor_is_first_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STANDS, "x86-64-v2")
    turns = []
    for turn in range(4):
        monkeypatch.setenv(VARIABLE, str(turn))
        turns.append(processors())
    kinds = set(turns[0])
    assert {OWN} <= kinds <= {OWN, *LEVELS}
    assert all(len(turn) == len(kinds) and set(turn) == kinds for turn in turns)
    assert {turn[0] for turn in turns} == kinds
