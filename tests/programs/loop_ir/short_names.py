"""Short names for loop IR built by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import Const, Expr, Iter, Param, as_expr
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType, float32, int64
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Block,
    CallOptions,
    For,
    Labels,
    Load,
    LoopFunction,
    Node,
    OnGpus,
    Private,
    Scalar,
    ScalarArgument,
    Store,
)
from tiramisu_py.program.loops import Tag


def var(name: str) -> Iter:
    """A loop variable."""
    return Iter(name, int64)


def size(name: str) -> Param:
    """A parameter."""
    return Param(name, int64)


def number(value: int | Expr) -> Expr:
    """An int64 expression."""
    return Const(value, int64) if isinstance(value, int) else typed(value)


def load(buffer: str, *indices: int | Expr, dtype: DType = float32) -> Load:
    """An element of a buffer."""
    return Load(buffer, tuple(map(number, indices)), dtype)


def store(
    buffer: str, indices: int | Expr | tuple[int | Expr, ...], value: Expr | float, dtype: DType = float32,
    update: Operator | None = None,
) -> Store:  # fmt: skip
    """A store of a value in the buffer's type."""
    given = indices if isinstance(indices, tuple) else (indices,)
    return Store(buffer, tuple(map(number, given)), typed(as_expr(value), dtype), f"store {buffer}", update)


def updated(
    buffer: str, indices: int | Expr | tuple[int | Expr, ...], operator: Operator, term: Expr, dtype: DType = float32
) -> Store:
    """``buffer[indices] = operator(buffer[indices], term)``."""
    given = indices if isinstance(indices, tuple) else (indices,)
    return store(buffer, given, operator(load(buffer, *given, dtype=dtype), term), dtype, operator)


def loop(
    name: str, upper: int | Expr, *body: Node, lower: int | Expr = 0, tag: Tag | None = None,
    reductions: tuple[Private, ...] = (),
) -> For:  # fmt: skip
    """A loop of step 1."""
    return For(name, number(lower), number(upper), Block(body), 1, tag, reductions)


def temporary(
    name: str, extents: tuple[int | Expr, ...], *body: Node, dtype: DType = float32, register: bool = False
) -> Allocate:
    """A buffer that exists during `body`."""
    return Allocate(name, tuple(map(number, extents)), dtype, Block(body), register)


def given(name: str, *extents: int | Expr, dtype: DType = float32) -> ArrayArgument:
    """An input array."""
    return ArrayArgument(name, dtype, tuple(map(number, extents)), True, False)


def result(name: str, *extents: int | Expr, dtype: DType = float32, is_input: bool = False) -> ArrayArgument:
    """An output array."""
    return ArrayArgument(name, dtype, tuple(map(number, extents)), is_input, True)


def scalar(name: str, dtype: DType = float32) -> tuple[ScalarArgument, Scalar]:
    """A scalar argument, and what reads it."""
    return ScalarArgument(name, dtype), Scalar(name, dtype)


def function(
    name: str, params: str, arguments: list[ArrayArgument | ScalarArgument], *body: Node, **fields: object
) -> LoopFunction:
    """A function over parameters named in a string."""
    return LoopFunction(name, tuple(params.split()), tuple(arguments), (), Block(body), **in_parts(fields))


def in_parts(fields: dict[str, object]) -> dict[str, Any]:
    """Fields of a function, those of its parts by their own names, in these parts."""
    parts: dict[str, Any] = {"gpus": OnGpus(), "options": CallOptions(), "labels": Labels()}
    for name, value in fields.items():
        part = next((part for part, of in parts.items() if name in of.__dataclass_fields__), None)
        parts |= {name: value} if part is None else {part: replace(parts[part], **{name: value})}
    return parts
