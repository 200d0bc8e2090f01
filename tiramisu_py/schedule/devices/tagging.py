"""The arguments of `tag_gpu`, checked."""

from __future__ import annotations

from tiramisu_py.program.loops import Combine, Launch
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Tagging:
    """The arguments of `tag_gpu`: block loops and thread loops (the last of each along x), and the kernel's launch.

    `counted` are the block loops of which the last block goes on with what follows them.
    """

    blocks: tuple[str, ...]
    threads: tuple[str, ...]
    launch: Launch
    combine: Combine | None = None
    across: Combine | None = None
    counted: tuple[str, ...] = ()
