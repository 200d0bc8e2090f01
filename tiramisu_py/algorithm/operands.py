"""The methods of a class of expressions that follow from the roles of its fields: operands, key, and rebuilding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tiramisu_py.algorithm.types import DType

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr


def facets_of(kind: str, own: Sequence[str]) -> Callable[[Expr], tuple[Any, ...]]:
    """What a key says of a node of a kind beside its operands: its own fields, types by their names."""

    def facets(self: Expr) -> tuple[Any, ...]:
        values = (getattr(self, name) for name in own)
        return (kind, *(value.name if isinstance(value, DType) else value for value in values))

    return facets


def children_of(operands: str) -> Callable[[Expr], tuple[Expr, ...]]:
    """The operands of a node, from its fields. Walks ask for them all the time: one or two are read without a loop."""
    names = operands.split()
    if operands.startswith("*"):
        several = operands.removeprefix("*")
        return lambda self: getattr(self, several)
    if len(names) == 1:
        (only,) = names
        return lambda self: (getattr(self, only),)
    if len(names) == 2:
        left, right = names
        return lambda self: (getattr(self, left), getattr(self, right))
    return lambda self: tuple([getattr(self, name) for name in names])


def rebuilt_of(
    cls: Callable[..., Expr], fields: Sequence[str], operands: str
) -> Callable[[Expr, tuple[Expr, ...]], Expr]:
    """A node with the fields of another, but for its operands.

    Raises `TypeError` where the operands do not stand next to each other among the fields.
    """
    names = operands.removeprefix("*").split()
    first = fields.index(names[0])
    if list(fields[first : first + len(names)]) != names:
        raise TypeError(f"the operands {operands} do not stand next to each other in {', '.join(fields)}")
    before, after, is_listed = fields[:first], fields[first + len(names) :], operands.startswith("*")

    def rebuilt(self: Expr, children: tuple[Expr, ...]) -> Expr:
        given = (children,) if is_listed else children
        return cls(*[getattr(self, name) for name in before], *given, *[getattr(self, name) for name in after])

    return rebuilt
