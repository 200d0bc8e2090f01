"""The driver of the machine, called from here: modules of PTX by hand, with arrays of NumPy as memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.ptx.running import library

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


class Refused(Exception):
    """What an entry point answers that does not do what it is asked for."""


@dataclass(frozen=True)
class Gpu:
    """The first device, with its context current in this thread."""

    driver: ctypes.CDLL

    def do(self, name: str, *arguments: object) -> None:
        """Calls an entry point; raises `Refused`."""
        code = self.driver[name](*arguments)
        if code != 0:
            words = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(words))
            raise Refused((words.value or b"").decode() or f"{name}: {code}")

    def allocate(self, size: int) -> int:
        """The address of memory of the device."""
        address = ctypes.c_uint64()
        self.do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def upload(self, address: int, array: np.ndarray) -> None:
        """Copies an array to the device, sooner or later."""
        self.do(
            "cuMemcpyHtoD_v2",
            ctypes.c_uint64(address),
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(array.nbytes),
        )

    def download(self, address: int, array: np.ndarray) -> None:
        """Copies an array from the device, and waits for all that was begun before."""
        self.do(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_uint64(address),
            ctypes.c_size_t(array.nbytes),
        )

    def free(self, address: int) -> None:
        """Frees memory of the device."""
        self.do("cuMemFree_v2", ctypes.c_uint64(address))

    def load(self, text: str) -> ctypes.c_void_p:
        """A module of PTX."""
        module = ctypes.c_void_p()
        self.do("cuModuleLoadDataEx", ctypes.byref(module), text.encode(), 0, None, None)
        return module

    def launch(
        self,
        text: str,
        arguments: Sequence[object],
        *,
        grid: int | tuple[int, int] = 1,
        block: int | tuple[int, int] = 1,
        shared: int = 0,
        name: str = "k",
    ) -> None:
        """Launches a kernel of a module, and waits for it; arguments are values of ctypes."""
        shape = [size for given in (grid, block) for size in (*((given, 1) if isinstance(given, int) else given), 1)]
        function, module = ctypes.c_void_p(), self.load(text)
        self.do("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        places = [ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in arguments]  # type: ignore[arg-type]
        given = (ctypes.c_void_p * len(places))(*places)
        self.do("cuLaunchKernel", function, *shape, shared, None, given, None)
        self.do("cuStreamSynchronize", None)

    def run(self, text: str, *arrays: np.ndarray, grid: int = 1, block: int = 1, shared: int = 0) -> list[np.ndarray]:
        """Arrays after a kernel whose parameters are their addresses."""
        places = [self.allocate(array.nbytes) for array in arrays]
        try:
            for place, array in zip(places, arrays, strict=True):
                self.upload(place, array)
            self.launch(text, [ctypes.c_uint64(place) for place in places], grid=grid, block=block, shared=shared)
            results = [np.empty_like(array) for array in arrays]
            for place, array in zip(places, results, strict=True):
                self.download(place, array)
            return results
        finally:
            self.do("cuStreamSynchronize", None)  # an upload may still be under way
            for place in places:
                self.free(place)


def gpu(options: str = "") -> Gpu:
    """The device, opened with other options of the machine."""
    driver = ctypes.CDLL(str(library()))
    made, context = Gpu(driver), ctypes.c_void_p()
    driver.ptx_configure(options.encode())
    made.do("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    made.do("cuCtxPushCurrent_v2", context)
    return made


def kernel(body: str, parameters: int = 1, declared: str = "") -> str:
    """A module with a kernel `k` of some addresses, %rd0 and so on, in global memory, and registers of every kind."""
    names = ", ".join(f".param .u64 p{n}" for n in range(parameters))
    loads = "\n".join(f"ld.param.u64 %rd{n}, [p{n}];\ncvta.to.global.u64 %rd{n}, %rd{n};" for n in range(parameters))
    registers = "\n".join(
        f".reg .{kind} %{name}<40>;"
        for kind, name in (("pred", "p"), ("b16", "h"), ("b32", "r"), ("f32", "f"), ("b64", "rd"), ("f64", "d"))
    )
    return f"{HEADER}{declared}\n.visible .entry k({names})\n{{\n{registers}\n{loads}\n{body}\nret;\n}}\n"
