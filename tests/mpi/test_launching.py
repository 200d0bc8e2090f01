"""Tests on several ranks run there, and what a rank finds is seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mpi.launching import ROOT, implementations, run_test
from tiramisu_py.toolchain.compilers.mpi import mpi4py

FAILING = """
import pytest
from mpi4py import MPI

@pytest.mark.mpi(3)
def test_fails_on_one_rank():
    assert MPI.COMM_WORLD.rank != 1, "rank one is unlucky"
    MPI.COMM_WORLD.Barrier()

@pytest.mark.mpi(2, timeout=3)
def test_hangs():
    if MPI.COMM_WORLD.rank == 0:
        MPI.COMM_WORLD.recv(source=1)
"""


@pytest.mark.mpi(3, everywhere=True)
def test_a_test_runs_on_its_ranks(tmp_path):
    comm = mpi4py().COMM_WORLD
    assert comm.size == 3
    assert comm.allreduce(comm.rank) == 3
    assert len(set(comm.allgather(str(tmp_path)))) == 3


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = mpi\n")
    return tmp_path / "test_failing.py"


needs_mpi = pytest.mark.skipif(not implementations(), reason="no MPI on this machine")


@needs_mpi
def test_a_rank_that_fails_is_shown(failing):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"{failing}::test_fails_on_one_rank"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "rank 1 of 3: exit code 1" in done.stdout
    assert "rank one is unlucky" in done.stdout


@needs_mpi
def test_ranks_that_hang_are_ended_and_say_where(failing):
    name, implementation = next(iter(implementations().items()))
    said = run_test(f"{failing}::test_hangs[{name}]", implementation, 2, 3.0)
    assert "rank 0 of 2: did not end" in said
    assert "in test_hangs" in said
