"""Messages in C: posts, the elements that they consist of, requests and waits.

The elements of a message are described to MPI where they lie: one box as nested vectors, several as an indexed type
that loops put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.types import DType, int64
from tiramisu_py.backends.c.scalars import Scalars
from tiramisu_py.backends.c.scope import Array, Scope
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.lower import transform
from tiramisu_py.lower.ir import Block, Comment, Complete, Let, Node, Piece, Post, Requests, Side
from tiramisu_py.lower.transform import constant
from tiramisu_py.program.statement import SendMode

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines, Statements

#: Every MPI has the tags up to this one, which the runtime keeps for itself.
MOST_TAG = 32766
#: An array of no more requests than these is on the stack.
MOST_ON_STACK = 64

_TYPES = {
    "bool": "MPI_C_BOOL", "float16": "MPI_UINT16_T", "bfloat16": "MPI_UINT16_T", "float32": "MPI_FLOAT",
    "float64": "MPI_DOUBLE",
}  # fmt: skip
_LETTERS = {SendMode.STANDARD: "", SendMode.SYNCHRONOUS: "s", SendMode.BUFFERED: "b"}
#: The largest count that MPI takes as it is.
MOST_COUNT = 2**31 - 1
#: Names of the generated source, each in a block of its own.
ELEMENTS, PIECES, PEER = "tm_elements", "tm_pieces", "tm_peer"


def mpi_type(dtype: DType) -> str:
    """What MPI calls the type of an element."""
    return _TYPES.get(dtype.name) or f"MPI_{dtype.name.upper()}_T"


class Messages:
    """Emits what one function tells other ranks; `statements` emits what is around."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements
        self.message: _Elements | None = None

    # -- posts

    def post(self, node: Post, scope: Scope) -> Lines:
        """A message: its elements, and the call that sends or receives them."""
        self._require_possible(node, scope)
        inner = scope.inner()
        peer = Scalars(inner).text(node.peer)
        simple = constant(node.peer) is not None or isinstance(node.peer, Iter)
        before: Lines = [] if simple else [cgen.Statement(f"const int {PEER} = (int)({peer})")]
        elements = _Elements(self, node, inner, peer if simple else PEER)
        return [cgen.Block([*before, *elements.lines()])]

    def _require_possible(self, node: Post, scope: Scope) -> None:
        if scope.threaded:
            raise UnsupportedError(f"{node.statement} is inside a loop that runs on several threads: one thread sends")
        if node.persistent and node.request is None:
            raise UnsupportedError(f"{node.statement} is persistent, so that it needs a wait: make it nonblocking")
        if not 0 <= node.tag <= MOST_TAG:
            raise UnsupportedError(f"{node.statement} has the tag {node.tag}: there are those up to {MOST_TAG}")

    def piece(self, node: Piece, scope: Scope) -> Lines:
        """A box of the message that is being put together."""
        assert self.message is not None, "a piece of no message"
        return self.message.piece(node, scope)

    # -- requests

    def requests(self, node: Node, scope: Scope) -> Lines:
        """An array of requests around what uses them."""
        assert isinstance(node, Requests)
        name, count, few = scope.names[node.name], Scalars(scope).text(node.count), constant(node.count)
        if few is not None and few <= MOST_ON_STACK:
            every = "[0]" if few <= 1 else f"[0 ... {few - 1}]"
            lines: Lines = [cgen.Statement(f"MPI_Request {name}[{max(few, 1)}] = {{{every} = MPI_REQUEST_NULL}}")]
        else:
            memory = f"tm_mpi_requests({count})"
            lines = self.statements.allocated(name, "MPI_Request", memory, f"of requests {node.name}", scope)
        scope.declare_array(node.name, Array(name, int64, (node.count,)))
        lines += self.statements.emit(node.body, scope)
        if _persistent(node):
            lines.append(cgen.Statement(f'tm_mpi_forget_requests(&mpi, "the end of {name}", {name}, {count})'))
        return lines

    def complete(self, node: Complete, scope: Scope) -> Lines:
        """Waiting for messages."""
        if scope.threaded:
            raise UnsupportedError(f"{node.statement} is inside a loop that runs on several threads: one thread waits")
        place = request_place(node.requests, node.first, scope)
        count = Scalars(scope).text(node.count)
        return [cgen.Statement(f'tm_mpi_wait(&mpi, "{_quoted(node.statement)}", {place}, {count})')]


