"""Hand-written kernels through tm_gpu.h on the simulator: the runtime and kernels compiled once, calls by ctypes."""

from __future__ import annotations

import atexit
import ctypes
import functools
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

from tests.compiling import compiled
from tests.lacking import CXX, without_cxx
from tiramisu_py.backends.cuda.signature import KernelParameter, KernelSignature
from tiramisu_py.backends.cuda.simulated import (
    RUNTIME_FLAGS,
    RUNTIME_FOLDER,
    RUNTIME_LIBRARIES,
    RUNTIME_SOURCES,
    SIMULATOR_HEADERS,
    SIMULATOR_SOURCES,
    kernel_command,
    simulated_source,
    simulator_command,
)

HERE = Path(__file__).parent
CASES = HERE / "cases.cu"
WAIT = -1
#: A compiler must have nothing to say.
_QUIET = ("-Werror",)
HOST = -1
RUNTIME = RUNTIME_FOLDER


def _kernel(name: str, block: tuple[int, int, int], parameters: str, cooperates: bool = False) -> KernelSignature:
    made = tuple(KernelParameter(word.lstrip("*"), "", word.startswith("*")) for word in parameters.split())
    return KernelSignature(name, made, block, cooperates)


#: In the order of their numbers; pointers are marked with an asterisk.
KERNELS = (
    _kernel("blur", (16, 16, 1), "R C *image *by"),
    _kernel("transpose", (16, 16, 1), "N *a *t", True),
    _kernel("matmul", (16, 16, 1), "N *a *b *c", True),
    _kernel("matmul_async", (16, 16, 1), "N *a *b *c", True),
    _kernel("reduce_sum", (256, 1, 1), "n *x *total", True),
    _kernel("reduce_tree", (64, 1, 1), "*x *total", True),
    _kernel("scale4", (64, 1, 1), "n s *x *y"),
    _kernel("atomics", (64, 1, 1), "*i *f *d *u *l *b *h *s"),
    _kernel("halves", (64, 1, 1), "*a *b *c *d *e"),
    _kernel("shuffles", (64, 1, 1), "*out", True),
    _kernel("reverse_dynamic", (64, 1, 1), "*x", True),
    _kernel("reverse_placed", (64, 1, 1), "*x", True),
    _kernel("add_one", (64, 1, 1), "n *x"),
    _kernel("copy_tile", (64, 1, 1), "*x *y", True),
    _kernel("beyond", (64, 1, 1), "n shift *x"),
    _kernel("early_exit", (64, 1, 1), "*x", True),
    _kernel("two_sites", (64, 1, 1), "*x", True),
    _kernel("partial_shuffle", (64, 1, 1), "*x", True),
    _kernel("no_warp_barrier", (64, 1, 1), "*x", True),
    _kernel("block_race", (64, 1, 1), "*x"),
    _kernel("unwritten", (64, 1, 1), "*x", True),
    _kernel("shared_beyond", (64, 1, 1), "*x k", True),
    _kernel("divide", (64, 1, 1), "*x by"),
    _kernel("too_deep", (64, 1, 1), "*x", True),
)
NUMBERS = {kernel.name: number for number, kernel in enumerate(KERNELS)}


