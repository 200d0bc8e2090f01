"""Reductions in a tree: the threads of a block add to one element, and nothing else touches it in their kernel.

``combine=tm.TREE`` keeps a partial result for each thread, combines those of a block pairwise, and adds the result to
the element, which must be the same for all threads of a block. The completion adds the statements for this; the
conditions of all reductions (`proof.reductions.reductions`) prove that each partial result is started, has its terms,
is combined once and merged after that. This module says why an update has no such statements, and proves that nothing
else in the kernel touches the element of a merge, whichever thread executes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence import kernel_order
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.kernels import KernelNest, all_threads, is_tree
from tiramisu_py.program.loops import GpuThread
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.kernels.threads import nests_by_statement, one_reduction, tagged, thread_words
from tiramisu_py.proof.memory.races import pair_spots, statements
from tiramisu_py.proof.memory.values import first_spot
from tiramisu_py.proof.violations.findings import Finding, Key, Spot, wanted, words


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every tree that has several targets, or whose target something else touches."""
    for nest in dict.fromkeys(nests_by_statement(flow).values()):
        for statement in nest.statements:
            key = Key("tree", (statement.name,))
            if wanted(key, sought):
                yield from (Finding.of(key, violation) for violation in _violations(flow, nest, statement))


def _violations(flow: Flow, nest: KernelNest, statement: Statement) -> Iterator[Violation]:
    if is_tree(nest.program, statement) and statement.target not in flow.accesses.partials:
        yield from _not_one_element(flow, nest, statement)
    if statement.role is Role.MERGE:
        yield from _accessed_by_others(flow, nest, statement)


def _not_one_element(flow: Flow, nest: KernelNest, statement: Statement) -> Iterator[Violation]:
    """Why an update cannot be combined as a tree."""
    write = flow.accesses.write(statement)
    if write is None:
        return
    clock = kernel_order.clock(nest.program, write)
    targets = clock.apply_range(clock.reverse()).intersect(kernel_order.same_block(nest, write, write))
    targets = targets.intersect(flow.same_rank(write, write))
    apart = targets.subtract(flow.same_place(write, write))
    if not apart.is_empty():
        witness, one, other = pair_spots(flow, write, write, apart)
        message = (
            "combine=tm.TREE combines what all threads of a block add to one element, but "
            f"{thread_words(nest, one)} and {thread_words(nest, other)} add to {words(one.element)} and "
            f"{words(other.element)}, {witness}"
        )
        repair = f"{tagged(nest, write)}, combine=tm.ATOMIC)"
        yield Violation("reduction", message, witness, repair=repair)
    elif element_of_block(nest, statement) is None:
        yield _several_elements(nest, write)
    elif not write.domain.is_empty():
        yield _not_collected(write)


def _accessed_by_others(flow: Flow, nest: KernelNest, merge: Statement) -> Iterator[Violation]:
    """Other accesses to the element into which blocks merge their partial results, while the kernel runs."""
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


def _does(merged: Spot, other: Spot) -> str:
    """What another access does: store or read the value that is merged, or another one in the same element."""
    does = "stores" if other.access.is_write else "reads"
    if other.named == merged.named:
        return f"{does} it"
    return f"{does} {words(other.named)} {'to' if other.access.is_write else 'in'} {words(other.element)}"


def element_of_block(nest: KernelNest, statement: Statement) -> tuple[int, isl.Map] | None:
    """The least depth of loops inside which all threads of a block update one element, and that element.

    The element is a function of the iterations of these loops. None if threads update different elements at a time.
    """
    program = nest.program
    storage = program.storages[statement.target]
    instances = statement.instances.intersect_params(program.context.params())
    scope = len(program.buffers[storage.buffer].scope) + (program.rank_axes if program.is_spread else 0)
    place = program.place(statement, storage, program.value_of(statement))
    element = sets.function(statement.frame, None, sets.outputs(place)[scope:])
    for depth in range(len(nest.host) + len(nest.blocks), len(statement.loops) + 1):
        shared = instances.apply(sets.graph(statement.prefix(depth)))
        relation = sets.graph(statement.prefix(depth), instances).reverse().apply_range(sets.graph(element))
        for position, loop in enumerate(statement.loops[:depth]):
            if isinstance(program.loops[loop].tag, GpuThread):
                all_of_them = all_threads(nest, shared, position, loop)
                relation = sets.freed_input(relation, position).intersect_domain(all_of_them)
        if relation.is_single_valued():
            return depth, relation.coalesce()
    return None


def _several_elements(nest: KernelNest, write: MemoryAccess) -> Violation:
    spot = first_spot(write, write.domain)
    statement = write.actor.statement
    assert statement is not None
    witness = Witness(spot.params, spot.named, spot.named, spot.element)
    message = (
        f"{statement.handle} is combined with combine=tm.TREE, but while one thread adds to {words(spot.element)}, "
        f"other threads of its block add to other elements, {witness}"
    )
    repair = f"use combine=tm.ATOMIC for {statement.handle}, or run the loops that tell the elements apart on blocks"
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
