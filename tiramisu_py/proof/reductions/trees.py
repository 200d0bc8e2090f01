"""Reductions in a tree: the threads of a block, along some of its axes, add to one element.

``combine=tm.TREE`` keeps a partial result for each thread, combines those of the threads that add to one element, and
adds the result to it. Threads that differ along the other axes have an element each. The completion adds the statements
for this; the conditions of all reductions (`proof.reductions.reductions`) prove that each partial result is started,
has its terms, is combined once and merged after that. This module says why an update has no such statements. Where
several threads or blocks merge into one element, it proves that nothing else in the kernel touches that; the conditions
on races suffice for an element with one merging thread, so that its kernel may go on with the result.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.dependence import kernel_order
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.kernels import KernelNest, all_threads, is_tree, meeting_threads
from tiramisu_py.program.loops import GpuThread
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.kernels.threads import nests_by_statement, one_reduction, tagged, thread_words
from tiramisu_py.proof.memory.races import pair_spots, statements
from tiramisu_py.proof.memory.values import first_spot
from tiramisu_py.proof.violations.findings import Finding, Key, Spot, wanted, words
from tiramisu_py.records import dataclass


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every tree that has several targets, or whose target something else touches."""
    for nest in dict.fromkeys(nests_by_statement(flow).values()):
        for statement in nest.statements:
            key = Key("tree", (statement.name,))
            if wanted(key, sought):
                yield from (Finding.of(key, violation) for violation in _violations(flow, nest, statement))


def _violations(flow: Flow, nest: KernelNest, statement: Statement) -> Iterator[Violation]:
    if is_tree(nest.program, statement) and statement.memory.target not in flow.accesses.partials:
        yield from _not_one_element(flow, nest, statement)
    if statement.role is Role.MERGE and meeting_threads(nest, statement):
        several = isinstance(flow.accesses.program.algorithm.source(statement.source).dtype, TupleType)
        yield from (_merged_at_once if several else _accessed_by_others)(flow, nest, statement)


def _not_one_element(flow: Flow, nest: KernelNest, statement: Statement) -> Iterator[Violation]:
    """Why an update cannot be combined as a tree."""
    write = flow.accesses.write(statement)
    if write is None:
        return
    clock = kernel_order.clock(nest.program, write)
    targets = clock.apply_range(clock.reverse()).intersect(kernel_order.same_block(nest, write, write))
    targets = targets.intersect(flow.same_rank(write, write)).intersect(_same_tree(nest, write))
    apart = targets.subtract(flow.same_place(write, write))
    if not apart.is_empty():
        witness, one, other = pair_spots(flow, write, write, apart)
        message = (
            "combine=tm.TREE combines what all threads of a block add to one element, but "
            f"{thread_words(nest, one)} and {thread_words(nest, other)} add to {words(one.element)} and "
            f"{words(other.element)}, {witness}"
        )
        repair = f"{tagged(nest, write)}, combine=tm.ATOMIC)"
        if isinstance(nest.program.algorithm.source(statement.source).dtype, TupleType):
            repair = f"take {statement.source} apart before its loops are tagged, {statement.handle}.rfactor(...)"
        yield Violation("reduction", message, witness, repair=repair)
    elif tree_place(nest, statement) is None:
        yield _several_elements(nest, write)
    elif not write.domain.is_empty():
        yield _not_collected(write)


def _accessed_by_others(flow: Flow, nest: KernelNest, merge: Statement) -> Iterator[Violation]:
    """Other accesses to the element into which blocks merge their partial results, while the kernel runs.

    For an element of one thread, the conditions on races are enough.
    """
    write = flow.accesses.write(merge)
    if write is None:
        return
    for other_access in _others(flow, nest, write):
        bad = _in_one_launch(flow, nest, write, other_access)
        if not bad.is_empty():
            witness, one, other = pair_spots(flow, write, other_access, bad)
            message = (
                f"{words(other.computed(flow.accesses.program))} {_does(one, other)} inside the kernel that combines "
                f"the partial results of {words(one.named)} in a tree, {witness}"
            )
            repair = f"move {statements(write, other_access)[1].handle} out of the kernel, or use combine=tm.ATOMIC"
            if other.named[0] != one.named[0]:
                repair = f"keep {one.named[0]} in a buffer of its own"
            yield Violation("reduction", message, witness, repair=repair)


