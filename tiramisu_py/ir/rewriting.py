"""Traversal and rewriting of the loop IR, the building blocks of every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import wraps
from operator import is_
from typing import Any, TypeVar

from tiramisu_py.algorithm import traversal
from tiramisu_py.algorithm.expressions import Expr, Iter, Param, constant
from tiramisu_py.algorithm.spellings import counted, fresh_name
from tiramisu_py.algorithm.stacks import deep, deep_nest
from tiramisu_py.ir import (
    ArrayCall,
    ArrayRoom,
    ArraySection,
    Block,
    Comment,
    Deferred,
    For,
    If,
    Load,
    LoadMatrices,
    LoadTile,
    Mma,
    Node,
    Prefetch,
    Request,
    Scalar,
    Side,
    Store,
    StoreTile,
    TreeReduce,
)
from tiramisu_py.program.loops import Combine

Change = Callable[[Expr], Expr]
#: Parts of a statement that are no statements themselves, and have operands.
Part = Side | Request | ArraySection | ArrayRoom
#: The content of a field with the role `operands`.
Operand = Expr | Part | Store | tuple[Expr | Part | Store, ...] | None
_Holder = TypeVar("_Holder", bound=Node | Part)
_Kind = TypeVar("_Kind")
_Found = TypeVar("_Found")
_NONE: frozenset[str] = frozenset()
#: Among the contents of a statement with a store that is to bypass the caches.
NONTEMPORAL = "nontemporal"


def block(nodes: Iterable[Node]) -> Node:
    """Statements in sequence, nested blocks flattened."""
    flat: list[Node] = []
    for node in nodes:
        flat += node.body if isinstance(node, Block) else [node]
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


EMPTY: Node = Block(())


def is_empty(node: Node) -> bool:
    """Whether nothing is executed (comments do not count)."""
    return _are_empty(node) if isinstance(node, Block) else isinstance(node, Comment)


@deep
def _are_empty(node: Block) -> bool:
    return all(map(is_empty, node.body))


def children(node: Node) -> tuple[Node, ...]:
    """The statements directly inside a statement."""
    if isinstance(node, Block):
        return node.body
    fields = node.roles.inside
    return tuple([inner for field in fields if (inner := getattr(node, field)) is not None]) if fields else ()


def with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """The statement with `change` applied to the statements directly inside."""
    if isinstance(node, Block):  # what is inside leaves a full stack: no block is in another
        body = [change(inner) for inner in node.body]
        kept = len(body) > 1 and all(map(is_, body, node.body))
        return node if kept and not any(isinstance(inner, Block) for inner in body) else block(body)
    return _with_children(node, change) if node.roles.inside else node


@deep_nest
def _with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    changed: dict[str, Any] = {}
    for field in node.roles.inside:
        inner = getattr(node, field)
        if inner is not None and (new := change(inner)) is not inner:
            changed[field] = new
    return _replaced(node, changed) if changed else node


def _replaced(node: _Holder, changed: Mapping[str, Any]) -> _Holder:
    """The statement with some fields changed, as by `dataclasses.replace`, which checks every field anew."""
    kind: Any = type(node)
    made: _Holder = object.__new__(kind)
    made.__dict__.update({field: node.__dict__[field] for field in kind.__match_args__})
    made.__dict__.update(changed)
    return made


def expressions(node: Node | Part) -> tuple[Expr, ...]:
    """The expressions of one statement, without those of the statements inside."""
    found: list[Expr] = []
    for field in node.roles.operands:
        held: Operand = getattr(node, field)
        for operand in held if isinstance(held, tuple) else (held,):
            if isinstance(operand, Expr):
                found.append(operand)
            elif operand is not None:
                found += expressions(operand)
    return tuple(found)


def with_expressions(node: _Holder, change: Change) -> _Holder:
    """The statement with `change` applied to its own expressions, not to those of the statements inside."""
    changed: dict[str, Any] = {}
    for field in node.roles.operands:
        held: Operand = getattr(node, field)
        if held is None:
            continue
        if isinstance(held, tuple):
            parts = tuple([_changed(each, change) for each in held])
            if not all(map(is_, parts, held)):
                changed[field] = parts
        elif (new := _changed(held, change)) is not held:
            changed[field] = new
    return _replaced(node, changed) if changed else node


def _changed(held: Expr | Part | Store, change: Change) -> Expr | Part | Store:
    return change(held) if isinstance(held, Expr) else with_expressions(held, change)


def walk(node: Node) -> Iterator[Node]:
    """Every statement, in preorder."""
    waiting = [node]
    while waiting:
        yield (inner := waiting.pop())
        waiting += reversed(children(inner))


def of_kind(node: Node, kind: type[_Kind]) -> Iterator[_Kind]:
    """Every statement of a class, in preorder: only where there are some."""
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if kind in contents(inner):
            if isinstance(inner, kind):
                yield inner
            waiting += reversed(children(inner))


def collected_from_statements(own: Callable[[Node], AbstractSet[_Found]]) -> Callable[[Node], frozenset[_Found]]:
    """A decorator of functions of one statement: the union over those inside, too, each of which keeps its own."""
    mark = f"_{own.__module__}.{own.__qualname__}"

    @wraps(own)
    def collected(node: Node) -> frozenset[_Found]:
        kept: frozenset[_Found] | None = node.__dict__.get(mark)
        if kept is None:
            found = set(own(node))
            for child in children(node):
                inside = child.__dict__.get(mark)
                found |= of_child(child) if inside is None else inside
            kept = node.__dict__[mark] = frozenset(found)
        return kept

    of_child = deep_nest(collected)
    return collected


@collected_from_statements
def contents(node: Node) -> set[Any]:
    """The classes of a statement and those inside, of their tags, and the kinds of nodes in their expressions.

    `NONTEMPORAL` is among them if there is such a store: a pass goes only where something is to be done.
    """
    found: set[Any] = {type(node)}
    if isinstance(node, For):
        found.add(type(node.tag))
    if isinstance(node, Store) and node.nontemporal:
        found.add(NONTEMPORAL)
    return found.union(*map(traversal.kinds, expressions(node)))


def without_comments(node: Node) -> Node:
    """The statement without its comments."""
    return EMPTY if isinstance(node, Comment) else block([with_children(node, without_comments)])


def without_prefetches(node: Node) -> Node:
    """The statement without its prefetches: the few iterations of an epilogue or a partial tile have no use of them."""
    if isinstance(node, Prefetch):
        return EMPTY
    return block([with_children(node, without_prefetches)]) if Prefetch in contents(node) else node


def all_expressions(node: Node) -> Iterator[Expr]:
    """Every node of every expression in a statement and those inside."""
    for statement in walk(node):
        for expression in expressions(statement):
            yield from traversal.walk(expression)


def loads(node: Node) -> Iterator[Load]:
    """Every load in a statement and those inside."""
    for inner in walk(node):
        for expression in expressions(inner):
            yield from loads_in(expression)


@traversal.kept_on_node
def loads_in(e: Expr) -> tuple[Load, ...]:
    """Every load in an expression, those in its indices first."""
    found = traversal.walk(e) if Load in traversal.kinds(e) else ()
    return tuple([part for part in found if isinstance(part, Load)])


@traversal.collected_from_nodes
def buffers_in(e: Expr) -> frozenset[str]:
    """The buffers that an expression loads from."""
    return frozenset((e.buffer,)) if isinstance(e, Load) else _NONE


def read_buffers(node: Node) -> frozenset[str]:
    """The buffers that a statement and those inside load from, copy, send, or pass to kernels."""
    found: set[str] = set()
    for inner in walk(node):
        for field in inner.roles.reads:
            found.update(_listed(getattr(inner, field)))
        for expression in expressions(inner):
            found |= buffers_in(expression)
    return frozenset(found)


def is_read(node: Node, buffer: str) -> bool:
    """Whether a statement or one inside loads from a buffer, copies it, sends it, or passes it to a kernel."""
    for inner in naming(node, buffer):
        if any(buffer in _listed(getattr(inner, field)) for field in inner.roles.reads):
            return True
        for expression in expressions(inner):
            if buffer in buffers_in(expression):
                return True
    return False


def _listed(held: str | tuple[str, ...]) -> tuple[str, ...]:
    return (held,) if isinstance(held, str) else held


def defined(node: Node) -> str | None:
    """The variable that a statement defines for its body."""
    field = node.roles.defines
    return None if field is None else getattr(node, field)


def substitute(node: Node, values: Mapping[str, Expr]) -> Node:
    """The statement with variables replaced, except where an inner variable of the same name hides them."""
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
    return set(traversal.iterators(e))


@collected_from_statements
def names(node: Node) -> set[str]:
    """Every name of a variable or buffer in a statement and those inside."""
    found: set[str] = set()
    _collect_names(node, found)
    return found.union(*map(names_in, expressions(node)))


def naming(node: Node, name: str) -> Iterator[Node]:
    """Every statement in which a variable or buffer of this name is, outer ones too, in preorder."""
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if name in names(inner):
            yield inner
            waiting += reversed(children(inner))


@traversal.collected_from_nodes
def names_in(e: Expr) -> frozenset[str]:
    """Every name of a variable, size, scalar or buffer in an expression."""
    if isinstance(e, Iter | Param | Scalar):
        return frozenset((e.name,))
    return frozenset((e.buffer,)) if isinstance(e, Load) else _NONE


def used_names(node: Node, extents: Mapping[str, tuple[Expr, ...]]) -> set[str]:
    """The names that a statement uses, with those in the extents of arrays by which it finds elements."""
    found: set[str] = set()
    needed: list[Expr] = []
    for inner in walk(node):
        _collect_names(inner, found)
        store = inner.store if isinstance(inner, Deferred) else inner
        if isinstance(store, Store | Prefetch):
            needed += _factors(store.indices, extents.get(store.buffer, ()))
        elif isinstance(store, TreeReduce):
            needed += [e for buffer in store.buffers for e in _factors(store.indices, extents.get(buffer, ()))]
        elif isinstance(store, LoadTile | StoreTile | Mma | LoadMatrices):
            needed += extents.get(store.buffer, ())
        elif isinstance(store, ArrayCall):
            needed += [extent for buffer in store.arrays for extent in extents.get(buffer, ())]
        elif isinstance(store, For):
            own = (one.buffers for one in store.reductions if one.combine is Combine.PRIVATE)
            copied = (buffer for buffers in own for buffer in buffers)
            needed += [extent for buffer in copied for extent in extents.get(buffer, ())]
        for expression in expressions(inner):
            found |= names_in(expression)
            for load in loads_in(expression) if extents else ():
                needed += _factors(load.indices, extents.get(load.buffer, ()))
    return found | {e.name for extent in needed for e in traversal.walk(extent) if isinstance(e, Iter | Param)}


def _factors(indices: tuple[Expr, ...], extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The extents that are factors of an element's position: those of the dimensions after an index other than 0."""
    if len(extents) < 2:
        return ()
    zeros = next((k for k, index in enumerate(indices) if constant(index) != 0), len(extents))
    return extents[zeros + 1 :]


def _collect_names(node: Node | Part, found: set[str]) -> None:
    roles = node.roles
    for field in (*roles.names, *roles.reads, *(() if roles.defines is None else (roles.defines,))):
        found.update(_listed(getattr(node, field)))
    for field in roles.operands:
        held = getattr(node, field)
        if held is not None and not isinstance(held, Expr | tuple):
            _collect_names(held, found)


class Names:
    """The names that a function uses; `fresh` makes new ones."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self._tried: dict[str, int] = {}  # of each wanted name: all spellings before this one are taken

    def fresh(self, name: str, beside: AbstractSet[str] = frozenset()) -> str:
        """`name`, numbered if it is taken or in `beside`; the result is taken from now on."""
        if beside:
            free = fresh_name(name, self.taken | beside, counted)
        else:
            tried = self._tried.get(name, 0)
            while (free := counted(name, tried) if tried else name) in self.taken:
                tried += 1
            self._tried[name] = tried
        self.taken.add(free)
        return free

    def inside(self, node: Node) -> Names:
        """The names to use inside a statement: those made inside are forgotten where its C block ends."""
        return Names(self.taken) if isinstance(node, For | If) else self
