"""The CUDA compiler nvcc: found, probed for its abilities, and run."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiramisu_py.build.toolchains.c_compiler import work_folder
from tiramisu_py.build.toolchains.cache import Cache, digest
from tiramisu_py.build.toolchains.images import Architecture
from tiramisu_py.build.toolchains.tools import run
from tiramisu_py.errors import ToolchainError
from tiramisu_py.records import dataclass

_log = logging.getLogger(__name__)
_RELEASE = re.compile(r"release (\S+), V(\S+)")


@dataclass(frozen=True)
class Nvcc:
    """The compiler of a CUDA toolkit: its path, its version, and the architectures that it compiles for."""

    path: str
    version: str
    architectures: tuple[int, ...]

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of this compiler in keys of the cache."""
        return {"nvcc": self.path, "version": self.version}

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
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    packages = [Path(sysconfig.get_path(kind)) / "nvidia" for kind in ("purelib", "platlib")]
    folders = [*(Path(home) for home in homes if home), Path("/usr/local/cuda")]
    folders += [folder for package in packages for folder in sorted(package.glob("cu[0-9]*"), reverse=True)]
    for folder in folders:
        if os.access(folder / "bin" / "nvcc", os.X_OK):
            yield str(folder / "bin" / "nvcc")


def _examined(cache: Cache, path: str) -> Nvcc | str:
    answer = run([path, "--version"])
    release = _RELEASE.search(answer.stdout)
    if answer.returncode != 0 or not release:
        return answer.stderr.strip() or "it does not run"
    key = digest(["nvcc", path, answer.stdout, _host_compiler()])
    record = cache.recall(key, lambda: _probed(path, release.group(2)))
    return str(record["fault"]) or Nvcc(path, release.group(2), tuple(record["architectures"]))


def _host_compiler() -> list[str | None]:
    """The settings of nvcc's host compiler, which preprocesses headers: without one, nvcc is not usable."""
    return [shutil.which("g++"), os.environ.get("NVCC_CCBIN"), os.environ.get("NVCC_PREPEND_FLAGS")]


def _probed(path: str, version: str) -> dict[str, Any]:
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
    return {"architectures": numbers, "fault": ""}
