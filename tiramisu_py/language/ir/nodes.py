"""The block IR on one screen: typed SSA values, instructions on whole blocks, and loops that carry values.

A value is a scalar or a block of constant shape, ``i32<8, 8>``; places in arrays are blocks of pointers,
``f32*<8, 8>``. There are no threads, no barriers and no memories. Nodes are immutable; a value is known by
its identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class BlockType:
    """A scalar type by its short name, such as ``f32``, ``i1`` or ``f32*``, and the extents of a block of it."""

    scalar: str
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.scalar}<{', '.join(map(str, self.shape))}>" if self.shape else self.scalar


@dataclass(frozen=True, eq=False)
class BlockValue:
    """A value that an instruction, a loop or the caller defines, once."""

    name: str
    type: BlockType

    def __str__(self) -> str:
        return self.name


#: A value, a number, or a word such as ``undef``.
Operand: TypeAlias = BlockValue | int | float | bool | str


@dataclass(frozen=True, eq=False)
class Instruction:
    """``result = op(static) type operands``; without a result, its type is that of what it stores or void.

    `static` are the integers that belong to the operation: an axis, the ends of a range, a permutation. `attributes`
    are words such as ``tf32`` or ``ordered``. `line` is the line of the source, 0 if it is unknown.
    """

    op: str
    type: BlockType
    operands: tuple[Operand, ...] = ()
    result: BlockValue | None = None
    static: tuple[int, ...] = ()
    attributes: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, eq=False)
class BlockLoop:
    """A loop from `low` up to `high` in steps; it begins with the `initial` values of what it `carries`.

    In the body, `carried` are the values before an iteration; `yields` are those after it, and `results` those after
    the last one, or the initial ones where there is no iteration.
    """

    index: BlockValue
    low: Operand
    high: Operand
    step: Operand
    body: tuple[Node, ...]
    carried: tuple[BlockValue, ...] = ()
    initial: tuple[Operand, ...] = ()
    yields: tuple[Operand, ...] = ()
    results: tuple[BlockValue, ...] = ()
    line: int = 0


Node: TypeAlias = Instruction | BlockLoop


@dataclass(frozen=True, eq=False)
class Argument:
    """An argument of the caller: a pointer to an array, or a scalar. `qualifiers` are words such as ``readonly``."""

    value: BlockValue
    qualifiers: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class BlockKernel:
    """A program for each point of a grid, whose extents are text."""

    name: str
    arguments: tuple[Argument, ...]
    body: tuple[Node, ...]
    grid: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The text that `parse` reads; operands are names and numbers, and each name is defined once."""
        arguments = ", ".join(map(_argument, self.arguments))
        grid = f" grid({', '.join(f'[{each}]' for each in self.grid)})" if self.grid else ""
        head = [f"def void {self.name}({arguments}){grid}", "{", "entry:"]
        return "\n".join([*head, *_lines(self.body, 1), "}"])


def operands_of(node: Node) -> tuple[Operand, ...]:
    """The operands of a node itself: of a loop its bounds and initial values; what its body reads is not among them."""
    return node.operands if isinstance(node, Instruction) else (node.low, node.high, node.step, *node.initial)


def results_of(node: Node) -> tuple[BlockValue, ...]:
    """The values that a node defines for those after it."""
    if isinstance(node, BlockLoop):
        return node.results
    return () if node.result is None else (node.result,)


# -- text

_INDENT = "  "


def _argument(given: Argument) -> str:
    return " ".join([f"{given.value.type} {given.value}", *(f".{word}" for word in given.qualifiers)])


def _lines(body: Sequence[Node], depth: int) -> Iterator[str]:
    for node in body:
        if isinstance(node, Instruction):
            yield _INDENT * depth + instruction_text(node)
        else:
            yield from _loop_lines(node, depth)


def instruction_text(node: Instruction) -> str:
    """One instruction: ``acc = dot f32<32, 32> a, b, before;``."""
    defined = f"{node.result} = " if node.result is not None else ""
    static = ""
    if node.static:
        static = f"[{' : '.join(map(str, node.static))}]" if node.op == "make_range" else f"({_listed(node.static)})"
    words = "".join(f" .{word}" for word in node.attributes)
    operands = f" {_listed(node.operands)}" if node.operands else ""
    return f"{defined}{node.op}{static}{words} {node.type}{operands};"


def _loop_lines(node: BlockLoop, depth: int) -> Iterator[str]:
    pairs = ", ".join(f"{v.type} {v} = {_word(i)}" for v, i in zip(node.carried, node.initial, strict=True))
    head = f"for {node.index.type} {node.index} = {_word(node.low)} to {_word(node.high)} step {_word(node.step)}"
    yield f"{_INDENT * depth}{_results(node)}{head} carry({pairs}) {{"
    yield from _lines(node.body, depth + 1)
    yield f"{_INDENT * (depth + 1)}yield({_listed(node.yields)});"
    yield f"{_INDENT * depth}}}"


def _results(node: BlockLoop) -> str:
    return f"{_listed(node.results)} = " if node.results else ""


def _listed(operands: Sequence[Operand]) -> str:
    return ", ".join(map(_word, operands))


def _word(operand: Operand) -> str:
    return str(operand).lower() if isinstance(operand, bool) else str(operand)
