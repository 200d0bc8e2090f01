"""Programs on several ranks: which implementations of MPI there are here, and how they run without ever hanging."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests import fork_client, forking
from tiramisu_py.toolchain import open_cache

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = Path(__file__).with_name("rank.py")
CLIENT = Path(fork_client.__file__)
#: What each rank of a test would import by itself: not tests, which pytest changes when they are imported.
MODULES = (
    "mpi4py", "numpy.ma", "numpy.testing", "pdb", "pytest", "xml.etree.ElementTree", "tests.mpi.launching",
    "tests.mpi.shared_work", "tests.mutations.lists", "tests.programs.ranks.mpi_programs", "tests.tiers.costs",
)  # fmt: skip
#: In the environment of a rank that runs one test: the folder for what it finds.
FOLDER = "TIRAMISU_PY_RANK_FOLDER"
TIMEOUT = 120.0
#: For so many seconds ranks may start; what hangs then is ended with the launch.
STARTING = 120.0

#: In the environment of a rank: the implementations that there are, which are not looked for again.
FOUND = "TIRAMISU_PY_IMPLEMENTATIONS"
_NOT_INHERITED = ("PYTEST_", "MPI4PY_")

_OPEN_MPI = {
    # as root, and more ranks than cores; of version 4 and of version 5
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "MPI4PY_MPIABI": "openmpi",
}


@dataclass(frozen=True)
class Implementation:
    """An implementation of MPI: how its programs are started."""

    name: str
    mpirun: str

    @property
    def mpicc(self) -> str:
        """Its compiler, which lies beside mpirun."""
        path = Path(self.mpirun)
        return str(path.with_name(path.name.replace("mpirun", "mpicc")))

    @property
    def environment(self) -> dict[str, str]:
        own = _OPEN_MPI if self.name == "openmpi" else {}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        path = os.pathsep.join(filter(None, [inherited.get("PYTHONPATH"), str(ROOT)]))
        return {**inherited, **own, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}

    def run(
        self, count: int, command: Sequence[str | Path], *, timeout: float = TIMEOUT, cwd: Path = ROOT,
        forked: bool = True, modules: Sequence[str] = (), **more: str,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Runs a command on `count` ranks, and ends all of them after `timeout` seconds (return code -9).

        Where it begins with this Python, mpirun starts programs that each stand for a fork of a process that has
        imported `modules`, too. Unless `forked` says otherwise.
        """
        words = [*map(str, command)]
        if forked and words[0] == sys.executable:
            words[1:1] = ["-I", "-S", str(CLIENT), forking.address(modules=modules)]
        started = [self.mpirun, "-n", str(count), *words]
        found = os.pathsep.join(f"{name}={own.mpirun}" for name, own in implementations().items())
        environment = {**self.environment, FOUND: found, **more}
        with _alone():
            process = subprocess.Popen(
                started, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
            try:
                said, _ = process.communicate(timeout=timeout)
                code = process.returncode
            except subprocess.TimeoutExpired:
                said, code = _ended(process), -signal.SIGKILL
        return subprocess.CompletedProcess(started, code, said, "")


def _ended(process: subprocess.Popen[str]) -> str:
    """Ends mpirun, which ends its ranks; then whatever is left of its session."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=5)[0]
    except subprocess.TimeoutExpired:
        return ""


@contextlib.contextmanager
def _alone(path: Path | None = None) -> Iterator[None]:
    """Ranks wait by polling: several programs at once would slow each other down, and all other tests."""
    path = path or Path(tempfile.gettempdir(), f"tiramisu_py-mpi-tests-{os.geteuid()}.lock")
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def implementations() -> dict[str, Implementation]:
    """Those that this machine has, and that mpi4py can use: MPICH first."""
    if FOUND in os.environ:
        pairs = (text.split("=") for text in os.environ[FOUND].split(os.pathsep))
        return {name: Implementation(name, path) for name, path in pairs}
    if importlib.util.find_spec("mpi4py") is None:
        return {}
    found: dict[str, Implementation] = {}
    folders = [Path(sys.executable).parent, *map(Path, os.get_exec_path())]
    for name in ("mpirun", "mpirun.mpich", "mpirun.openmpi"):
        for folder in dict.fromkeys(folders):
            path = shutil.which(str(folder / name))
            own = _implementation(path) if path else None
            if own and own.name not in found and _is_usable(own):
                found[own.name] = own
    return dict(sorted(found.items()))


def each() -> list[ParameterSet]:
    """Those that this machine has, as parameters: in a plain run, those after the first have their turn."""
    return [
        pytest.param(own, id=name, marks=pytest.mark.slow if place else ())
        for place, (name, own) in enumerate(implementations().items())
    ]


def _implementation(path: str) -> Implementation | None:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    name = "openmpi" if "Open MPI" in said or "OpenRTE" in said else "mpich" if "HYDRA" in said else None
    return Implementation(name, path) if name else None


def _is_usable(implementation: Implementation) -> bool:
    program = "from mpi4py import rc; rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=implementation.environment, capture_output=True, text=True, check=False
    )
    words = {"openmpi": "Open MPI", "mpich": "MPICH"}[implementation.name]
    return done.returncode == 0 and words in done.stdout


def run_test(nodeid: str, implementation: Implementation, count: int, timeout: float) -> str:
    """Runs one test on `count` ranks; answers what the ranks that failed say: nothing where all passed."""
    with tempfile.TemporaryDirectory(prefix="tiramisu_py-ranks-") as folder:
        done = _launched([nodeid], implementation, count, timeout, folder)
        return _failures(Path(folder), count, done)


def run_tests(nodeids: Sequence[str], implementation: Implementation, count: int, timeout: float) -> list[str]:
    """Runs several tests in one launch, one after the other; answers those that passed on all ranks.

    The first one that fails on a rank, or hangs, ends all: it and those after it are to be run by themselves. To start
    the ranks costs more than most tests do.
    """
    with tempfile.TemporaryDirectory(prefix="tiramisu_py-ranks-") as folder:
        _launched(nodeids, implementation, count, timeout, folder)
        passed = Path(folder, "0.passed")
        return passed.read_text().splitlines() if passed.exists() else []


def _launched(
    nodeids: Sequence[str], implementation: Implementation, count: int, timeout: float, folder: str
) -> subprocess.CompletedProcess[str]:
    """Each test has `timeout` seconds of its own from when it begins, so that a slow start ends none of them."""
    command = [sys.executable, LAUNCHER, str(timeout), *nodeids]
    more = {FOLDER: folder, "TIRAMISU_CACHE_DIR": str(open_cache().root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return implementation.run(count, command, timeout=STARTING + len(nodeids) * timeout, modules=MODULES, **more)


def passed_together(
    folder: Path, nodeids: Sequence[str], implementation: Implementation, count: int, timeout: float
) -> list[str]:
    """Those of some tests that pass in one launch, which the processes that share a folder do once."""
    with _alone(folder / "launching.lock"):
        known = folder / f"{implementation.name}-{count}-{timeout:g}.json"
        if not known.exists():
            known.write_text(json.dumps(run_tests(nodeids, implementation, count, timeout)))
        return list(json.loads(known.read_text()))


def _failures(folder: Path, count: int, done: subprocess.CompletedProcess[str]) -> str:
    failed = []
    for rank in range(count):
        said, code = folder / f"{rank}.txt", folder / f"{rank}.code"
        if not code.exists() or code.read_text() != "0":
            ended = f"exit code {code.read_text()}" if code.exists() else "did not end"
            text = said.read_text(errors="replace") if said.exists() else "did not start"
            failed.append(f"--- rank {rank} of {count}: {ended}\n{text}")
    if failed or done.returncode != 0:
        failed.append(f"--- mpirun: return code {done.returncode}\n{done.stdout}")
    return "\n".join(failed)
