"""The stories of examples/mpi: right on any number of ranks, simulated and real, and no byte more than is counted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mpi import stories
from tests.oracle.rank_arrays import agreed, ran_on_ranks

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")


def tool(name: str) -> str:
    """A tool of MPI: the one beside this Python, if there is one."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name


def sample(name: str, variant: str, size: int, f: Any) -> dict[str, Any]:
    """Arguments, with every parameter."""
    given: dict[str, Any] = dict(stories.module(name).sample(variant, size, 2))
    if "C" in f.algorithm.params:
        array = next(value for value in given.values() if isinstance(value, np.ndarray) and value.ndim > 1)
        given["C"] = array.shape[1] - (2 if name == "blur" else 0)
    return given


@pytest.mark.parametrize("ranks", stories.RANKS)
@pytest.mark.parametrize(("name", "variant"), list(stories.variants()))
def test_a_story_is_right_on_simulated_ranks_and_sends_what_was_counted(name: str, variant: str, ranks: int) -> None:
    f = stories.module(name).VARIANTS[variant](ranks, 17)
    assert f.check().ok, f.check()
    given = sample(name, variant, 17, f)
    ran = ran_on_ranks(f, seed=ranks, **given)
    outputs = ran.outputs if len(ran.outputs) > 1 else ran.outputs[0]
    assert not agreed(f, outputs, **given)
    counted = f.communication(**{param: given[param] for param in f.algorithm.params})
    assert (ran.traffic.bytes, ran.traffic.messages) == (counted.bytes, counted.messages)


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library that counts what is sent."""
    library = str(tmp_path_factory.mktemp("count") / "count_bytes.so")
    source = str(Path(__file__).with_name("count_bytes.c"))
    subprocess.run([tool("mpicc"), "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.parametrize("ranks", stories.RANKS)
def test_every_story_is_right_on_ranks_and_sends_what_was_counted(ranks: int, counting: str) -> None:
    for name, variant in stories.variants():  # compiled before, by one process, while no rank is waiting
        stories.module(name).VARIANTS[variant](ranks, 17).compile()
    command = [tool("mpirun"), "-n", str(ranks), sys.executable, "-m", "tests.mpi.all_stories", counting]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "LD_PRELOAD": counting}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    said = dict(json.loads(line) for line in run.stdout.splitlines() if line.startswith("["))
    assert len(said) == len(list(stories.variants()))
    assert not [f"{story}: {why}" for story, why in said.items() if why]
