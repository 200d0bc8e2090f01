"""The host emitter: C with explicit vectors, and with the parts that the other targets contribute."""

from tiramisu_py.backends.c.emitted import LIBRARIES, OPTIMISATION, REQUIRED, THREADS, Emitted
from tiramisu_py.backends.c.emitter import emit

__all__ = ["LIBRARIES", "OPTIMISATION", "REQUIRED", "THREADS", "Emitted", "emit"]
