"""Occupancy: the number of blocks that a multiprocessor holds at a time, as in NVIDIA's occupancy calculator.

Source: CUDA C++ Programming Guide, "Compute capabilities", technical specifications per compute capability.
"""

from __future__ import annotations

from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.machine.gpu_target import CUDA
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Multiprocessor:
    """The limits of a multiprocessor of an architecture: threads and blocks at a time, registers, shared memory.

    `reserved` bytes of shared memory go to the system for each block; allocations are multiples of `granule`. A warp
    has `warp` threads.
    """

    architecture: int
    threads: int
    blocks: int
    shared: int
    reserved: int = 1024
    granule: int = 128
    registers: int = 65536
    warp: int = CUDA.warp


#: By architecture: 75 stands for sm_75.
MULTIPROCESSORS = {
    m.architecture: m
    for m in (
        Multiprocessor(75, 1024, 16, 64 * 1024, reserved=0, granule=256),
        Multiprocessor(80, 2048, 32, 164 * 1024),
        Multiprocessor(86, 1536, 16, 100 * 1024),
        Multiprocessor(87, 1536, 16, 164 * 1024),
        Multiprocessor(89, 1536, 24, 100 * 1024),
        Multiprocessor(90, 2048, 32, 228 * 1024),
        Multiprocessor(100, 2048, 32, 228 * 1024),
        Multiprocessor(120, 1536, 24, 100 * 1024),
    )
}

GPUS = {
    "T4": 75, "RTX 2080": 75, "A100": 80, "A30": 80, "A10": 86, "A40": 86, "RTX 3090": 86, "Orin": 87, "L4": 89,
    "L40": 89, "RTX 4090": 89, "H100": 90, "H200": 90, "GH200": 90, "B200": 100, "RTX 5090": 120,
}  # fmt: skip


#: Multiprocessors of a GPU; of an architecture, those of its first GPU here.
COUNTS = {
    "T4": 40, "RTX 2080": 46, "A100": 108, "A30": 56, "A10": 72, "A40": 84, "RTX 3090": 82, "Orin": 16, "L4": 58,
    "L40": 142, "RTX 4090": 128, "H100": 132, "H200": 132, "GH200": 132, "B200": 148, "RTX 5090": 170,
}  # fmt: skip


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that a multiprocessor holds at a time, the share of its warps, and what limits it."""

    blocks: int
    warps: int
    share: float
    limit: str

    def __str__(self) -> str:
        return f"{self.share:.0%} ({self.blocks} blocks, {self.warps} warps; limited by {self.limit})"


def multiprocessor(gpu: str | int) -> Multiprocessor:
    """The multiprocessor of a GPU by its name ("H200"), or of an architecture (90). Raises `ArgumentError`."""
    architecture = GPUS.get(gpu, -1) if isinstance(gpu, str) else gpu
    if architecture not in MULTIPROCESSORS:
        raise ArgumentError(
            f"{gpu!r} is not a known GPU: choose one of {', '.join(GPUS)}, "
            f"or an architecture of {', '.join(map(str, MULTIPROCESSORS))}"
        )
    return MULTIPROCESSORS[architecture]


def multiprocessors(gpu: str | int) -> int:
    """The number of multiprocessors of a GPU by its name, or of the first of an architecture: `ArgumentError`."""
    of = multiprocessor(gpu).architecture
    name = gpu if isinstance(gpu, str) else next(name for name, architecture in GPUS.items() if architecture == of)
    return COUNTS[name]


def occupancy(gpu: str | int, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of a kernel: threads and bytes of shared memory per block, registers per thread."""
    of = multiprocessor(gpu)
    warps = -(-threads // of.warp)
    limits = {
        "threads": of.threads // (warps * of.warp),
        "blocks": of.blocks,
        "registers": _by_registers(of, warps, registers),
        "shared memory": of.shared // _rounded(shared + of.reserved, of.granule) if shared + of.reserved else of.blocks,
    }
    limit = min(limits, key=lambda name: limits[name])
    held = limits[limit] * warps
    return Occupancy(limits[limit], held, held * of.warp / of.threads, limit)


def _by_registers(of: Multiprocessor, warps: int, registers: int) -> int:
    """Registers go to warps in units of 256, and warps in fours."""
    a_warp = _rounded(max(registers, 1) * of.warp, 256)
    return (of.registers // a_warp // 4 * 4) // warps


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
