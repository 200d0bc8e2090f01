"""One message in C: the MPI types that describe its elements in place, and the call that sends or receives them.

Contiguous elements are described by their number, another box by nested vector types, several boxes by an indexed type
that loops put together. A box type that is the same in each iteration is made once, at the start of the function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, constant
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import DType, int64, strong
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.mpi.traces import message
from tiramisu_py.ir import Block, Comment, Let, Load, Node, Piece, Post, Side
from tiramisu_py.program.statement import SendMode

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines
    from tiramisu_py.backends.mpi.message_calls import MessageCalls

#: MPI's names for element types; 16-bit floats are sent as their bits.
MPI_TYPES: Mapping[DType, str] = {
    ty.bool_: "MPI_C_BOOL",
    ty.int8: "MPI_INT8_T",
    ty.int16: "MPI_INT16_T",
    ty.int32: "MPI_INT32_T",
    ty.int64: "MPI_INT64_T",
    ty.uint8: "MPI_UINT8_T",
    ty.uint16: "MPI_UINT16_T",
    ty.uint32: "MPI_UINT32_T",
    ty.uint64: "MPI_UINT64_T",
    ty.float16: "MPI_UINT16_T",
    ty.bfloat16: "MPI_UINT16_T",
    ty.float32: "MPI_FLOAT",
    ty.float64: "MPI_DOUBLE",
}
_LETTERS = {SendMode.STANDARD: "", SendMode.SYNCHRONOUS: "s", SendMode.BUFFERED: "b"}
#: Names in the generated source, each in a block of its own.
ELEMENTS, PIECES = "tm_elements", "tm_pieces"


def mpi_type(dtype: DType) -> str:
    """MPI's name for the type of an element."""
    return MPI_TYPES[strong(dtype)]


