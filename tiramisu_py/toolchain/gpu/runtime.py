"""The GPU runtime, tm_gpu.c, for Python: devices, and memory of arrays that outlive a call."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

from tiramisu_py.backends.cuda.simulated import RUNTIME_FLAGS, RUNTIME_HEADERS, RUNTIME_LIBRARIES, RUNTIME_SOURCES
from tiramisu_py.errors import KernelError
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain, known_toolchain
from tiramisu_py.toolchain.compilers.cache import Cache, build_key, open_cache
from tiramisu_py.toolchain.compilers.simulator import Simulation, Simulator, load_simulator, texts
from tiramisu_py.toolchain.gpu.available_gpus import Device

NO_DRIVER, NO_DEVICE = 101, 102
_LIBRARY = "libtm_gpu.so"
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "device_count": (ctypes.POINTER(ctypes.c_int),),
    "device_name": (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)),
    "array_allocate": (ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t),
    "array_free": (ctypes.c_int, ctypes.c_void_p),
    "array_copy": (
        ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t,
    ),
    "host_allocate": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t),
    "host_free": (ctypes.c_void_p,),
    "host_statistics": (ctypes.POINTER(ctypes.c_int64),),
    "trim": (),
    "synchronize": (ctypes.c_int, ctypes.c_size_t),
}  # fmt: skip


@dataclass(frozen=True)
class Runtime:
    """The runtime over one driver: the CUDA driver, or the simulator. Its methods raise `KernelError`."""

    loaded: ctypes.CDLL
    simulator: Simulator | None
    process: int
    cache: Cache

    def count(self) -> int:
        """The number of GPUs; 0 without a driver."""
        count = ctypes.c_int()
        code = self._called("device_count", ctypes.byref(count))
        if code in (NO_DRIVER, NO_DEVICE):
            return 0
        self._require(code)
        return count.value

    def architecture(self, device: int) -> int:
        """The number of a GPU's architecture, such as 90 for sm_90."""
        name, architecture = ctypes.create_string_buffer(256), ctypes.c_int()
        self._require(self._called("device_name", device, name, len(name), ctypes.byref(architecture)))
        return architecture.value

    def name(self, device: int) -> str:
        """The name of a GPU, as its driver reports it."""
        name, architecture = ctypes.create_string_buffer(256), ctypes.c_int()
        self._require(self._called("device_name", device, name, len(name), ctypes.byref(architecture)))
        return name.value.decode(errors="replace")

    def allocate(self, device: int, size: int) -> int:
        """The address of new memory of a device."""
        address = ctypes.c_void_p()
        if self.simulator:
            self.simulator.configure(Simulation().options(device + 1))
        self._require(self._called("array_allocate", device, ctypes.byref(address), max(size, 1)))
        return address.value or 0

    def free(self, device: int, address: int) -> None:
        """Frees memory from `allocate`; does nothing in a forked process, which does not own it."""
        if os.getpid() == self.process:
            self._called("array_free", device, address)

    def copy(self, device: int, target: int, on_device: bool, source: int, from_device: bool, size: int) -> None:
        """Copies bytes to, from or on a device, and waits until the copy is complete."""
        if size:
            self._require(self._called("array_copy", device, target, on_device, source, from_device, size))

    def allocate_host(self, size: int) -> int:
        """The address of new page-locked memory of the host."""
        address = ctypes.c_void_p()
        self._require(self._called("host_allocate", ctypes.byref(address), max(size, 1)))
        return address.value or 0

    def free_host(self, address: int) -> None:
        """Frees memory from `allocate_host`."""
        if os.getpid() == self.process:
            self._called("host_free", address)

    def host_statistics(self) -> tuple[int, int, int, int]:
        """Of page-locked arrays: how many were asked for and made, and the bytes in use and kept."""
        counts = (ctypes.c_int64 * 4)()
        self._require(self._called("host_statistics", counts))
        asked, made, used, kept = counts
        return asked, made, used, kept

    def trim(self) -> None:
        """Gives the memory that is kept for the next arrays back to the driver."""
        self._require(self._called("trim"))

    def synchronize(self, device: int, stream: int) -> None:
        """Waits for all work on a stream of another library: a CUstream, or 1 or 2 for the default streams."""
        self._require(self._called("synchronize", device, stream))

    def _called(self, name: str, *arguments: Any) -> int:
        entry = self.loaded[f"tm_gpu_{name}"]
        entry.argtypes, entry.restype = (ctypes.c_char_p, *_SIGNATURES[name]), ctypes.c_int
        code: int = entry(str(self.simulator.path).encode() if self.simulator else None, *arguments)
        return code

    def _require(self, code: int) -> None:
        if code:
            last_error = self.loaded["tm_gpu_error"]
            last_error.argtypes, last_error.restype = (), ctypes.c_char_p
            raise KernelError(explained(code, (last_error() or b"").decode(errors="replace")))


def host_holder(address: int, size: int) -> str:
    """Whose page-locked arrays hold these bytes: "gpu" or "simulator"; "" for memory of other kinds."""
    if not _opened.cache_info().currsize:
        return ""  # no array has been made
    holds = _opened(os.environ.get("TIRAMISU_CACHE_DIR"), os.environ.get("CC"))["tm_gpu_host_holds"]
    holds.argtypes, holds.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int
    return ("", "gpu", "simulator")[holds(address, size)]


def explained(code: int, words: str) -> str:
    """The runtime's message, with advice for machines without a GPU."""
    if code in (NO_DRIVER, NO_DEVICE):
        return f'{words}; without a GPU, use the simulator: device="simulator"'
    return words or f"the GPU runtime failed with code {code}"


def runtime_for(device: Device) -> Runtime:
    """The runtime for a device's driver. Raises `ToolchainError` if it cannot be compiled."""
    return _loaded(device.simulated, os.environ.get("TIRAMISU_CACHE_DIR"), os.environ.get("CC"), os.getpid())


@functools.lru_cache(maxsize=8)
def _loaded(simulated: bool, cache_folder: str | None, compiler: str | None, process: int) -> Runtime:
    """The runtime, loaded once for each cache and compiler, since arrays are made often."""
    cache = open_cache()
    toolchain = known_toolchain(cache)
    loaded = _opened(cache_folder, compiler)
    return Runtime(loaded, load_simulator(cache, toolchain) if simulated else None, process, cache)


@functools.lru_cache(maxsize=8)
def _opened(_cache_folder: str | None, _compiler: str | None) -> ctypes.CDLL:
    cache = open_cache()
    return ctypes.CDLL(str(_library(cache, known_toolchain(cache))))


def _library(cache: Cache, toolchain: Toolchain) -> Path:
    flags = [*RUNTIME_FLAGS, *RUNTIME_LIBRARIES]
    key = build_key("runtime", texts(RUNTIME_SOURCES), texts(RUNTIME_HEADERS), flags, toolchain.identity)

    def build(folder: Path) -> list[Path]:
        sources = [str(source) for source in RUNTIME_SOURCES]
        toolchain.run([*RUNTIME_FLAGS, "-shared", *sources, "-o", _LIBRARY, *RUNTIME_LIBRARIES], folder)
        return []

    return cache.entry(key, build) / _LIBRARY


@own_call
def gpu_count() -> int:
    """The number of NVIDIA GPUs of this machine; 0 without a driver."""
    return runtime_for(Device(simulated=False)).count()