def _merged_at_once(flow: Flow, nest: KernelNest, merge: Statement) -> Iterator[Violation]:
    """Blocks that merge what they have collected of several values into one element."""
    write, inside = flow.accesses.write(merge), {s.name for s in nest.statements}
    for other in flow.accesses.writers(write.home) if write is not None else ():
        if write is None or other.actor.name not in inside or not one_reduction(write, other):
            continue
        same = flow.same_place(write, other)
        apart = same.intersect(kernel_order.other_block(nest, write, other))
        who = "blocks" if not apart.is_empty() else "threads"
        apart = apart if who == "blocks" else same.intersect(kernel_order.other_thread(nest, write, other))
        if apart.is_empty():
            continue
        witness, one, _ = pair_spots(flow, write, other, apart)
        message = (
            f"several {who} merge what they collect into {words(one.element)}, which has several values: each is in an "
            f"array of its own, and no atomic update changes them together, {witness}"
        )
        repair = f"give the command that runs {_updating(flow, merge)} across=tm.TWO_PASS or across=tm.LAST_BLOCK"
        yield Violation("reduction", message, witness, repair=repair)
        return


def _updating(flow: Flow, merge: Statement) -> str:
    """The update whose partial results are merged, as the user writes it."""
    assert merge.link.combination is not None
    return flow.accesses.program.statements[merge.link.combination.of].handle


def _does(merged: Spot, other: Spot) -> str:
    """The work of another access: it stores or reads the value that is merged, or another one in the same element."""
    does = "stores" if other.access.is_write else "reads"
    if other.named == merged.named:
        return f"{does} it"
    return f"{does} {words(other.named)} {'to' if other.access.is_write else 'in'} {words(other.element)}"


@dataclass(frozen=True)
class TreePlace:
    """Where an update's partial results are combined: in each iteration of the outermost `depth` loops, over `axes`.

    `kept` are the axes of its other thread loops: threads that differ along these add to other elements. Those of
    `inside` have their loops further in.
    """

    depth: int
    axes: tuple[int, ...]
    kept: tuple[int, ...]
    inside: tuple[int, ...]


def tree_place(nest: KernelNest, statement: Statement) -> TreePlace | None:
    """Where the partial results of an update are combined, at the least depth; None if there is no such place.

    All threads along the axes update one element there: it is a function of the iterations of the loops outside, and of
    the numbers of the threads along the kept axes.
    """
    loops = nest.thread_loops(statement)
    axes, kept = tree_axes(nest, statement)
    frame = len(nest.program.frame(nest.program.storages[statement.memory.target]))
    for depth in range(max(frame, len(nest.host) + len(nest.blocks)), len(statement.loops) + 1):
        inside = tuple(axis for axis in kept if loops[axis] not in statement.loops[:depth])
        place = TreePlace(depth, axes, kept, inside)
        if _is_one_element(nest, statement, place):
            return place
    return None


