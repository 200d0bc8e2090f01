"""Loads that advance by one element in two lanes, of pictures that are enlarged: ``a[c // 2]``, ``a[(c + 1) // 2]``.

The even lanes are neighbours in memory, and so are the odd ones: two loads of half a vector, and a shuffle that takes
their lanes in turns. No element is loaded that no lane reads.
"""

from __future__ import annotations

from collections.abc import Callable

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.ir import Ramp
from tiramisu_py.ir.arithmetic.linear import LANE, along_lanes, linear, number


def alternating(index: Expr, uniform: Callable[[Expr], bool]) -> tuple[Expr, Expr] | None:
    """The indices of the first even and the first odd lane, if each is followed by neighbours; else None.

    Two lanes further, ``x // 2`` has grown by one, and ``x % 2`` is the same. `uniform` is whether all lanes are equal.
    """
    advance = 0
    for atom, factor in linear(index, lanes=True).terms.values():
        if atom is LANE:
            advance += 2 * factor
        elif uniform(atom):
            continue
        elif isinstance(atom, Binary) and atom.op in ("//", "%") and constant(atom.right) == 2:
            line = along_lanes(atom.left)
            if line is None or not uniform(line[0]) or not linear(atom.left, lanes=True).exact:
                return None
            advance += factor * line[1] if atom.op == "//" else 0
        else:
            return None
    return (_at_lane(index, 0), _at_lane(index, 1)) if advance == 1 else None


def _at_lane(index: Expr, lane: int) -> Expr:
    """The index in one lane."""

    def scalar(e: Expr) -> Expr | None:
        if not isinstance(e, Ramp):
            return None
        return e.base if lane == 0 else linear(e.base).plus(linear(number(lane))).expression()

    return rewrite(index, scalar)
