"""Bundles: adjacent loops over a box that commands take as one loop, with several symbolic extents.

::

    for h in 0..N: for x in 0..M: for y in 0..K      -->      for j = (h, x, y): ...
        S[h, x, y]                                                S[h, x, y]

The number of an iteration, ``(h*M + x)*K + y``, is no affine form, so the loops stay as they are in the program, and
nothing there depends on the number. Where the iterations of a bundle run side by side, any two of them do, as those of
``parallelize(h, x, y)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.loops import Bundle, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def members(program: Program, statement: Statement, name: str) -> tuple[LoopId, ...]:
    """The loops of the statement's bundle of this name, outermost first; none if it has no such bundle."""
    return tuple(loop for loop in statement.loops if name in _names(program.loops[loop].bundle))


def _names(bundle: Bundle | None) -> tuple[str, ...]:
    return () if bundle is None else bundle.names


def bundles(program: Program) -> Iterator[tuple[Statement, tuple[LoopId, ...]]]:
    """Each bundle of the program once, with one of its statements."""
    seen: set[LoopId] = set()
    for statement in program.statements.values():
        for loop in statement.loops:
            bundle = program.loops[loop].bundle
            if bundle is not None and loop not in seen:
                run = members(program, statement, bundle.name)
                seen.update(run)
                yield statement, run


def iterations(program: Program, run: Sequence[LoopId]) -> isl.Set:
    """The iterations of adjacent loops, and of those around them, in which any statement runs."""
    found = list[isl.Set]()
    for statement in program.with_this_loop(run[0]):
        count = statement.depth(run[-1]) + 1
        own = sets.graph(statement.prefix(count), statement.instances).range()
        found.append(own.intersect_params(program.context.params()))
    united = sets.united(found)
    assert united is not None
    return united.coalesce()
