"""Distributed functions built by hand: messages, and rings of ranks that pass them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.programs.loop_ir.short_names import in_parts, number
from tests.toolchain.conftest import Written, written
from tiramisu_py.algorithm.expressions import Expr, Param
from tiramisu_py.algorithm.types import DType, float32, int64
from tiramisu_py.backends import emit
from tiramisu_py.ir import (
    ArrayArgument,
    Block,
    Complete,
    LoopFunction,
    Node,
    Piece,
    Post,
    ProcessGrid,
    Request,
    Requests,
    ScalarArgument,
    Side,
)
from tiramisu_py.program.statement import SendMode

#: This rank's coordinate.
Q = Param("rank0", int64)


def box(*first: int | Expr, sides: tuple[tuple[int | Expr, tuple[int, ...]], ...] = ()) -> Piece:
    """A box of elements."""
    return Piece(tuple(map(number, first)), tuple(Side(number(extent), steps) for extent, steps in sides))


def post(
    sends: bool, array: str, elements: Node, peer: int | Expr, tag: int = 0, *, mode: SendMode = SendMode.STANDARD,
    request: tuple[str, int | Expr] | None = None, persistent: bool = False, dtype: DType = float32, name: str = "",
) -> Post:  # fmt: skip
    """One half of a message."""
    asked = None if request is None else Request(request[0], number(request[1]))
    words = name or ("message_send" if sends else "message_receive")
    return Post(sends, array, dtype, elements, number(peer), tag, mode, asked, persistent, words)


def requests(name: str, count: int | Expr, *body: Node) -> Requests:
    """Requests that exist during a body."""
    return Requests(name, number(count), Block(body))


def wait(name: str, first: int | Expr, count: int | Expr) -> Complete:
    """Go on when some are complete."""
    return Complete(name, number(first), number(count), "message_wait")


def on_ranks(
    name: str, params: str, grid: tuple[int | Expr, ...], arguments: list[ArrayArgument | ScalarArgument], *body: Node,
    **fields: Any,
) -> LoopFunction:  # fmt: skip
    """A function on a process grid."""
    extents = ProcessGrid(tuple(map(number, grid)), tuple(f"rank{axis}" for axis in range(len(grid))))
    outputs = tuple(a.name for a in arguments if isinstance(a, ArrayArgument) and a.is_output)
    return LoopFunction(
        name, tuple(params.split()), tuple(arguments), fields.pop("preconditions", ()), Block(body), outputs=outputs,
        grid=extents, **in_parts(fields),
    )  # fmt: skip


def compiled(function: LoopFunction, **options: Any) -> Any:
    """The kernel of a function."""
    return handed_over(function).compile(**options)


def handed_over(function: LoopFunction) -> Written:
    """What the compiler gets."""
    return written(function, emit(function), {})


def write(function: LoopFunction, folder: Path) -> Path:
    """Writes the sources into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in emit(function).items():
        (folder / name).write_text(text)
    return folder
