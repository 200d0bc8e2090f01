"""The benchmark of searches: its spaces have right and wrong schedules, and a short search fills a row."""

from __future__ import annotations

import random
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from benchmarks import tune
from tests.selection import first
from tiramisu_py.tuning.search.space import Space


def points(search: Any) -> list[Any]:
    return [*Space({name: tuple(values) for name, values in search.space.items()}, search.where).points()]


@pytest.mark.parametrize("number", first([1, 0], 1))
def test_schedules_of_the_spaces_are_right_or_refused(number: int) -> None:
    search = tune.SEARCHES[number]
    arguments = search.arguments(True)
    wanted = search.story().algorithm()[0].evaluate(**arguments)
    outcomes: list[bool] = []
    for point in random.Random(number).sample(points(search), 12):
        try:
            f = search.make(**point)
            assert f.algorithm.outputs == search.story().scheduled().algorithm.outputs
            legal = f.check().ok
        except tm.CommandError:
            legal = False
        outcomes.append(legal)
        if legal and outcomes.count(True) <= 2:  # each takes seconds to compile
            np.testing.assert_allclose(f.compile()(**arguments), wanted, rtol=1e-3, atol=1e-3)
    assert 2 <= outcomes.count(True) < len(outcomes)


def test_a_short_search_is_compared_with_the_story(tmp_path: Path) -> None:
    search = tune.SEARCHES[1]
    options = Namespace(small=True, points=3, minutes=1.0, database=str(tmp_path / "tuning.sqlite"), seed=0)
    try:
        found, row = tune.searched(search, options)
    except ImportError:
        pytest.skip("no Optuna here: pip install 'tiramisu_py[tune]'")
    assert len(row) == len(tune.HEADER)
    assert row[1] == f"{len(found.points)} of {len(points(search))}" and found.measured == 3
    assert float(row[-1]) > 0
    assert search.title in tune.told(search, found)
