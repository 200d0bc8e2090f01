"""The code of operations, as templates: launches, copies, messages, and waits."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.words.stages import ForeignFunction
from tiramisu_py.ir import Node
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import with_children, with_expressions
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.templates import Wanted, filled
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class LoweredOperation:
    """The code of every instance of an operation, as a template over `forms` (functions of the piece's instances)."""

    piece: DomainPiece
    forms: tuple[isl.PwAff, ...]
    template: Node
    buffers: frozenset[str] = frozenset()
    externs: tuple[ForeignFunction, ...] = ()

    def at(self, values: Sequence[Expr]) -> Node:
        """The code for these values of the forms."""
        return _filled(self.template, values)


def _filled(node: Node, values: Sequence[Expr]) -> Node:
    changed = with_expressions(node, lambda e: simplified(filled(e, values)))
    return with_children(changed, lambda child: _filled(child, values))


class Template:
    """Collects the forms of an operation."""

    def __init__(self) -> None:
        self.forms: list[isl.PwAff] = []

    def places(self, forms: Sequence[isl.PwAff]) -> tuple[Expr, ...]:
        """Placeholders for the values of some forms."""
        start = len(self.forms)
        self.forms += forms
        return tuple(Wanted(start + i, 0) for i in range(len(forms)))
