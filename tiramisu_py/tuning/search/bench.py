"""The bench on which points are measured: arguments, expected values, and what has been measured on it before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tiramisu_py import Function, Kernel
from tiramisu_py.queries import ArrayArgument, Cache, bound_call, compiler_description, device_of, machine_description
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.search.database import Database, database_path
from tiramisu_py.tuning.search.reference import Reference
from tiramisu_py.tuning.search.stopwatch import Call, TimedCalls
from tiramisu_py.tuning.search.workload import Case, cases_for


@dataclass(frozen=True)
class MeasuringRequest:
    """The wishes of the user about measuring."""

    arguments: object
    sizes: object
    verify: object
    database: object
    seed: int
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Workbench:
    """Cases, and what a right kernel returns for them."""

    cases: Sequence[Case]
    reference: Reference

    def calls(self, kernel: Kernel, what: str) -> TimedCalls:
        """The calls of a kernel.

        The first call of each case is done here: its results are compared, and its arrays are used again, so that
        later calls find their pages in place; then the arguments are bound, so that a time is that of the function
        alone. Inputs that the kernel overwrites get their values back before each call. Raises `TuningError` for wrong
        values.
        """
        written = [one.name for one in kernel.function.arguments if isinstance(one, ArrayArgument) and one.is_output]
        calls: list[Call] = []
        before: list[Call] = []
        for number, case in enumerate(self.cases):
            overwritten = [name for name in written if isinstance(case.inputs.get(name), np.ndarray)]
            given = case.arguments(overwritten)
            results = kernel(**given)
            listed = results if isinstance(results, tuple) else (results,)
            self.reference.require_right(number, listed, what)
            kept = kernel.arguments.aliases
            own = {
                name: result
                for name, result in zip(case.algorithm.outputs, listed, strict=True)
                if kept.get(name, name) not in case.inputs
            }
            calls.append(bound_call(kernel, {**given, **own}))
            before.append(partial(_restore, given, case.inputs, overwritten))
        return TimedCalls(calls, before)


@dataclass(frozen=True)
class Bench(Workbench):
    """The cases of a search, what a right kernel returns for them, and the database."""

    database: Database


def bench_for(f: Function, request: MeasuringRequest, cache: Cache) -> Bench:
    """The bench for the schedules of an algorithm. Raises `ArgumentError`, `TuningError` or `ToolchainError`."""
    cases = cases_for(f.algorithm, request.arguments, request.sizes, request.seed)
    database = Database(
        database_path(request.database, cache.root),
        machine_description(device_of(f.program, request.options)),
        compiler_description(cache, request.options),
        [case.key for case in cases],
    )
    return Bench(cases, Reference(request.verify, cases, request.options), database)


def _restore(arrays: Mapping[str, Any], values: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        np.copyto(arrays[name], values[name])
