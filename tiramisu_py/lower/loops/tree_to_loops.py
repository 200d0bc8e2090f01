"""isl's tree of loops as loop IR: the one place that knows the form of isl's loops and conditions.

::

    for (@0 = first; condition; @0 += step) body   -->   for v in first .. upper step: body
    for of a single iteration                      -->   let v = first: body
    if (condition) then else otherwise             -->   if condition: then else: otherwise

A subclass defines the code of the leaves, and how translated parts are combined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import islpy as isl

from tiramisu_py.algorithm.domains.from_isl import from_ast
from tiramisu_py.algorithm.expressions import Binary, Expr
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.loops.isl_ast import GuardNode, LeafNode, LoopNode, SequenceNode, Tree

_Code = TypeVar("_Code")


class TreeToLoops(ABC, Generic[_Code]):
    """A translation of isl's trees to code, from the leaves upwards."""

    @deep
    def translated(self, tree: Tree) -> _Code:
        """The code of a tree."""
        match tree:
            case SequenceNode():
                return self.sequence([self.translated(child) for child in tree.children])
            case LeafNode():
                return self.leaf(tree.position)
            case GuardNode():
                then = self.translated(tree.then)
                return self.guard(tree, then, None if tree.otherwise is None else self.translated(tree.otherwise))
            case LoopNode():
                return self.loop(tree, self.translated(tree.body))

    @abstractmethod
    def leaf(self, position: int) -> _Code:
        """The code of the leaf with this number."""

    @abstractmethod
    def sequence(self, parts: Sequence[_Code]) -> _Code:
        """Parts one after another."""

    @abstractmethod
    def guard(self, tree: GuardNode, then: _Code, otherwise: _Code | None) -> _Code:
        """The code of a condition with its two branches."""

    @abstractmethod
    def loop(self, tree: LoopNode, body: _Code) -> _Code:
        """The code of a loop with a translated body."""


def value(e: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """An expression of isl's, with the values of its iterators and parameters."""
    return simplified(from_ast(e, names))


def upper_bound(tree: LoopNode, names: Mapping[str, Expr]) -> Expr:
    """The exclusive upper bound of a loop. Raises `CompilerDefect` if isl's loop condition is no bound."""
    condition = value(tree.condition, names)
    if not isinstance(condition, Binary) or condition.op not in ("<", "<="):
        raise CompilerDefect(f"isl's AST has a loop condition of an unknown form: {condition}")
    return condition.right if condition.op == "<" else arithmetic.plus(condition.right, 1)
