"""Readable names for the dimensions of a source: a computation's iterators, or the iterators that index an input."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.declarations import Algorithm, Input, value_names
from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import walk


def dimension_names(algorithm: Algorithm, source: str) -> tuple[str, ...]:
    """Names for the value indices of a source; an input's dimensions are named after the iterators that index them.

    A dimension that no iterator indexes, or whose iterator already names another dimension, is d0, d1, ...
    """
    declared = algorithm.source(source)
    names = value_names(declared)
    if not isinstance(declared, Input):
        return names
    found: dict[int, str] = {}
    for access in _accesses(algorithm, source):
        for number, index in enumerate(access.indices):
            name = _iterator(index)
            if name is not None and name not in found.values():
                found.setdefault(number, name)
    return tuple(found.get(number, name) for number, name in enumerate(names))


def _accesses(algorithm: Algorithm, source: str) -> Iterator[Access]:
    for computation in algorithm.computations.values():
        for expression in (computation.expr, *computation.guards):
            for node in walk(expression):
                if isinstance(node, Access) and node.source == source:
                    yield node


@deep
def _iterator(index: Expr) -> str | None:
    """The iterator of an index ``i`` or ``i + offset``; None for other indices."""
    if isinstance(index, Iter):
        return index.name
    if not isinstance(index, Binary) or index.op not in ("+", "-"):
        return None
    sides = (index.left, index.right) if index.op == "+" else (index.left,)
    found = [name for name in map(_iterator, sides) if name is not None]
    return found[0] if len(found) == 1 else None