class Elements:
    """One message: the MPI type of its elements, and the calls on them."""

    def __init__(self, messages: MessageCalls, node: Post, scope: Scope) -> None:
        self.messages = messages
        self.node = node
        self.scope = scope
        self.array = scope.arrays[node.array]
        self.type = mpi_type(node.dtype)
        self.words = quoted(node.statement)

    def lines(self) -> Lines:
        """The whole message."""
        before, piece = _only_piece(self.node.elements)
        if piece is None:
            lines = self._several()
        else:
            definitions = [line for let in before for line in self._defined(let)]
            lines = [*definitions, *self._one(piece)]
        request = self.node.request
        if not self.node.persistent or self._is_aside or request is None:
            return lines
        place = request_place(request.requests, request.index, self.scope)
        first = cgen.If(cgen.Line(f"{place.removeprefix('&')} == MPI_REQUEST_NULL"), cgen.Block(lines))
        towards, peer = "to" if self.node.sends else "from", Scalars(self.scope).text(self.node.peer)
        started = f'TM_MPI_TRY(&mpi, "{self.words}", "{towards}", {peer}, MPI_Start({place}))'
        return [first, cgen.Statement(started)]

    def _defined(self, let: Let) -> Lines:
        value = Scalars(self.scope).text(let.value)
        self.scope.enter(let)
        return [cgen.Statement(f"const int64_t {self.scope.names[let.variable]} = {value}")]

    # -- one box

    def _one(self, piece: Piece) -> Lines:
        place = f"&{Scalars(self.scope).element(self.node.array, piece.first)}"
        row = self._row(piece)
        if row is not None:
            return [self._call(place, Scalars(self.scope).text(row), self.type)]
        sides = self._sides(piece)
        name = self.messages.types.get(self._key(sides), ELEMENTS)
        return [*([self._made(ELEMENTS, sides)] if name == ELEMENTS else []), self._sent(place, name)]

    def _row(self, piece: Piece) -> Expr | None:
        """The number of elements if they are contiguous, else None."""
        count: Expr = Const(1, int64)
        for side in reversed(piece.sides):
            if constant(side.extent) == 1:
                continue
            if self.array.distance(side.steps).key() != count.key():
                return None
            count = side.extent if constant(count) == 1 else Binary("*", side.extent, count, int64)
        return count

    def _sides(self, piece: Piece) -> str:
        return ", ".join(self._side(side) for side in piece.sides if constant(side.extent) != 1)

    def _key(self, sides: str) -> str:
        return f"{self.type}: {sides}"

    def _made(self, name: str, sides: str) -> cgen.Generable:
        return cgen.Statement(f'TM_ELEMENTS {name} = TM_MPI_BOX("{self.words}", {self._kind}, {self.type}, {sides})')

    def _sent(self, place: str, elements: str) -> cgen.Generable:
        return self._call(place, f"{elements}.count", f"{elements}.type")

    def prepared(self) -> Lines:
        """The definition of a box's type, if it is the same in each iteration and not defined yet."""
        piece = self.node.elements
        assert isinstance(piece, Piece)
        sizes = [part for side in piece.sides for part in (side.extent, self.array.distance(side.steps))]
        if self._row(piece) is not None or not all(self._is_known(size) for size in sizes):
            return []
        sides, types = self._sides(piece), self.messages.types
        if self._key(sides) in types:
            return []
        name = "tm_" + re.sub(r"\W", "_", re.sub(r"_(send|receive)$", "", self.node.statement))
        while name in types.values():
            name += "_"
        types[self._key(sides)] = name
        return [self._made(name, sides)]

    def _is_known(self, size: Expr) -> bool:
        """Whether a size depends only on parameters and this rank's coordinates."""
        parts = list(walk(size))
        return not any(isinstance(part, Iter | Load) for part in parts)

    def _side(self, side: Side, scope: Scope | None = None) -> str:
        text = Scalars(scope or self.scope).text
        return f"TM_MPI_SIDE({self._kind}, {text(side.extent)}, {text(self.array.distance(side.steps))})"

    @property
    def _kind(self) -> str:
        return self.node.dtype.c_name

    # -- several boxes

    def _several(self) -> Lines:
        self.messages.message = self
        collected = self.messages.statements.block(self.node.elements, self.scope.inner())
        joined = f'tm_mpi_joined(&mpi, "{self.words}", &{PIECES}, {self.type})'
        return [
            cgen.Statement(f"tm_mpi_pieces {PIECES} = {{0}}"),
            collected,
            cgen.Statement(f"TM_ELEMENTS {ELEMENTS} = {joined}"),
            *message(self.messages.statements.log, ELEMENTS),
            self._sent(self.array.name, ELEMENTS),
        ]

    def piece(self, piece: Piece, scope: Scope) -> Lines:
        """One of several boxes."""
        place = f"&{Scalars(scope).element(self.node.array, piece.first)}"
        sides = "".join(f", {self._side(side, scope)}" for side in piece.sides)
        given = f'"{self.words}", {self.array.name}, {place}, {self._kind}, {self.type}{sides}'
        return [cgen.Statement(f"TM_MPI_ADD({given})")]

    # -- the call

    @property
    def _is_aside(self) -> bool:
        return self.node.sends and self.node.mode is SendMode.BUFFERED

    def _call(self, place: str, count: str, kind: str) -> cgen.Generable:
        node, peer = self.node, Scalars(self.scope).text(self.node.peer)
        if self._is_aside:
            given = f"{place}, {count}, {kind}, {self.type}, sizeof({self._kind}), {peer}, {node.tag}"
            return cgen.Statement(f'tm_mpi_send_buffered(&mpi, "{self.words}", {given})')
        given = f"MPI_{self._operation}, {place}, {count}, {kind}, {peer}, {node.tag}"
        if node.request is not None:
            given += f", {request_place(node.request.requests, node.request.index, self.scope)}"
        elif not node.sends:
            given += ", MPI_STATUS_IGNORE"
        macro = "TM_SEND" if node.sends else "TM_RECEIVE"
        return cgen.Statement(f'{macro}("{self.words}", {given})')

    @property
    def _operation(self) -> str:
        node = self.node
        name = f"{_LETTERS[node.mode]}send" if node.sends else "recv"
        if node.persistent:
            return f"{name.capitalize()}_init"
        return name.capitalize() if node.request is None else f"I{name}"


def request_place(requests: str, index: Expr, scope: Scope) -> str:
    """The address of an element of an array of requests."""
    array = scope.arrays[requests]
    return f"&{array.name if not array.extents else Scalars(scope).element(requests, (index,))}"


def quoted(text: str) -> str:
    """Text, escaped for a plain (not format) string in C."""
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')


def _only_piece(elements: Node) -> tuple[list[Let], Piece | None]:
    """The only piece and the definitions before it; None if there may be several pieces or none."""
    match elements:
        case Piece():
            return [], elements
        case Let():
            before, piece = _only_piece(elements.body)
            return [elements, *before], piece
        case Block():
            inside = [node for node in elements.body if not isinstance(node, Comment)]
            if len(inside) == 1:
                return _only_piece(inside[0])
    return [], None
