"""The host emitter: C with explicit vectors."""

from tiramisu_py.backends.c.emitter import emit
from tiramisu_py.backends.c.flags import LIBRARIES, OPTIMISATION, REQUIRED, THREADS

__all__ = ["LIBRARIES", "OPTIMISATION", "REQUIRED", "THREADS", "emit"]
