"""The stories of examples/mpi: right on any number of ranks, simulated and real, and no byte more than is counted."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mpi.launching import Implementation, implementations
from tests.oracle.judges.rank_arrays import agreed, ran_on_ranks
from tests.programs.ranks import mpi_stories as stories
from tests.selection import covering, some

COUNTING = Path(__file__).with_name("count_bytes.c")


def sample(name: str, variant: str, size: int, f: Any) -> dict[str, Any]:
    """Arguments, with every parameter."""
    given: dict[str, Any] = dict(stories.module(name).sample(variant, size, 2))
    if "C" in f.algorithm.params:
        array = next(value for value in given.values() if isinstance(value, np.ndarray) and value.ndim > 1)
        given["C"] = array.shape[1] - (2 if name == "blur" else 0)
    return given


@pytest.mark.parametrize(("name", "variant", "ranks"), covering(list(stories.variants()), stories.RANKS, each=2))
def test_a_story_is_right_on_simulated_ranks_and_sends_what_was_counted(name: str, variant: str, ranks: int) -> None:
    f = stories.module(name).VARIANTS[variant](ranks, 17)
    assert f.check().ok, f.check()
    given = sample(name, variant, 17, f)
    ran = ran_on_ranks(f, seed=ranks, **given)
    outputs = ran.outputs if len(ran.outputs) > 1 else ran.outputs[0]
    assert not agreed(f, outputs, **given)
    counted = f.cost("communication", **{param: given[param] for param in f.algorithm.params})
    assert (ran.traffic.bytes, ran.traffic.messages) == (counted.bytes, counted.messages)
    for rank, own in enumerate(counted.by_rank):
        for went, said in ((ran.traffic.sent_by(rank), own.sent), (ran.traffic.received_by(rank), own.received)):
            assert (went.elements, went.bytes, went.messages) == (said.elements, said.bytes, said.messages), rank


@pytest.fixture(scope="module")
def mpi() -> Implementation:
    """The MPI that runs them."""
    return next(iter(implementations().values()))


@pytest.fixture(scope="module")
def counting(mpi: Implementation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts what is sent."""
    library = tmp_path_factory.mktemp("count") / "count_bytes.so"
    subprocess.run([mpi.mpicc, "-shared", "-fPIC", "-o", library, COUNTING], check=True)
    return library


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all ranks compile into."""
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    return folder


#: What calls MPI finds the functions of the library that counts first: it is there, for all, before MPI is.
RUNNING = """
import ctypes, sys
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
from tests.mpi.all_stories import run
run(*sys.argv[1:])
"""

#: The stories in three parts: every third one. In a selection each part runs alone, on a square, or on more ranks than
#: divide sizes. Pages of stories run on two, simulated ranks are of all numbers.
REAL = ((1, 0), (4, 1), (7, 2))
PARTS = 3


@pytest.mark.parametrize(("ranks", "part"), some(itertools.product(stories.RANKS, range(PARTS)), REAL.__contains__))
def test_every_story_is_right_on_ranks_and_sends_what_was_counted(
    ranks: int, part: int, mpi: Implementation, counting: Path, cache: Path, tmp_path: Path
) -> None:
    # compiled once for all ranks
    writing = f"from tests.mpi.prepared_stories import write; write({str(tmp_path)!r}, {ranks}, {part}, {PARTS})"
    wrote = mpi.run(1, [sys.executable, "-c", writing], timeout=1200, TIRAMISU_CACHE_DIR=str(cache))
    assert wrote.returncode == 0, wrote.stdout
    command = [sys.executable, "-c", RUNNING, counting, tmp_path]
    run = mpi.run(ranks, command, timeout=300, TIRAMISU_CACHE_DIR=str(cache))
    assert run.returncode == 0, run.stdout
    said = dict(json.loads(line) for line in run.stdout.splitlines() if line.startswith("["))
    assert len(said) == len(list(stories.variants())[part::PARTS])
    assert not [f"{story}: {why}" for story, why in said.items() if why]


@pytest.mark.parametrize("name", stories.NAMES)
def test_a_story_is_told_as_its_page_says(name: str, mpi: Implementation, cache: Path) -> None:
    run = mpi.run(
        2, [sys.executable, "-m", "mpi4py", stories.FOLDER / f"{name}.py"], timeout=300, TIRAMISU_CACHE_DIR=str(cache)
    )
    assert run.returncode == 0, run.stdout
    assert run.stdout.rstrip().splitlines()[-1].startswith("right:"), run.stdout
