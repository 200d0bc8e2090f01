"""MPI: the implementation that mpi4py has loaded, and the compiler options for the same one.

mpi4py is imported when a distributed function is compiled or called, not before.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tiramisu_py.errors import ToolchainError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.cache import Cache, digest
from tiramisu_py.toolchain.compilers.tools import run

_INSTALL = "pip install 'tiramisu_py[mpi]' brings mpi4py and MPICH with its mpicc"
_LINKING = ("-l", "-L", "-Wl,", "-Xlinker")
#: Environment variables that change the output of an mpicc.
_WRAPPED = (
    "OMPI_CC", "OMPI_CFLAGS", "OMPI_CPPFLAGS", "OMPI_LDFLAGS", "OMPI_LIBS", "OPAL_PREFIX", "MPICH_CC", "I_MPI_CC",
    "CPATH", "C_INCLUDE_PATH",
)  # fmt: skip
#: Macros of mpi.h that identify the implementation and its version.
_MACROS = {"OMPI_MAJOR_VERSION": "Open MPI", "MPICH_VERSION": "MPICH"}


@dataclass(frozen=True)
class Mpi:
    """An implementation of MPI: its version text, and the options of the C compiler and linker for it."""

    version: str
    mpicc: tuple[str, ...]
    compiling: tuple[str, ...]
    linking: tuple[str, ...]

    @property
    def family(self) -> str:
        """Its name: "MPICH", "Open MPI", or nothing for another one."""
        return _family(self.version)

    @property
    def identity(self) -> list[Any]:
        """The identity of the implementation in keys of the cache."""
        return [self.version, list(self.mpicc), list(self.compiling), list(self.linking)]


def mpi4py() -> Any:
    """The module ``mpi4py.MPI``. Raises `ToolchainError`, with installation advice."""
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        fault = f"a distributed function needs mpi4py, which cannot be used ({error}); {_INSTALL}"
        raise ToolchainError(fault) from error


def find_mpi(cache: Cache) -> Mpi:
    """The implementation of this process, and its compiler: the environment's MPICC, the one beside Python, or another
    of the same implementation. Raises `ToolchainError`, naming what is missing.

    The one that was found before for this very implementation is taken while its file is the same, without asking those
    before it again, which did not work.
    """
    version = " ".join(mpi4py().Get_library_version().strip("\0 \n").split())
    family = _family(version)
    named = os.environ.get("MPICC", "").strip()
    last = cache.known(_last_key(version, named))
    if last is not None and _is_unchanged(cache, tuple(last["mpicc"])):
        return _of_record(version, last)
    faults = []
    for command in [tuple(shlex.split(named))] if named else _candidates(family):
        path = shutil.which(command[0])
        if path is None:
            faults.append(f"{shlex.join(command)}: not found")
            continue
        found = cache.recall(_key(command, path), lambda command=command: _asked(command))  # type: ignore[misc]
        fault = found["fault"] or _mismatch(family, found["family"])
        if not fault:
            mpi = Mpi(version, command, tuple(found["compiling"]), tuple(found["linking"]))
            _note(cache, named, mpi)
            return mpi
        faults.append(f"{shlex.join(command)}: {fault}")
    if last is not None:  # its products are still in the cache
        return _of_record(version, last)
    reasons = "; ".join(dict.fromkeys(faults)) or "none is on the PATH"
    raise ToolchainError(
        f"no mpicc of the MPI that mpi4py uses here ({version.split(',')[0]:.60}) was found ({reasons}); "
        f"{_INSTALL}; for Open MPI: sudo apt-get install libopenmpi-dev; or name one: MPICC=/path/to/mpicc"
    )


def _of_record(version: str, record: Mapping[str, Any]) -> Mpi:
    return Mpi(version, tuple(record["mpicc"]), tuple(record["compiling"]), tuple(record["linking"]))


def _is_unchanged(cache: Cache, command: tuple[str, ...]) -> bool:
    """Whether an mpicc would answer what it has answered before."""
    path = shutil.which(command[0])
    return path is not None and cache.known(_key(command, path)) is not None


def _note(cache: Cache, named: str, mpi: Mpi) -> None:
    record = {"mpicc": list(mpi.mpicc), "compiling": list(mpi.compiling), "linking": list(mpi.linking)}
    if cache.known(_last_key(mpi.version, named)) != record:
        cache.remember(_last_key(mpi.version, named), record)


def _last_key(version: str, named: str) -> str:
    return digest(["last mpicc", version, named])


def _family(version: str) -> str:
    if "Open MPI" in version or "OpenRTE" in version or "PRTE" in version:
        return "Open MPI"
    return "MPICH" if any(word in version for word in ("MPICH", "Intel", "HYDRA")) else ""


def family_of_launcher(launcher: str) -> str:
    """The implementation that an mpirun belongs to, as `Mpi.family`: Hydra is MPICH's."""
    answer = run([launcher, "--version"])
    return _family(answer.stdout + answer.stderr)


def _mismatch(wanted: str, found: str) -> str:
    """The reason why a compiler does not match the loaded library: they belong to different implementations."""
    if wanted == found or not wanted:
        return ""
    return f"it is for {found or 'another MPI'}, and mpi4py has loaded {wanted}"


def _candidates(family: str) -> Iterator[tuple[str, ...]]:
    ending = {"Open MPI": "openmpi", "MPICH": "mpich"}.get(family)
    folders = [Path(sys.executable).parent, Path(sys.prefix, "bin"), *map(Path, os.get_exec_path())]
    for folder in dict.fromkeys(folders):
        for name in ("mpicc", *((f"mpicc.{ending}",) if ending else ())):
            if os.access(folder / name, os.X_OK):
                yield (str(folder / name),)


def _key(command: tuple[str, ...], path: str) -> str:
    found = os.stat(os.path.realpath(path))
    asked = {name: os.environ.get(name) for name in ("PATH", *_WRAPPED)}
    return digest(["mpicc", command, os.path.realpath(path), found.st_size, found.st_mtime_ns, asked])


def _asked(command: tuple[str, ...]) -> Mapping[str, Any]:
    """The command that an mpicc reports, and the implementation of its mpi.h."""
    said = run([*command, "-show"])
    words = shlex.split(said.stdout)[1:] if said.returncode == 0 else []
    linking = [word for word in words if word.startswith(_LINKING)]
    compiling = [word for word in words if not word.startswith(_LINKING)]
    macros = run([*command, "-E", "-dM", "-include", "mpi.h", "-x", "c", os.devnull])
    defined = {line.split()[1] for line in macros.stdout.splitlines() if line.startswith("#define ")}
    family = next((name for macro, name in _MACROS.items() if macro in defined), "")
    fault = ""
    if not words or macros.returncode != 0:
        answer = (said if not words else macros).stderr.strip()
        fault = f"it does not say how it compiles: {answer[:200]}"
    return {"compiling": compiling, "linking": linking, "family": family, "fault": fault}
