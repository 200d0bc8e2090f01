"""From C sources to a kernel that is called with NumPy arrays, and to a library that C programs link."""

from tiramisu_py.build.cache import Cache, open_cache
from tiramisu_py.build.kernel import Kernel, compile_function, processor_for
from tiramisu_py.build.processor import Processor
from tiramisu_py.build.toolchain import Toolchain, find_toolchain

__all__ = [
    "Cache",
    "Kernel",
    "Processor",
    "Toolchain",
    "compile_function",
    "find_toolchain",
    "open_cache",
    "processor_for",
]
