"""Messages in C: posts, requests and waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.expressions import constant
from tiramisu_py.algorithm.types import int64
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import NamedArray, Scope
from tiramisu_py.backends.mpi.collective_calls import CollectiveCall
from tiramisu_py.backends.mpi.element_types import Elements, quoted, request_place
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import (
    Allocate,
    Collective,
    Complete,
    LoopFunction,
    Node,
    Piece,
    Post,
    Requests,
)
from tiramisu_py.ir import rewriting as transform

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines, Statements

#: The largest tag of a message; every MPI has a few more, which the runtime reserves.
MOST_TAG = 32764
#: An array of at most this many requests is on the stack.
MOST_ON_STACK = 64


class MessageCalls:
    """Emits one function's communication with other ranks; `statements` emits the rest."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements
        self.message: Elements | CollectiveCall | None = None
        self.types: dict[str, str] = {}

    # -- types that are made once

    def prepared(self, function: LoopFunction, scope: Scope) -> Lines:
        """The definitions of box types that are the same in each iteration."""
        scope = scope.inner()
        local = [node for node in transform.walk(function.body) if isinstance(node, Allocate)]
        count = Counter(node.buffer for node in local)
        for node in local:
            if node.buffer not in scope.arrays and count[node.buffer] == 1:
                scope.arrays[node.buffer] = NamedArray(scope.names[node.buffer], node.dtype, node.extents)
        lines: Lines = []
        for post in transform.walk(function.body):
            if isinstance(post, Post) and isinstance(post.elements, Piece) and post.array in scope.arrays:
                lines += Elements(self, post, scope).prepared()
        return lines

    # -- posts

    def post(self, node: Node, scope: Scope) -> Lines:
        """A message: its elements, and the call that sends or receives them."""
        assert isinstance(node, Post)
        self._require_possible(node, scope)
        lines = Elements(self, node, scope.inner()).lines()
        return lines if len(lines) == 1 or isinstance(lines[0], cgen.If) else [cgen.Block(lines)]

    def call(self, node: Node, scope: Scope) -> Lines:
        """A collective call."""
        assert isinstance(node, Collective)
        return CollectiveCall(self, node, scope.inner()).lines()

    def _require_possible(self, node: Post, scope: Scope) -> None:
        if scope.threaded:
            raise CompilerDefect(f"{node.statement} is inside a parallel loop, but only one thread may send")
        if node.persistent and node.request is None:
            raise CompilerDefect(f"{node.statement} is persistent and so needs a wait: make it nonblocking")
        if not 0 <= node.tag <= MOST_TAG:
            raise CompilerDefect(f"{node.statement} has the tag {node.tag}, but tags are at most {MOST_TAG}")

    def piece(self, node: Node, scope: Scope) -> Lines:
        """One box of the message that is being put together."""
        assert isinstance(node, Piece)
        assert self.message is not None, "a piece of no message"
        return self.message.piece(node, scope)

    # -- requests

    def requests(self, node: Node, scope: Scope) -> Lines:
        """An array of requests, then the statements that use it; in a C block of its own if its name is taken."""
        assert isinstance(node, Requests)
        return self.statements.named(node.name, node, scope, self._requests)

    def _requests(self, node: Node, scope: Scope) -> Lines:
        assert isinstance(node, Requests)
        name, count, few = scope.names[node.name], Scalars(scope).text(node.count), constant(node.count)
        place = name
        if few == 1:
            name = _of_one(name, scope)
            place = f"&{name}"
            lines: Lines = [cgen.Statement(f"MPI_Request {name} = MPI_REQUEST_NULL")]
        elif few is not None and few <= MOST_ON_STACK:
            every = "[0]" if few <= 1 else f"[0 ... {few - 1}]"
            lines = [cgen.Statement(f"MPI_Request {name}[{max(few, 1)}] = {{{every} = MPI_REQUEST_NULL}}")]
        else:
            memory, words = f"tm_mpi_requests({count})", f"of requests {node.name}"
            lines = self.statements.temporaries.allocated(name, "MPI_Request", memory, words, scope)
        scope.declare_array(node.name, NamedArray(name, int64, () if few == 1 else (node.count,)))
        lines += self.statements.emit(node.body, scope)
        if _persistent(node):
            lines.append(cgen.Statement(f'tm_mpi_forget_requests(&mpi, "the end of {name}", {place}, {count})'))
        return lines

    def complete(self, nodes: Sequence[Node], scope: Scope) -> Lines:
        """Waits for messages; one call for all if each has a single request."""
        waits = [node for node in nodes if isinstance(node, Complete)]
        if scope.threaded:
            words = waits[0].statement
            raise CompilerDefect(f"{words} is inside a parallel loop, but only one thread may wait")
        lines: Lines = []
        for single, group in groupby(waits, lambda node: constant(node.count) == 1):
            some = list(group)
            lines += [self._together(some, scope)] if single else [self._wait(node, scope) for node in some]
        return lines

    def _together(self, nodes: Sequence[Complete], scope: Scope) -> cgen.Generable:
        words = quoted(", ".join(dict.fromkeys(node.statement for node in nodes)))
        places = ", ".join(request_place(node.requests, node.first, scope) for node in nodes)
        return cgen.Statement(f'TM_WAIT("{words}", {places})')

    def _wait(self, node: Complete, scope: Scope) -> cgen.Generable:
        place, count = request_place(node.requests, node.first, scope), Scalars(scope).text(node.count)
        return cgen.Statement(f'tm_mpi_wait(&mpi, "{quoted(node.statement)}", {place}, {count})')


def _of_one(requests: str, scope: Scope) -> str:
    """The name of a single request that is not in an array."""
    name = requests.removesuffix("s")
    return requests if name in scope.names.values() or not requests.endswith("_requests") else name


def _persistent(node: Requests) -> bool:
    posts = (inner for inner in transform.walk(node.body) if isinstance(inner, Post))
    return any(p.persistent and p.request is not None and p.request.requests == node.name for p in posts)