class GpuError(RuntimeError):
    """A function of tm_gpu.h returned a code; the text is tm_gpu_error()."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@functools.cache
def folder(name: str) -> Path:
    """Where the tests of this process compile something."""
    made = Path(tempfile.mkdtemp(prefix=f"tiramisu-{name}-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def runtime_library() -> Path:
    """tm_gpu.c as a library."""
    path = folder("runtime") / "libtm_gpu.so"
    sources = [str(source) for source in RUNTIME_SOURCES]
    compiled(
        ["gcc", *_QUIET, *RUNTIME_FLAGS, "-shared", *sources, "-o", str(path), *RUNTIME_LIBRARIES],
        path.parent,
        path.name,
    )
    return path


@functools.cache
def simulator_library(*flags: str) -> Path:
    """The simulator."""
    path = folder("simulator" + "".join(flags)) / "libtm_simulator.so"
    command = simulator_command("gcc", path)
    read = (*SIMULATOR_SOURCES, *SIMULATOR_HEADERS)
    compiled([command[0], *_QUIET, *flags, *command[1:]], path.parent, path.name, reads=read)
    return path


@functools.cache
def kernels_library(checked: bool = False, *defined: str) -> Path:
    """The kernels of cases.cu; `defined` are names that leave something out."""
    if without_cxx():
        pytest.skip(CXX)
    name = "_".join(["cases", "checked" if checked else "fast", *defined])
    source = folder(name) / f"{name}.cpp"
    source.write_text(simulated_source("cases", str(CASES), KERNELS))
    made = source.with_suffix(".so")
    command = kernel_command("g++", source, made, checked)
    compiled([command[0], *_QUIET, *(f"-D{word}" for word in defined), *command[1:]], made.parent, made.name)
    return made


class _Image(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int), ("architecture", ctypes.c_int), ("bytes", ctypes.c_char_p), ("size", ctypes.c_size_t),
    ]  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("driver", ctypes.c_char_p), ("images", ctypes.POINTER(_Image)),
        ("image_count", ctypes.c_int), ("kernels", ctypes.POINTER(ctypes.c_char_p)), ("kernel_count", ctypes.c_int),
    ]  # fmt: skip


class Box(ctypes.Structure):
    """tm_gpu_box."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("run", "lines", "planes", "target_pitch", "target_plane", "source_pitch", "source_plane")
    ]


@functools.cache
def runtime() -> ctypes.CDLL:
    """The functions of tm_gpu.h."""
    loaded = ctypes.CDLL(str(runtime_library()))
    loaded.tm_gpu_error.restype = ctypes.c_char_p
    return loaded


@functools.cache
def simulator() -> ctypes.CDLL:
    """The simulator's own functions."""
    return ctypes.CDLL(str(simulator_library()))


def configure(options: str = "") -> None:
    """Options of the simulator for this thread."""
    assert simulator().tm_simulator_configure(options.encode()) == 0, options


def checked(code: int) -> None:
    """Raises what a function of tm_gpu.h met."""
    if code != 0:
        raise GpuError(code, runtime().tm_gpu_error().decode())


@functools.cache
def program(kernels: Path | None, driver: Path | None, kind: int = 3, architecture: int = 0) -> _Program:
    """A program of one image."""
    images = (_Image * 1)(_Image(kind, architecture, str(kernels).encode(), 0))
    names = (ctypes.c_char_p * len(KERNELS))(*(kernel.name.encode() for kernel in KERNELS))
    path = None if driver is None else str(driver).encode()
    return _Program(b"cases", path, images, 1, names, len(KERNELS))


