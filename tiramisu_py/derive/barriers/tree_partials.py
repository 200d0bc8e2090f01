"""Reductions in a tree: each thread of a block collects its terms in a partial result, which the block combines.

::

    threads t: total[v] += x[t]        start:    every thread t: partial[t] = identity
                                                 threads t:      partial[t] += x[t]
                                  -->  combine:  every thread t: partial[t] = sum of partial over all threads
                                       end:      thread 0:       total[v] += partial[0]

Start and combination enclose one whole iteration of the outer loops at which all threads of a tree update one element
(`tree_place`): all of them reach the combination if one of them has a term. Threads that differ along other axes than
those of the tree have elements of their own. A result in a register goes to all threads: each executes the end. An
update without such a place is left as it is: the proof says why (`proof.reductions.trees`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, value_names
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.derive.barriers.rank_partials import one_after_another, partial_name
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.kernels import KernelNest, all_threads, is_tree, kernels, thread_number
from tiramisu_py.program.loops import GpuThread, Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Combination, MemoryUse, Role, Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage
from tiramisu_py.proof.reductions.trees import TreePlace, tree_place
from tiramisu_py.records import dataclass


def with_tree_reductions(program: Program) -> Program:
    """The program with the partial results of its trees; unchanged if there are none."""
    for nest in kernels(program):
        for statement in nest.statements:
            try:
                found = tree_place(nest, statement) if is_tree(program, statement) else None
                program = program if found is None else _Tree(nest, statement, found).added_to(program)
            except UnsupportedError:  # threads that cannot be numbered: the proof says why
                continue
    return with_trees_together(program)


class _Tree:
    """The partial results of one update."""

    def __init__(self, nest: KernelNest, update: Statement, place: TreePlace) -> None:
        self.nest = nest
        self.update = update
        self.place = place
        self.around = update.loops[: place.depth]
        self.source = cast(Computation, nest.program.algorithm.source(update.source))
        self.values = len(value_names(self.source))

    def added_to(self, program: Program) -> Program:
        """The program with these partial results: their start first, combination and end after everything else."""
        partial = partial_name(program, self.update.name)
        program = self._stored(program, partial)
        program, started, everyone = self._all_of_them(program)
        program, combined, _ = self._all_of_them(program)
        program, merged, one = self._one_of_them(program)
        assert self.source.op is not None
        combination, mine = (
            Combination(self.update.name, threads=self.place.axes, tree=True),
            {self.source.name: partial},
        )
        neutral = self.source.op.neutral(self.source.dtype)
        start = self._statement("start", Role.INIT, everyone, started, neutral, partial)
        met = self._statement("combine", Role.COMBINE, everyone, combined, self._loaded(), partial)
        end = self._statement("end", Role.MERGE, one, merged, self._loaded(), self.update.memory.target)
        start = replace(start, link=replace(start.link, combination=combination))
        met, end = (
            replace(s, memory=replace(s.memory, sources=mine), link=replace(s.link, combination=combination))
            for s in (met, end)
        )
        program = one_after_another(program, self.around, self.update, start, met, end)
        return program.with_statement(replace(self.update, memory=replace(self.update.memory, target=partial)))

    def _stored(self, program: Program, name: str) -> Program:
        """The program with one register per thread, in each iteration of the loops around."""
        dtype = program.buffers[program.storages[self.update.memory.target].buffer].dtype
        words = f"the thread's partial result of {self.source.name}"
        buffer = Buffer(name, (), dtype, Memory.REGISTER, scope=self.around, per_thread=True)
        space = sets.sized_frame(program.algorithm.param_space, None, len(self.around) + self.values)
        index = sets.function(space, None, [])
        return program.with_buffer(buffer).with_storage(Storage(name, self.source.name, name, index, words=words))

    def _updated(self) -> isl.Set:
        """``[loops around, kept threads inside, value]`` of what some thread updates.

        The coordinates of threads of a tree become those of all of them.
        """
        program, depth = self.nest.program, len(self.around)
        loops = self.nest.thread_loops(self.update)
        kept = self.nest.numbers(self.update, [loops[axis] for axis in self.place.inside])
        instances = self.update.instances.intersect_params(program.context)
        forms = sets.joined(self.update.prefix(depth), kept, program.value_of(self.update))
        found = instances.apply(sets.graph(forms))
        for position, loop in enumerate(self.around):
            if self._in_tree(loop):
                found = all_threads(self.nest, found, position, loop)
        return found.coalesce()

    def _in_tree(self, loop: LoopId) -> bool:
        tag = self.nest.program.loops[loop].tag
        return isinstance(tag, GpuThread) and tag.axis in self.place.axes

    def _all_of_them(self, program: Program) -> tuple[Program, tuple[LoopId, ...], isl.Set]:
        """Loops over all threads of trees, and ``[loops around, threads, value]`` of what they execute."""
        found, front = self._updated(), len(self.around) + len(self.place.inside)
        own = [tag.axis for loop in self.around if isinstance(tag := program.loops[loop].tag, GpuThread)]
        axes = [axis for axis in self.place.axes if axis not in own]
        box = sets.universe(sets.sized_frame(found.get_space(), None, len(axes)))
        for variable, axis in zip(sets.variables(box.get_space()), axes, strict=True):
            box = box.intersect(sets.within(variable, 0, self.nest.shape[axis]))
        pairs = sets.flat_product(found, box, None)
        forms = sets.variables(pairs.get_space())
        order = [*forms[:front], *forms[front + self.values :], *forms[front : front + self.values]]
        everyone = pairs.apply(sets.graph(sets.function(pairs.get_space(), None, order)))
        program, threads = _over_threads(program, (*self.place.inside, *axes))
        program, inner = self._over_values(program)
        return program, (*self.around, *threads, *inner), everyone

    def _one_of_them(self, program: Program) -> tuple[Program, tuple[LoopId, ...], isl.Set]:
        """Loops around, and ``[loops around, kept threads, value]`` of what the first thread of a tree executes."""
        found = self._updated()
        for position, loop in enumerate(self.around):
            if self._in_tree(loop):
                found = found.intersect(sets.within(thread_number(self.nest, found.get_space(), position, loop), 0, 1))
        program, threads = _over_threads(program, self.place.inside)
        program, inner = self._over_values(program)
        return program, (*self.around, *threads, *inner), found

    def _over_values(self, program: Program) -> tuple[Program, tuple[LoopId, ...]]:
        first = program.next_loop()
        loops = [Loop(first + k, name) for k, name in enumerate(value_names(self.source))]
        return program.with_loop(*loops), tuple(loop.id for loop in loops)

    def _loaded(self) -> Expr:
        return Access(self.source.name, tuple(map(Iter, value_names(self.source))), self.source.dtype)

    def _statement(
        self, what: str, role: Role, executed: isl.Set, loops: Sequence[LoopId], body: Expr, target: str
    ) -> Statement:
        name = f"@{what} {self.update.name}"
        instances = sets.named(executed, name)
        frame = instances.get_space()
        variables = sets.variables(frame)
        point = variables[len(variables) - self.values :]
        return Statement(
            name=name,
            source=self.source.name,
            role=role,
            dims=tuple(f"i{k}" for k in range(len(variables))),
            instances=instances,
            point=sets.function(frame, self.source.name, point),
            loops=tuple(loops),
            coords=sets.function(frame, None, variables),
            body=body,
            memory=MemoryUse(target=target),
        )


def _over_threads(program: Program, axes: Sequence[int]) -> tuple[Program, tuple[LoopId, ...]]:
    """New loops over threads, along these axes."""
    first = program.next_loop()
    loops = [Loop(first + k, f"thread{axis}", GpuThread(axis), added=True) for k, axis in enumerate(axes)]
    return program.with_loop(*loops), tuple(loop.id for loop in loops)


# -- independent trees meet at one barrier
#
# ::
#
#     total += ...;  combine, merge        -->    total += ...;  top = max(...)
#     top = max(...);  combine, merge             combine both;  merge both
#
# A combination and a merge touch the partial results of their own tree, and the result. So they may come later, past
# everything that does not touch the result: if nothing does up to the combination of the next tree over the same
# threads, the two are emitted as one, which needs the barriers of one tree.


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
    ends = {
        s.link.combination.of: s for s in nest.statements if s.link.combination is not None and s.role is Role.MERGE
    }
    mets = (s for s in nest.statements if s.link.combination is not None and s.role is Role.COMBINE)
    for met in sorted(mets, key=lambda s: positions[s.name]):
        assert met.link.combination is not None
        scope = nest.program.buffers[nest.program.storages[met.memory.target].buffer].scope
        found.setdefault(scope, []).append(Ends(met, ends[met.link.combination.of]))
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
    first = run[0].met.link.combination
    assert first is not None and tree.met.link.combination is not None
    results = {program.storages[one.end.memory.target].buffer for one in run}
    between = _between(program, nest, around, run[0], tree)
    others = [s for s in between if all(s not in (one.met, one.end) for one in run)]
    touched = {program.storages[name].buffer for s in others for name in _storages(program, s)}
    apart = any(s.role in (Role.BARRIER, Role.TICKET, Role.COMBINE) for s in others)
    same = first.threads == tree.met.link.combination.threads
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
    named = {*statement.loads, *([statement.memory.target] if statement.stores else [])}
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
