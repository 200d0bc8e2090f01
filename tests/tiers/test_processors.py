"""All kinds of processors have a run, and each run has all sizes of vectors."""

from __future__ import annotations

import pytest

from tests.processors import OWN
from tests.tiers.families import ROUNDS, TURNS, VARIABLE
from tests.tiers.processors import LEVELS, processors
from tiramisu_py.toolchain import processor_for
from tiramisu_py.toolchain.compilers.processor import VARIABLE as STANDS


def test_each_kind_of_processor_is_first_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STANDS, "x86-64-v2")
    runs = []
    for turn in range(0, ROUNDS * TURNS, TURNS):
        monkeypatch.setenv(VARIABLE, str(turn))
        runs.append(processors())
    first = {run[0] for run in runs}
    assert {OWN} <= first <= {OWN, *LEVELS}
    monkeypatch.delenv(STANDS, raising=False)
    sizes = {name: processor_for(name).vector_bytes for name in first}
    for run in runs:
        assert len(run) == len({sizes[name] for name in run}) == len({*sizes.values()})
