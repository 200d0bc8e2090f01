"""Arrays that GPUs address in the host's memory, watched by the simulator during a call."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.toolchain.gpu.device_arrays import DeviceArray
from tiramisu_py.toolchain.gpu.gpu_support import GpuPart
from tiramisu_py.toolchain.traces.traffic import ArrayTraffic


@contextmanager
def watching(
    gpu: GpuPart, function: LoopFunction, values: Mapping[str, npt.NDArray[Any] | DeviceArray]
) -> Iterator[dict[str, ArrayTraffic]]:
    """Counts the accesses in place of the call inside, for each array that GPUs address; filled in at its end."""
    seen: dict[str, ArrayTraffic] = {}
    mapped = [a.name for a in function.arguments if isinstance(a, ArrayArgument) and a.mapped]
    if gpu.simulator is None or not gpu.checked:
        yield seen
        seen |= {name: ArrayTraffic(0, None, None, None) for name in mapped}
        return
    simulator = gpu.simulator.loaded
    watch, watched = simulator["tm_simulator_watch"], simulator["tm_simulator_watched"]
    watch.argtypes, watch.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_void_p
    watched.argtypes, watched.restype = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)), None
    arrays = {name: array for name in mapped if isinstance(array := values[name], np.ndarray)}
    open_ones = {name: watch(array.__array_interface__["data"][0], array.nbytes) for name, array in arrays.items()}
    try:
        yield seen
    finally:
        for name, one in open_ones.items():
            counts = (ctypes.c_int64 * 3)()
            watched(one, counts)
            seen[name] = ArrayTraffic(0, *counts)
