"""Independent trees meet at one barrier: their combinations follow each other, after the terms of all of them.

::

    total += ...;  combine, merge        -->    total += ...;  top = max(...)
    top = max(...);  combine, merge             combine both;  merge both

A combination and a merge touch the partial results of their own tree, and the result. So they may come later, past
everything that does not touch the result: if nothing does up to the combination of the next tree over the same threads,
the two are emitted as one, which needs the barriers of one tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Ends:
    """The combination and the merge of a tree."""

    met: Statement
    end: Statement


def with_trees_together(program: Program) -> Program:
    """The program in which trees of a kernel are combined together where nothing orders them."""
    for nest in kernels(program):
        for around, found in _trees(nest).items():
            for run in _runs(program, nest, around, found):
                program = _together(program, nest, around, run)
    return program


def _trees(nest: KernelNest) -> dict[tuple[LoopId, ...], list[Ends]]:
    """The trees of a kernel by the loops around them, in their order."""
    positions, found = nest.program.positions, dict[tuple[LoopId, ...], list[Ends]]()
    ends = {s.combination.of: s for s in nest.statements if s.combination is not None and s.role is Role.MERGE}
    mets = (s for s in nest.statements if s.combination is not None and s.role is Role.COMBINE)
    for met in sorted(mets, key=lambda s: positions[s.name]):
        assert met.combination is not None
        scope = nest.program.buffers[nest.program.storages[met.target].buffer].scope
        found.setdefault(scope, []).append(Ends(met, ends[met.combination.of]))
    return found


def _runs(
    program: Program, nest: KernelNest, around: tuple[LoopId, ...], found: Sequence[Ends]
) -> Iterator[list[Ends]]:
    """The trees in runs of those that can be combined together."""
    run: list[Ends] = []
    for tree in found:
        if run and _may_follow(program, nest, around, run, tree):
            run.append(tree)
            continue
        if len(run) > 1:
            yield run
        run = [tree]
    if len(run) > 1:
        yield run


def _may_follow(
    program: Program, nest: KernelNest, around: tuple[LoopId, ...], run: Sequence[Ends], tree: Ends
) -> bool:
    """Whether nothing up to a tree's combination touches the results of those before, or meets at a barrier."""
    first = run[0].met.combination
    assert first is not None and tree.met.combination is not None
    results = {program.storages[one.end.target].buffer for one in run}
    between = _between(program, nest, around, run[0], tree)
    others = [s for s in between if all(s not in (one.met, one.end) for one in run)]
    touched = {program.storages[name].buffer for s in others for name in _storages(program, s)}
    apart = any(s.role in (Role.BARRIER, Role.TICKET, Role.COMBINE) for s in others)
    same = first.threads == tree.met.combination.threads
    return same and not apart and not touched & results


def _between(
    program: Program, nest: KernelNest, around: tuple[LoopId, ...], first: Ends, last: Ends
) -> list[Statement]:
    """The statements of the loops around from the combination of one tree up to that of another."""
    depth, positions = len(around), program.positions
    low, high = (positions[one.met.name][depth] for one in (first, last))
    inside = (s for s in nest.statements if s.loops[:depth] == around)
    return [s for s in inside if low <= positions[s.name][depth] < high]


def _storages(program: Program, statement: Statement) -> set[str]:
    """The storages that a statement touches; scalars have none."""
    named = {*statement.loads, *([statement.target] if statement.stores else [])}
    return named & set(program.storages)


def _together(program: Program, nest: KernelNest, around: tuple[LoopId, ...], run: Sequence[Ends]) -> Program:
    """The program in which the combinations of a run, and then its merges, come after all that is between."""
    ends = {name for one in run for name in (one.met.name, one.end.name)}
    others = [s.name for s in _between(program, nest, around, run[0], run[-1]) if s.name not in ends]
    moved = {*others, *ends}
    level = around[-1]
    kept = [order for order in program.orders if order.before not in ends or order.after not in moved]
    last = [*(one.met.name for one in run), *(one.end.name for one in run)]
    added = [Order(name, last[0], level) for name in others]
    added += [Order(one, other, level) for one, other in pairwise(last)]
    return program.with_(orders=(*kept, *added))
