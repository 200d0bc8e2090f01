"""A backend: the loop IR as Python, for one thread and without vectors.

::

    for (int64_t i = 0; i < N; i++)          for i in range(0, N):
      b[i] = a[i] + 1;                -->        b[i,] = (a[i,] + np.int32(1))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tiramisu_py as tm
from tiramisu_py.algorithm.expressions import Binary, Call, Cast, Const, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.types import DType, int64
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import (
    Allocate,
    Assign,
    BeginArray,
    Block,
    Comment,
    Declare,
    EndArray,
    For,
    If,
    Let,
    Load,
    LoopFunction,
    MemoryBlock,
    Node,
    Scalar,
    Store,
)


def emit(function: LoopFunction) -> str:
    """The text of a Python function that takes the parameters, and then the arguments, in their order."""
    names = [*function.params, *(argument.name for argument in function.arguments)]
    lines = [f"def {function.name}({', '.join(names)}):", *_indented(statements(function.body))]
    return "\n".join(["import numpy as np", "", *lines, ""])


def run(function: LoopFunction, values: Mapping[str, Any]) -> None:
    """Execute the text of a function on parameters and arrays by name; it stores into the arrays."""
    scope: dict[str, Any] = {}
    exec(compile(emit(function), f"{function.name}.py", "exec"), scope)
    with np.errstate(over="ignore"):  # integers wrap, as in C
        scope[function.name](**values)


def statements(node: Node) -> list[str]:
    """The lines of a statement."""
    match node:
        case Block():
            return [line for child in node.body for line in statements(child)] or ["pass"]
        case Comment():
            return [f"# {node.text}", "pass"]
        case For() if node.tag is None:
            head = f"for {node.variable} in range({text(node.lower)}, {text(node.upper)}, {node.step}):"
            return [head, *_indented(statements(node.body))]
        case If():
            lines = [f"if {text(node.condition)}:", *_indented(statements(node.then))]
            return lines if node.otherwise is None else [*lines, "else:", *_indented(statements(node.otherwise))]
        case Let():
            return [f"{node.variable} = {text(node.value)}", *statements(node.body)]
        case Declare(lanes=1) | Assign():
            return [f"{node.variable} = {text(node.value)}"]
        case Store():
            return [f"{_place(node.buffer, node.indices)} = {text(node.value)}"]
        case Allocate(lanes=1, device=None):
            extents = ", ".join(map(text, node.extents))
            return [f"{node.buffer} = np.zeros(({extents},), {_type(node.dtype)})", *statements(node.body)]
        case MemoryBlock(device=None):  # arrays in turns, each of which is made where it begins
            return statements(node.body)
        case BeginArray(lanes=1):
            extents = ", ".join(map(text, node.extents))
            return [f"{node.buffer} = np.zeros(({extents},), {_type(node.dtype)})"]
        case EndArray():
            return [f"del {node.buffer}"]
    raise UnsupportedError(f"the Python backend has no {type(node).__name__}: use it without parallel and vector loops")


def text(e: Expr) -> str:
    """An expression."""
    match e:
        case Const():
            return repr(e.value) if e.dtype == int64 else f"{_type(e.dtype)}({e.value!r})"
        case Iter() | Param() | Scalar():
            return e.name
        case Load():
            return _place(e.buffer, e.indices)
        case Unary():
            return f"({e.op}{text(e.operand)})"
        case Binary(op="min" | "max"):
            return f"np.{e.op}imum({text(e.left)}, {text(e.right)})"
        case Binary():
            return f"({text(e.left)} {e.op} {text(e.right)})"
        case Select():
            return f"({text(e.yes)} if {text(e.condition)} else {text(e.no)})"
        case Cast():
            return f"int({text(e.operand)})" if e.dtype == int64 else f"{_type(e.dtype)}({text(e.operand)})"
        case Call(extern=None):
            return f"np.{e.function}({', '.join(map(text, e.arguments))})"
    raise UnsupportedError(f"the Python backend has no {type(e).__name__}: {e}")


def _place(buffer: str, indices: tuple[Expr, ...]) -> str:
    return f"{buffer}[{', '.join(map(text, indices))},]" if indices else f"{buffer}[()]"


def _type(dtype: DType) -> str:
    return f"np.{dtype.numpy}"


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def called(f: tm.Function, **given: Any) -> list[np.ndarray[Any, Any]]:
    """The outputs of a function with one-lane schedules, computed by this backend; `given` has parameters too."""
    function = f.show("lowered")
    values = {name: given[name] for name in function.params}
    for argument in function.arguments:
        shape = [int(eval(str(extent), {}, values)) for extent in getattr(argument, "extents", ())]
        values[argument.name] = given.get(argument.name, np.zeros(shape, argument.dtype.numpy))
    run(function, values)
    return [values[name] for name in function.outputs]
