"""The MPI that programs are compiled for is the one that mpi4py has loaded; what is missing is said."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.mpi.launching import ROOT, Implementation, implementations
from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain import Cache, open_cache
from tiramisu_py.toolchain.compilers import mpi

needs_mpi = pytest.mark.skipif(not implementations(), reason="no MPI on this machine")
MPI = [pytest.param(own, id=name) for name, own in implementations().items()]

FINDING = """
from tiramisu_py.toolchain import open_cache
from tiramisu_py.toolchain.compilers import mpi
found = mpi.find_mpi(open_cache())
print(found.version.split(",")[0], found.mpicc, found.compiling, found.linking)
"""


def loaded(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Makes mpi4py say that it has loaded some version."""
    module = SimpleNamespace(Get_library_version=lambda: version)
    monkeypatch.setattr(mpi, "mpi4py", lambda: module)


def test_without_mpi4py_the_extra_is_named(monkeypatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ToolchainError, match=r"needs mpi4py.*pip install 'tiramisu_py\[mpi\]'"):
        mpi.find_mpi(open_cache())


def test_without_mpicc_it_says_what_to_install(monkeypatch, tmp_path):
    loaded(monkeypatch, "MPICH Version:      5.0.2\nMPICH Release date: today")
    monkeypatch.setattr(mpi.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(mpi.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(mpi.os, "get_exec_path", lambda: [str(tmp_path)])
    with pytest.raises(ToolchainError, match=r"no mpicc.*MPICH Version: 5\.0\.2.*none is on the PATH.*MPICC=/path"):
        mpi.find_mpi(open_cache())


def test_a_named_mpicc_that_is_none_is_an_error(monkeypatch, tmp_path):
    loaded(monkeypatch, "MPICH Version:      5.0.2")
    monkeypatch.setenv("MPICC", str(tmp_path / "mpicc"))
    with pytest.raises(ToolchainError, match="mpicc: not found"):
        mpi.find_mpi(open_cache())
    monkeypatch.setenv("MPICC", "gcc")
    with pytest.raises(ToolchainError, match="gcc: it does not say how it compiles"):
        mpi.find_mpi(open_cache())


@needs_mpi
def test_a_compiler_of_another_implementation_is_not_used(monkeypatch):
    name, own = next(iter(implementations().items()))
    other = "Open MPI v4.1.4, package: some" if name == "mpich" else "MPICH Version: 5.0.2"
    loaded(monkeypatch, other)
    monkeypatch.setenv("MPICC", str(Path(own.mpirun).with_name("mpicc")))
    with pytest.raises(ToolchainError, match=r"it is for (MPICH|Open MPI), and mpi4py has loaded (MPICH|Open MPI)"):
        mpi.find_mpi(open_cache())


@pytest.mark.parametrize("own", MPI)
def test_the_compiler_is_of_the_mpi_that_runs(own: Implementation, cache_folder):
    done = own.run(1, [sys.executable, "-c", FINDING], timeout=60, TIRAMISU_CACHE_DIR=str(cache_folder))
    assert done.returncode == 0, done.stdout
    assert ("Open MPI" if own.name == "openmpi" else "MPICH") in done.stdout
    assert "-lmpi" in done.stdout


def test_mpi4py_is_not_imported_for_other_functions(tmp_path):
    program = (
        "import sys, numpy as np, tiramisu_py as tm\nN, = tm.params('N')\ni, = tm.iters('i')\n"
        "f = tm.Function('f', params=[N])\n"
        "x = f.input('x', tm.float32, [N])\ny = f.computation('y', {i: N}, x[i] + 1)\nf.outputs(y)\n"
        "f.compile()(np.zeros(3, np.float32))\nassert 'mpi4py' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_of_several_that_want_one_entry_one_builds_it(tmp_path):
    """Ranks compile at the same time."""
    tmp_path.chmod(0o700)
    cache, built, found = Cache(tmp_path), [], []

    def build(folder: Path) -> list[Path]:
        built.append(folder)
        (folder / "made").write_text("made")
        return []

    ready = threading.Barrier(6)

    def want() -> None:
        ready.wait()
        found.append(cache.entry("wanted-by-many", build))

    threads = [threading.Thread(target=want) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert len(set(found)) == 1
    assert len(found) == 6
    assert not list(cache.root.glob("building-*.lock"))
