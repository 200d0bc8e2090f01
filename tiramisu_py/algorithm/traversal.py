"""Walks over expressions: every traversal of the compiler is a short function on these two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter, Select

#: Where an expression keeps its accesses, and the names of its iterators.
_ACCESSES, _ITERATORS = "_accesses", "_iterators"
_NONE: frozenset[str] = frozenset()


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
    return any(isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("min", "max")) for e in walk(expression))


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
            rebuilt = tuple(done[id(child)] for child in children)
            kept = all(new is old for new, old in zip(rebuilt, children, strict=True))
            done[id(node)] = node if kept else node.rebuilt(rebuilt)
            continue
        changed = change(node)
        if changed is None and node.children():
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(node.children())]
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
    waiting = [] if kept is not None else [expression]
    while waiting:
        node = waiting[-1]
        children = node.children()
        missing = [child for child in children if _ITERATORS not in child.__dict__]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        found = [child.__dict__[_ITERATORS] for child in children]
        kept = _NONE.union(*found) if len(found) != 1 else found[0]
        kept = node.__dict__[_ITERATORS] = kept | {node.name} if isinstance(node, Iter) else kept
    assert kept is not None
    return kept
