"""Carried values that are sums: a loop only ever adds to them, so that they are reductions over its iterations."""

from __future__ import annotations

from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.language.ir.nodes import BlockLoop, BlockValue, Instruction, Operand
from tiramisu_py.language.ir.scalars import dtype_of
from tiramisu_py.language.values.uses import Uses
from tiramisu_py.records import dataclass

_OPERATORS = {
    "add": operators.sum_, "mul": operators.product, "max": operators.max_, "min": operators.min_,
    "dot": operators.sum_,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class CarriedSum:
    """The instruction that combines a term with what `loops` carry, the outermost first, and the term."""

    term: Instruction
    loops: tuple[BlockLoop, ...]
    positions: tuple[int, ...]
    op: Operator
    operand: Operand


def carried_sum(uses: Uses, loop: BlockLoop, k: int) -> CarriedSum | None:
    """The sum that a loop carries at a position; None where something else than its own addition reads it."""
    inner, after = loop.carried[k], loop.yields[k]
    if not isinstance(after, BlockValue) or not _begins_neutral(uses, loop, k):
        return None
    return _sum(uses, loop, k, inner, after, (), ())


def _sum(
    uses: Uses,
    loop: BlockLoop,
    k: int,
    inner: BlockValue,
    after: BlockValue,
    loops: tuple[BlockLoop, ...],
    positions: tuple[int, ...],
) -> CarriedSum | None:
    loops, positions = (*loops, loop), (*positions, k)
    readers = uses.users.get(inner, [])
    if len(readers) != 1 or len(uses.users.get(after, [])) != 1:
        return None
    (reader,) = readers
    if isinstance(reader, BlockLoop) and after in reader.results:
        own = reader.results.index(after)
        following = reader.yields[own]
        if reader.initial[own] is not inner or not isinstance(following, BlockValue):
            return None
        return _sum(uses, reader, own, reader.carried[own], following, loops, positions)
    if not isinstance(reader, Instruction) or reader.result is not after or reader.op not in _OPERATORS:
        return None
    if not any(reader is each for each in loop.body):
        return None
    if reader.op == "dot":
        return CarriedSum(reader, loops, positions, _OPERATORS["dot"], 0) if reader.operands[2:] == (inner,) else None
    others = [each for each in reader.operands if each is not inner]
    return CarriedSum(reader, loops, positions, _OPERATORS[reader.op], others[0]) if len(others) == 1 else None


def _begins_neutral(uses: Uses, loop: BlockLoop, k: int) -> bool:
    """Whether a carried value begins with the neutral element of what is done with it."""
    begin: Operand = loop.initial[k]
    while (node := uses.instruction(begin)) is not None and node.op in ("splat", "cast", "reshape", "broadcast"):
        begin = node.operands[0]
    if isinstance(begin, BlockValue | str):
        return False
    inner, after = loop.carried[k], loop.yields[k]
    found = _innermost(uses, loop, inner, after)
    if found is None or found.op not in _OPERATORS:
        return False
    neutral = getattr(_OPERATORS[found.op].identity(dtype_of(inner)), "value", None)
    return neutral is not None and neutral == begin


def _innermost(uses: Uses, loop: BlockLoop, inner: BlockValue, after: Operand) -> Instruction | None:
    while isinstance(after, BlockValue):
        node = uses.instruction(after)
        if node is not None:
            return node
        if after not in uses.carriers:
            return None
        loop, k = uses.carriers[after]
        if after not in loop.results:
            return None
        after = loop.yields[k]
    return None
