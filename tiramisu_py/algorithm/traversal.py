"""Walks over expressions: every traversal of the compiler is a short function on these two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter, Select

#: Expressions nest no deeper than this: every pass over them is recursive, and Python's stack ends.
MOST_DEEP = 120


def is_too_deep(expression: Expr) -> bool:
    """Whether an expression nests deeper than `MOST_DEEP`."""
    level: dict[int, Expr] = {id(expression): expression}
    for _ in range(MOST_DEEP):
        level = {id(child): child for parent in level.values() for child in parent.children()}
        if not level:
            return False
    return True


def walk(expression: Expr) -> Iterator[Expr]:
    """Every node, operands before the node that uses them."""
    for child in expression.children():
        yield from walk(child)
    yield expression


def branches(expression: Expr) -> bool:
    """Whether there is a choice in an expression: by a condition, or of the least or the largest."""
    return any(isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("min", "max")) for e in walk(expression))


def rewrite(expression: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The tree with `change` applied to each node, top down; where it answers None, the operands are rewritten."""
    changed = change(expression)
    if changed is not None:
        return changed
    children = expression.children()
    if not children:
        return expression
    rebuilt = tuple(rewrite(child, change) for child in children)
    if all(new is old for new, old in zip(rebuilt, children, strict=True)):
        return expression
    return expression.rebuilt(rebuilt)


def substitute(expression: Expr, values: Mapping[str, Expr]) -> Expr:
    """The tree with iterators replaced by expressions."""
    return rewrite(expression, lambda e: values.get(e.name, e) if isinstance(e, Iter) else None)


def accesses(expression: Expr) -> list[Access]:
    """All accesses, in order of evaluation."""
    return [node for node in walk(expression) if isinstance(node, Access)]


def mentions(expression: Expr, names: Collection[str]) -> bool:
    """Whether an iterator of one of these names occurs."""
    return any(isinstance(node, Iter) and node.name in names for node in walk(expression))
