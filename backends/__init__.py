"""Code for each target, and what it runs on: `c` emits the host's source, to which the others add their parts."""

from tiramisu_py.backends.emitting import HOST_PARTS, emit

__all__ = ["HOST_PARTS", "emit"]
