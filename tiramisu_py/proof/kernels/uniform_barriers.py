"""Barriers are under uniform control: if one thread of a block reaches a barrier, all do."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.violations.findings import Finding, fault


def faults(nest: KernelNest) -> Iterator[Finding]:
    """Barriers that some threads of a block reach and others do not."""
    for statement in nest.statements:
        if statement.role in (Role.BARRIER, Role.COMBINE):
            missing = _absent(nest, statement)
            if not missing.is_empty():
                loops = (loop for loop in nest.thread_loops(statement) if loop is not None)
                names = ", ".join(nest.program.loops[loop].name for loop in loops)
                what = statement.handle if statement.role is Role.COMBINE else f"the barrier {statement.name}"
                message = (
                    f"{what} is under divergent control: not every thread of a block comes to it "
                    f"(it is inside of thread loop {names})"
                )
                repair = "place it outside of thread loops, with at="
                yield fault("race", "divergent", statement, message, repair)


def _absent(nest: KernelNest, barrier: Statement) -> isl.Map:
    """``clock -> thread`` of the threads that do not reach a barrier when another thread of their block does.

    Of a combination, it is threads of the same tree: those of others have other values, or none.
    """
    loops = list(nest.thread_loops(barrier))
    if barrier.combination is not None:
        own = barrier.combination.threads
        loops = [loop if axis in own else None for axis, loop in enumerate(loops)]
    clocks = [aff for aff, loop in zip(sets.outputs(barrier.coords), barrier.loops, strict=True) if loop not in loops]
    instances = barrier.instances.intersect_params(nest.program.context.params())
    when = sets.graph(sets.function(barrier.frame, None, clocks), instances)
    used = [axis for axis, loop in enumerate(loops) if loop is not None]
    who = sets.graph(nest.numbers(barrier, [loops[axis] for axis in used]), instances)
    come = when.reverse().apply_range(who)
    everyone = sets.universe(who.get_space().range())
    for position, axis in enumerate(used):
        number = sets.variables(everyone.get_space())[position]
        everyone = everyone.intersect(sets.within(number, 0, nest.shape[axis]))
    return isl.Map.from_domain_and_range(when.range(), everyone).subtract(come)
