"""The tickets of a kernel's blocks: an array with a number for each group of blocks of which the last one goes on."""

from __future__ import annotations

from functools import reduce

import islpy as isl

from tiramisu_py.algorithm.domains.from_isl import condition_of_params
from tiramisu_py.algorithm.expressions import Binary, Expr, Select
from tiramisu_py.algorithm.types import int64, uint32
from tiramisu_py.ir import Allocate, GpuIndex, KernelArray, LastBlock, Node
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.lower.operations.launches import LaunchGrid
from tiramisu_py.lower.statements.loop_names import unique
from tiramisu_py.program.kernels import is_counted
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Tickets:
    """The array `name` of a kernel on `device` and `stream`: `groups` are the axes along which blocks have numbers of
    their own, with the most blocks along each, and `counted` those along which blocks are counted. The kernel is not
    launched where `launched` does not hold (None: it always is).
    """

    name: str
    groups: dict[int, Expr]
    counted: tuple[int, ...]
    device: int
    stream: int
    launched: Expr | None

    @property
    def _extent(self) -> Expr:
        return _product(list(self.groups.values()))

    @property
    def array(self) -> KernelArray:
        """The array, as the kernel takes it."""
        return KernelArray(self.name, uint32, (self._extent,), False)

    def allocated(self, body: Node) -> Allocate:
        """The array around all launches of the kernel, which come one after another: no ticket has been taken.

        Without a launch it has no elements: nobody would wait until they are zero before the memory is given back.
        """
        extent = self._extent if self.launched is None else Select(self.launched, self._extent, number(0), int64)
        return Allocate(self.name, (extent,), uint32, body, memory=Memory.GPU, device=self.device, zeroed=self.stream)

    def taken(self, body: Node) -> LastBlock:
        """The code that the last block of each group runs."""
        outer, *inner = sorted(self.groups, reverse=True)
        index: Expr = GpuIndex("block", outer)
        for axis in inner:
            index = arithmetic.added(_product([index, GpuIndex("grid", axis)]), GpuIndex("block", axis))
        count = _product([GpuIndex("grid", axis) for axis in self.counted])
        return LastBlock(self.name, index, count, body, self.name)


def tickets_of(grid: LaunchGrid, host: isl.Set, taken: frozenset[str]) -> Tickets:
    """The tickets of a kernel's blocks; `host` are the iterations of the host in which it is launched."""
    counted = tuple(axis for axis, loop in sorted(grid.loops.items()) if is_counted(grid.program, loop))
    groups = {axis: grid.most(axis, host) for axis in sorted(grid.loops) if axis not in counted}
    launch, name = grid.nest.launch, unique(f"{grid.nest.name}_tickets", taken)
    where, context = host.params(), grid.program.context
    launched = None if context.is_subset(where) else condition_of_params(where.gist(context), context)
    return Tickets(name, groups, counted, launch.device, launch.stream, launched)


def _product(factors: list[Expr]) -> Expr:
    return reduce(lambda one, other: Binary("*", one, other, int64), factors)
