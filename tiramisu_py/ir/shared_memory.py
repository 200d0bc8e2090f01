"""The shared memory of a kernel's blocks: the bytes of each array, and where it begins.

A compiler of kernels places arrays of up to 48 KiB. Beyond that the launch asks for the memory of a block, in which
arrays lie one after another::

    a[128][128], b[128][128]: 131,072 bytes   -->   the launch asks for 131,072;  a from byte 0 on, b from 65,536

The partial results of trees, and the ticket of the last block, are always placed by the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py.algorithm.expressions import constant
from tiramisu_py.ir.gpu_statements import LastBlock, TreeReduce
from tiramisu_py.ir.loop_functions import KernelFunction
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.ir.statements import Allocate
from tiramisu_py.program.combining.combination_trees import BlockTree
from tiramisu_py.program.machine.gpu_target import SHARED_UNASKED, placed_bytes
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class SharedMemory:
    """The bytes of the `arrays` of a block, by name, and of what the compiler adds by itself; where arrays begin.

    `first` are the first bytes of the arrays in the `asked` ones of the launch; nothing where the launch asks for none.
    """

    arrays: Mapping[str, int]
    others: Mapping[tuple[str, str], int]
    first: Mapping[str, int]
    asked: int

    @property
    def bytes(self) -> int:
        """The shared memory of a block."""
        return (self.asked or sum(self.arrays.values())) + sum(self.others.values())

    @property
    def words(self) -> str:
        """The bytes of the arrays, in words."""
        return ", ".join(f"{name} {size:,}" for name, size in self.arrays.items())


def shared_memory(kernel: KernelFunction) -> SharedMemory:
    """The shared memory of a kernel; copies of a tree have one array."""
    arrays, others = dict[str, int](), dict[tuple[str, str], int]()
    if kernel.drawn is not None:
        others["number", kernel.drawn.numbers] = 4
    for node in walk(kernel.body):
        if isinstance(node, TreeReduce):
            parts = BlockTree(kernel.threads, node.axes, kernel.gpu.warp).shared_parts
            others["tree", node.statement] = parts * sum(value.dtype.numpy.itemsize for value in node.values)
        if isinstance(node, LastBlock):
            others["ticket", node.statement] = 1
        if isinstance(node, Allocate) and node.memory is Memory.SHARED:
            arrays[node.buffer] = arrays.get(node.buffer, 0) + _bytes(node)
    if placed_bytes([*arrays.values(), *others.values()]) <= SHARED_UNASKED:
        return SharedMemory(arrays, others, {}, 0)
    first, asked = dict[str, int](), 0
    for name, size in arrays.items():
        first[name] = asked
        asked += placed_bytes([size])
    return SharedMemory(arrays, others, first, asked)


def _bytes(node: Allocate) -> int:
    count = node.dtype.numpy.itemsize * node.lanes
    for extent in node.extents:
        count *= max(constant(extent) or 0, 1)
    return count
