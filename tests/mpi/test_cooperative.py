"""The story of a GPU, cores and two ranks together, on real ranks and on simulated ones."""

from __future__ import annotations

import sys

import pytest

from tests.forking import run
from tests.mpi.launching import ROOT, Implementation, each, implementations

STORY = ROOT / "examples" / "cooperative" / "ranks.py"
RIGHT = "right: 5 splits on 2 ranks, bit for bit"


def test_three_parts_are_right_on_simulated_ranks_for_five_splits() -> None:
    done = run([STORY, "--device", "simulator"])
    assert done.returncode == 0 and done.stdout.rstrip().endswith(RIGHT), done.stdout + done.stderr


@pytest.mark.skipif(not implementations(), reason="no MPI on this machine: pip install 'tiramisu_py[mpi]'")
@pytest.mark.parametrize("mpi", each())
def test_three_parts_are_right_on_two_ranks_for_five_splits(mpi: Implementation) -> None:
    done = mpi.run(2, [sys.executable, STORY, "--device", "simulator"])
    assert done.returncode == 0 and RIGHT in done.stdout, done.stdout
