"""Kernels on the CPU: the C++ around a kernel file, and the commands that compile it and the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tiramisu_py.backends.cuda.signature import KernelSignature
from tiramisu_py.program.machine.gpu_target import CUDA

_HERE = Path(__file__).parent
#: The folder that the paths of kernel headers are relative to.
BACKENDS = _HERE.parent
#: Folders for the compiler's -I: one with tm_gpu.h and tm_kernel.h, one with the simulator's headers.
RUNTIME_FOLDER = _HERE / "runtime"
SIMULATOR_FOLDER = _HERE / "simulator"

#: The headers that kernel files include, and the only ones; NVRTC is given their text.
KERNEL_HEADERS = (BACKENDS / CUDA.header,)

#: The runtime, which is compiled into each generated library.
RUNTIME_SOURCES = (RUNTIME_FOLDER / "tm_gpu.c",)
RUNTIME_HEADERS = tuple(
    RUNTIME_FOLDER / name for name in ("tm_gpu.h", "tm_cuda.h", "tm_gpu_files.h", "tm_gpu_graphs.h")
)
#: The headers that the runtime includes in a library with a trace.
TRACE_HEADERS = (RUNTIME_FOLDER / "tm_gpu_trace.h",)
RUNTIME_FLAGS = ("-std=gnu11", "-O2", "-fPIC")
RUNTIME_LIBRARIES = ("-ldl", "-lpthread")

#: The simulator, a library with the driver's entry points, which tm_gpu.c opens.
SIMULATOR_SOURCES = tuple(
    SIMULATOR_FOLDER / name
    for name in (
        "driver.c",
        "memory.c",
        "streams.c",
        "launches.c",
        "blocks.c",
        "checks.c",
        "faults.c",
        "options.c",
        "traffic.c",
    )
)
SIMULATOR_HEADERS = (
    *(SIMULATOR_FOLDER / name for name in ("simulator.h", "fibers.h", "stream_graphs.h", "tm_simulator.h")),
    RUNTIME_FOLDER / "tm_cuda.h",
)
SIMULATOR_FLAGS = (
    "-std=gnu11", "-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing",
    f"-I{RUNTIME_FOLDER}",
)  # fmt: skip
SIMULATOR_LIBRARIES = ("-ldl", "-lpthread")

#: The flags of every simulated kernel: it computes as a device does with --fmad=false. A frame larger than the rest
#: of a fiber's stack hits its guard page, since every page is touched in turn.
_KERNEL_FLAGS = (
    "-std=c++17", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-fwrapv",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions", "-fno-rtti",
    "-fno-stack-protector", "-fstack-clash-protection", "-Wno-unknown-pragmas",
)  # fmt: skip
#: How much kernels are optimised, and checked ones: the checks take most of their time.
OPTIMISED, CHECKED_OPTIMISED = ("-O3",), ("-O1",)
_CHECKED_FLAGS = ("-fsanitize=thread", "-DTM_CHECKED")
#: The simulator implements the sanitizer's checks, so the sanitizer's own library must not be linked.
KERNEL_LIBRARIES = ("-nodefaultlibs", "-lm", "-lc", "-lgcc")
#: The headers of a simulated kernel besides KERNEL_HEADERS.
SIMULATED_HEADERS = tuple(SIMULATOR_FOLDER / name for name in ("tm_simulated.h", "tm_simulator.h"))


def kernel_flags(checked: bool, optimised: Sequence[str] | None = None) -> tuple[str, ...]:
    """Flags that compile a simulated source with g++ or clang++; `checked` reports every access of a kernel.

    `optimised` says how much the compiler optimises (default: as for users).
    """
    usual = CHECKED_OPTIMISED if checked else OPTIMISED
    return (*_KERNEL_FLAGS, *(usual if optimised is None else optimised), *(_CHECKED_FLAGS if checked else ()))


def simulator_command(compiler: str, output: Path) -> list[str]:
    """The command that makes the simulator's library, with a C or a C++ compiler."""
    sources = [str(source) for source in SIMULATOR_SOURCES]
    return [compiler, "-x", "c", *SIMULATOR_FLAGS, *sources, "-o", str(output), *SIMULATOR_LIBRARIES]


def kernel_command(
    compiler: str, source: Path, output: Path, checked: bool = False, optimised: Sequence[str] | None = None
) -> list[str]:
    """The command that makes a library of simulated kernels from a text of `simulated_source`."""
    folders = [f"-I{folder}" for folder in (source.parent, RUNTIME_FOLDER, SIMULATOR_FOLDER)]
    flags = kernel_flags(checked, optimised)
    return [compiler, *flags, *folders, str(source), "-o", str(output), *KERNEL_LIBRARIES]


#: What each simulated source begins with.
SIMULATED_BEGINNING = '#define TM_SIMULATOR 1\n#include "tm_kernel.h"\n'


def simulated_source(function_name: str, cu_file: str, kernels: Sequence[KernelSignature]) -> str:
    """C++ that includes the kernel file `cu_file` inside a class and exports the table of its kernels.

    The simulator loads the library that is compiled from it, as the CUDA driver loads a cubin.
    """
    lines = [
        f"// The kernels of {function_name} for the simulator.",
        SIMULATED_BEGINNING,
        "struct tm_kernels : tm_simulated_thread {",
        f'#include "{cu_file}"',
        "};",
        "",
        *(_names(kernel) for kernel in kernels),
        "static const tm_simulated_kernel tm_table[] = {",
        *(f"  {_entry(kernel)}," for kernel in kernels),
        "};",
        f'TM_SIMULATED_PROGRAM("{Path(cu_file).name}", tm_table)',
    ]
    return "\n".join(lines) + "\n"


def _names(kernel: KernelSignature) -> str:
    names = ", ".join([*(f'"{parameter.name}"' for parameter in kernel.parameters), "nullptr"])
    return f"static const char *const tm_names_{kernel.name}[] = {{{names}}};"


def _entry(kernel: KernelSignature) -> str:
    macro = "TM_COOPERATING" if kernel.cooperates else "TM_INDEPENDENT"
    x, y, z = kernel.block
    return f"{macro}({kernel.name}, {x}, {y}, {z})"
