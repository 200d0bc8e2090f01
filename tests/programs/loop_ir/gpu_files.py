"""Functions that use GPUs, in IR built by hand: the text of their files, and the compilers that must accept it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.backends.calling import raw_call
from tests.compiling import compiled
from tests.lacking import CXX, without_cxx
from tests.programs.loop_ir.short_names import number
from tiramisu_py.algorithm.expressions import Binary, Expr, Param
from tiramisu_py.algorithm.types import DType, bool_, float32, int64
from tiramisu_py.backends import emit
from tiramisu_py.backends.c import LIBRARIES, REQUIRED
from tiramisu_py.backends.cuda.kernel_text import device_sources, kernel_names, signatures
from tiramisu_py.backends.cuda.simulated import (
    RUNTIME_FLAGS,
    RUNTIME_FOLDER,
    RUNTIME_LIBRARIES,
    kernel_command,
    simulated_source,
)
from tiramisu_py.ir import (
    Allocate,
    Block,
    Copy,
    GpuIndex,
    KernelArray,
    KernelFunction,
    Launch,
    Let,
    LoopFunction,
    Node,
    ScalarArgument,
)
from tiramisu_py.program.storage import Memory
from tiramisu_py.toolchain import open_cache
from tiramisu_py.toolchain.compilers.images import relocatable_program
from tiramisu_py.toolchain.compilers.simulator import LIBRARY, load_simulator

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
#: Simulated kernels that run for a moment are not optimised.
QUICK = ("-O0",)
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


def below(a: Expr | int, b: Expr | int) -> Expr:
    """``a < b``."""
    return Binary("<", number(a), number(b), bool_)


def both(a: Expr, b: Expr) -> Expr:
    """``a and b``."""
    return Binary("&", a, b, bool_)


def let(name: str, value: Expr, *body: Node) -> Let:
    """A definition."""
    return Let(name, number(value) if value.dtype == int64 else value, Block(body))


def block(axis: int = 0) -> GpuIndex:
    """The number of the block."""
    return GpuIndex("block", axis)


def thread(axis: int = 0) -> GpuIndex:
    """The number of the thread."""
    return GpuIndex("thread", axis)


def shared(name: str, extents: tuple[int, ...], *body: Node, dtype: DType = float32) -> Allocate:
    """An array that a block shares."""
    return Allocate(name, tuple(map(number, extents)), dtype, Block(body), memory=Memory.SHARED)


def on_gpu(
    name: str, extents: tuple[int | Expr, ...], *body: Node, dtype: DType = float32, device: int = 0
) -> Allocate:
    """Memory of a GPU."""
    return Allocate(name, tuple(map(number, extents)), dtype, Block(body), memory=Memory.GPU, device=device)


def parameter(name: str, *extents: int | Expr, dtype: DType = float32, constant: bool = True) -> KernelArray:
    """An array that a kernel is given."""
    return KernelArray(name, dtype, tuple(map(number, extents)), constant)


def kernel(
    name: str, params: str, arrays: Sequence[KernelArray], threads: tuple[int, int, int], *body: Node,
    scalars: tuple[ScalarArgument, ...] = (), **fields: Any,
) -> KernelFunction:  # fmt: skip
    """A kernel over parameters named in a string."""
    return KernelFunction(name, tuple(params.split()), scalars, tuple(arrays), threads, Block(body), **fields)


def launch(of: KernelFunction, grid: tuple[int | Expr, ...], device: int = 0, stream: int = 0) -> Launch:
    """The launch of a kernel whose parameters are those of the function."""
    x, y, z = map(number, (*grid, *[1] * (3 - len(grid))))
    values = tuple(Param(name, int64) for name in of.params)
    arrays = tuple(f"{a.name}@gpu{device}" for a in of.arrays)
    return Launch(of.name, (x, y, z), values, arrays, device, stream)


def moved(
    name: str, extents: tuple[int | Expr, ...], *, up: bool, dtype: DType = float32, asynchronous: bool = False,
    first: tuple[int | Expr, ...] = (), device: int = 0, stream: int = 0,
) -> Copy:  # fmt: skip
    """A copy of a box of an array between the host and a GPU."""
    corner = tuple(map(number, first or (0,) * len(extents)))
    there, here = (f"{name}@gpu{device}", device), (name, None)
    (target, target_device), (source, source_device) = (there, here) if up else (here, there)
    return Copy(
        target, target_device, corner, source, source_device, corner, tuple(map(number, extents)), dtype, device,
        stream, asynchronous, f"copy_{name}",
    )  # fmt: skip


def nvcc(function: LoopFunction, folder: Path, architectures: Sequence[str] = ARCHITECTURES) -> None:
    """Compile the kernels with every warning an error."""
    assert NVCC is not None
    _written(device_sources(function), folder)
    codes = [f"-gencode=arch=compute_{a[3:]},code={a}" for a in architectures]
    command = [NVCC, *codes, "-std=c++17", "--fmad=false", "-Werror", "all-warnings", "-fatbin", "-o", "kernels.fatbin"]
    _done([*command, f"{function.name}.cu"], folder)


def as_members(function: LoopFunction, folder: Path, checked: bool = False) -> Path:
    """Compile the kernels for the simulator, with every warning an error."""
    if without_cxx():
        pytest.skip(CXX)
    _written(device_sources(function), folder)
    source = folder / f"{function.name}_simulated.cpp"
    source.write_text(simulated_source(function.name, f"{function.name}.cu", signatures(function)))
    output = folder / f"lib{function.name}_kernels.so"
    command = kernel_command("g++", source, output, checked, QUICK)
    compiled([command[0], "-Wall", "-Wextra", "-Werror", *command[1:]], folder, output.name)
    return output


class Simulated:
    """A function with its kernels on the simulator."""

    def __init__(self, function: LoopFunction, checked: bool = False) -> None:
        self.function = function
        self.temporary = tempfile.TemporaryDirectory()
        folder = Path(self.temporary.name)
        self.texts = emit(function)
        _written(self.texts, folder)
        kernels = as_members(function, folder, checked)
        (folder / LIBRARY).symlink_to(load_simulator(open_cache()).path)
        names = list(kernel_names(function).values())
        program = relocatable_program(function.name, names, LIBRARY, kernels.name if names else None)
        _written(program, folder)
        self.library = folder / f"lib{function.name}.so"
        runtime = tuple((name, text) for name, text in self.texts.items() if name.startswith("tm_"))
        (folder / "tm_gpu.o").symlink_to(runtime_object(runtime))
        sources = [f"{function.name}.c", *program, "tm_gpu.o"]
        libraries = [*LIBRARIES, *RUNTIME_LIBRARIES]
        flags = [*REQUIRED, *STRICT, "-O1", "-fPIC", "-shared"]
        compiled(["gcc", *flags, "-o", str(self.library), *sources, *libraries], folder, self.library.name)
        self.loaded = ctypes.CDLL(str(self.library))

    def __call__(self, params: Mapping[str, int], *values: Any) -> None:
        """Run on NumPy arrays and scalars in the order of the arguments; the function must return 0."""
        code, words = self.outcome(params, *values)
        assert code == 0, words

    def outcome(self, params: Mapping[str, int], *values: Any) -> tuple[int, str]:
        """What the function returns, and what it says is wrong."""
        code = raw_call(self.loaded, self.function.name, [params[name] for name in self.function.params], values)
        words = getattr(self.loaded, f"{self.function.name}_last_error")
        words.restype = ctypes.c_char_p
        return code, words().decode()


@functools.cache
def runtime_object(texts: tuple[tuple[str, str], ...]) -> Path:
    """tm_gpu.c of these files, compiled: one in this process."""
    folder = Path(tempfile.mkdtemp(prefix="tiramisu_runtime_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _written(dict(texts), folder)
    compiled(["gcc", *RUNTIME_FLAGS, "-c", "tm_gpu.c"], folder, "tm_gpu.o")
    return folder / "tm_gpu.o"


def host_compiles(function: LoopFunction, folder: Path) -> str:
    """Compile the host's part with every warning an error; its text."""
    texts = emit(function)
    _written(texts, folder)
    flags = [*REQUIRED, *STRICT, "-O2", f"-I{RUNTIME_FOLDER}"]
    compiled(["gcc", *flags, "-c", f"{function.name}.c"], folder, f"{function.name}.o")
    return texts[f"{function.name}.c"]


def _written(texts: Mapping[str, str], folder: Path) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text)


def _done(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:6000]
