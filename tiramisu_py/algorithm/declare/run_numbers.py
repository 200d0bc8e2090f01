"""The numbers of runs: for each position the run that it is in, as values that are computed from where runs begin."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.declarations import Algorithm, Computation, Location, max_
from tiramisu_py.algorithm.declare.declare import declare_reduction
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, cast
from tiramisu_py.algorithm.types import int64


def known_numbers(algorithm: Algorithm, start: str) -> Computation | None:
    """The values that are the numbers of runs which an input begins, where they are declared."""
    return next((each for each in algorithm.computations.values() if each.run_of == start), None)


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
