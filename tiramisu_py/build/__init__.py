"""From C sources to a kernel that can be called with NumPy arrays, and to a library for C programs."""

from tiramisu_py.build.compilation import compile_function, compile_versions_of, processor_for
from tiramisu_py.build.gpu.device_arrays import DeviceArray, gpu_empty, pinned_empty, to_gpu
from tiramisu_py.build.gpu.runtime import gpu_count
from tiramisu_py.build.kernel import Kernel
from tiramisu_py.build.machine.topology import MemoryNode, memory_nodes
from tiramisu_py.build.target_processor import Target, target
from tiramisu_py.build.timing import Timing
from tiramisu_py.build.toolchains.c_compiler import Toolchain, find_toolchain
from tiramisu_py.build.toolchains.cache import Cache, open_cache
from tiramisu_py.build.toolchains.cuda_compiler import Resources
from tiramisu_py.build.toolchains.processor import Processor
from tiramisu_py.build.traces.trace import Trace, TraceEvent

__all__ = [
    "Cache",
    "DeviceArray",
    "Kernel",
    "MemoryNode",
    "Processor",
    "Resources",
    "Target",
    "Timing",
    "Toolchain",
    "Trace",
    "TraceEvent",
    "compile_function",
    "compile_versions_of",
    "find_toolchain",
    "gpu_count",
    "gpu_empty",
    "memory_nodes",
    "open_cache",
    "pinned_empty",
    "processor_for",
    "target",
    "to_gpu",
]
