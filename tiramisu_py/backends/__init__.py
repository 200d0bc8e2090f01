"""Emitters and runtimes, one folder a target: `c` emits the host source, and the others add their parts to it."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.backends.cuda.kernel_text import kernel_names, signatures
    from tiramisu_py.backends.dispatching import ProcessorVersion, emit_versions
    from tiramisu_py.backends.emitting import HOST_PARTS, emit

front(
    __name__,
    {
        "tiramisu_py.backends.cuda.kernel_text": "kernel_names, signatures",
        "tiramisu_py.backends.dispatching": "ProcessorVersion, emit_versions",
        "tiramisu_py.backends.emitting": "HOST_PARTS, emit",
    },
)

__all__ = [
    "HOST_PARTS",
    "ProcessorVersion",
    "emit",
    "emit_versions",
    "kernel_names",
    "signatures",
]
