"""The simulated GPU: its library, and kernels compiled for it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tiramisu_py.backends.cuda.signature import KernelSignature
from tiramisu_py.backends.cuda.simulated import (
    KERNEL_HEADERS,
    KERNEL_LIBRARIES,
    SIMULATED_BEGINNING,
    SIMULATED_HEADERS,
    SIMULATOR_FLAGS,
    SIMULATOR_HEADERS,
    SIMULATOR_LIBRARIES,
    SIMULATOR_SOURCES,
    kernel_command,
    kernel_flags,
    simulated_source,
    simulator_command,
)
from tiramisu_py.errors import ArgumentError, ToolchainError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain, examined, known_toolchain, last_found, note
from tiramisu_py.toolchain.compilers.cache import Cache, build_key
from tiramisu_py.toolchain.compilers.precompiled import Headers, precompiled

LIBRARY = "libtm_simulator.so"
#: How much simulated kernels are optimised: None is as users have them. Tests that run them for a moment choose less.
OPTIMISED: tuple[str, ...] | None = None
MOST_DEVICES = 8
TIMINGS = ("eager", "lazy", "shuffled", "threads")
_INSTALL = """install one:
  Debian, Ubuntu:  sudo apt-get install g++
  Fedora:          sudo dnf install gcc-c++
or name one: CXX=/path/to/g++"""


@dataclass(frozen=True)
class Simulation:
    """The behaviour of the simulated GPU. `seed` chooses the order of blocks, threads and stream operations; `timing`
    the time at which streams run: eager (at once), lazy (as late as possible), shuffled or threads (concurrently).
    """

    seed: int | None = None
    timing: str | None = None

    def __post_init__(self) -> None:
        seeded = self.seed is None or (type(self.seed) is int and 0 <= self.seed < 2**63)
        if not seeded:
            raise ArgumentError(f"seed={self.seed!r} is not a seed: an integer from 0 on, or None")
        if self.timing not in (None, *TIMINGS):
            raise ArgumentError(f"timing={self.timing!r}: choose among {', '.join(TIMINGS)}")

    def options(self, devices: int) -> str:
        """The options as text for the simulator, for programs that use this number of devices."""
        words = [] if self.seed is None else [f"seed={self.seed}"]
        words += [] if self.timing is None else [f"timing={self.timing}"]
        words += [f"devices={min(devices, MOST_DEVICES)}"] if devices > 2 else []  # two unless it is told otherwise
        return " ".join([*words, os.environ.get("TM_SIMULATOR", "")]).strip()


@dataclass(frozen=True)
class Simulator:
    """The library of the simulated GPU, loaded. It has the entry points of the CUDA driver."""

    path: Path
    loaded: ctypes.CDLL

    def configure(self, options: str) -> None:
        """Sets the options of the simulator for the calling thread."""
        if self.loaded.tm_simulator_configure(options.encode()) != 0:
            raise ArgumentError(f"the simulator does not know the options {options!r} (TM_SIMULATOR)")


def load_simulator(cache: Cache, toolchain: Toolchain | None = None) -> Simulator:
    """The simulator, compiled if the cache has none. Raises `ToolchainError`."""
    toolchain = toolchain or known_toolchain(cache)
    flags = [flag for flag in (*SIMULATOR_FLAGS, *SIMULATOR_LIBRARIES) if not flag.startswith("-I")]
    key = build_key("simulator", texts(SIMULATOR_SOURCES), texts(SIMULATOR_HEADERS), flags, toolchain.identity)

    def build(folder: Path) -> list[Path]:
        command = simulator_command(toolchain.command[0], folder / LIBRARY)
        toolchain.run(command[1:], folder)
        return []

    path = cache.entry(key, build) / LIBRARY
    return Simulator(path, ctypes.CDLL(str(path)))


def simulated_kernels(
    cache: Cache,
    name: str,
    sources: Mapping[str, str],
    kernels: Sequence[KernelSignature],
    checked: bool,
) -> Path:
    """The library of the kernels in ``<name>.cu`` for the simulator; `checked` code detects errors, and is slower.

    Raises `ToolchainError`, with installation advice if there is no C++ compiler.
    """
    compiler = find_cxx(cache)
    around = simulated_source(name, f"{name}.cu", kernels)
    own = {file: text for file, text in sorted(sources.items()) if file.endswith((".cu", ".cuh", ".h"))}
    made = simulated_library(name)
    optimised, headers = OPTIMISED, texts((*KERNEL_HEADERS, *SIMULATED_HEADERS))
    flags = kernel_flags(checked, optimised)
    key = build_key("simulated", around, own, headers, [*flags, *KERNEL_LIBRARIES], compiler.identity)

    def build(folder: Path) -> list[Path]:
        for file, text in {**own, f"{name}_simulated.cpp": around}.items():
            (folder / file).write_text(text, encoding="utf-8")
        command = kernel_command("", folder / f"{name}_simulated.cpp", folder / made, checked, optimised)[1:]
        before = precompiled(cache, compiler, flags, Headers("tm_simulated_kernels.h", SIMULATED_BEGINNING, headers))
        if before:
            with suppress(ToolchainError):
                compiler.run([*before, *command], folder)
                return []
        compiler.run(command, folder)
        return []

    return cache.entry(key, build) / made


def simulated_library(name: str) -> str:
    """The file name of a program's kernels for the simulator."""
    return f"lib{name}_simulated.so"


def find_cxx(cache: Cache) -> Toolchain:
    """The environment's CXX, else the first of g++ and clang++; if there is none any more, the last one found.

    Raises `ToolchainError`, with installation advice.
    """
    named = os.environ.get("CXX", "").strip()
    faults = []
    for text in [named] if named else ["g++", "clang++", "c++"]:
        found = examined(cache, text)
        if isinstance(found, Toolchain):
            note(cache, f"C++ {named}", found)
            return found
        faults.append(found)
    asked = f"CXX={named} is not a usable C++ compiler" if named else "no C++ compiler was found that works"
    fault = f"the simulator compiles kernels as C++, and {asked} ({'; '.join(faults)}); {_INSTALL}"
    last = last_found(cache, f"C++ {named}")
    if last is None:
        raise ToolchainError(fault)
    return replace(last, absent=fault)


def texts(files: Iterable[Path]) -> dict[str, str]:
    """The content of files, by name."""
    return {file.name: file.read_text(encoding="utf-8") for file in files}
