"""Steps that work on a matrix again and again: blocks of its columns outside, each for all steps at once.

::

    for k:                                         for each block of j:
        for i, j: a[k, i, j]                           for k, as far as the block needs it:
        for i: q[i, k] of column k of a       -->          for i, j in the block: a[k, i, j]
        for i, j: r[k, j] += q[i, k] * a[k, i, j]          for i: q[i, k], if k is in the block
                                                           for i, j in the block: r[k, j] += ...

A block stays in the cache, in an array of its own, while all steps work on it. Each statement belongs to the block of
one of its loops: that of a column, or the step itself. Blocks may be outside if nothing depends on a later block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tiramisu_py import Expr, Function, Iter
from tiramisu_py.auto.groups.kept_levels import KeptLevels, folds_of
from tiramisu_py.auto.groups.nests import members_of
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.queries import (
    LoopDependence,
    LoopDependences,
    Role,
    Statement,
    accesses,
    is_read_at_loop,
    loop_forms,
    loop_iterators,
    statement_handle,
)
from tiramisu_py.records import dataclass

#: The vectors in a row of a block.
VECTORS = 4
#: The most statements of a group, for each of which a loop is searched.
MOST = 12
#: The share of values that come from memory: those of a block are there for all steps.
MOVED = 0.1


@dataclass(frozen=True)
class ColumnBlocks:
    """The depth of the loop that says to which block an execution belongs, by statement; what is kept in a block."""

    depths: Mapping[Statement, int]
    ordered: tuple[Statement, ...]
    kept: tuple[str, ...]


def blocked(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a group that shares the loop over steps alone, and has values of which a block is enough."""
    names = members_of(problem, name)
    found = _blocks(problem, names)
    if found is None:
        return
    folds = [each for each in folds_of(problem, names) if each.source in found.kept and not each.beside]
    if any(problem.has_first_storage(each) for each in {*found.kept} - {each.source for each in folds}):
        return  # a block would have an element for each step
    last = found.kept[0]
    lanes = problem.lanes(last)
    column = problem.computation(last).iterators[-1]
    yield Offer(
        name, f"blocks of {VECTORS * lanes} {column} outside of all steps, with {', '.join(found.kept)} of a block",
        "a block is in the cache while all steps work on it, and depends on earlier blocks alone",
        lambda function: _apply(function, found, folds, lanes), names,
        problem.work(last, column, lanes, moved=MOVED).by_one_of(problem.threads), is_tiled=True,
    )  # fmt: skip


def _blocks(problem: Problem, names: Sequence[str]) -> ColumnBlocks | None:
    """The blocks of a group in which all values of more than two loops need a block alone."""
    program = problem.function.program
    statements = tuple(each for source in names for each in program.statements_of(source))
    if not 2 <= len(statements) <= MOST or len({each.loops[:1] for each in statements}) != 1:
        return None
    if any(each.role not in (Role.VALUE, Role.INIT, Role.UPDATE) or not each.loops for each in statements):
        return None
    values = [each for each in statements if each.role is Role.VALUE and len(each.loops) > 2]
    if not any(problem.is_recurrent(each.source) for each in values):
        return None
    dependences = LoopDependences(program, statements)
    for depths in _assigned(statements, dependences.all, {}):
        kept = tuple(each.source for each in values if depths[each] and _is_local(problem, each, statements, depths))
        ordered = tuple(sorted(statements, key=lambda each: program.positions[each.name]))
        if len(kept) == len(values) and all(_last_is_free(each, depths[each], dependences) for each in statements):
            return ColumnBlocks(depths, ordered, kept)
        return None
    return None


def _assigned(
    left: Sequence[Statement], dependences: Sequence[LoopDependence], chosen: dict[Statement, int]
) -> Iterator[dict[Statement, int]]:
    """The ways to choose a loop of each statement so that what an execution needs belongs to no later block."""
    if not left:
        yield dict(chosen)
        return
    statement = left[0]
    inner = [] if statement.role is Role.INIT and len(statement.loops) < 2 else range(len(statement.loops) - 1, 0, -1)
    for depth in (*inner, 0):
        trial = {**chosen, statement: depth}
        mine = [each for each in dependences if statement in (each.first, each.second)]
        if all(
            each.is_not_before(trial[each.first], trial[each.second])
            for each in mine
            if each.first in trial and each.second in trial
        ):
            yield from _assigned(left[1:], dependences, trial)


def _last_is_free(statement: Statement, depth: int, dependences: LoopDependences) -> bool:
    """Whether the columns of a block may be the lanes of a vector."""
    return depth == 0 or statement.loops[depth] not in dependences.carrying


def _is_local(
    problem: Problem, writer: Statement, statements: Sequence[Statement], depths: Mapping[Statement, int]
) -> bool:
    """Whether all reads of a value are in the block in which it is computed, and it is large and no result."""
    name = writer.source
    inside = {each.source for each in statements}
    if name in problem.algorithm.outputs or not set(problem.readers[name]) <= inside:
        return False
    declared = problem.computation(name)
    column = loop_iterators(writer, declared.point_iterators)[depths[writer]]
    if column is None or column != declared.iterators[-1]:
        return False
    axis = declared.iterators.index(column)
    return all(
        is_read_at_loop(each, read, axis, depths[each])
        for each in statements for read in accesses(each.body) if read.source == name
    )  # fmt: skip


def _apply(function: Function, blocks: ColumnBlocks, folds: Sequence[KeptLevels], lanes: int) -> None:
    for fold in folds:
        fold.apply(function)
    fresh = Fresh(function)
    width = VECTORS * lanes
    block, step, column = fresh("block"), fresh("step"), fresh("column")
    inner = [fresh(f"inner{each}") for each in range(max(len(each.loops) for each in blocks.ordered))]
    columned = []
    for each in blocks.ordered:
        forms, depth = loop_forms(each), blocks.depths[each]
        others = [form for position, form in enumerate(forms) if position not in (0, depth)]
        loops: dict[Iter, Expr] = {block: forms[depth] // width, step: forms[0]}
        loops |= dict(zip(inner, others, strict=False))
        loops |= {column: forms[depth] % width} if depth else {}
        statement_handle(function, each).set_schedule(loops)
        columned += [each] if depth else []
    handles = [statement_handle(function, each) for each in blocks.ordered]
    function.order(*handles, at=step)
    for name in blocks.kept:
        function[name].store_at(handles[-1], block)
    for each in columned:
        statement_handle(function, each).vectorize(column, lanes, remainder="mask")
