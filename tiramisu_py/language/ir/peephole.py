"""Peephole optimisation of block IR: identities on single instructions, until none applies (Tillet, tables 5.1, 5.2).

Each rule is exact; those that hold for real numbers alone, but not for floats, are in `FAST`, and run if asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tiramisu_py.language.ir.nodes import BlockKernel, BlockLoop, BlockValue, Instruction, Node, Operand
from tiramisu_py.language.ir.scalars import dtype_of

#: A rule: the value that an instruction is, or another instruction with the same result, or None where it says nothing.
Rule = Callable[[Instruction, "Defined"], Operand | Instruction | None]


class Defined:
    """The instructions that define values so far."""

    def __init__(self) -> None:
        self._by_value: dict[BlockValue, Instruction] = {}

    def note(self, node: Instruction) -> None:
        """Remember an instruction by its result."""
        if node.result is not None:
            self._by_value[node.result] = node

    def of(self, operand: Operand, *ops: str) -> Instruction | None:
        """The instruction that defines an operand, if it is one of these."""
        found = self._by_value.get(operand) if isinstance(operand, BlockValue) else None
        return found if found is not None and found.op in ops else None


def simplified(kernel: BlockKernel, fast: bool = False) -> BlockKernel:
    """The kernel without what changes nothing, and without instructions whose results nobody reads.

    ::

        y = trans x; z = trans y;                      -->   z = x
        z = broadcast f32<32, 32> x;                   -->   z = x               (x has this shape)
        y = exp x; z = log y;                          -->   z = x                                       (fast)
    """
    rules = {**EXACT, **FAST} if fast else EXACT
    body, _ = _rewritten(kernel.body, rules, Defined(), {})
    return replace(kernel, body=_live(body))


def count(kernel: BlockKernel) -> int:
    """The number of instructions, loops included."""
    return _count(kernel.body)


def _count(body: Sequence[Node]) -> int:
    return sum(1 + _count(node.body) if isinstance(node, BlockLoop) else 1 for node in body)


def _rewritten(
    body: Sequence[Node], rules: Mapping[str, Sequence[Rule]], defined: Defined, same: dict[BlockValue, Operand]
) -> tuple[tuple[Node, ...], dict[BlockValue, Operand]]:
    found: list[Node] = []
    for node in body:
        if isinstance(node, BlockLoop):
            found.append(_loop(node, rules, defined, same))
            continue
        new: Instruction = replace(node, operands=tuple(_now(each, same) for each in node.operands))
        kept: Operand | Instruction | None = new
        while isinstance(kept, Instruction):
            new, kept = kept, _first(kept, rules, defined)
        if kept is None:
            defined.note(new)
            found.append(new)
        elif new.result is not None:
            same[new.result] = kept
    return tuple(found), same


def _first(node: Instruction, rules: Mapping[str, Sequence[Rule]], defined: Defined) -> Operand | Instruction | None:
    for rule in rules.get(node.op, ()) if node.result is not None else ():
        found = rule(node, defined)
        if found is not None:
            return found
    return None


def _loop(
    node: BlockLoop, rules: Mapping[str, Sequence[Rule]], defined: Defined, same: dict[BlockValue, Operand]
) -> BlockLoop:
    low, high, step = (_now(each, same) for each in (node.low, node.high, node.step))
    initial = tuple(_now(each, same) for each in node.initial)
    body, _ = _rewritten(node.body, rules, defined, same)
    yields = tuple(_now(each, same) for each in node.yields)
    return replace(node, low=low, high=high, step=step, body=body, initial=initial, yields=yields)


def _now(operand: Operand, same: Mapping[BlockValue, Operand]) -> Operand:
    while isinstance(operand, BlockValue) and operand in same:
        operand = same[operand]
    return operand


def _live(body: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes whose results are read, and those that store; what a loop carries stays."""
    read = _read(body)
    while True:
        kept = _keep(body, read)
        now = _read(kept)
        if now == read:
            return kept
        body, read = kept, now


def _read(body: Sequence[Node]) -> set[BlockValue]:
    found: set[BlockValue] = set()
    for node in body:
        if isinstance(node, BlockLoop):
            found |= _read(node.body) | {each for each in node.yields if isinstance(each, BlockValue)}
            found |= {each for each in (node.low, node.high, node.step, *node.initial) if isinstance(each, BlockValue)}
        else:
            found |= {each for each in node.operands if isinstance(each, BlockValue)}
    return found


def _keep(body: Sequence[Node], read: set[BlockValue]) -> tuple[Node, ...]:
    found: list[Node] = []
    for node in body:
        if isinstance(node, BlockLoop):
            found.append(_carrying(replace(node, body=_keep(node.body, read)), read))
        elif node.result is None or node.result in read:
            found.append(node)
    return tuple(found)


