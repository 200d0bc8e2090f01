"""Walks over expressions: every traversal of the compiler is a short function on these two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from operator import is_
from typing import Any

from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter, Select

#: Where an expression keeps its accesses, the names of its iterators, and the kinds of its nodes.
_ACCESSES, _ITERATORS, _KINDS = "_accesses", "_iterators", "_kinds"
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


def accesses(expression: Expr) -> list[Access]:
    """All accesses, in order of evaluation. An expression keeps the list, since every command asks for it."""
    kept: tuple[Access, ...] | None = expression.__dict__.get(_ACCESSES)
    if kept is None:
        kept = tuple(node for node in walk(expression) if isinstance(node, Access))
        expression.__dict__[_ACCESSES] = kept
    return list(kept)


def mentions(expression: Expr, names: Collection[str]) -> bool:
    """Whether an iterator of one of these names occurs."""
    return not iterators(expression).isdisjoint(names)


def iterators(expression: Expr) -> frozenset[str]:
    """The names of all iterators. Each expression inside keeps its own, since passes ask again and again."""
    kept: frozenset[str] | None = expression.__dict__.get(_ITERATORS)
    return collected(expression, _ITERATORS, _iterator) if kept is None else kept


def _iterator(node: Expr) -> frozenset[str]:
    return frozenset((node.name,)) if isinstance(node, Iter) else _NONE


def kinds(expression: Expr) -> frozenset[Any]:
    """The classes of all nodes, and the operators of the binary ones: what a pass looks for may not be there at all."""
    kept: frozenset[Any] | None = expression.__dict__.get(_KINDS)
    return collected(expression, _KINDS, _kinds) if kept is None else kept


def _kinds(node: Expr) -> frozenset[Any]:
    return frozenset((type(node), node.op)) if isinstance(node, Binary) else frozenset((type(node),))


def collected(expression: Expr, mark: str, own: Callable[[Expr], frozenset[Any]]) -> frozenset[Any]:
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
    kept: frozenset[Any] = expression.__dict__[mark]
    return kept
