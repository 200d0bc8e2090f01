"""Rewriting of the loop IR: what every pass from IR to IR is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tiramisu_py.algorithm import traversal
from tiramisu_py.algorithm.expressions import Const, Expr, Iter, Param
from tiramisu_py.algorithm.spellings import counted, fresh_name
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.ir import (
    Allocate,
    AllReduce,
    Assign,
    Await,
    Block,
    Collective,
    Comment,
    Complete,
    Copy,
    Declare,
    Deferred,
    Events,
    For,
    If,
    Launch,
    Let,
    Load,
    Mask,
    Node,
    Piece,
    Post,
    Prefetch,
    Record,
    Requests,
    Scalar,
    Store,
    Traced,
    TreeReduce,
)

Change = Callable[[Expr], Expr]


def block(nodes: Iterable[Node]) -> Node:
    """Statements in sequence, nested blocks flattened."""
    flat: list[Node] = []
    for node in nodes:
        flat += node.body if isinstance(node, Block) else [node]
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


EMPTY: Node = Block(())


@deep
def is_empty(node: Node) -> bool:
    """Whether nothing is executed (comments do not count)."""
    return isinstance(node, Comment) or (isinstance(node, Block) and all(map(is_empty, node.body)))


def children(node: Node) -> tuple[Node, ...]:
    """The statements directly inside a statement."""
    match node:
        case Block():
            return node.body
        case For() | Let() | Allocate() | Mask() | Events() | Requests() | Traced():
            return (node.body,)
        case Post():
            return (node.elements,)
        case Collective():
            return (node.sends, node.receives)
        case If():
            return (node.then,) if node.otherwise is None else (node.then, node.otherwise)
    return ()


@deep
def with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """The statement with `change` applied to those directly inside."""
    match node:
        case Block():
            return block(map(change, node.body))
        case For() | Let() | Allocate() | Mask() | Events() | Requests() | Traced():
            return replace(node, body=change(node.body))
        case Post():
            return replace(node, elements=change(node.elements))
        case Collective():
            return replace(node, sends=change(node.sends), receives=change(node.receives))
        case If():
            otherwise = None if node.otherwise is None else change(node.otherwise)
            return If(node.condition, change(node.then), otherwise)
    return node


def expressions(node: Node) -> tuple[Expr, ...]:
    """The expressions of one statement, not of those inside."""
    match node:
        case For():
            return (node.lower, node.upper)
        case If():
            return (node.condition,)
        case Let() | Declare() | Assign():
            return (node.value,)
        case Store() | TreeReduce():
            return (*node.indices, node.value)
        case Allocate() | Events():
            return node.extents
        case Deferred():
            return expressions(node.store)
        case Launch():
            return (*node.grid, *node.values)
        case Copy():
            return (*node.into, *node.first, *node.extents)
        case Record() | Await() | Prefetch():
            return node.indices
        case Piece():
            return (*node.first, *(side.extent for side in node.sides), *(() if node.peer is None else (node.peer,)))
        case Post():
            return (node.peer,) if node.request is None else (node.peer, node.request.index)
        case Collective():
            return () if node.root is None else (node.root,)
        case Requests() | Mask():
            return (node.count,)
        case Complete():
            return (node.first, node.count)
        case Traced():
            return tuple(e for e in (node.peer, node.bytes) if e is not None)
    return ()


def with_expressions(node: Node, change: Change) -> Node:
    """The statement with `change` applied to its own expressions, not to those inside."""
    match node:
        case For():
            return replace(node, lower=change(node.lower), upper=change(node.upper))
        case If():
            return replace(node, condition=change(node.condition))
        case Let() | Declare() | Assign():
            return replace(node, value=change(node.value))
        case Store() | TreeReduce():
            return replace(node, indices=tuple(map(change, node.indices)), value=change(node.value))
        case Allocate() | Events():
            return replace(node, extents=tuple(map(change, node.extents)))
        case Deferred():
            store = with_expressions(node.store, change)
            assert isinstance(store, Store)
            return Deferred(store)
        case Launch():
            x, y, z = map(change, node.grid)
            return replace(node, grid=(x, y, z), values=tuple(map(change, node.values)))
        case Copy():
            into, first, extents = (tuple(map(change, part)) for part in (node.into, node.first, node.extents))
            return replace(node, into=into, first=first, extents=extents)
        case Record() | Await() | Prefetch():
            return replace(node, indices=tuple(map(change, node.indices)))
        case Piece():
            sides = tuple(replace(side, extent=change(side.extent)) for side in node.sides)
            peer = None if node.peer is None else change(node.peer)
            return Piece(tuple(map(change, node.first)), sides, peer)
        case Post():
            request = None if node.request is None else replace(node.request, index=change(node.request.index))
            return replace(node, peer=change(node.peer), request=request)
        case Collective():
            return replace(node, root=None if node.root is None else change(node.root))
        case Requests() | Mask():
            return replace(node, count=change(node.count))
        case Complete():
            return replace(node, first=change(node.first), count=change(node.count))
        case Traced():
            peer, size = (None if e is None else change(e) for e in (node.peer, node.bytes))
            return replace(node, peer=peer, bytes=size)
    return node


def walk(node: Node) -> Iterator[Node]:
    """Every statement, each before those inside."""
    waiting = [node]
    while waiting:
        yield (inner := waiting.pop())
        waiting += reversed(children(inner))


def all_expressions(node: Node) -> Iterator[Expr]:
    """Every node of every expression in a statement and those inside."""
    for statement in walk(node):
        for expression in expressions(statement):
            yield from traversal.walk(expression)


def loads(node: Node) -> Iterator[Load]:
    """Every load in a statement and those inside."""
    return (e for e in all_expressions(node) if isinstance(e, Load))


def read_buffers(node: Node) -> frozenset[str]:
    """The buffers that a statement and those inside load from, copy, send, or pass to kernels."""
    found = {load.buffer for load in loads(node)}
    for inner in walk(node):
        if isinstance(inner, Launch):
            found.update(inner.arrays)
        elif isinstance(inner, Copy):
            found.update((inner.source, inner.target))
        elif isinstance(inner, Post | AllReduce):
            found.add(inner.array)
        elif isinstance(inner, Collective):
            found.update((inner.source, inner.target))
    return frozenset(found)


def defined(node: Node) -> str | None:
    """The variable that a statement defines for its body."""
    return node.variable if isinstance(node, For | Let) else None


def substitute(node: Node, values: Mapping[str, Expr]) -> Node:
    """The statement with variables replaced, except where an inner one of the same name hides them."""
    if not values:
        return node
    changed = with_expressions(node, lambda e: traversal.substitute(e, values))
    hidden = defined(node)
    inner = {name: value for name, value in values.items() if name != hidden}
    return with_children(changed, lambda child: substitute(child, inner))


def rewrite_expressions(node: Node, change: Callable[[Expr], Expr | None]) -> Node:
    """Every expression of a statement and those inside, rewritten top down (see `traversal.rewrite`)."""
    changed = with_expressions(node, lambda e: traversal.rewrite(e, change))
    return with_children(changed, lambda child: rewrite_expressions(child, change))


def variables(e: Expr) -> set[str]:
    """The names of the variables in an expression."""
    return {part.name for part in traversal.walk(e) if isinstance(part, Iter)}


def names(node: Node) -> set[str]:
    """Every name of a variable or buffer in a statement."""
    found: set[str] = set()
    for statement in walk(node):
        match statement:
            case For() | Let() | Declare() | Assign():
                found.add(statement.variable)
            case Allocate() | Store() | TreeReduce() | Prefetch():
                found.add(statement.buffer)
            case Deferred():
                found.add(statement.store.buffer)
            case Launch():
                found.update(statement.arrays)
            case Copy():
                found.update((statement.target, statement.source))
            case Events() | Requests():
                found.add(statement.name)
            case Record() | Await():
                found.add(statement.event)
            case Post() | AllReduce():
                found.add(statement.array)
            case Collective():
                found.update((statement.source, statement.target))
            case Complete():
                found.add(statement.requests)
    for e in all_expressions(node):
        if isinstance(e, Iter | Param | Scalar):
            found.add(e.name)
        elif isinstance(e, Load):
            found.add(e.buffer)
    return found


class Names:
    """The names that a function uses; `fresh` makes new ones."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)

    def fresh(self, name: str, beside: AbstractSet[str] = frozenset()) -> str:
        """`name`, numbered where it is taken, or `beside` has it; taken from now on."""
        free = fresh_name(name, self.taken | beside if beside else self.taken, counted)
        self.taken.add(free)
        return free

    def inside(self, node: Node) -> Names:
        """The names for what is inside a statement: new ones are forgotten where a C block ends."""
        return Names(self.taken) if isinstance(node, For | If) else self


def constant(e: Expr) -> int | None:
    """The value of an integer literal."""
    return int(e.value) if isinstance(e, Const) and not e.dtype.is_float else None
