"""Passes over kernels that only make the text more readable."""

from __future__ import annotations

from tiramisu_py.ir import Node
from tiramisu_py.ir.arithmetic.common_values import named
from tiramisu_py.ir.arithmetic.remainders import with_remainders
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class WriteRemainders(NestPass):
    """Write remainders with ``%``.

    ::

        k - k // 2 * 2     -->   k % 2
    """

    def apply(self, what: Node, about: About) -> Node:
        return with_remainders(what)


@dataclass(frozen=True)
class NameValues(NestPass):
    """Name the values that a statement of a kernel computes more than once (common subexpressions).

    ::

        y[i] = floor(0.9*i) >= 0 ? x[int64(floor(0.9*i))] : 0     -->   part_0 = floor(0.9*i)
                                                                        y[i] = part_0 >= 0 ? x[int64(part_0)] : 0
    """

    def apply(self, what: Node, about: About) -> Node:
        return named(what, about.taken)
