"""Emitters and runtimes, one folder a target: `c` emits the host source, and the others add their parts to it."""

from tiramisu_py.backends.dispatching import ProcessorVersion, emit_versions
from tiramisu_py.backends.emitting import HOST_PARTS, emit

__all__ = ["HOST_PARTS", "ProcessorVersion", "emit", "emit_versions"]
