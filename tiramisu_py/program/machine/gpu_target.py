"""Kinds of GPUs: their limits, and how their kernels are compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from tiramisu_py.errors import DeclarationError
from tiramisu_py.public_calls import own_class
from tiramisu_py.records import dataclass

#: The folder that the paths of headers are relative to.
_BACKENDS = Path(__file__).parents[2] / "backends"
#: Bytes of shared memory that a block has on every GPU, without asking for more at its launch.
SHARED_UNASKED = 48 * 1024
#: Arrays in shared memory begin at multiples of this many bytes.
SHARED_ALIGNED = 16
#: Limits that a target of the CUDA compiler may lower, and never raise.
_LIMITS = ("most_threads", "most_along", "most_shared", "most_blocks", "widest")


def placed_bytes(sizes: Iterable[int]) -> int:
    """The bytes of arrays of these sizes in shared memory, each from where an array may begin."""
    return sum(-(-size // SHARED_ALIGNED) * SHARED_ALIGNED for size in sizes)


@own_class
@dataclass(frozen=True, repr=False)
class GpuTarget:
    """A kind of GPU, for `Function.gpu_target`: its limits, and how its kernels are written and compiled.

    ::

        f.gpu_target(tm.GpuTarget("small", most_threads=256, most_shared=16 * 1024))

    What is left out is as on the GPUs that CUDA supports. `warp` threads execute together. A block has at most
    `most_threads` threads, `most_along` each axis (x, y, z), and `most_shared` bytes of shared memory: what is more
    than 48 KiB is asked for at a launch, and refused by a GPU that has less. A grid has at most `most_blocks` along
    each axis. A thread loads at most `widest` bytes at once. Global memory moves in sectors of `sector` bytes; shared
    memory has `banks` banks of words of `word` bytes.

    Kernel files include `header`, an absolute path (or one relative to the folder ``backends/``) of a file that defines
    the macros and functions of ``tm_kernel.h``. `compiler` is one of the compilers of kernels that ``toolchain/``
    knows; its name for an architecture begins with `architecture`. A target of the compiler "cuda" has warps of 32
    threads, and its limits are at most CUDA's. Raises `DeclarationError`.
    """

    name: str
    warp: int = 32
    most_threads: int = 1024
    most_along: tuple[int, int, int] = (1024, 1024, 64)
    most_shared: int = 227 * 1024
    most_blocks: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    widest: int = 16
    sector: int = 32
    banks: int = 32
    word: int = 4
    header: str = "cuda/runtime/tm_kernel.h"
    compiler: str = "cuda"
    architecture: str = "sm_"

    @property
    def header_file(self) -> Path:
        """The file of the header."""
        return _BACKENDS / self.header

    def __post_init__(self) -> None:
        for one in fields(self):
            self._check_type(one.name, one.type)
        for name in ("warp", "widest"):
            if getattr(self, name).bit_count() != 1:
                raise self._refused(name, "give a power of two")
        if not self.header.endswith((".h", ".cuh")):
            raise self._refused("header", "give the path of a file that ends in .h or .cuh")
        if self.compiler == GpuTarget.compiler:
            self._check_cuda()

    def _check_type(self, name: str, kind: object) -> None:
        given = getattr(self, name)
        if kind == "str" and not (isinstance(given, str) and given):
            raise self._refused(name, "give a text that is not empty")
        if kind == "int" and not _is_count(given):
            raise self._refused(name, "give an integer from 1 on")
        if str(kind).startswith("tuple") and not (
            isinstance(given, tuple) and len(given) == len("xyz") and all(map(_is_count, given))
        ):
            raise self._refused(name, "give a tuple of three integers from 1 on, for x, y and z")

    def _check_cuda(self) -> None:
        """Kernels that CUDA compiles run on its GPUs: a limit may be lower than theirs, and not higher."""
        if self.warp != GpuTarget.warp:
            raise self._refused("warp", f"the warps of CUDA have {GpuTarget.warp} threads; leave warp= out")
        for name in _LIMITS:
            given, most = getattr(self, name), getattr(GpuTarget, name)
            higher = given > most if isinstance(given, int) else any(g > m for g, m in zip(given, most, strict=True))
            if higher:
                raise self._refused(name, f"CUDA allows {most}; give at most that")

    def _refused(self, name: str, repair: str) -> DeclarationError:
        return DeclarationError(f"tm.GpuTarget: {name} is {getattr(self, name)!r}: {repair}")

    def __repr__(self) -> str:
        """The target as it is written: arguments that have their defaults are left out."""
        given = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self)[1:] if self._differs(one.name)]
        return f"tm.GpuTarget({', '.join([repr(self.name), *given])})"

    def _differs(self, name: str) -> bool:
        return bool(getattr(self, name) != getattr(GpuTarget, name))


def _is_count(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 1


#: Every GPU that CUDA supports, and its simulator.
CUDA = GpuTarget("CUDA")
