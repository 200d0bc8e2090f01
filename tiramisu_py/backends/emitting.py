"""The host source of a function, with the parts of all targets."""

from __future__ import annotations

from tiramisu_py.backends import c
from tiramisu_py.backends.amx.tiles_part import TilesPart
from tiramisu_py.backends.c.emitted import Emitted
from tiramisu_py.backends.c.part import HostPart
from tiramisu_py.backends.cuda.gpus_part import GpusPart
from tiramisu_py.backends.mpi.ranks_part import RanksPart
from tiramisu_py.backends.openmp.threads_part import ThreadsPart
from tiramisu_py.backends.storage.files_part import FilesPart
from tiramisu_py.ir import LoopFunction

#: The parts of targets in the host source; their files are included in this order.
HOST_PARTS: tuple[type[HostPart], ...] = (FilesPart, GpusPart, RanksPart, ThreadsPart, TilesPart)


def emit(function: LoopFunction) -> Emitted:
    """The emitted files of a function, and of those that pack its operands, by name; see `tiramisu_py.backends.c.emit`.

    Raises `UnsupportedError`.
    """
    emitted = c.emit(function, HOST_PARTS)
    for pack in function.companions.packs:
        emitted = emitted.with_function(emit(pack))
    return emitted
