"""Compilation of kernels for NVIDIA GPUs: by nvcc or NVRTC, for the requested architectures, with the cache."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from tiramisu_py.errors import ToolchainError
from tiramisu_py.progress import step
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.cache import Cache, build_key
from tiramisu_py.toolchain.compilers.images import Architecture, Image
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc
from tiramisu_py.toolchain.compilers.nvrtc import find_nvrtc
from tiramisu_py.toolchain.compilers.tools import RunningTools

#: The default architectures, used if neither the user nor a GPU determines them.
USUAL = (75, 80, 90)
_REQUIRED = ("-std=c++17",)
#: What makes ptxas report the resources of kernels.
_VERBOSE = ("--ptxas-options=-v",)
_INSTALL = """install one:
  pip install "tiramisu_py[nvcc]"     nvcc and NVRTC from PyPI; an NVIDIA driver is not needed to compile
  or the CUDA toolkit (nvcc on PATH, or CUDA_HOME=/path/to/cuda); nvcc needs g++: apt-get install g++
or compile for the simulator: device="simulator\""""

_ENTRY = re.compile(r"Function properties for (\w+)")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")


class CudaCompiler(Protocol):
    """nvcc or NVRTC."""

    @property
    def architectures(self) -> tuple[int, ...]:
        """The numbers of the architectures that it compiles for."""

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of this compiler in keys of the cache."""

    def compile(
        self, file: str, sources: Mapping[str, str], architecture: Architecture, flags: Sequence[str]
    ) -> tuple[bytes, str]:
        """The compiled kernels of `file`, one of `sources`, and the compiler's log. Raises `ToolchainError`."""


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel, as the compiler reports them: registers per thread, bytes of shared memory per block,
    and bytes per thread of the stack frame, of spill stores and of spill loads.
    """

    registers: int
    shared_bytes: int = 0
    stack_bytes: int = 0
    spilled_bytes: int = 0
    reloaded_bytes: int = 0


@dataclass(frozen=True)
class Compiled:
    """The images of a program, and the resources of each kernel: by its name and the architecture's ("sm_90")."""

    images: tuple[Image, ...]
    resources: Mapping[str, Mapping[str, Resources]]
    compiler: str


def find_cuda_compiler(cache: Cache, oldest: int | None = None) -> CudaCompiler:
    """A working nvcc, or else NVRTC; preferably one that supports the architecture `oldest`.

    Raises `ToolchainError`, with installation advice, if there is no compiler at all.
    """
    faults: list[str] = []
    for least in dict.fromkeys((oldest, None)):
        for find in (find_nvcc, find_nvrtc):
            found = find(cache, least)
            if not isinstance(found, str):
                return found
            faults.append(found)
    raise ToolchainError(f"no compiler for CUDA kernels was found ({'; '.join(faults[-2:])}); {_INSTALL}")


def cuda_flags(fast: Collection[str] = ()) -> tuple[str, ...]:
    """Flags for both compilers: strict floating point, except for the relaxations in `fast`."""
    contract = "--fmad=true" if "contract" in fast else "--fmad=false"
    division = ("--prec-div=false",) if "reciprocal" in fast else ()
    return (*_REQUIRED, contract, *division)


def compile_kernels(
    cache: Cache,
    compiler: CudaCompiler,
    file: str,
    sources: Mapping[str, str],
    architectures: Sequence[Architecture],
    fast: Collection[str] = (),
) -> Compiled:
    """The kernels in `file`, one of `sources`, for each architecture, compiled or from the cache.

    Raises `ToolchainError` with the compiler's message.
    """
    flags = cuda_flags(fast)
    needed = {name: text for name, text in sorted(sources.items()) if name == file or name.endswith((".h", ".cuh"))}
    names = [architecture.name for architecture in architectures]
    key = build_key("kernels", file, needed, compiler.identity, flags, names, _VERBOSE)

    def build(folder: Path) -> list[Path]:
        tools = RunningTools()
        with (
            step(f"{file}: {compiler} for {', '.join(names)}", "name the architectures that you need: architectures="),
            ThreadPoolExecutor(max_workers=len(architectures), initializer=tools.enrol) as pool,
            tools,
        ):
            made = list(pool.map(lambda a: compiler.compile(file, needed, a, (*flags, *_verbose(a))), architectures))
        for architecture, (content, _) in zip(architectures, made, strict=True):
            (folder / architecture.name).write_bytes(content)
        logs = {name: log for name, (_, log) in zip(names, made, strict=True)}
        (folder / "logs.json").write_text(json.dumps(logs), encoding="utf-8")
        return []

    entry = cache.entry(key, build)
    images = tuple(Image(a, (entry / a.name).read_bytes()) for a in architectures)
    logs = json.loads((entry / "logs.json").read_text(encoding="utf-8"))
    return Compiled(images, _resources(logs), str(compiler))


