"""The iterators of values: those of the grid, of loops, and of the axes of blocks, by the names of the source."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.reserved import WORDS
from tiramisu_py.algorithm.traversal import iterators
from tiramisu_py.language.ir.nodes import BlockLoop, BlockValue, Instruction
from tiramisu_py.language.ir.scalars import dtype_of
from tiramisu_py.language.values.uses import REDUCED, Uses
from tiramisu_py.sets import ISL_WORDS

Labels = tuple[str, ...]


class Axes:
    """Names for iterators: of an axis that of the range along it, such as ``rm``; of a loop that of its variable."""

    def __init__(self, uses: Uses, ones: Sequence[bool], params: Sequence[str]) -> None:
        self._uses, self._ones = uses, ones
        self._labels: dict[BlockValue, Labels] = {}
        self._loops: dict[BlockLoop, str] = {}
        self._reserved = {*params, *WORDS, *ISL_WORDS}
        self._taken = set(self._reserved)
        self._programs = [self._unused(f"p{axis}") for axis in range(3)]
        self._groups: dict[int, str] = {}
        for node in uses.nodes:
            if isinstance(node, BlockLoop):
                self._loops[node] = self._unused(f"{node.index.name}_step")

    def _unused(self, wanted: str) -> str:
        name = wanted
        for number in count(2):
            if name not in self._taken:
                break
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    @property
    def programs(self) -> list[str]:
        """The iterators of the grid, and of groups of its rows."""
        return [*self._programs, *self._groups.values()]

    def group(self, axis: int) -> str:
        """The iterator of groups of programs along an axis of the grid, for loops over them."""
        if axis not in self._groups:
            self._groups[axis] = self._unused(f"{self._programs[axis]}_group")
        return self._groups[axis]

    @property
    def loops(self) -> list[str]:
        """The iterators of loops, an outer loop before those inside."""
        return list(self._loops.values())

    def program(self, axis: int) -> str:
        """The iterator of an axis of the grid."""
        return self._programs[axis]

    def loop(self, node: BlockLoop) -> str:
        """The iterator of a loop: the number of the iteration."""
        return self._loops[node]

    def of(self, value: BlockValue, beside: Sequence[str]) -> list[Iter]:
        """The iterators of the axes of a block, none of which is among others."""
        found, taken = list[Iter](), {*beside, *self._programs, *self._loops.values(), *self._reserved}
        for axis, label in enumerate(self.labels(value)):
            name = self._beside(label or f"x{axis}", taken)
            taken.add(name)
            found.append(Iter(name))
        return found

    def fresh(self, label: str, index: Sequence[Expr]) -> Iter:
        """An iterator with this name that is none of those in an index, nor of programs and loops."""
        inside = {name for each in index for name in iterators(each)}
        return Iter(self._beside(label or "t", {*inside, *self._programs, *self._loops.values(), *self._reserved}))

    @staticmethod
    def _beside(wanted: str, taken: set[str]) -> str:
        name = wanted
        for number in count(2):
            if name not in taken:
                break
            name = f"{wanted}_{number}"
        return name

    def reduced(self, operand: BlockValue, along: int) -> str:
        """The name of an axis that is reduced over."""
        return self.labels(operand)[along]

    def labels(self, value: BlockValue) -> Labels:
        """The names of the axes of a block; "" where nothing in the source names one."""
        if value not in self._labels:
            self._labels[value] = ("",) * len(value.type.shape)  # of a value that is carried to itself
            self._labels[value] = self._found(value)
        return self._labels[value]

    def _found(self, value: BlockValue) -> Labels:
        node = self._uses.instruction(value)
        if node is None:
            if value not in self._uses.carriers:
                return ("",) * len(value.type.shape)
            loop, k = self._uses.carriers[value]
            both = [self.labels(each) for each in (loop.yields[k], loop.initial[k]) if isinstance(each, BlockValue)]
            return _either(both, len(value.type.shape))
        is_index = len(value.type.shape) == 1 and not value.name.startswith("%") and dtype_of(value).is_integer
        if is_index and node.op in ("make_range", "add", "rem"):
            return (value.name,)
        return self._of(node, value)

    def _of(self, node: Instruction, value: BlockValue) -> Labels:
        blocks = [each for each in node.operands if isinstance(each, BlockValue) and each.type.shape]
        rank = len(value.type.shape)
        match node.op:
            case "trans":
                own = self.labels(blocks[0])
                return tuple(own[axis] for axis in node.static)
            case "reshape" | "broadcast":
                return self._moved(blocks[0], value)
            case "dot":
                return self.labels(blocks[0])[0], self.labels(blocks[1])[1]
            case op if op in REDUCED:
                own = self.labels(blocks[0])
                return own[: node.static[0]] + own[node.static[0] + 1 :]
            case "join":
                return (*self.labels(blocks[0]), "")
            case "part":
                return self.labels(blocks[0])[:-1]
        return _either([self.labels(each) for each in blocks], rank)

    def _moved(self, of: BlockValue, value: BlockValue) -> Labels:
        """The names of the axes that stay when dimensions of extent 1 come and go."""
        own = [label for label, extent in zip(self.labels(of), of.type.shape, strict=True) if extent != 1]
        wide = [extent for extent in of.type.shape if extent != 1]
        if len(of.type.shape) == len(value.type.shape):
            pairs = zip(self.labels(of), of.type.shape, value.type.shape, strict=True)
            return tuple(label if before == after else "" for label, before, after in pairs)
        if wide != [extent for extent in value.type.shape if extent != 1]:
            return ("",) * len(value.type.shape)
        return tuple("" if extent == 1 else own.pop(0) for extent in value.type.shape)


def _either(labels: Sequence[Labels], rank: int) -> Labels:
    """The first name of each axis."""
    fitting = [each for each in labels if len(each) == rank]
    return tuple(next((each[axis] for each in fitting if each[axis]), "") for axis in range(rank))
