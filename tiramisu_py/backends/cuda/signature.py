"""The signature of a kernel: its name, parameters and block shape."""

from __future__ import annotations

from tiramisu_py.ir import KernelFunction
from tiramisu_py.ir.rewriting import used_names
from tiramisu_py.records import dataclass


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
    return frozenset(kernel.params) - used_by(kernel)


def used_by(kernel: KernelFunction) -> set[str]:
    """The names that a kernel uses."""
    return used_names(kernel.body, {array.name: array.extents for array in kernel.arrays})
