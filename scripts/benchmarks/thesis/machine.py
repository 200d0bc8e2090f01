"""The machine that the thesis's experiments run on: its resources, sizes that fit, and programs on its ranks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.rounds import BENCHMARKS, PYTHON

ROWS = 16000
LIMIT = 300.0
#: Open MPI: allow root and more ranks than cores; do not bind ranks to cores, and yield while waiting.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
#: glibc: keep the memory of temporaries between calls; otherwise a call spends most of its time on new pages.
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(2**20)}


@dataclass(frozen=True)
class Plan:
    """The plan of a run: rows and columns of each kind of experiment, numbers of ranks, seconds for each launch."""

    device: str
    cores: int
    gpus: int
    rows: int
    columns: int
    gpu_rows: int
    gpu_columns: int
    ranks: tuple[int, ...]
    gpu_ranks: tuple[int, ...]
    seconds: float
    passes: int
    small: bool

    @property
    def simulated(self) -> bool:
        """Whether GPUs are simulated, so that their times are meaningless."""
        return self.device == "simulator"


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def free_memory() -> int:
    """The bytes that can be allocated without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), 2**30)


def plan(device: str, small: bool) -> Plan:
    """Sizes that fit this machine; the thesis's 16000 rows, to keep its proportion of messages to rows."""
    count, gpus = cores(), tm.gpu_count() if device == "gpu" else 1
    most = free_memory() // 8 // (4 * ROWS)  # an eighth of the memory for one array
    columns = min(2048 * count, most, 32768) // 256 * 256
    ranks = tuple(n for n in (1, 2, 4, 8, 16) if n <= max(count, 4))
    sized = Plan(
        device, count, gpus, ROWS, columns, 2048, min(2**18, free_memory() // 64 // (4 * 2048)), ranks,
        tuple(n for n in (1, 2, 4) if n <= max(gpus, 2 if device == "simulator" else 1)), 4.0, 2, small,
    )  # fmt: skip
    if small or device == "simulator":
        sized = replace(sized, gpu_rows=160, gpu_columns=256 if device == "simulator" else 4096)
    return replace(sized, rows=1600, columns=1024, seconds=0.5, passes=1) if small else sized


@cache
def launcher() -> str:
    """The mpirun beside this Python, or the one in the path."""
    beside = Path(sys.executable).parent / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        raise SystemExit("the experiments run on ranks, and there is no mpirun here: pip install 'tiramisu_py[mpi]'")
    return found


def on_ranks(ranks: int, threads: int, asked: dict[str, Any]) -> dict[str, Any]:
    """The answer of ``timed.py`` on `ranks` ranks, each with `threads` threads."""
    # under mpi4py, a rank that fails ends all of them
    program = [PYTHON, "-m", "mpi4py", BENCHMARKS, "thesis.timed", json.dumps(asked)]
    command = [launcher(), "-n", str(ranks), *program]
    environment = {**OPEN_MPI, **KEEPING, **os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment, timeout=LIMIT
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode or not lines:
        raise SystemExit(f"{asked['experiment']} on {ranks} ranks failed:\n{run.stdout[-2000:]}{run.stderr[-4000:]}")
    return dict(json.loads(lines[-1]))


def measured(
    plan: Plan, experiment: str, ranks: Iterable[int], rows: int, columns: int, device: str | None = None
) -> dict[int, dict[str, Any]]:
    """Times and verdicts for each number of ranks: several launches in turn, and the least of each time."""
    found: dict[int, dict[str, Any]] = {}
    seconds = 0.0 if device == "simulator" else plan.seconds
    listed = list(ranks)
    for _ in range(plan.passes if seconds else 1):
        for count in listed:
            asked = {"experiment": experiment, "rows": rows, "columns": columns, "seconds": seconds, "device": device}
            answer = on_ranks(count, max(1, plan.cores // count), asked)
            before = found.setdefault(count, answer)
            for name, time in answer["times"].items():
                before["times"][name] = min(time, before["times"][name])
    return found


def versions() -> str:
    """The versions of this package, Python, NumPy, MPI and Halide."""
    said = subprocess.run([launcher(), "--version"], capture_output=True, text=True, check=False).stdout.split("\n")
    mpi = next((line.split(":")[-1].strip() for line in said if "Version" in line or "Open MPI" in line), "unknown")
    name = "MPICH" if "HYDRA" in said[0] else "Open MPI"
    return (
        f"tiramisu_py {tm.__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}, {name} {mpi}, "
        f"{halide_version()}"
    )


def halide_version() -> str:
    """Halide's version, if it is installed."""
    try:
        from importlib.metadata import version  # noqa: PLC0415

        return f"Halide {version('halide')}"
    except ImportError:
        return "no Halide"
