"""From C sources to a kernel that can be called with NumPy arrays, and to a library for C programs."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.build.calls.frozen_arrays import distinct, frozen, inverse
    from tiramisu_py.build.compilation import compile_function, compile_versions_of, processor_for
    from tiramisu_py.build.gpu.device_arrays import (
        DeviceArray,
        HostPool,
        gpu_empty,
        host_pool,
        is_unified,
        pinned_empty,
        to_gpu,
        to_unified,
    )
    from tiramisu_py.build.gpu.runtime import gpu_count
    from tiramisu_py.build.kernel import Kernel
    from tiramisu_py.build.machine.topology import MemoryNode, memory_nodes
    from tiramisu_py.build.target_processor import Target, target
    from tiramisu_py.build.timing import Timing
    from tiramisu_py.build.toolchains.c_compiler import Toolchain, find_toolchain
    from tiramisu_py.build.toolchains.cache import Cache, open_cache
    from tiramisu_py.build.toolchains.cuda_compiler import Resources
    from tiramisu_py.build.toolchains.flags import fast_flags
    from tiramisu_py.build.toolchains.processor import Processor
    from tiramisu_py.build.traces.trace import Trace, TraceEvent
    from tiramisu_py.build.traces.traffic import ArrayTraffic

front(
    __name__,
    {
        "tiramisu_py.build.toolchains.flags": "fast_flags",
        "tiramisu_py.build.compilation": "compile_function, compile_versions_of, processor_for",
        "tiramisu_py.build.calls.frozen_arrays": "distinct, frozen, inverse",
        "tiramisu_py.build.gpu.device_arrays": "DeviceArray, HostPool, gpu_empty, host_pool, is_unified, pinned_empty, "
        "to_gpu, to_unified",
        "tiramisu_py.build.gpu.runtime": "gpu_count",
        "tiramisu_py.build.kernel": "Kernel",
        "tiramisu_py.build.machine.topology": "MemoryNode, memory_nodes",
        "tiramisu_py.build.target_processor": "Target, target",
        "tiramisu_py.build.timing": "Timing",
        "tiramisu_py.build.toolchains.c_compiler": "Toolchain, find_toolchain",
        "tiramisu_py.build.toolchains.cache": "Cache, open_cache",
        "tiramisu_py.build.toolchains.cuda_compiler": "Resources",
        "tiramisu_py.build.toolchains.processor": "Processor",
        "tiramisu_py.build.traces.trace": "Trace, TraceEvent",
        "tiramisu_py.build.traces.traffic": "ArrayTraffic",
    },
)

__all__ = [
    "Cache",
    "DeviceArray",
    "HostPool",
    "Kernel",
    "MemoryNode",
    "Processor",
    "Resources",
    "Target",
    "Timing",
    "Toolchain",
    "Trace",
    "TraceEvent",
    "ArrayTraffic",
    "compile_function",
    "compile_versions_of",
    "fast_flags",
    "find_toolchain",
    "distinct",
    "frozen",
    "inverse",
    "gpu_count",
    "gpu_empty",
    "host_pool",
    "is_unified",
    "memory_nodes",
    "open_cache",
    "pinned_empty",
    "processor_for",
    "target",
    "to_gpu",
    "to_unified",
]
