"""The methods of a class of expressions that follow from the roles of its fields: operands, key, and rebuilding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr


def facets_of(kind: str, own: Sequence[str], types: Mapping[str, str]) -> Callable[[Expr], tuple[Any, ...]]:
    """What a key says of a node of a kind beside its operands: its own fields, scalar types by their names.

    `types` are the annotations of the fields.
    """
    values = [f"self.{name}.name" if types.get(name) == "DType" else f"self.{name}" for name in own]
    return _method(f"lambda self: ({', '.join([repr(kind), *values])},)", {})


def children_of(operands: str) -> Callable[[Expr], tuple[Expr, ...]]:
    """The operands of a node, from its fields."""
    if operands.startswith("*"):
        return _method(f"lambda self: self.{operands.removeprefix('*')}", {})
    return _method(f"lambda self: ({', '.join(f'self.{name}' for name in operands.split())},)", {})


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
    before, after = ([f"self.{name}" for name in part] for part in (fields[:first], fields[first + len(names) :]))
    given = "children" if operands.startswith("*") else "*children"
    return _method(f"lambda self, children: cls({', '.join([*before, given, *after])})", {"cls": cls})


def _method(text: str, names: dict[str, Any]) -> Callable[..., Any]:
    """A method from its text, which names fields: walks call it all the time, and a loop over names takes longer."""
    made: Callable[..., Any] = eval(text, names)
    return made
