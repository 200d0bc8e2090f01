"""Facts about a kernel before its values are made: users, what indexes, and what each value depends on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tiramisu_py.language.ir.nodes import BlockKernel, BlockLoop, BlockValue, Instruction, Node, Operand
from tiramisu_py.language.ir.scalars import dtype_of
from tiramisu_py.language.ir.worklist import fixed_point

#: Instructions that combine the elements along an axis.
REDUCED = frozenset(
    ("sum", "reduce_mul", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "argmax", "argmin")
)  # fmt: skip
#: Instructions that make a value of the whole block, which is kept: all others are made of their operands.
KEPT = REDUCED | {"dot", "cumsum", "load", "masked_load", "rand"}
#: Instructions that only rename the elements of their operand.
VIEWS = frozenset(("reshape", "broadcast", "splat", "trans", "part", "cast"))


class Uses:
    """The users of each value of a kernel, where it is defined, and what it depends on."""

    def __init__(self, kernel: BlockKernel) -> None:
        self.nodes = list(walked(kernel.body))
        self.users: dict[BlockValue, list[Node]] = {}
        self.defined: dict[BlockValue, Node] = {}
        self.carriers: dict[BlockValue, tuple[BlockLoop, int]] = {}
        for node in self.nodes:
            for value in _values(_reads(node)):
                self.users.setdefault(value, []).append(node)
            if isinstance(node, Instruction):
                if node.result is not None:
                    self.defined[node.result] = node
                continue
            self.defined[node.index] = node
            for k, (inner, result) in enumerate(zip(node.carried, node.results, strict=True)):
                self.carriers[inner] = self.carriers[result] = (node, k)
        self.indexing = self._indexing()
        self.needs = self._needs()

    def instruction(self, operand: Operand) -> Instruction | None:
        """The instruction that defines an operand."""
        found = self.defined.get(operand) if isinstance(operand, BlockValue) else None
        return found if isinstance(found, Instruction) else None

    def program_axis(self, operand: Operand) -> int | None:
        """The axis of the grid along which an operand is the number of the program."""
        made = self.instruction(operand)
        return made.static[0] if made is not None and made.op == "get_program_id" else None

    def _needs(self) -> dict[BlockValue, frozenset[object]]:
        """The axes of the grid and the loops that each value depends on.

        What one loop carries has the same axes of the grid, so that its iterations can be run in one loop.
        """
        sources, own, left = self._sources(), self._own(), self._left()
        while True:
            found = fixed_point(sources, own, left)
            more = {
                value: axes
                for loop in self.nodes
                if isinstance(loop, BlockLoop)
                for value, axes in self._beside(loop, found).items()
                if not axes <= found.get(value, frozenset())
            }
            if not more:
                return found
            own |= {value: own.get(value, frozenset()) | axes for value, axes in more.items()}

    def _beside(
        self, loop: BlockLoop, needs: Mapping[BlockValue, frozenset[object]]
    ) -> dict[BlockValue, frozenset[object]]:
        """The axes of the grid that the blocks have between them which a loop carries, for each of these."""
        blocks = [
            (inner, after)
            for inner, after in zip(loop.carried, loop.yields, strict=True)
            if inner not in self.indexing and after is not inner and isinstance(after, BlockValue)
        ]
        axes = frozenset(axis for inner, _ in blocks for axis in needs[inner] if isinstance(axis, int))
        return {each: axes for pair in blocks for each in pair}

    def _sources(self) -> dict[BlockValue, list[BlockValue]]:
        """The values of which each value is made; of a carried one, what it begins with and what it goes on with."""
        found: dict[BlockValue, list[BlockValue]] = {}
        for node in self.nodes:
            if isinstance(node, Instruction):
                if node.result is not None:
                    found[node.result] = [] if node.op == "swizzle2d" else _values(node.operands)
                continue
            bounds = _values((node.low, node.high, node.step))
            found[node.index] = bounds
            for k, inner in enumerate(node.carried):
                found[inner] = _values((node.initial[k], node.yields[k], node.index))
                found[node.results[k]] = [*_values((node.initial[k], node.yields[k])), *bounds]
        return found

    def _left(self) -> dict[BlockValue, frozenset[object]]:
        """Axes that a value does not depend on: after a loop, its iterations."""
        return {each: frozenset([node]) for node in self.nodes if isinstance(node, BlockLoop) for each in node.results}

    def _own(self) -> dict[BlockValue, frozenset[object]]:
        """Axes that a value depends on by itself: one of the grid, or a loop."""
        found: dict[BlockValue, frozenset[object]] = {}
        for node in self.nodes:
            if isinstance(node, BlockLoop):
                found[node.index] = frozenset([node])
            elif node.op == "get_program_id" and node.result is not None:
                found[node.result] = frozenset(node.static)
            elif node.op == "swizzle2d" and node.result is not None:
                axis = self.program_axis(node.operands[node.static[1]])
                found[node.result] = frozenset() if axis is None else frozenset([axis])
        return found

    def _indexing(self) -> frozenset[BlockValue]:
        """Values that say where something is, or whether: those of indices, masks and bounds, and what conditions of
        choices compare, but for blocks that are loaded. These are read as a whole, whatever is chosen.
        """
        waiting: list[BlockValue] = []
        conditions: list[BlockValue] = []
        for node in self.nodes:
            if isinstance(node, BlockLoop):
                waiting += _values((node.low, node.high, node.step))
            elif node.op == "getelementptr":
                waiting += _values(node.operands[1:])
            elif node.op.startswith("masked_"):
                waiting += _values(node.operands[1:2] if node.op == "masked_load" else node.operands[2:3])
            elif node.op == "select":
                conditions += _values(node.operands[:1])
        return frozenset(self._made_of(conditions, self._made_of(waiting, set(), True), False))

    def _made_of(self, waiting: list[BlockValue], found: set[BlockValue], loaded: bool) -> set[BlockValue]:
        """The integers that these values are made of, and those `found`; with blocks that are `loaded`, or without."""
        while waiting:
            value = waiting.pop()
            made = self.instruction(value)
            is_block = made is not None and made.op in ("load", "masked_load") and bool(value.type.shape)
            if value in found or dtype_of(value).is_float or (is_block and not loaded):
                continue
            found.add(value)
            if made is not None and made.op not in KEPT:
                waiting += _values(made.operands)
            if value in self.carriers:
                loop, k = self.carriers[value]
                waiting += _values((loop.initial[k], loop.yields[k]))
        return found


def walked(body: Sequence[Node]) -> Iterator[Node]:
    """All nodes, a loop before those of its body."""
    for node in body:
        yield node
        if isinstance(node, BlockLoop):
            yield from walked(node.body)


def _values(operands: Sequence[Operand]) -> list[BlockValue]:
    return [each for each in operands if isinstance(each, BlockValue)]


def _reads(node: Node) -> tuple[Operand, ...]:
    if isinstance(node, Instruction):
        return node.operands
    return (node.low, node.high, node.step, *node.initial, *node.yields)
