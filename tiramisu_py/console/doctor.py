"""``tiramisu doctor``: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import platform
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tiramisu_py.errors import TiramisuError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain import gpu_count, processor_for
from tiramisu_py.toolchain.compilers.c_compiler import find_toolchain
from tiramisu_py.toolchain.compilers.cache import Cache, open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import find_cuda_compiler
from tiramisu_py.toolchain.compilers.mpi import Mpi, family_of_launcher, find_mpi
from tiramisu_py.toolchain.compilers.simulator import find_cxx
from tiramisu_py.toolchain.gpu.available_gpus import Device
from tiramisu_py.toolchain.gpu.runtime import runtime_for
from tiramisu_py.toolchain.machine.topology import allowed_cpus

#: Variables of the environment that change what is found here.
VARIABLES = (
    "CC", "CXX", "AR", "MPICC", "CUDA_HOME", "CUDA_PATH", "OMP_NUM_THREADS", "TIRAMISU_CACHE_BASE",
    "TIRAMISU_CACHE_DIR", "TIRAMISU_PATIENCE", "TIRAMISU_PROCESSOR", "TIRAMISU_PROGRESS", "TIRAMISU_VERSION",
    "XDG_CACHE_HOME",
)  # fmt: skip
_PACKAGES = ("tiramisu_py", "islpy", "numpy", "cgen", "ml_dtypes")


@dataclass(frozen=True)
class Examined:
    """One thing that was looked for: what was found, or what is missing and how to get it; a `warning` says what of it
    does not fit together.

    Without a `needed` one nothing can be compiled; others are for GPUs and ranks.
    """

    what: str
    found: str = ""
    missing: str = ""
    needed: bool = False
    warning: str = ""

    def __str__(self) -> str:
        if not self.missing:
            warned = f"\n{'':<18} WARNING: {self.warning}" if self.warning else ""
            return f"{self.what:<18} {self.found}{warned}"
        first, *rest = self.missing.splitlines()
        word = "MISSING" if self.needed else "not here"
        return "\n".join([f"{self.what:<18} {word}: {first}", *(f"{'':<18} {line}" for line in rest)])


def examine(given: Namespace) -> tuple[str, object, bool]:
    """All findings; well unless something is missing that every function needs."""
    findings = list(_findings(given.environment))
    well = not any(each.missing and each.needed for each in findings)
    return "\n".join(map(str, findings)), [asdict(each) for each in findings], well


def _findings(environment: Mapping[str, str]) -> Iterator[Examined]:
    """The findings on this machine; `environment` is that of who started the command, which adds to its own."""
    yield Examined("Python", f"{platform.python_version()} on {platform.platform()}, {len(allowed_cpus())} cpus")
    yield Examined("packages", ", ".join(f"{name} {_version(name)}" for name in _PACKAGES))
    yield _looked("cache", lambda: _cache(open_cache()), needed=True)
    yield _looked("C compiler", lambda: _c_compiler(open_cache()), needed=True)
    yield _looked("processor", _processor, needed=True)
    yield _looked("C++ (simulator)", lambda: f"{find_cxx(open_cache())}")
    yield _looked("CUDA compiler", lambda: f"{find_cuda_compiler(open_cache())}")
    yield _looked("GPU", _gpus)
    yield _mpi()
    variables = [f"{name}={environment[name]}" for name in VARIABLES if name in environment]
    yield Examined("environment", ", ".join(variables) or "no variable that matters is set")


def _looked(what: str, look: Callable[[], str], *, needed: bool = False) -> Examined:
    try:
        return Examined(what, look(), needed=needed)
    except TiramisuError as error:
        return Examined(what, missing=str(error), needed=needed)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed as a package)"


def _cache(cache: Cache) -> str:
    entries = [path for path in (cache.root / "entries").glob("*") if path.is_dir()]
    size = sum(file.stat().st_size for path in entries for file in path.iterdir())
    kept = " (temporary: it is lost when the process ends)" if cache.temporary else ""
    room = f"{size / 2**20:.0f} of at most {cache.maximum_bytes / 2**20:.0f} MiB"
    upon = f", upon {cache.base}, which is only read" if cache.base else ""
    return f"{cache.root}, {len(entries)} entries, {room}{kept}{upon}"


def _c_compiler(cache: Cache) -> str:
    found = find_toolchain(cache)
    threads = (
        "with OpenMP" if found.openmp else "without OpenMP: parallel loops run on one thread (install libgomp, libomp)"
    )
    return f"{found}, {threads}"


def _processor() -> str:
    found = processor_for()
    return f"{found.name}, vectors of {found.vector_bytes} bytes"


def _gpus() -> str:
    number = gpu_count()
    if not number:
        return 'none with a driver: device="simulator" runs kernels on the cpu'
    runtime = runtime_for(Device(False))
    return ", ".join(f"{runtime.name(n)} (gpu:{n})" for n in range(number))


def _mpi() -> Examined:
    try:
        found = find_mpi(open_cache())
    except TiramisuError as error:
        return Examined("MPI", missing=str(error))
    launcher = shutil.which("mpirun") or shutil.which("mpiexec") or ""
    name = " ".join(found.version.replace("Version: ", "").split(",")[0].split()[:3])
    words = f"{name}, {found.mpicc[0]}, {launcher or 'no mpirun on the PATH'}"
    return Examined("MPI", words, warning=_mismatch(found, launcher) if launcher else "")


def _mismatch(found: Mpi, launcher: str) -> str:
    """The fault of a launcher of another implementation, and what to do; nothing if it is of the same one."""
    family = family_of_launcher(launcher)
    if not family or not found.family or family == found.family:
        return ""
    beside = Path(shutil.which(found.mpicc[0]) or found.mpicc[0]).with_name("mpirun")
    instead = f"start them with {beside}" if beside.exists() and str(beside) != launcher else "use the one of that MPI"
    return (
        f"{launcher} is of {family}, and programs are linked with {found.family}: each process would be alone, "
        f"as rank 0 of 1; {instead}"
    )
