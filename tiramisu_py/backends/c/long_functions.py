"""Long functions in parts: compile time grows faster than linearly with the number of loops in a function.

The statements of a long body are divided into functions of a few nests each. The sizes, scalars and arrays that a part
uses of the body around it become its arguments. Array arguments are `restrict`, since they are disjoint memory, so a
part is optimised as the whole would be. The parts are `noinline`, or a compiler could merge them again and be as slow
as before; the cost of the call is negligible beside the nests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.backends.c import streaming_stores as streams
from tiramisu_py.backends.c.definitions import Definition
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.c.temporaries import gathered
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    BeginArray,
    Block,
    Comment,
    EndArray,
    For,
    If,
    Let,
    LoopFunction,
    MemoryBlock,
    Node,
    Store,
)
from tiramisu_py.ir.rewriting import used_names

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines, Statements

#: A body with more statements than this is divided.
MANY = 48
#: The number of statements in a part.
EACH = 16


class FunctionParts:
    """Divides the statements of `body`, a block of `function`; `definitions` are the functions that result."""

    def __init__(self, function: LoopFunction, body: Block, around: list[Let]) -> None:
        self.function = function
        self.body = body
        self.around = around
        self.definitions: Lines = []
        self.count = 0

    def divides(self, node: Block) -> bool:
        """Whether this is the block that is divided."""
        own = self.body.body
        return len(node.body) == len(own) and all(a is b for a, b in zip(node.body, own, strict=True))

    def emit(self, statements: Statements, node: Block, scope: Scope) -> Lines:
        """The calls of the parts, and the statements outside of them."""
        lines: Lines = []
        begins = any(isinstance(each, BeginArray) for each in node.body)
        for run in _runs(node):
            if len(run) > 1 or (begins and not isinstance(run[0], BeginArray | EndArray)):
                lines += self._part(statements, run, scope, self._given(statements, scope))
            else:
                lines += statements.emit(run[0], scope)
        return lines

    def _part(self, statements: Statements, nodes: list[Node], scope: Scope, given: dict[str, str]) -> Lines:
        """Moves some statements into a function of their own, and returns the call of it."""
        body = Block(tuple(nodes))
        fallible = statements.temporaries.fallible
        inside = statements.emit(body, scope.inner())
        fails = statements.temporaries.fallible > fallible
        needed = used_names(body, {buffer: array.sizes for buffer, array in scope.arrays.items()})
        used = [known for known in given if known in needed]
        self.count += 1
        name = f"tm_{self.function.name}_part_{self.count}"
        call = f"{name}({', '.join(scope.names[known] for known in used)})"
        kind = "int" if fails else "void"
        declared = ", ".join(given[known] for known in used) or "void"
        self.definitions += [
            cgen.Line("__attribute__((noinline))"),
            Definition(
                f"static {kind} {name}({declared})",
                cgen.Block([*inside, *([cgen.Statement("return 0")] if fails else [])]),
            ),
            cgen.Line(),
        ]
        if not fails:
            return [cgen.Statement(call)]
        left = cgen.If(cgen.Line("tm_code != 0"), cgen.Statement("return tm_code"))
        return [cgen.Block([cgen.Statement(f"const int tm_code = {call}"), left])]

    def _given(self, statements: Statements, scope: Scope) -> dict[str, str]:
        """The names that a part may use of the body around it, each with its declaration as a parameter in C."""
        kinds = dict.fromkeys(self.function.params, "int64_t ")
        for argument in self.function.arguments:
            kinds[argument.name] = f"{argument.dtype.c_name} "
            if isinstance(argument, ArrayArgument):
                const = "" if argument.is_output else "const "
                kinds[argument.name] = f"{const}{argument.dtype.c_name} *restrict "
        for let in self.around:
            kinds[let.variable] = f"{statements.c_type(let.value.dtype, scope.lanes.of(let.value))} "
        for buffer, array in scope.arrays.items():
            kinds.setdefault(buffer, f"{statements.c_type(array.dtype, array.lanes)} *restrict ")
        return {name: f"{kind}{scope.names[name]}" for name, kind in kinds.items()}


def divided(function: LoopFunction) -> FunctionParts | None:
    """The parts of a host function with a long body; None if it is not long, or has non-temporal stores."""
    if streams.uses_streams(function.body):
        return None
    body, around = function.body, list[Let]()
    while not isinstance(body, Block):
        match body:
            case Allocate():
                body = gathered(body)[1]
            case MemoryBlock():
                body = body.body
            case Let():
                around.append(body)
                body = body.body
            case If(otherwise=None):
                body = body.then
            case _:
                return None
    many = sum(isinstance(node, For | If | Let | Allocate | MemoryBlock) for node in body.body)
    alone = all(map(_is_alone, body.body))
    return FunctionParts(function, body, around) if many > MANY and alone else None


def _is_alone(node: Node) -> bool:
    """Whether a statement passes only array elements on to later statements."""
    return isinstance(node, For | If | Let | Allocate | MemoryBlock | BeginArray | EndArray | Store | Comment)


def _runs(node: Block) -> Iterator[list[Node]]:
    """The statements in groups of `EACH`; comments do not count. Arrays begin and end outside of groups."""
    run: list[Node] = []
    for statement in node.body:
        if isinstance(statement, BeginArray | EndArray):
            yield from filter(None, (run, [statement]))
            run = []
            continue
        if sum(not isinstance(each, Comment) for each in run) == EACH:
            yield run
            run = []
        run.append(statement)
    if run:
        yield run
