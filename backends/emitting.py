"""The host's source of a function, with all the parts that there are."""

from __future__ import annotations

from tiramisu_py.backends import c
from tiramisu_py.backends.c.emitted import Emitted
from tiramisu_py.backends.c.part import HostPart
from tiramisu_py.backends.cuda.host import Gpus
from tiramisu_py.backends.mpi.host import Ranks
from tiramisu_py.backends.openmp.host import Threads
from tiramisu_py.ir import LoopFunction

#: What targets add to the host's source; their files are included in this order.
HOST_PARTS: tuple[type[HostPart], ...] = (Gpus, Ranks, Threads)


def emit(function: LoopFunction) -> Emitted:
    """The emitted files of a function, by name; see `tiramisu_py.backends.c.emit`. Raises `UnsupportedError`."""
    return c.emit(function, HOST_PARTS)
