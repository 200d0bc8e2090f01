"""The base of visitors: a traversal with one method for each class of nodes, of expressions and of statements alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class Visitor(Generic[_Result]):
    """A traversal that has a method ``visit_<name of the class, in small letters>`` for each class of nodes.

    A subclass knows more classes, or treats some otherwise. What a method is given beside the node is the visitor's own
    affair.
    """

    def method_for(self, node: object) -> Callable[..., _Result]:
        """The method for a node's class; raises what `unknown` makes where there is none."""
        found: Callable[..., _Result] | None = getattr(self, f"visit_{type(node).__name__.lower()}", None)
        if found is None:
            raise self.unknown(node)
        return found

    def unknown(self, node: object) -> Exception:
        """The exception for a node whose class the visitor does not know."""
        return NotImplementedError(f"{type(self).__name__} does not know the node {type(node).__name__}")
