"""The reach of a stencil: the offsets of a computation's accesses."""

from __future__ import annotations

from tiramisu_py import Iter
from tiramisu_py.queries import Statement, accesses, difference


def sources(statement: Statement) -> tuple[str, ...]:
    """The sources that a statement reads, in order of first mention."""
    return tuple(dict.fromkeys(access.source for access in accesses(statement.body)))


def offsets(statement: Statement, source: str, dimension: int, iterator: Iter) -> list[int] | None:
    """The distances ``index - iterator`` of a dimension, in order; None if an index has another form."""
    found = set()
    for access in accesses(statement.body):
        if access.source == source:
            indices = access.indices
            distance = difference(indices[dimension], iterator) if dimension < len(indices) else None
            if distance is None:
                return None
            found.add(distance)
    return sorted(found)
