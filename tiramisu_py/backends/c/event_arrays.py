"""Arrays of events, as each runtime that works beside the host has them: declared empty, made, and used in a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.types import int64
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import NamedArray, Scope
from tiramisu_py.ir import Events

if TYPE_CHECKING:
    from tiramisu_py.backends.c.part import Lines
    from tiramisu_py.backends.c.statements import Statements


def event_array(
    statements: Statements, node: Events, scope: Scope, pointer: str, made: Callable[[str, str], cgen.Generable]
) -> Lines:
    """The array as a variable of type `pointer`, and the body; `made` is the call that fills it, given the number of
    events and the variable's address.
    """
    name, text = scope.names[node.name], Scalars(scope).text
    count = "*".join(f"tm_count({text(extent)})" for extent in node.extents) or "1"
    scope.declare_array(node.name, NamedArray(name, int64, node.extents))
    return [cgen.Statement(f"{pointer}{name} = NULL"), made(count, f"&{name}"), *statements.emit(node.body, scope)]