def _carrying(node: BlockLoop, read: set[BlockValue]) -> BlockLoop:
    """A loop without what it carries for nobody: that is read neither in its body, but to carry it on, nor after it."""
    inside = _read(node.body) | {each for each in node.yields if isinstance(each, BlockValue)}
    used = [k for k in range(len(node.carried)) if node.carried[k] in inside or node.results[k] in read]
    return replace(
        node, carried=tuple(node.carried[k] for k in used), initial=tuple(node.initial[k] for k in used),
        yields=tuple(node.yields[k] for k in used), results=tuple(node.results[k] for k in used),
    )  # fmt: skip


# -- rules


def _same_shape(node: Instruction, _: Defined) -> Operand | None:
    """``broadcast f32<8> x`` of an x with this shape; `reshape` likewise."""
    operand = node.operands[0]
    return operand if isinstance(operand, BlockValue) and operand.type == node.type else None


def _same_type(node: Instruction, _: Defined) -> Operand | None:
    """``cast f32 x`` of an x of this type."""
    operand = node.operands[0]
    return operand if isinstance(operand, BlockValue) and operand.type == node.type else None


def _cast_back(node: Instruction, defined: Defined) -> Operand | None:
    """``trunc(zext(x))``: back to the type before a conversion that loses nothing."""
    inner = defined.of(node.operands[0], "zext", "cast")
    if inner is None or not isinstance(inner.operands[0], BlockValue) or inner.operands[0].type != node.type:
        return None
    before, between = dtype_of(inner.operands[0]), dtype_of(node.operands[0])
    is_wider = before.kind == between.kind and before.bits < between.bits
    is_wider = is_wider or (before.is_bool and between.is_integer)
    return inner.operands[0] if is_wider else None


def _trans_of_trans(node: Instruction, defined: Defined) -> Operand | Instruction | None:
    """``trans(trans(x))``: one transposition, or none."""
    inner = defined.of(node.operands[0], "trans")
    if inner is None:
        return None
    order = tuple(inner.static[axis] for axis in _order(node))
    if order == tuple(range(len(order))):
        return inner.operands[0]
    return replace(node, operands=inner.operands, static=order)


def _order(node: Instruction) -> tuple[int, ...]:
    return node.static or tuple(reversed(range(len(node.type.shape))))


def _trans_in_order(node: Instruction, _: Defined) -> Operand | None:
    """A transposition that keeps the order."""
    return node.operands[0] if _order(node) == tuple(range(len(node.type.shape))) else None


def _reshape_of_reshape(node: Instruction, defined: Defined) -> Operand | Instruction | None:
    """``reshape(reshape(x))``: one, or none."""
    inner = defined.of(node.operands[0], "reshape")
    if inner is None:
        return None
    operand = inner.operands[0]
    is_back = isinstance(operand, BlockValue) and operand.type == node.type
    return operand if is_back else replace(node, operands=inner.operands)


def _neutral(op: str, number: int) -> Rule:
    """``x + 0``, ``x * 1`` of integers, on either side; of floats only what no bit depends on."""

    def rule(node: Instruction, defined: Defined) -> Operand | None:
        if dtype_of(node.operands[0]).is_float and (op, number) not in (("mul", 1), ("div", 1)):
            return None
        for own, other in ((0, 1), (1, 0)) if op in ("add", "mul", "and") else ((0, 1),):
            if _number(node.operands[other], defined) == number and _is_whole(node, own):
                return node.operands[own]
        return None

    return rule


def _is_whole(node: Instruction, position: int) -> bool:
    operand = node.operands[position]
    return isinstance(operand, BlockValue) and operand.type == node.type


def _number(operand: Operand, defined: Defined) -> object:
    """The number that an operand is in all elements."""
    while (node := defined.of(operand, "splat")) is not None:
        operand = node.operands[0]
    return operand if isinstance(operand, int | float) and not isinstance(operand, bool) else None


def _log_of_exp(node: Instruction, defined: Defined) -> Operand | None:
    """``log(exp(x))``: x, but for rounding and overflow."""
    inner = defined.of(node.operands[0], "exp")
    return None if inner is None else inner.operands[0]


def _sub_of_add(node: Instruction, defined: Defined) -> Operand | None:
    """``(x + y) - y``: x; of integers always, of floats but for rounding."""
    inner = defined.of(node.operands[0], "add")
    if inner is None or dtype_of(node.operands[0]).is_float:
        return None
    for own, other in ((0, 1), (1, 0)):
        if inner.operands[other] is node.operands[1] and _is_whole(inner, own):
            return inner.operands[own]
    return None


#: Rules that keep every bit.
EXACT: Mapping[str, Sequence[Rule]] = {
    "broadcast": (_same_shape,),
    "reshape": (_same_shape, _reshape_of_reshape),
    "trans": (_trans_in_order, _trans_of_trans),
    "cast": (_same_type, _cast_back),
    "trunc": (_same_type, _cast_back),
    "zext": (_same_type,),
    "add": (_neutral("add", 0),),
    "sub": (_neutral("sub", 0), _sub_of_add),
    "mul": (_neutral("mul", 1),),
    "div": (_neutral("div", 1),),
    "floordiv": (_neutral("floordiv", 1),),
}
#: Rules that change how floats are rounded.
FAST: Mapping[str, Sequence[Rule]] = {"log": (_log_of_exp,)}
