"""The methods of a class of expressions that follow from the roles of its fields: operands, key, and rebuilding."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr

#: Where a node keeps its key.
_KEY = "_key"


def facets_of(kind: str, own: Sequence[str], types: Mapping[str, str]) -> Callable[[Expr], tuple[Any, ...]]:
    """The part of a key that a kind of node has beside its operands: its own fields, scalar types by their names.

    `types` are the annotations of the fields.
    """
    values = [f"self.{name}.name" if types.get(name) == "DType" else f"self.{name}" for name in own]
    return _method(f"lambda self: ({', '.join([repr(kind), *values])},)", {})


def key_of(expression: Expr) -> tuple[Any, ...]:
    """A hashable value that is equal exactly for expressions that are the same tree.

    It holds a digest of each operand that is not a leaf, so it is short. A node keeps its key.
    """
    waiting = [expression]
    while waiting:
        node = waiting[-1]
        missing = [child for child in node.children() if _KEY not in child.__dict__]
        if missing and _KEY not in node.__dict__:
            waiting += missing
            continue
        waiting.pop()
        if _KEY not in node.__dict__:
            node.__dict__[_KEY] = (*node.facets(), *map(_operand_key, node.children()))
    kept: tuple[Any, ...] = expression.__dict__[_KEY]
    return kept


def _operand_key(e: Expr) -> tuple[Any, ...] | bytes:
    """The key of a leaf, or a digest of the key: no two trees that differ have the same."""
    key: tuple[Any, ...] = e.__dict__[_KEY]
    return hashlib.blake2b(repr(key).encode(), digest_size=16).digest() if e.children() else key


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
