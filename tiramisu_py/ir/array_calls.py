"""Calls of C functions over whole arrays."""

from __future__ import annotations

from typing import ClassVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.words.stages import ExternStage
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class ArraySection:
    """The part of an array that a C function gets: a box of `extents` elements from index `first` on.

    `steps` are, for each dimension of the box, the steps of each index from one element to the next. In a `full` one
    every element has a value.
    """

    roles: ClassVar[Roles] = roles(operands="first extents", data="steps full")

    first: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    steps: tuple[tuple[int, ...], ...]
    full: bool = True


@dataclass(frozen=True, eq=False)
class ArrayCall:
    """Call a C function over whole arrays: with `scalars`, and for each array parameter one of `sections` of one of
    `arrays`, in the order of the parameters. `statement` names its origin.
    """

    roles: ClassVar[Roles] = roles(operands="scalars sections", reads="arrays", data="stage statement")

    stage: ExternStage
    scalars: tuple[Expr, ...]
    arrays: tuple[str, ...]
    sections: tuple[ArraySection, ...]
    statement: str
