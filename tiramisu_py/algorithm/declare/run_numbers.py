"""The numbers of runs: for each position the run that it is in, as values that are computed from where runs begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input, Location
from tiramisu_py.algorithm.declare.declare import declare_reduction
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, cast
from tiramisu_py.algorithm.operators import max_
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import ArgumentError


def known_numbers(algorithm: Algorithm, start: str) -> Input | Computation | None:
    """The numbers of runs which an input begins, where they are declared: given by the caller, or values."""
    declared: list[Input | Computation] = [*algorithm.inputs.values(), *algorithm.computations.values()]
    return next((each for each in declared if each.run_of == start), None)


def numbers_of_runs(algorithm: Algorithm, start: str, owner: object, location: Location | None) -> Computation:
    """``start_of[position]``: the last of the runs that begin at a position or before, and end after it."""
    declared = algorithm.inputs[start]
    assert declared.covers is not None
    position, run = Iter("position"), Iter("run")
    (extent,) = declared.shape
    begin, end = (access(start, declared.dtype, 1, index, owner) for index in (run, run + 1))
    made = declare_reduction(
        algorithm, f"{start}_of", {position: declared.covers}, {run: less_one(extent)}, max_,
        cast(declared.dtype, run), where=(begin <= position) & (position < end), values=(0, less_one(extent)),
        owner=owner, location=location,
    )  # fmt: skip
    return replace(made, run_of=start)


def less_one(e: Expr) -> Expr:
    """``e - 1``, without a sum where that was ``count + 1``."""
    if isinstance(e, Binary) and e.op == "+" and isinstance(e.right, Const) and e.right.value == 1:
        return e.left
    return cast(int64, e) - 1 if isinstance(e, Const) else e - 1


def verify_numbers(declared: Input, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Raise `ArgumentError`, naming the element, where an array does not have the runs of positions."""
    given, start = arrays[declared.name], arrays[declared.run_of]
    if (np.diff(start) < 0).any():
        return  # these are no runs, which is refused of where they begin
    rows = np.repeat(np.arange(start.size - 1), np.diff(start))
    if given.size != rows.size:
        raise ArgumentError(
            f"{declared.name} has {given.size} elements, and {declared.run_of} ends at {rows.size}: each position has "
            "one (a rank with a part of it cannot verify that: compile with verify_values=False to trust it)"
        )
    wrong = np.flatnonzero(given != rows)
    if wrong.size:
        at = int(wrong[0])
        raise ArgumentError(
            f"{declared.name}[{at}] = {given[at]}, but position {at} is in the run {rows[at]} of {declared.run_of}: "
            f"{declared.name} has the run of each position, np.repeat(np.arange(..), np.diff({declared.run_of}))"
        )
