"""The example whose rows a partitioner chooses: right on any number of ranks, and blocks with about equal work."""

from __future__ import annotations

import sys
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.mpi.launching import Implementation, each
from tests.programs.ranks import mpi_stories as stories

PATH = Path(__file__).parents[2] / "examples" / "mpi" / "partitioned.py"


@pytest.mark.parametrize("mpi", each()[:1])
def test_the_example_is_right_with_the_rows_that_its_partitioner_chooses(mpi: Implementation, tmp_path: Path) -> None:
    done = mpi.run(2, [sys.executable, "-m", "mpi4py", PATH], cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "right on 2 ranks, with 141, 59 of 200 rows each" in done.stdout
    assert "50% of the work on one, where equal rows would have 75%" in done.stdout


@pytest.mark.parametrize(("rows", "ranks"), [(1, 1), (2, 3), (5, 4), (7, 3), (8, 2)])
def test_blocks_follow_one_another_and_none_has_much_more_work_than_the_best_split(rows: int, ranks: int) -> None:
    story, rng = stories.module("partitioned"), np.random.default_rng(rows)
    for work in ([row + 1 for row in range(rows)], [*map(int, rng.integers(1, 9, rows))]):
        bounds = story.partition(work, ranks)
        used = min(ranks, rows)
        assert (bounds[0], bounds[used:], len(bounds)) == (0, [rows] * (ranks + 1 - used), ranks + 1)
        assert all(low < high for low, high in pairwise(bounds[: used + 1]))
        splits = ([0, *cuts, rows] for cuts in combinations(range(1, rows), used - 1))
        best = min(story.largest(work, split) for split in splits)
        assert story.largest(work, bounds[: used + 1]) <= best + max(work) / sum(work)
