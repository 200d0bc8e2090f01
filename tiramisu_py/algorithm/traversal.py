"""Walks over expressions: every traversal of the compiler is a short function on these two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from operator import is_
from typing import Any, TypeVar

from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter, Select

_N = TypeVar("_N")
_R = TypeVar("_R")
_NONE: frozenset[Any] = frozenset()


def walk(expression: Expr) -> Iterator[Expr]:
    """Every node once, operands before the node that uses them.

    Trees share subtrees, ``e = e + e``: a node that occurs in several places is visited once.
    """
    seen: set[int] = set()
    waiting: list[tuple[Expr, bool]] = [(expression, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            if children := node.children():
                waiting.append((node, True))
                waiting += [(child, False) for child in reversed(children) if id(child) not in seen]
            else:
                yield node


def occurrences(expression: Expr) -> dict[int, int]:
    """How often each node, by its id, is an operand of others; the expression itself counts once."""
    found = {id(expression): 1}
    for node in walk(expression):
        for child in node.children():
            found[id(child)] = found.get(id(child), 0) + 1
    return found


def branches(expression: Expr) -> bool:
    """Whether an expression contains a choice: a select, a minimum or a maximum."""
    return not kinds(expression).isdisjoint((Select, "min", "max"))


def rewrite(expression: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The tree with `change` applied to each node, top down; if it returns None, the operands are rewritten.

    A node that occurs in several places is changed once, and the result is used in all of them.
    """
    if not expression.children():
        changed = change(expression)
        return expression if changed is None else changed
    done: dict[int, Expr] = {}
    waiting: list[tuple[Expr, bool]] = [(expression, False)]
    while waiting:
        node, ready = waiting.pop()
        if id(node) in done:
            continue
        if ready:
            children = node.children()
            rebuilt = tuple([done[id(child)] for child in children])
            kept = all(map(is_, rebuilt, children))
            done[id(node)] = node if kept else node.rebuilt(rebuilt)
            continue
        changed = change(node)
        if changed is None and (children := node.children()):
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(children)]
        else:
            done[id(node)] = node if changed is None else changed
    return done[id(expression)]


def substitute(expression: Expr, values: Mapping[str, Expr]) -> Expr:
    """The tree with iterators replaced by expressions; operands without any of them are kept whole."""
    if not mentions(expression, values):
        return expression

    def replaced(e: Expr) -> Expr | None:
        if not mentions(e, values):
            return e
        return values.get(e.name, e) if isinstance(e, Iter) else None

    return rewrite(expression, replaced)


def merged(expression: Expr) -> Expr:
    """The tree with equal subtrees made one object: walks visit each of them once from then on."""
    first: dict[object, Expr] = {}

    done: dict[int, Expr] = {}
    for node in walk(expression):
        children = node.children()
        rebuilt = tuple([done[id(child)] for child in children])
        known = first.setdefault(node.key(), node)
        if known is node and not all(map(is_, rebuilt, children)):
            known = first[node.key()] = node.rebuilt(rebuilt)
        done[id(node)] = known
    return done[id(expression)]


def kept_on_node(find: Callable[[_N], _R]) -> Callable[[_N], _R]:
    """A decorator of functions of a node that never changes, and which keeps what was found, beside its fields."""
    mark = f"_{find.__module__}.{find.__qualname__}"

    @wraps(find)
    def kept(node: _N) -> _R:
        if mark not in node.__dict__:
            node.__dict__[mark] = find(node)
        found: _R = node.__dict__[mark]
        return found

    return kept


def collected_from_nodes(own: Callable[[Expr], frozenset[_R]]) -> Callable[[Expr], frozenset[_R]]:
    """A decorator of functions of one node: the union over all nodes of an expression, each of which keeps its own."""
    mark = f"_{own.__module__}.{own.__qualname__}"

    @wraps(own)
    def collected(expression: Expr) -> frozenset[_R]:
        kept: frozenset[_R] | None = expression.__dict__.get(mark)
        return _collected(expression, mark, own) if kept is None else kept

    return collected


def accesses(expression: Expr) -> list[Access]:
    """All accesses, in order of evaluation."""
    return list(_accesses(expression))


@kept_on_node
def _accesses(expression: Expr) -> tuple[Access, ...]:
    return tuple(node for node in walk(expression) if isinstance(node, Access))


def mentions(expression: Expr, names: Collection[str]) -> bool:
    """Whether an iterator of one of these names occurs."""
    return not iterators(expression).isdisjoint(names)


@collected_from_nodes
def iterators(node: Expr) -> frozenset[str]:
    """The names of all iterators in an expression."""
    return frozenset((node.name,)) if isinstance(node, Iter) else _NONE


@collected_from_nodes
def kinds(node: Expr) -> frozenset[Any]:
    """The classes of all nodes, and the operators of the binary ones: what a pass looks for may not be there at all."""
    return frozenset((type(node), node.op)) if isinstance(node, Binary) else frozenset((type(node),))


def _collected(expression: Expr, mark: str, own: Callable[[Expr], frozenset[_R]]) -> frozenset[_R]:
    """The union of `own` over all nodes. Each expression inside keeps that of its nodes, under the name `mark`."""
    waiting = [] if mark in expression.__dict__ else [expression]
    while waiting:
        node = waiting[-1]
        children = node.children()
        missing = [child for child in children if mark not in child.__dict__]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        found = own(node)
        for child in children:
            inside = child.__dict__[mark]
            found = inside if found <= inside else found if inside <= found else found | inside
        node.__dict__[mark] = found
    kept: frozenset[_R] = expression.__dict__[mark]
    return kept
