"""Collective calls in C: MPI_Bcast, and MPI_Alltoallw with a type for each other rank.

The elements are described to MPI in place, by derived types, as in messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cgen

from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.mpi.element_types import mpi_type, quoted
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Collective, LoopFunction, Node, Piece
from tiramisu_py.ir import rewriting as transform

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines
    from tiramisu_py.backends.mpi.message_calls import MessageCalls

#: Names in the generated source: the communicator of the grid's ranks, and variables in a block of their own.
GRID, PARTS, PIECES = "tm_grid", "tm_parts", "tm_pieces"


RUNTIME = "tm_mpi_collectives.h"


def is_together(function: LoopFunction) -> bool:
    """Whether a function has collective calls."""
    return any(isinstance(node, Collective) for node in transform.walk(function.body))


def runtime(function: LoopFunction) -> tuple[str, ...]:
    """The headers for such calls, if there are any."""
    if not is_together(function):
        return ()
    return (RUNTIME,)


class CollectiveCall:
    """One collective call: the elements that each rank sends and receives, and the call itself."""

    def __init__(self, messages: MessageCalls, node: Collective, scope: Scope) -> None:
        self.messages = messages
        self.node = node
        self.scope = scope
        self.type = mpi_type(node.dtype)
        self.words = quoted(node.statement)
        self.array, self.pieces = node.source, ""

    def lines(self) -> Lines:
        """The whole call."""
        if self.scope.threaded:
            words = self.node.statement
            raise CompilerDefect(f"{words} is inside a parallel loop, but only one thread may send")
        return [cgen.Block(self._exchange() if self.node.root is None else self._broadcast())]

    def _exchange(self) -> Lines:
        node = self.node
        arrays = ", ".join(self.scope.arrays[name].name for name in (node.source, node.target))
        return [
            cgen.Statement(f'tm_mpi_parts {PARTS} = tm_mpi_begin_parts(&mpi, "{self.words}", ranks)'),
            self._collected(node.source, node.sends, f"&{PARTS}.sends[%s]"),
            self._collected(node.target, node.receives, f"&{PARTS}.receives[%s]"),
            cgen.Statement(f'tm_mpi_exchange(&mpi, "{self.words}", {GRID}, &{PARTS}, {arrays}, {self.type})'),
        ]

    def _broadcast(self) -> Lines:
        node = self.node
        assert node.root is not None
        root = Scalars(self.scope).text(node.root)
        sends, receives = (
            cgen.Block([self._collected(array, code, f"&{PIECES}"), self._shared(array)])
            for array, code in ((node.source, node.sends), (node.target, node.receives))
        )
        return [
            cgen.Statement(f"const int tm_root = (int)({root})"),
            cgen.Statement(f"tm_mpi_pieces {PIECES} = {{0}}"),
            cgen.If(cgen.Line("mpi.rank == tm_root"), sends, receives),
        ]

    def _shared(self, array: str) -> cgen.Generable:
        given = f'"{self.words}", {GRID}, &{PIECES}, {self._place(array)}, {self.type}, tm_root'
        return cgen.Statement(f"tm_mpi_broadcast(&mpi, {given})")

    def _place(self, array: str) -> str:
        """The array without `const`, since MPI takes one that it may store to even where it only sends."""
        return f"(void *){self.scope.arrays[array].name}"

    def _collected(self, array: str, code: Node, pieces: str) -> cgen.Generable:
        self.array, self.pieces = array, pieces
        self.messages.message = self
        return self.messages.statements.block(code, self.scope.inner())

    def piece(self, piece: Piece, scope: Scope) -> Lines:
        """One box of elements to or from one rank."""
        assert piece.peer is not None, "a piece for nobody"
        text, array = Scalars(scope).text, self.scope.arrays[self.array]
        pieces = self.pieces % text(piece.peer) if "%" in self.pieces else self.pieces
        kind = self.node.dtype.c_name
        place = f"&{Scalars(scope).element(self.array, piece.first)}"
        sides = "".join(
            f", TM_MPI_SIDE({kind}, {text(side.extent)}, {text(array.distance(side.steps))})" for side in piece.sides
        )
        given = f'"{self.words}", {pieces}, {array.name}, {place}, {kind}, {self.type}{sides}'
        return [cgen.Statement(f"TM_MPI_ADD_TO({given})")]
