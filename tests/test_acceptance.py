"""The acceptance scripts beside the checkout, where they are: each runs unchanged and prints ok."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.forking import run
from tests.mpi.launching import Implementation, each, implementations

FOLDER = Path(__file__).resolve().parent.parent.parent / "shared" / "acceptance"
SCRIPTS = (
    "blur_cpu.py",
    "blur_gpu.py",
    "cooperative.py",
    "refusal.py",
    "matmul.py",
    "export_c.py",
    "spmv.py",
    "gradients.py",
    "graphs.py",
    "tuned.py",
    pytest.param("blocks.py", marks=pytest.mark.slow),
    pytest.param("memory.py", marks=pytest.mark.slow),
)


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no acceptance scripts beside this checkout ({FOLDER})")
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_acceptance_script_runs_and_prints_ok(script: str, tmp_path: Path) -> None:
    done = run([FOLDER / script], cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] in ("ok", f"ok: {script.removesuffix('.py')}"), done.stdout


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no acceptance scripts beside this checkout ({FOLDER})")
@pytest.mark.skipif(not implementations(), reason="no MPI on this machine: pip install 'tiramisu_py[mpi]'")
@pytest.mark.parametrize("mpi", each())
def test_the_acceptance_script_of_ranks_runs_on_four_and_prints_ok(mpi: Implementation, tmp_path: Path) -> None:
    done = mpi.run(4, [sys.executable, "-m", "mpi4py", FOLDER / "blur_mpi.py"], cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout
    assert done.stdout.rstrip().endswith("ok"), done.stdout
