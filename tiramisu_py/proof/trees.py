"""Reductions in a tree: the threads of a block add to one element, and nothing else touches it in their kernel.

``combine=tm.TREE`` keeps a private copy for each thread, combines those of a block pairwise, and adds the result to
the element: the element is then the same for all threads of a block, and holds no partial result before.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py.dependence import kernel_order
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.touch import Touch
from tiramisu_py.errors import Violation
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.findings import Finding, words
from tiramisu_py.proof.races import pair_spots, statements
from tiramisu_py.proof.threads import combine_of, nests_by_statement, one_reduction, tagged, thread_words


def findings(flow: Flow) -> Iterator[Finding]:
    """Every tree that has several targets, or whose target something else touches."""
    for nest in dict.fromkeys(nests_by_statement(flow).values()):
        yield from _trees(flow, nest)


def _trees(flow: Flow, nest: KernelNest) -> Iterator[Finding]:
    """Partial results that the threads of a block combine in a tree: one target a block, and nothing else there."""
    for statement in nest.statements:
        if statement.role is Role.UPDATE and _has_tree(nest, statement):
            yield from _tree(flow, nest, statement)


def _has_tree(nest: KernelNest, statement: Statement) -> bool:
    loops = (loop for loop in nest.thread_loops(statement) if loop is not None)
    return any(combine_of(nest.program, loop) is Combine.TREE for loop in loops)


def _tree(flow: Flow, nest: KernelNest, statement: Statement) -> Iterator[Finding]:
    write = flow.touches.write(statement)
    if write is None:
        return
    persists = partial(_still_no_tree, name=statement.name)
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
        yield Finding(Violation("reduction", message, witness, repair=repair), persists)
    for other_touch in _others(flow, nest, write):
        bad = _in_one_launch(flow, nest, write, other_touch)
        if not bad.is_empty():
            witness, one, other = pair_spots(flow, write, other_touch, bad)
            does = "stores" if other_touch.is_write else "reads"
            message = (
                f"{words(other.computed(flow.touches.program))} {does} {words(one.named)} inside the kernel that "
                f"combines its partial results in a tree, {witness}"
            )
            repair = f"move {statements(write, other_touch)[1].handle} out of the kernel, or use combine=tm.ATOMIC"
            yield Finding(Violation("reduction", message, witness, repair=repair), persists)


def _others(flow: Flow, nest: KernelNest, write: Touch) -> Iterator[Touch]:
    inside = {s.name for s in nest.statements}
    for touch in (*flow.touches.writers(write.home), *flow.touches.readers(write.home)):
        if touch.actor.name in inside and not one_reduction(touch, write):
            yield touch


def _in_one_launch(flow: Flow, nest: KernelNest, a: Touch, b: Touch) -> isl.Map:
    host = len(nest.host)
    return flow.same_place(a, b).intersect(a.prefix(host).apply_range(b.prefix(host).reverse()))


def _still_no_tree(flow: Flow, name: str) -> bool:
    nest = nests_by_statement(flow).get(name)
    statement = flow.touches.program.statements.get(name)
    if nest is None or statement is None or not _has_tree(nest, statement):
        return False
    return any(_tree(flow, nest, statement))