def tree_axes(nest: KernelNest, statement: Statement) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes along which threads add to one element, and the other axes of an update's thread loops.

    Along an axis without a loop the first thread has all terms. If no two threads ever add to one element at a time,
    each thread is a tree of its own where an axis has one thread; else all axes are in the tree.
    """
    own = [axis for axis, loop in enumerate(nest.thread_loops(statement)) if loop is not None]
    alone = [axis for axis in own if nest.shape[axis] == 1]
    met = [axis for axis in own if _meet_along(nest, statement, axis)] or alone or own
    axes = tuple(a for a, extent in enumerate(nest.shape) if extent > 1 and (a in met or a not in own))
    return axes, tuple(axis for axis in own if axis not in met)


def _meet_along(nest: KernelNest, statement: Statement, axis: int) -> bool:
    """Whether threads that differ along one axis alone add to one element at a time."""
    forms = sets.outputs(statement.coords)
    own = nest.thread_loops(statement)[axis]
    times = [form for loop, form in zip(statement.loops, forms, strict=True) if loop != own]
    here = sets.joined(sets.function(statement.frame, None, times), _element(nest, statement))
    who = sets.function(statement.frame, None, [forms[statement.loops.index(own)] if own is not None else forms[0]])
    instances = statement.instances.intersect_params(nest.program.context.params())
    return not sets.graph(here, instances).reverse().apply_range(sets.graph(who, instances)).is_single_valued()


def _same_tree(nest: KernelNest, write: MemoryAccess) -> isl.Map:
    """``update -> update`` by threads of one tree."""
    statement = kernel_order.statement_of(write)
    loops = nest.thread_loops(statement)
    _, kept = tree_axes(nest, statement)
    numbers = nest.numbers(statement, [loops[axis] for axis in kept])
    where = sets.graph(sets.compose(write.instance, numbers), write.domain)
    return where.apply_range(where.reverse())


def _element(nest: KernelNest, statement: Statement) -> isl.MultiAff:
    """``instance -> place`` that an update adds to."""
    program = nest.program
    place = program.place(statement, program.storages[statement.memory.target], program.value_of(statement))
    return sets.renamed(place, None)


def _is_one_element(nest: KernelNest, statement: Statement, place: TreePlace) -> bool:
    """Whether all threads of a tree add to one element, and those of the first trees always have one."""
    program, depth = nest.program, place.depth
    instances = statement.instances.intersect_params(program.context.params())
    loops = nest.thread_loops(statement)
    outside = sets.joined(statement.prefix(depth), nest.numbers(statement, [loops[axis] for axis in place.inside]))
    relation = sets.graph(outside, instances).reverse().apply_range(sets.graph(_element(nest, statement)))
    for position, loop in enumerate(statement.loops[:depth]):
        tag = program.loops[loop].tag
        if isinstance(tag, GpuThread) and tag.axis in place.axes:
            everyone = all_threads(nest, relation.domain(), position, loop)
            relation = sets.freed_input(relation, position).intersect_domain(everyone)
    if not relation.is_single_valued():
        return False
    around = relation.domain()
    for position in range(depth, depth + len(place.inside)):  # the numbers of added loops count from 0
        first = sets.variables(around.get_space())[position]
        starts = around.intersect(sets.within(first, 0, 1))
        if not around.is_subset(sets.freed(starts, position)):
            return False
    return True


def _several_elements(nest: KernelNest, write: MemoryAccess) -> Violation:
    spot = first_spot(write, write.domain)
    statement = write.actor.statement
    assert statement is not None
    witness = Witness(spot.params, spot.named, spot.named, spot.element)
    message = (
        f"{statement.handle} is combined with combine=tm.TREE, but while one thread adds to {words(spot.element)}, "
        f"other threads of its block add to other elements, {witness}"
    )
    repair = "run the loops that tell the elements apart on blocks"
    if not isinstance(nest.program.algorithm.source(statement.source).dtype, TupleType):
        repair = f"use combine=tm.ATOMIC for {statement.handle}, or {repair}"
    return Violation("reduction", message, witness, repair=repair)


def _not_collected(write: MemoryAccess) -> Violation:
    spot, statement = first_spot(write, write.domain), write.actor.statement
    assert statement is not None
    witness = Witness(spot.params, spot.named, spot.named, spot.element)
    message = (
        f"{statement.handle} is combined with combine=tm.TREE, but its threads add to {words(spot.element)} itself: no "
        f"statement combines what they collect, {witness}"
    )
    return Violation("reduction", message, witness)


def _others(flow: Flow, nest: KernelNest, write: MemoryAccess) -> Iterator[MemoryAccess]:
    inside = {s.name for s in nest.statements}
    for access in (*flow.accesses.writers(write.home), *flow.accesses.readers(write.home)):
        if access.actor.name in inside and not one_reduction(access, write):
            yield access


def _in_one_launch(flow: Flow, nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    host = len(nest.host)
    return flow.same_place(a, b).intersect(a.prefix(host).apply_range(b.prefix(host).reverse()))
