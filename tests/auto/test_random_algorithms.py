"""Random algorithms with automatic schedules: proven, and right in loops and in code, as `evaluate()` says."""

from __future__ import annotations

import random

import pytest

import tiramisu_py as tm
from tests.oracle.generators.group_random import Groups
from tests.oracle.generators.random_algorithms import Algorithms
from tests.oracle.generators.script import Script
from tests.oracle.kinds import Drawn, any_loops, compiled_together


def scheduled(kind: type[Algorithms], seed: int) -> Script | None:
    """A random algorithm with the commands of its automatic schedule; None if the algorithm itself is refused."""
    script = kind(random.Random(seed)).written()
    f = script.function
    if not f.check().ok:
        with pytest.raises(tm.LegalityError):
            f.auto_schedule(threads=2)
        return None
    for line in str(f.copy().auto_schedule(threads=2)).splitlines():
        script.do(line)
    assert f.check().ok
    return script


@pytest.mark.parametrize("kind", [Algorithms, Groups])
def test_automatic_schedules_of_random_algorithms_are_right(kind: type[Algorithms]) -> None:
    made = {seed: scheduled(kind, seed) for seed in range(16)}
    drawn = [Drawn(seed, script) for seed, script in made.items() if script is not None]
    assert len(drawn) >= 10
    for each in drawn:
        assert any_loops(each) == "", each.script.text
    compiled = drawn[:4]
    for each, wrong in zip(compiled, compiled_together(compiled), strict=True):
        assert wrong == "", each.script.text
