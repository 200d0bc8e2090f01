"""The adjoints of what calls of C functions over whole arrays read: calls, too, that the user gives.

c = gemm(a, b), with adjoint=lambda a, b, c, d_c: {"a": gemm_nt(d_c, b), "b": gemm_tn(a, d_c)}
    -->   d_a_from_c[i, k] = gemm_nt(d_c, b), d_b_from_c[k, j] = gemm_tn(a, d_c)

Each is a stage over the part of an array that a call reads, with the iterators of that part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, StagePart
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.algorithm.traversal import iterators
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.read_adjoints import Source, depends
from tiramisu_py.rewriting.reading_instances import Instances
from tiramisu_py.rewriting.sketches import FreshNames, Sketch, read


@dataclass(frozen=True, eq=False)
class PartAdjoint:
    """The terms that a call adds to the adjoint of a part: the values of `sketch`, an instance for each."""

    access: Access
    sketch: Sketch

    @property
    def instances(self) -> Instances:
        """The elements of the part, for each call."""
        return Instances(self.sketch.iterators, self.sketch.domain, ())


def part_adjoints(
    algorithm: Algorithm, c: Computation, weight: Expr, active: Callable[[Source], bool], names: FreshNames
) -> Iterator[PartAdjoint]:
    """The adjoints of the parts of active arrays that a stage reads; `weight` is the adjoint of its values."""
    call, stage = c.expr, c.stage
    assert isinstance(call, StageCall) and stage is not None
    _check_scalars(c, call, active)
    result = read(algorithm, c.name, map(Iter, c.iterators), c.dtype)
    given = _given(c, call, result, weight)
    for (name, _, access), part in zip(call.arrays, stage.parts, strict=True):
        if not active((access.source, None)):
            continue
        if name not in given:
            raise DeclarationError(
                f"adjoint= of the external function {call.function} gives none for {name}, of which {c.name} takes "
                f"{access}: give the call that computes it, or None if the result does not depend on it"
            )
        own = given[name]
        if own is not None:
            yield PartAdjoint(part.access, _sketch(algorithm, c, part, name, own, names))


def _given(c: Computation, call: StageCall, result: Access, weight: Expr) -> Mapping[str, Any]:
    """The parts that the user's function gives, by the names of parameters."""
    assert call.stage.adjoint is not None
    found = call.stage.adjoint(*call.arguments, result, weight)
    known = [name for name, _, _ in call.arrays]
    if not isinstance(found, Mapping) or any(name not in known for name in found):
        raise DeclarationError(
            f"adjoint= of the external function {call.function} gives {found!r} for {c.name}: give a dict of calls by "
            f"the arrays {', '.join(known)}"
        )
    return found


def _check_scalars(c: Computation, call: StageCall, active: Callable[[Source], bool]) -> None:
    """Refuse numbers of a call by which a derivative is asked for: a call has the adjoints of arrays alone."""
    live = depends(call, active)
    for given, _ in call.scalars:
        if live.get((id(given), None), False):
            raise DeclarationError(
                f"{c.name} passes {given} to {call.function} as a number, and adjoint= gives the adjoints of arrays "
                f"alone: multiply by {given} outside of the call, or pass tm.stop_gradient({given})"
            )


def _sketch(algorithm: Algorithm, c: Computation, part: StagePart, name: str, call: Any, names: FreshNames) -> Sketch:
    """The stage of the adjoint of one part."""
    assert c.stage is not None and isinstance(c.expr, StageCall)
    whose = f"adjoint= of the external function {c.expr.function} gives {call!r} for {name}"
    if not isinstance(call, StageCall):
        raise DeclarationError(f"{whose}: give a call of a function that tm.extern_stage has declared")
    if call.dtype != part.access.dtype:
        raise DeclarationError(f"{whose}, of {call.dtype}: {part.access} is {part.access.dtype}")
    own = names.fresh(f"d_{part.access.source}_from_{c.name}")
    over = {each: _range(algorithm, c, each) for each in c.stage.ranges if each in iterators(call)}
    over = {each: ends for each, ends in over.items() if each not in part.iterators}
    names_of_calls = part.iterators[: c.stage.each]
    dims = (*names_of_calls, *(each for each in part.varying if each))  # the dimensions of the array, in its order
    space = part.points.get_space()
    variables = dict(zip(part.iterators, sets.variables(space), strict=True))
    points = part.points.apply(sets.graph(sets.function(space, own, [variables[each] for each in dims])))
    return Sketch(
        own, call.dtype, dims, sets.with_dims(points, dims), call, like=c, each=c.stage.each, ranges=over,
    )  # fmt: skip


def _range(algorithm: Algorithm, c: Computation, name: str) -> tuple[Expr, Expr]:
    """The values of an iterator within each call, which have to be the same in all calls."""
    assert c.stage is not None
    whole = c.stage.ranges[name].intersect_params(algorithm.context.params())
    each = sets.size(whole) - 1
    own = sets.component_of(whole, each)
    calls = sets.project_prefix(whole, each)
    same = sets.flat_product(sets.named(calls, None), sets.named(own, None), None)
    if each and not sets.named(whole, None).is_equal(same):
        raise DeclarationError(
            f"{c.name} has no gradient: the values of {name} differ from call to call of {c.expr}; write calls of one "
            "size as a stage of their own"
        )
    try:
        low, high = sets.smallest_coordinate(own, 0), sets.raised(sets.largest(own, 0), 1)
        return of_params(low, algorithm.context), of_params(high, algorithm.context)
    except isl.Error:
        raise DeclarationError(f"{c.name} has no gradient: {name} has no bounds that are known from sizes") from None
