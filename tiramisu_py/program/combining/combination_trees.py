"""In which tree the partial results of a reduction are combined: the one description that all who need it follow.

The code of a kernel, the interpreter and whoever wants the bits of a schedule read the tree here::

    levels (32, 3):  each group of 32 neighbours by halves,  then the 3 results by halves
        0 1 2 ... 31 | 32 ... 63 | 64 ... 95
        16 steps apart, 8, 4, 2, 1                 p[l] = op(p[l], p[l + step]) where l + step < 32 and l < step
        then p[0], p[32], p[64]                    p[0] = op(p[0], p[64]), p[0] = op(p[0], p[32])

Every part has a value: a thread without terms has the neutral element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TypeVar

from tiramisu_py.records import dataclass

Value = TypeVar("Value")


def first_step(count: int) -> int:
    """The largest power of two below `count`: the distance of the first halving; 0 if there is one part."""
    return 1 << (count - 1).bit_length() - 1 if count > 1 else 0


@dataclass(frozen=True)
class CombinationTree:
    """A tree over numbered parts: groups of ``levels[0]`` neighbours, then ``levels[1]`` of their results, and so on.

    The parts of one group are combined by halves; the result is in its first part, and at the end in part 0.
    """

    levels: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of parts."""
        return prod(self.levels)

    def steps(self) -> Iterator[tuple[int, int]]:
        """``(into, other)`` in an order in which parts may be combined: ``p[into] = op(p[into], p[other])``."""
        stride = 1
        for count in self.levels:
            step = first_step(count)
            while step:
                for first in range(0, self.count, stride * count):
                    for part in range(min(step, count - step)):
                        yield first + part * stride, first + (part + step) * stride
                step //= 2
            stride *= count

    def combined(self, parts: Sequence[Value], operator: Callable[[Value, Value], Value]) -> Value:
        """The result of all parts, in the order of their numbers."""
        held = list(parts)
        for into, other in self.steps():
            held[into] = operator(held[into], held[other])
        return held[0]


@dataclass(frozen=True)
class BlockTree:
    """A tree over the threads of a block along some `axes`; threads that differ along the others are in other trees.

    `shape` has the threads of the block along x, y and z. A thread's part has its number along these axes, the first
    one fastest.
    """

    shape: tuple[int, int, int]
    axes: tuple[int, ...]
    warp: int

    @property
    def threads(self) -> int:
        """The threads of the block."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """The threads of one tree."""
        return prod(self.shape[axis] for axis in self.axes)

    @property
    def contiguous(self) -> bool:
        """Whether the threads of a tree are neighbours in the block."""
        used = [axis for axis in range(3) if self.shape[axis] > 1]
        own = [axis for axis in used if axis in self.axes]
        return own == used[: len(own)]

    @property
    def by_shuffles(self) -> bool:
        """Whether lanes of whole warps exchange their parts in registers."""
        whole = self.contiguous and self.threads % self.warp == 0
        return whole and (self.size % self.warp == 0 or self.warp % self.size == 0)

    @property
    def shared_parts(self) -> int:
        """The parts that the trees of a block keep in shared memory: one a warp, or one a thread; none in one warp."""
        if self.size == 1 or (self.by_shuffles and self.size <= self.warp):
            return 0
        return self.threads // self.warp if self.by_shuffles else self.threads

    @property
    def tree(self) -> CombinationTree:
        """The order in which the parts of one tree are combined."""
        if self.by_shuffles and self.size > self.warp:
            return CombinationTree((self.warp, self.size // self.warp))
        return CombinationTree((self.size,))

    def part(self, thread: tuple[int, int, int]) -> int:
        """The number of a thread's part in its tree."""
        return _number(self.shape, thread, self.axes)

    def which(self, thread: tuple[int, int, int]) -> int:
        """The number of a thread's tree in its block."""
        return _number(self.shape, thread, tuple(axis for axis in range(3) if axis not in self.axes))


def _number(shape: tuple[int, int, int], thread: tuple[int, int, int], axes: tuple[int, ...]) -> int:
    number, stride = 0, 1
    for axis in axes:
        number += stride * thread[axis]
        stride *= shape[axis]
    return number
