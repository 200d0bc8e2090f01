"""The CUDA compiler nvcc: found, probed for its abilities, and run."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiramisu_py.errors import ToolchainError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import work_folder
from tiramisu_py.toolchain.compilers.cache import Cache, digest
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.tools import answer_behind, run, said_version
from tiramisu_py.toolchain.files.tool_files import file_state

_log = logging.getLogger(__name__)
#: Environment variables that change what nvcc runs, and its flags.
_VARIABLES = ("NVCC_CCBIN", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_RELEASE = re.compile(r"release (\S+), V(\S+)")


@dataclass(frozen=True)
class Nvcc:
    """The compiler of a CUDA toolkit: its path, its version, the architectures that it compiles for, and the settings
    of the environment for it.
    """

    path: str
    version: str
    architectures: tuple[int, ...]
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of this compiler in keys of the cache."""
        return {"nvcc": self.path, "version": self.version, "settings": list(self.settings)}

    def compile(
        self, file: str, sources: Mapping[str, str], architecture: Architecture, flags: Sequence[str]
    ) -> tuple[bytes, str]:
        """The compiled kernels of `file`, one of `sources`, and the compiler's log. Raises `ToolchainError`."""
        made = f"kernels.{architecture.file_ending}"
        with work_folder() as folder:
            for name, text in sources.items():
                (folder / name).write_text(text, encoding="utf-8")
            command = [
                self.path,
                f"-{architecture.file_ending}",
                f"-arch={architecture}",
                *flags,
                "-I.",
                file,
                "-o",
                made,
            ]
            answer = run(command, folder, bounded=False)
            if answer.returncode != 0:
                words = (answer.stderr + answer.stdout).strip()
                raise ToolchainError(f"nvcc refuses {file} for {architecture} ({' '.join(command)}):\n{words}")
            return (folder / made).read_bytes(), answer.stderr + answer.stdout

    def __str__(self) -> str:
        return f"nvcc {self.version} ({self.path})"


def find_nvcc(cache: Cache, oldest: int | None = None) -> Nvcc | str:
    """The first working nvcc that supports the architecture `oldest`, or the reason why there is none.

    It is looked for in PATH, $CUDA_HOME, $CUDA_PATH, /usr/local/cuda and Python's packages.
    """
    faults = []
    for path in dict.fromkeys(_candidates()):
        found = _examined(cache, path)
        if isinstance(found, Nvcc) and (oldest is None or found.architectures[0] <= oldest):
            return found
        reason = found if isinstance(found, str) else f"it begins at sm_{found.architectures[0]}"
        faults.append(f"{path}: {reason}")
    return "; ".join(faults) or "nvcc: not found"


def _candidates() -> Iterator[str]:
    on_path = shutil.which("nvcc")
    if on_path:
        yield on_path
    for folder in toolkit_folders():
        if os.access(folder / "bin" / "nvcc", os.X_OK):
            yield str(folder / "bin" / "nvcc")


def toolkit_folders() -> list[Path]:
    """The folders of CUDA toolkits that may be there: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, Python's packages."""
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    packages = [Path(sysconfig.get_path(kind)) / "nvidia" for kind in ("purelib", "platlib")]
    folders = [*(Path(home) for home in homes if home), Path("/usr/local/cuda")]
    return folders + [folder for package in packages for folder in sorted(package.glob("cu[0-9]*"), reverse=True)]


def _examined(cache: Cache, path: str) -> Nvcc | str:
    """The nvcc of a path, or the reason why it is not used. It needs a host compiler, which preprocesses headers."""
    settings = tuple((name, os.environ[name]) for name in _VARIABLES if os.environ.get(name))
    try:
        state = file_state(path)
        behind = answer_behind([path], state, ("PATH", *_VARIABLES))
        key = digest(["nvcc", path, state, behind, shutil.which("g++"), settings])
        record = cache.recall(key, lambda: _probed(path, behind or said_version([path])))
    except subprocess.CalledProcessError as error:
        return error.stderr.strip() or "it does not run"
    except OSError as error:
        return str(error)
    return str(record["fault"]) or Nvcc(path, record["version"], tuple(record["architectures"]), settings)


def _probed(path: str, said: str) -> dict[str, Any]:
    release = _RELEASE.search(said)
    if not release:
        return {"fault": "it does not run"}
    version = release.group(2)
    listed = run([path, "--list-gpu-arch"]).stdout
    numbers = sorted({int(number) for number in re.findall(r"compute_(\d+)$", listed, re.MULTILINE)})
    if not numbers:
        return {"architectures": [], "fault": "it names no architectures"}
    probe = Nvcc(path, version, tuple(numbers))
    try:
        probe.compile("probe.cu", {"probe.cu": "__global__ void probe() {}\n"}, Architecture(numbers[0]), ())
    except ToolchainError as error:
        _log.debug("%s", error)
        return {"architectures": [], "fault": f"it does not compile: {str(error).splitlines()[-1]}"}
    return {"version": version, "architectures": numbers, "fault": ""}