def _verbose(architecture: Architecture) -> tuple[str, ...]:
    return () if architecture.virtual else _VERBOSE


def _resources(logs: Mapping[str, str]) -> dict[str, dict[str, Resources]]:
    found: dict[str, dict[str, Resources]] = {}
    for architecture, log in logs.items():
        for kernel, resources in resources_in(log).items():
            found.setdefault(kernel, {})[architecture] = resources
    return found


def resources_in(log: str) -> dict[str, Resources]:
    """The resources of kernels, by name, from the log of ``ptxas -v``."""
    found = {}
    parts = _ENTRY.split(log)[1:]
    for kernel, text in zip(parts[::2], parts[1::2], strict=True):
        registers, spills, shared = _REGISTERS.search(text), _SPILLS.search(text), _SHARED.search(text)
        if registers:
            stack, stored, loaded = map(int, spills.groups()) if spills else (0, 0, 0)
            size = int(shared.group(1)) if shared else 0
            found[kernel] = Resources(int(registers.group(1)), size, stack, stored, loaded)
    return found


# -- architectures


def oldest_architecture(asked: Sequence[object] | None, present: Collection[int]) -> int | None:
    """The lowest number among the architectures to be chosen; None if the compiler alone determines them."""
    numbers = [int(found) for one in asked or () for found in re.findall(r"\d+", str(one))[:1]]
    return min(numbers or present, default=None)


def chosen_architectures(
    compiler: CudaCompiler, asked: Sequence[object] | None, present: Collection[int], least: int = 0, why: str = ""
) -> tuple[Architecture, ...]:
    """The architectures that the user requests ("sm_90", 90, or "compute_90" for PTX), else those of the `present`
    GPUs, else the default ones and PTX of the first. Raises `ToolchainError` for one unknown to the compiler, or below
    the `least` that kernels need, for `why`.
    """
    if asked is not None or present:
        found = _asked(compiler, asked) if asked is not None else ()
        found = found or tuple(dict.fromkeys(_nearest(compiler, number) for number in sorted(present)))
        old = [each.name for each in found if each.number < least]
        if old:
            raise ToolchainError(f"{why}, which GPUs have from sm_{least} on, and it is compiled for {', '.join(old)}")
        return found
    usual = tuple(Architecture(number) for number in USUAL if number in compiler.architectures and number >= least)
    first = min((a.number for a in usual), default=max(compiler.architectures[0], least))
    return (*usual, Architecture(first, virtual=True))


def _asked(compiler: CudaCompiler, asked: Sequence[object]) -> tuple[Architecture, ...]:
    if isinstance(asked, Sequence) and not asked:
        raise ToolchainError(f"architectures={asked!r}: name at least one, or leave it out")
    if isinstance(asked, str) or not isinstance(asked, Sequence):
        raise ToolchainError(f'architectures={asked!r}: give a tuple of them, such as architectures=("sm_80", "sm_90")')
    return tuple(dict.fromkeys(_architecture(compiler, one) for one in asked))


def _architecture(compiler: CudaCompiler, asked: object) -> Architecture:
    found = re.fullmatch(r"(sm_|compute_|)(\d{2,3})", str(asked))
    if isinstance(asked, bool) or not found:
        raise ToolchainError(f'architectures has {asked!r}; give "sm_90" (or 90), or "compute_90" for PTX')
    if int(found.group(2)) not in compiler.architectures:
        known = ", ".join(map(str, compiler.architectures))
        raise ToolchainError(f"{compiler} does not compile for {asked}; it knows {known}")
    return Architecture(int(found.group(2)), found.group(1) == "compute_")


def _nearest(compiler: CudaCompiler, number: int) -> Architecture:
    """The architecture for a GPU: its own, or PTX of the last one before it that the compiler knows."""
    if number in compiler.architectures:
        return Architecture(number)
    older = [known for known in compiler.architectures if known < number]
    if not older:
        first = compiler.architectures[0]
        raise ToolchainError(
            f"{compiler} compiles for sm_{first} and later, and the GPU here is an sm_{number}; install an older one: "
            "pip install nvidia-cuda-nvrtc-cu12, or a CUDA 12 toolkit"
        )
    return Architecture(max(older), virtual=True)
