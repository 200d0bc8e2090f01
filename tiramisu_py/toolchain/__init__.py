"""From C sources to a kernel that can be called with NumPy arrays, and to a library for C programs."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.toolchain.calls.frozen_arrays import distinct, frozen, inverse
    from tiramisu_py.toolchain.calls.storage import SimulatedDisk
    from tiramisu_py.toolchain.compilation import compile_function, compile_versions_of, processor_for
    from tiramisu_py.toolchain.compilers.c_compiler import Toolchain, find_toolchain
    from tiramisu_py.toolchain.compilers.cache import Cache, open_cache
    from tiramisu_py.toolchain.compilers.cuda_compiler import Resources
    from tiramisu_py.toolchain.compilers.flags import fast_flags
    from tiramisu_py.toolchain.compilers.nvdisasm import find_nvdisasm, machine_code
    from tiramisu_py.toolchain.compilers.processor import Processor
    from tiramisu_py.toolchain.gpu.device_arrays import (
        DeviceArray,
        HostPool,
        gpu_empty,
        host_pool,
        is_unified,
        pinned_empty,
        to_gpu,
        to_unified,
    )
    from tiramisu_py.toolchain.gpu.runtime import gpu_count
    from tiramisu_py.toolchain.kernel import Kernel
    from tiramisu_py.toolchain.machine.topology import MemoryNode, memory_nodes
    from tiramisu_py.toolchain.target_processor import Target, target
    from tiramisu_py.toolchain.timing import Timing
    from tiramisu_py.toolchain.traces.trace import Trace, TraceEvent
    from tiramisu_py.toolchain.traces.traffic import ArrayTraffic, Launches

front(
    __name__,
    {
        "tiramisu_py.toolchain.compilers.flags": "fast_flags",
        "tiramisu_py.toolchain.calls.storage": "SimulatedDisk",
        "tiramisu_py.toolchain.compilation": "compile_function, compile_versions_of, processor_for",
        "tiramisu_py.toolchain.calls.frozen_arrays": "distinct, frozen, inverse",
        "tiramisu_py.toolchain.gpu.device_arrays": "DeviceArray, HostPool, gpu_empty, host_pool, is_unified, "
        "pinned_empty, to_gpu, to_unified",
        "tiramisu_py.toolchain.gpu.runtime": "gpu_count",
        "tiramisu_py.toolchain.kernel": "Kernel",
        "tiramisu_py.toolchain.machine.topology": "MemoryNode, memory_nodes",
        "tiramisu_py.toolchain.target_processor": "Target, target",
        "tiramisu_py.toolchain.timing": "Timing",
        "tiramisu_py.toolchain.compilers.c_compiler": "Toolchain, find_toolchain",
        "tiramisu_py.toolchain.compilers.cache": "Cache, open_cache",
        "tiramisu_py.toolchain.compilers.cuda_compiler": "Resources",
        "tiramisu_py.toolchain.compilers.nvdisasm": "find_nvdisasm, machine_code",
        "tiramisu_py.toolchain.compilers.processor": "Processor",
        "tiramisu_py.toolchain.traces.trace": "Trace, TraceEvent",
        "tiramisu_py.toolchain.traces.traffic": "ArrayTraffic, Launches",
    },
)

__all__ = [
    "Cache",
    "DeviceArray",
    "HostPool",
    "Kernel",
    "MemoryNode",
    "SimulatedDisk",
    "Processor",
    "Resources",
    "Target",
    "Timing",
    "Toolchain",
    "Trace",
    "TraceEvent",
    "ArrayTraffic",
    "Launches",
    "compile_function",
    "compile_versions_of",
    "fast_flags",
    "find_nvdisasm",
    "find_toolchain",
    "distinct",
    "frozen",
    "inverse",
    "gpu_count",
    "gpu_empty",
    "host_pool",
    "is_unified",
    "machine_code",
    "memory_nodes",
    "open_cache",
    "pinned_empty",
    "processor_for",
    "target",
    "to_gpu",
    "to_unified",
]
