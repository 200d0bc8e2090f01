"""Kinds of GPUs: their limits, and how their kernels are compiled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuTarget:
    """A kind of GPU: its limits, and how its kernels are written and compiled.

    `warp` threads execute together. A block has at most `most_threads` threads, `most_along` each axis (x, y, z), and
    `most_shared` bytes of shared memory; a grid has at most `most_blocks` along each axis. A thread loads at most
    `widest` bytes at once. Global memory moves in sectors of `sector` bytes; shared memory has `banks` banks of words
    of `word` bytes.

    Kernel files include `header`, a path from the folder ``backends/`` or an absolute one, which defines the macros and
    functions of ``tm_kernel.h``. `compiler` is one of the compilers of kernels that ``build/`` knows; its name for an
    architecture begins with `architecture`.
    """

    name: str
    warp: int
    most_threads: int
    most_along: tuple[int, int, int]
    most_shared: int
    most_blocks: tuple[int, int, int]
    widest: int
    sector: int
    banks: int
    word: int
    header: str
    compiler: str
    architecture: str


#: Every GPU that CUDA supports, and its simulator.
CUDA = GpuTarget(
    name="CUDA",
    warp=32,
    most_threads=1024,
    most_along=(1024, 1024, 64),
    most_shared=48 * 1024,
    most_blocks=(2**31 - 1, 65535, 65535),
    widest=16,
    sector=32,
    banks=32,
    word=4,
    header="cuda/runtime/tm_kernel.h",
    compiler="cuda",
    architecture="sm_",
)
