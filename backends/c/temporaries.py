"""Temporary arrays in the memory of the host: on the stack, allocated, or in pages of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.backends.c import pages
from tiramisu_py.backends.c.precedence import call
from tiramisu_py.backends.c.scalars import Scalars
from tiramisu_py.backends.c.scope import Array, Scope
from tiramisu_py.lower.ir import Allocate
from tiramisu_py.lower.transform import constant
from tiramisu_py.program.pages import Pages

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines, Statements

#: Constant temporaries are on the stack while they need no more bytes than this together.
MOST_STACK = 64 * 1024


class Temporaries:
    """Emits the temporary arrays of one function, and what it does where there is no memory for them."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements

    def emit(self, node: Allocate, scope: Scope) -> Lines:
        """The definition of an array, and the statements that use it."""
        extents = [constant(extent) for extent in node.extents]
        sizes = [extent for extent in extents if extent is not None]
        elements = max(math.prod(sizes), 1)
        size = elements * node.lanes * node.dtype.bytes
        name, kind = scope.names[node.buffer], self.statements.c_type(node.dtype, node.lanes)
        if node.pages is None and len(sizes) == len(extents) and scope.stack + size <= MOST_STACK:
            scope.stack += size
            lines: Lines = [
                cgen.Statement(f"{kind} {name}[{elements}] TM_LOCAL{' = {0}' if node.ring or node.padded else ''}")
            ]
        else:
            shape = [Scalars(scope).text(extent) for extent in node.extents]
            lines = self.array(name, kind, shape, node.buffer, scope, node.pages)
            if node.ring:
                lines = [*lines, cgen.Statement(f"memset({name}, 0, {call('TM_BYTES', kind, *shape)})")]
        scope.declare_array(node.buffer, Array(name, node.dtype, node.extents, node.lanes))
        return [*lines, *self.statements.emit(node.body, scope)]

    def array(
        self, name: str, kind: str, extents: Sequence[str], words: str, scope: Scope, own_pages: Pages | None = None
    ) -> Lines:
        """Memory for an array that is freed at the end of the C block; without it, the function gives up."""
        size = call("TM_BYTES", kind, *(extents or ["1"]))
        if own_pages is not None:
            return self.allocated(name, kind, pages.memory(own_pages, size.text), words, scope, pages.RELEASED)
        return self.allocated(name, kind, call("tm_allocate", size).text, words, scope)

    def allocated(
        self, name: str, kind: str, memory: str, words: str, scope: Scope, released: str = "TM_TEMPORARY"
    ) -> Lines:
        """A pointer to memory that a call answers, which is freed (`released`) at the end of the C block."""
        entry = self.statements.entry
        if entry and not entry.agreed:
            return entry.allocated(name, kind, memory, words, released)
        if scope.threaded:
            lines: Lines = [
                cgen.Pragma("omp atomic write"),
                cgen.Statement("tm_failed = 1"),
                cgen.Statement("continue"),
            ]
        else:
            lines = [self.out_of_memory(words)]
        return [
            cgen.Statement(f"{released} {kind} *const {name} = {memory}"),
            cgen.If(cgen.Line(f"{name} == NULL"), cgen.Block(lines)),
        ]

    def out_of_memory(self, words: str) -> cgen.Generable:
        """The statement that reports that memory for a temporary is missing, and leaves the function."""
        message, name = f"there is no memory for the temporary array {words}", self.statements.function
        if self.statements.entry:
            return cgen.Statement(f'tm_mpi_give_up(&mpi, "{message}")')
        failed = f'{name}_fail(TM_MEMORY, "{name}: {message}")'
        return cgen.Statement(f"return {name}_end(gpu, {failed})" if self.statements.on_gpu else f"return {failed}")
