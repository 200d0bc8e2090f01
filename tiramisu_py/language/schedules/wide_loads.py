"""How many neighbouring elements a thread loads at once: by the place of each element of a block, and what divides it.

A place is ``columns * row + column``: the elements along an axis are neighbours if the column moves with it by one,
and the row does not. The first of several is aligned if their number divides everything else in the place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Param, Select
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.values.forms import linear_terms
from tiramisu_py.program.machine.asynchronous_copies import is_zero
from tiramisu_py.program.machine.gpu_target import CUDA


def load_of(value: ProgramValue) -> Access | None:
    """The element that a value is, or zero where its mask does not hold; None for what is computed."""
    body = value.expr
    if isinstance(body, Select) and is_zero(body.no):
        body = body.yes
    return body if isinstance(body, Access) and body.dtype == value.dtype and not value.over else None


def neighbours(run: KernelRun, value: ProgramValue, axis: Iter, extents: Sequence[int], threads: int) -> int:
    """The elements along the last axis of a block that a thread loads at once: 16 bytes, while each thread has some."""
    load, program = load_of(value), run.function.program
    array = None if load is None else program.algorithm.inputs.get(load.source)
    if load is None or array is None or not load.indices or array.strides is not None:
        return 1
    *rows, column = load.indices
    if _factor(column, axis) != 1 or any(_factor(row, axis) != 0 for row in rows):
        return 1
    steps = sets.steps_of_params(program.context)
    lanes = gcd(CUDA.widest // value.dtype.bytes, extents[-1], _divisor(column, steps, axis))
    if rows:
        lanes = gcd(lanes, _divisor(array.shape[-1], steps))
    while lanes > 1 and prod(extents) // lanes < threads:
        lanes //= 2
    return lanes


def _factor(index: Expr, axis: Iter) -> int | None:
    """By what an index moves with an axis; None if it is no sum of iterators and sizes."""
    terms, _ = linear_terms(index)
    if not all(isinstance(each, Iter | Param) for each, _ in terms):
        return None
    return sum(factor for each, factor in terms if isinstance(each, Iter) and each.name == axis.name)


def _divisor(form: Expr, steps: Mapping[str, tuple[int, int]], but: Iter | None = None) -> int:
    """A number that divides a form for all values of its iterators but one, which is left out; 0 for zero."""
    terms, found = linear_terms(form)
    for each, factor in terms:
        if but is not None and isinstance(each, Iter) and each.name == but.name:
            continue
        step, rest = steps.get(each.name, (1, 0)) if isinstance(each, Param) else (1, 0)
        found = gcd(found, factor * gcd(step, rest))
    return found
