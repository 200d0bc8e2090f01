"""The host emitter: C with explicit vectors, and with the parts that targets contribute."""

from tiramisu_py.backends.c.emitted import Emitted
from tiramisu_py.backends.c.emitter import emit
from tiramisu_py.backends.c.flags import LIBRARIES, OPTIMISATION, REQUIRED, THREADS

__all__ = ["LIBRARIES", "OPTIMISATION", "REQUIRED", "THREADS", "Emitted", "emit"]
