"""Values that read other planes by remainders of a column: the columns of each remainder by themselves, in vectors.

::

    for c: S[c] from a[c % 2, c // 2]     -->     for blocks of c:
                                                      for x: S[2 x] from a[0, x]
                                                      for x: S[2 x + 1] from a[1, x]

The lanes of a vector along c would read several planes, and so places that are computed for each lane. In a phase all
reads are neighbours: pixels from cells of sensors, channels side by side, filters with a set of weights for each phase.
"""

from __future__ import annotations

from math import lcm
from typing import Any

from tiramisu_py import Function, Iter
from tiramisu_py.auto.model.offers import Fresh, Problem
from tiramisu_py.auto.model.strides import COMPUTED
from tiramisu_py.queries import Access, Binary, Const, LinearRead, linear, walk

#: The most phases: so many loops are unrolled, and results that are so far apart are stored lane by lane.
MOST = 4


def phases_of(problem: Problem, name: str, column: str) -> int:
    """The columns after which reads are of the same planes again; 1 if no index has a remainder of the column.

    1, too, where an index has a quotient or remainder that phases leave as it is, or that are more than `MOST`.
    """
    moduli, divisors = set[int](), set[int]()
    for read in problem.touches(name):
        for index in read.access.indices:
            nodes = list(walk(index))
            if any(isinstance(node, Access) and node.indices for node in nodes):
                continue  # a place that is a value stays one in a phase
            for node in nodes:
                if not isinstance(node, Binary) or node.op not in ("//", "%"):
                    continue
                form = linear(node.left)
                if Iter(column).key() not in form.terms:
                    continue
                if not isinstance(node.right, Const) or node.right.value < 1 or form.terms[Iter(column).key()][1] != 1:
                    return 1
                (moduli if node.op == "%" else divisors).add(int(node.right.value))
    period = lcm(*moduli, *divisors)
    return period if moduli and period <= MOST else 1


def computed_less(problem: Problem, name: str, column: str) -> float:
    """How much less the reads of a vector cost in a phase, where their elements are side by side."""
    computed = [read for read in problem.touches(name) if read.step(column) is None and _has_remainder(read, column)]
    return (COMPUTED - 1.0) * len(computed)


def _has_remainder(read: LinearRead, column: str) -> bool:
    nodes = (node for index in read.access.indices for node in walk(index))
    return any(
        isinstance(node, Binary) and node.op == "%" and Iter(column).key() in linear(node.left).terms for node in nodes
    )


def in_phases(function: Function, name: str, column: Iter, phases: int, lanes: int) -> None:
    """Make vectors along a column, of each phase by itself; one after another where there is one phase alone."""
    stage: Any = function[name]
    if phases > 1:
        fresh = Fresh(function)
        block, inside, phase = (fresh(f"{column.name}{each}") for each in ("_block", "_inside", "_phase"))
        along = fresh(f"{column.name}_along")
        stage.split(column, phases * lanes, block, inside)
        stage.split(inside, phases, along, phase)
        stage.reorder(block, phase, along)
        stage.unroll(phase)
        column = along
    stage.vectorize(column, lanes, remainder="mask")
