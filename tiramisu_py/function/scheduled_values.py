"""The outputs of a function with terms combined in the order of its schedule: the oracle of bits.

The loops that are emitted are run by the interpreter. Where grades promise that bits follow from the schedule, no order
that the interpreter picks changes them; loops over private copies are dealt out to a number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiramisu_py import interpret, ir
from tiramisu_py.algorithm.domains.extents_from_arguments import shape_value
from tiramisu_py.algorithm.evaluate.given_values import GivenValues
from tiramisu_py.algorithm.operators import Determinism
from tiramisu_py.errors import ArgumentError
from tiramisu_py.proof import Report
from tiramisu_py.proof.reductions.grades import tensorized


def in_scheduled_order(report: Report, run_loops: Callable[[], list[Any]]) -> Any:
    """The outputs of a proven function, as a kernel returns them, from a run of its loops; raises `ArgumentError`."""
    free = [name for name, grade in report.determinism.items() if grade is Determinism.NOT_GUARANTEED]
    if free:
        raise ArgumentError(
            f"as_scheduled=True: no order in which the terms of {free[0]} are combined follows from the schedule, "
            f"which is {Determinism.NOT_GUARANTEED}; {report.bits}"
        )
    program = report.program
    for name in report.determinism:
        instruction = None if program is None else tensorized(program, name)
        if instruction is not None and report.determinism[name] is not Determinism.ORDERED:
            raise ArgumentError(
                f"as_scheduled=True: {instruction.name} adds the terms of {name} in its own way, "
                f"{instruction.given_up}; leave tensorize out to compare bits"
            )
    try:
        results = run_loops()
    except interpret.InterpretError as error:
        raise ArgumentError(f"as_scheduled=True: {error}") from None
    return results[0] if len(results) == 1 else tuple(results)


def checked_threads(threads: object) -> int:
    """A number of threads; raises `ArgumentError` for anything else."""
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ArgumentError(f"threads={threads!r}: give the number of threads, 1 at least")
    return threads


def interpreted(function: ir.LoopFunction, given: GivenValues, threads: int | None = None) -> list[Any]:
    """The arrays of the outputs after the interpreter has run a function; raises `InterpretError`.

    With a number of `threads` terms are combined as these combine them, and loops run in steps over arrays where the
    bits are the same; otherwise in any order, one iteration after another.
    """
    arrays = {one.name: _passed(one, given) for one in function.arguments}
    array_steps = None if threads is None else interpret.ArraySteps()
    interpret.run(function, arrays, given.params, threads=threads, array_steps=array_steps)
    return [arrays[name] for name in function.outputs]


def _passed(argument: Any, given: GivenValues) -> Any:
    """A scalar, or a copy of the caller's array; zeros for an output that is not passed."""
    name = argument.name
    if not isinstance(argument, ir.ArrayArgument):
        return given.inputs[name]
    if name in given.inputs or name in given.initial:
        return np.array(given.inputs.get(name, given.initial.get(name)), order="C")
    return np.zeros(shape_value(argument.passed_extents, given.params), argument.dtype.numpy)