class _Elements:
    """One message: how its elements are described, and the calls on them."""

    def __init__(self, messages: Messages, node: Post, scope: Scope, peer: str) -> None:
        self.messages = messages
        self.node = node
        self.scope = scope
        self.peer = peer
        self.array = scope.arrays[node.array]
        self.type = mpi_type(node.dtype)
        self.words = _quoted(node.statement)

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
        return [first, self._tried(f"MPI_Start({place})")]

    def _defined(self, let: Let) -> Lines:
        value = Scalars(self.scope).text(let.value)
        self.scope.enter(let)
        return [cgen.Statement(f"const int64_t {self.scope.names[let.variable]} = {value}")]

    # -- one box

    def _one(self, piece: Piece) -> Lines:
        place = f"&{Scalars(self.scope).element(self.node.array, piece.first)}"
        sides = [side for side in piece.sides if constant(side.extent) != 1]
        count = constant(sides[0].extent) if len(sides) == 1 else None
        if not sides or (count and 0 < count <= MOST_COUNT and constant(self.array.distance(sides[0].steps)) == 1):
            return [self._call(place, str(count or 1), self.type)]
        made = f'tm_mpi_elements {ELEMENTS} = TM_MPI_BOX("{self.words}", {self._kind}, {self.type}, '
        lines: Lines = [cgen.Statement(made + ", ".join(map(self._side, sides)) + ")")]
        return lines + self._sent(place)

    def _sent(self, place: str) -> Lines:
        forgotten = f'tm_mpi_forget_elements(&mpi, "{self.words}", &{ELEMENTS})'
        return [self._call(place, f"{ELEMENTS}.count", f"{ELEMENTS}.type"), cgen.Statement(forgotten)]

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
            cgen.Statement(f"tm_mpi_elements {ELEMENTS} = {joined}"),
            *self._sent(self.array.name),
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
        node = self.node
        if self._is_aside:
            given = f"{place}, {count}, {kind}, {self.type}, sizeof({self._kind}), {self.peer}, {node.tag}"
            return cgen.Statement(f'tm_mpi_send_buffered(&mpi, "{self.words}", {given})')
        given = f"{place}, {count}, {kind}, {self._peer}, {node.tag}, mpi.comm"
        if node.request is not None:
            given += f", {request_place(node.request.requests, node.request.index, self.scope)}"
        elif not node.sends:
            given += ", MPI_STATUS_IGNORE"
        return self._tried(f"MPI_{self._operation}({given})")

    @property
    def _peer(self) -> str:
        return self.peer if self.peer == PEER or self.peer.isdigit() else f"(int){self.peer}"

    @property
    def _operation(self) -> str:
        node = self.node
        name = f"{_LETTERS[node.mode]}send" if node.sends else "recv"
        if node.persistent:
            return f"{name.capitalize()}_init"
        return name.capitalize() if node.request is None else f"I{name}"

    def _tried(self, call: str) -> cgen.Generable:
        macro = "TM_SEND" if self.node.sends else "TM_RECEIVE"
        return cgen.Statement(f'{macro}("{self.words}", {self.peer}, {call})')


def request_place(requests: str, index: Expr, scope: Scope) -> str:
    """The address of an element of an array of requests."""
    return f"&{Scalars(scope).element(requests, (index,))}"


def _only_piece(elements: Node) -> tuple[list[Let], Piece | None]:
    """The definitions before the only piece there is, and the piece; None where there are several, or perhaps none."""
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


def _persistent(node: Requests) -> bool:
    posts = (inner for inner in transform.walk(node.body) if isinstance(inner, Post))
    return any(p.persistent and p.request is not None and p.request.requests == node.name for p in posts)


def _quoted(text: str) -> str:
    """Text inside a string in C that is no format."""
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
