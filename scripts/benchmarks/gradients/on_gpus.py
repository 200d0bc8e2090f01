"""Steps on a GPU: a thread for each value, a kernel for each step of time, blocks that add up what is a sum of much."""

from __future__ import annotations

from collections.abc import Collection

import tiramisu_py as tm
from tiramisu_py.queries import Declared, accesses, chosen_by_values

block, thread = tm.iters("block thread")


def places(c: Declared, of_terms: bool) -> list[tm.Iter]:
    """The loops whose iterations are apart: those over values, but not over time, nor those that terms choose."""
    recurrent = any(each.source == c.name for each in accesses(c.expr))
    left_out = {*c.iterators[:1]} if recurrent else chosen_by_values(c) if of_terms else {}
    return [tm.Iter(each) for each in c.iterators if each not in left_out]


def on_gpu(step: tm.Function, threads: int, sums: Collection[str] = ()) -> None:
    """Put each computation on blocks of threads, and the reductions in `sums` on blocks that share their terms.

    A time step is a kernel; rows of a matrix add to places atomically.
    """
    for name, c in step.algorithm.computations.items():
        if name in sums:
            continue
        handle = step[name]
        stages = [(handle.init, False), (handle.update, True)] if c.is_reduction else [(handle, False)]
        for stage, of_terms in stages:
            apart = places(c, of_terms)
            space = apart or [tm.Iter(c.over[0])]
            stage.split(space[-1], threads, block, thread)
            combine = None if apart else tm.ATOMIC
            stage.tag_gpu(blocks=[*space[:-1][-2:], block], threads=[thread], combine=combine)
    for name in sums:
        tm.recipes.reduction(step[name], on=tm.gpu())
    step.derive_transfers()
