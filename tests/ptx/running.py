"""A second machine for GPUs: what nvcc and NVRTC emit, executed by something that knows nothing of this compiler.

`machine/` is a `libcuda.so.1`: the entry points of the CUDA driver that the runtime opens, over an interpreter of PTX,
written from the PTX ISA. It claims a compute capability that no compiler knows, so that kernels are embedded as PTX for
the one before it. With its folder in LD_LIBRARY_PATH, ``device="gpu"`` runs as it is, wherever nvcc or NVRTC is.

Each thread has a program counter of its own; threads, blocks and what is on streams run in an order drawn by a seed.
Stores are held back until a fence, a barrier (for the block) or the end of the kernel, or any time before; loads may
see values that others have replaced, until a fence; copies to shared memory arrive when they are waited for, or at
once.

Refused are: accesses beyond an allocation (which ends at a page that cannot be touched) or not aligned, reads of shared
memory that was not written, or not so that the thread must see it; ``ld.global.nc`` of what the kernel writes; barriers
and masks of warps at which not all threads meet; copies that nobody waits for; kernels that do not end; and every
instruction, modifier and operand that is not known. The words name the kernel, the thread, the instruction, the
address, and which argument of the kernel is memory nearby.

Not modelled: time, caches and banks; the bits of ``.approx``; loads that are done before an earlier one of another
address that no store has replaced; tensor cores, textures, clusters; errors that outlast a call.

By hand: ``python -m tests.ptx pytest -m gpu``, ``TM_PTX="seed=3 streams=lazy" python -m tests.ptx python story.py``;
the options are in `machine/options.h`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import forking
from tests.ptx.pointer_choices import chosen_loads
from tiramisu_py.backends.cuda.simulated import RUNTIME_HEADERS
from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain.compilers.cache import digest, open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import find_cuda_compiler
from tiramisu_py.toolchain.compilers.simulator import find_cxx, texts

SOURCES = Path(__file__).with_name("machine")
LIBRARY = "libcuda.so.1"
#: Rounding is changed at run time, and no product and sum are made one.
FLAGS = (
    "-std=c++17",
    "-O1",
    "-frounding-math",
    "-ffp-contract=off",
    "-fPIC",
    "-fvisibility=hidden",
    "-shared",
    "-Wall",
)


@functools.cache
def library() -> Path:
    """The driver: compiled, all files at once, if the cache has none. Raises `ToolchainError`."""
    cache = open_cache()
    compiler = find_cxx(cache)
    sources = sorted(SOURCES.glob("*.cpp"))
    headers = [header for header in RUNTIME_HEADERS if header.name == "tm_cuda.h"]
    key = digest(["ptx machine", texts([*sources, *SOURCES.glob("*.h"), *headers]), FLAGS, compiler.identity])

    def build(folder: Path) -> list[Path]:
        together = folder / "machine.cpp"
        together.write_text("".join(f'#include "{source.name}"\n' for source in sources), encoding="utf-8")
        searched = [f"-I{SOURCES}", *(f"-I{header.parent}" for header in headers)]
        compiler.run([*FLAGS, *searched, str(together), "-o", LIBRARY], folder)
        return []

    return cache.entry(key, build) / LIBRARY


@functools.cache
def missing(kernels: bool = True) -> str:
    """The reason why nothing, or no kernel in CUDA, can run on the machine here; empty where it can."""
    try:
        find_cxx(open_cache())
        if kernels:
            find_cuda_compiler(open_cache())
    except ToolchainError as error:
        return str(error).partition(";")[0]
    return ""


def environment(options: str = "") -> dict[str, str]:
    """The environment of a process that has the machine."""
    folders = [str(library().parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    chosen = options or os.environ.get("TM_PTX", "")
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(folders), "TM_PTX": chosen}


def is_here() -> bool:
    """Whether this process has the machine."""
    return str(library().parent) in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)


def run(
    arguments: Sequence[str | Path],
    options: str = "",
    *,
    cwd: Path = forking.ROOT,
    timeout: float = forking.TIMEOUT,
) -> subprocess.CompletedProcess[str]:
    """What `python ARGUMENTS` does with the machine.

    It has failed, too, if a kernel that it has loaded may take a pointer for a load through the read-only cache that
    was chosen among several (`pointer_choices`).
    """
    preloaded = (("LD_LIBRARY_PATH", environment()["LD_LIBRARY_PATH"]),)
    with tempfile.NamedTemporaryFile("r", suffix=".ptx") as modules:
        variables = {**environment(options), "TM_PTX_MODULES": modules.name}
        told = forking.run(arguments, cwd=cwd, env=variables, timeout=timeout, preloaded=preloaded)
        wrong = chosen_loads(modules.read())
    if wrong:
        told.returncode, told.stderr = told.returncode or 1, told.stderr + "\n".join(wrong)
    return told


def call(function: Callable[..., object], arguments: Mapping[str, Any]) -> str:
    """Calls a function of a module in a process that has the machine; what it says if it fails, else nothing."""
    given = pickle.dumps(dict(arguments)).hex()
    told = run(["-m", "tests.ptx.calling", function.__module__, function.__name__, given])
    return told.stdout + told.stderr if told.returncode else ""


def choose(options: str) -> None:
    """Other options of the machine, in a process that has it."""
    configure = ctypes.CDLL(LIBRARY).ptx_configure
    configure.argtypes, configure.restype = (ctypes.c_char_p,), ctypes.c_int
    assert configure(options.encode()) == 0, options
