"""Peers on the GPU, called where they are installed: the driver's own copies, and cuBLAS."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[], object]


def address(array: Any) -> int:
    """The address of an array that lives on a GPU."""
    return int(array.__cuda_array_interface__["data"][0])


class Driver:
    """The CUDA driver with the primary context of one GPU current in this thread."""

    def __init__(self, device: int = 0) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        number = ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(number), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self.call("cuCtxSetCurrent", context)
        self.device = number

    def call(self, name: str, *arguments: Any) -> None:
        """Call an entry point; an error ends the program."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise SystemExit(f"{name} failed with CUDA error {code}")

    def copy(self, target: Any, source: Any, size: int) -> Run:
        """A copy on the device, complete when the call returns."""
        to, of = ctypes.c_uint64(address(target)), ctypes.c_uint64(address(source))

        def run() -> None:
            self.call("cuMemcpyDtoDAsync_v2", to, of, ctypes.c_size_t(size), None)
            self.call("cuStreamSynchronize", None)

        return run

    def description(self) -> str:
        """The GPU's name and the driver's version."""
        name, version = ctypes.create_string_buffer(100), ctypes.c_int()
        self.call("cuDeviceGetName", name, 100, self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return f"{name.value.decode()}, driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def cublas() -> ctypes.CDLL | None:
    """cuBLAS from the package nvidia-cublas or from the system; None if there is none."""
    candidates = [str(path) for path in _packaged("nvidia", "libcublas.so.*")]
    found = ctypes.util.find_library("cublas")
    for candidate in [*candidates, *([found] if found else []), "/usr/local/cuda/lib64/libcublas.so"]:
        try:
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    return None


def _packaged(package: str, pattern: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    return sorted(path for folder in folders for path in Path(folder).rglob(pattern))


def sgemm(library: ctypes.CDLL, driver: Driver, size: int, a: Any, b: Any, c: Any) -> Run:
    """``c = a b`` of square float32 matrices by cuBLAS, without tensor cores (its default mathematics)."""
    handle = ctypes.c_void_p()
    if library.cublasCreate_v2(ctypes.byref(handle)):
        raise SystemExit("cublasCreate failed")
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    n = ctypes.c_int(size)
    pointers = [ctypes.c_void_p(address(x)) for x in (b, a, c)]  # row-major: the transposed product

    def run() -> None:
        code = library.cublasSgemm_v2(
            handle, 0, 0, n, n, n, ctypes.byref(one), pointers[0], n, pointers[1], n, ctypes.byref(zero), pointers[2], n
        )
        if code:
            raise SystemExit(f"cublasSgemm failed with {code}")
        driver.call("cuStreamSynchronize", None)

    return run