class Call:
    """A tm_gpu_call: ``with Call() as gpu:``. Leaving it ends the call, and raises what that meets."""

    def __init__(self, kernels: Path | None = None, of: _Program | None = None, first: int = 0) -> None:
        self.program = of or program(kernels or kernels_library(), simulator_library())
        self.handle = ctypes.c_void_p()
        checked(runtime().tm_gpu_begin(ctypes.byref(self.handle), ctypes.byref(self.program), first))
        self.bytes: dict[int, int] = {}

    def __enter__(self) -> Call:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        code = error.code if isinstance(error, GpuError) else 1 if error is not None else 0
        ended = runtime().tm_gpu_end(self.handle, code)
        if error is None:
            checked(ended)

    def allocate(self, bytes_: int, device: int = 0) -> int:
        """An address on the device."""
        address = ctypes.c_void_p()
        checked(runtime().tm_gpu_allocate(self.handle, device, ctypes.byref(address), ctypes.c_size_t(bytes_)))
        assert address.value is not None
        return address.value

    def free(self, address: int, device: int = 0) -> None:
        """Gives it back."""
        checked(runtime().tm_gpu_free(self.handle, device, ctypes.c_void_p(address)))

    def pinned(self, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
        """Pinned host memory as an array."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        address = ctypes.c_void_p()
        checked(runtime().tm_gpu_allocate_host(self.handle, 0, ctypes.byref(address), None, ctypes.c_size_t(size)))
        assert address.value is not None
        memory = (ctypes.c_char * size).from_address(address.value)
        return np.frombuffer(memory, dtype).reshape(shape)

    def box(
        self, target: int, target_device: int, source: int, source_device: int, box: Box, stream: int = WAIT,
        wait: int = 0,
    ) -> None:  # fmt: skip
        """tm_gpu_copy."""
        code = runtime().tm_gpu_copy(
            self.handle, b"values", ctypes.c_void_p(target), target_device, ctypes.c_void_p(source), source_device,
            ctypes.byref(box), stream, wait,
        )  # fmt: skip
        checked(code)

    def to(self, array: np.ndarray[Any, Any], device: int = 0) -> int:
        """A copy of the array on the device."""
        address = self.allocate(max(array.nbytes, 1), device)
        self.send(address, array, WAIT, device)
        return address

    def send(self, address: int, array: np.ndarray[Any, Any], stream: int, device: int = 0) -> None:
        """From the host to the device, on a stream."""
        self.box(address, device, array.ctypes.data, HOST, Box(array.nbytes, 1, 1), stream)

    def fetch(self, array: np.ndarray[Any, Any], address: int, stream: int, device: int = 0) -> None:
        """From the device to the host, on a stream."""
        self.box(array.ctypes.data, HOST, address, device, Box(array.nbytes, 1, 1), stream)

    def back(self, address: int, like: np.ndarray[Any, Any], device: int = 0) -> np.ndarray[Any, Any]:
        """What the device has, in a new array."""
        array = np.empty_like(like)
        self.fetch(array, address, WAIT, device)
        return array

    def launch(
        self, name: str, grid: tuple[int, ...], *arguments: Any, stream: int = WAIT, shared: int = 0, device: int = 0,
        block: tuple[int, int, int] | None = None,
    ) -> None:  # fmt: skip
        """A kernel; Python integers are addresses."""
        values = [ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments]
        pointers = (ctypes.c_void_p * (len(values) + 1))(*(ctypes.addressof(value) for value in values))
        shape = (ctypes.c_int64 * 3)(*grid, *(1 for _ in range(3 - len(grid))))
        threads = (ctypes.c_int64 * 3)(*(block or KERNELS[NUMBERS[name]].block))
        code = runtime().tm_gpu_launch(
            self.handle, device, NUMBERS[name], shape, threads, ctypes.c_size_t(shared), stream, pointers
        )
        checked(code)

    def events(self, count: int, device: int = 0) -> list[ctypes.c_void_p]:
        """Events."""
        made = ctypes.POINTER(ctypes.c_void_p)()
        checked(runtime().tm_gpu_events(self.handle, device, ctypes.c_size_t(count), ctypes.byref(made)))
        return [ctypes.c_void_p(made[i]) for i in range(count)]

    def record(self, stream: int, event: ctypes.c_void_p, device: int = 0) -> None:
        """Records an event."""
        checked(runtime().tm_gpu_record(self.handle, device, stream, event))

    def wait(self, event: ctypes.c_void_p, stream: int | None = None, device: int = 0) -> None:
        """Lets a stream, or without one the host, wait for an event."""
        if stream is None:
            checked(runtime().tm_gpu_wait_host(self.handle, event))
        else:
            checked(runtime().tm_gpu_wait_stream(self.handle, device, stream, event))


def long(value: int) -> ctypes.c_int64:
    """An argument of type tm_int64."""
    return ctypes.c_int64(value)


def random(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Values in [0, 1)."""
    return np.random.default_rng(seed).random(shape, dtype=np.float32)
