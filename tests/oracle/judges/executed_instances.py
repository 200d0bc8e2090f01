"""Condition 5, by running: which instances the generated loops execute, and in which order, at small sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.ir import Allocate, Block, For, If, Let, Node, Store
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.lower.loops.nest import Nest
from tiramisu_py.lower.lowering import groups
from tiramisu_py.lower.statements.body import Body
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece, pieces_of
from tiramisu_py.lower.statements.loop_names import loop_variables, reserved_names
from tiramisu_py.lower.statements.templates import Forms
from tiramisu_py.program.program import Program

#: The name of a statement, and the instance.
Execution = tuple[str, tuple[int, ...]]


def executions(program: Program, params: Mapping[str, int]) -> list[Execution]:
    """The executions of the generated loops, in the order in which they come (all loops run in sequence)."""
    found: list[Execution] = []
    for node in _traced_nests(program):
        found += _run(node, dict(params))
    return found


def asked_for(program: Program, params: Mapping[str, int]) -> list[Execution]:
    """The instances of the program, sorted by time."""
    timed: list[tuple[tuple[int, ...], Execution]] = []
    for name, statement in program.statements.items():
        size = sets.size(statement.instances)
        both = sets.joined(sets.renamed(program.times[name], None), sets.identity(statement.frame))
        image = sets.graph(both, statement.instances.intersect_params(program.context)).range()
        for point in sets.points(sets.fixed(image, params)):
            split = len(point) - size
            timed.append((point[:split], (name, point[split:])))
    return [execution for _, execution in sorted(timed)]


def _traced_nests(program: Program) -> Iterator[Node]:
    reserved = reserved_names(program)
    variables = loop_variables(program, reserved)
    for group in groups(program):
        bodies = [_traced(piece) for statement in group for piece in pieces_of(program, statement)]
        nest = Nest(replace(program, buffers={}), bodies, variables, reserved).lowered() if bodies else None
        if nest is not None:
            yield nest.node


def _traced(piece: DomainPiece) -> Body:
    """A body that stores nothing but its instance."""
    statement = piece.statement
    forms = Forms(statement.frame)
    instance = tuple(forms.wanted(dim) for dim in sets.variables(statement.frame))
    return Body(piece, sets.from_frame(forms.function(), piece.frame), "", (), "", instance, arithmetic.number(0), None)


def _run(node: Node | None, values: Mapping[str, int]) -> Iterator[Execution]:
    """The executions of a statement, however deep it is: what is to be run is kept in a list, not on the stack."""
    waiting: list[Iterator[tuple[Node | None, Mapping[str, int]]]] = [iter([(node, values)])]
    while waiting:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
        elif isinstance(found[0], Store):
            yield found[0].statement, tuple(_value(index, found[1]) for index in found[0].indices)
        else:
            waiting.append(_inside(*found))


def _inside(node: Node | None, values: Mapping[str, int]) -> Iterator[tuple[Node | None, Mapping[str, int]]]:
    """What a statement runs, in order, with the values of variables there."""
    match node:
        case Block():
            yield from ((child, values) for child in node.body)
        case For():
            for value in range(_value(node.lower, values), _value(node.upper, values), node.step):
                yield node.body, {**values, node.variable: value}
        case If():
            yield (node.then if _value(node.condition, values) else node.otherwise), values
        case Let():
            yield node.body, {**values, node.variable: _value(node.value, values)}
        case Allocate():
            yield node.body, values


@deep
def _value(e: Expr, values: Mapping[str, int]) -> int:
    match e:
        case Const():
            return int(e.value)
        case Iter() | Param():
            return values[e.name]
        case Unary(op="-"):
            return -_value(e.operand, values)
        case Select():
            return _value(e.yes if _value(e.condition, values) else e.no, values)
        case Binary():
            return _OPERATIONS[e.op](_value(e.left, values), _value(e.right, values))
    raise ValueError(f"{e} has no value here")


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b, "min": min, "max": max, "<": lambda a, b: int(a < b), "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b), "==": lambda a, b: int(a == b),
    "&": lambda a, b: a & b, "|": lambda a, b: a | b,
}  # fmt: skip
