"""The signature of a kernel: its name, parameters and block shape."""

from __future__ import annotations

from dataclasses import dataclass

from tiramisu_py.algorithm.expressions import Iter, Param
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.ir import KernelFunction
from tiramisu_py.ir.rewriting import all_expressions


@dataclass(frozen=True)
class KernelParameter:
    """One parameter: a plain value of at most 8 bytes, or the address of an array that the device can reach."""

    name: str
    c_type: str
    is_pointer: bool = False
    is_constant: bool = False


@dataclass(frozen=True)
class KernelSignature:
    """A kernel as its launcher and the simulator see it.

    `block` is the shape (x, y, z) with which it is always launched. `cooperates`: threads of a block wait for each
    other (barriers, warp operations); otherwise they may run one after another.
    """

    name: str
    parameters: tuple[KernelParameter, ...]
    block: tuple[int, int, int]
    cooperates: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z


def unused_params(kernel: KernelFunction) -> frozenset[str]:
    """The sizes and coordinates that the kernel does not need, since they occur only in outermost extents."""
    extents = (part for array in kernel.arrays for extent in array.extents[1:] for part in walk(extent))
    used = {e.name for e in (*all_expressions(kernel.body), *extents) if isinstance(e, Iter | Param)}
    return frozenset(kernel.params) - used
