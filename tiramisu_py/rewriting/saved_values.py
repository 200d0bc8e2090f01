"""A step in two: forwards all values, some of which are saved, and backwards their adjoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.domains.ranges.value_ranges import ranges_of
from tiramisu_py.algorithm.domains.runs import element_of
from tiramisu_py.algorithm.evaluate.given_values import extents
from tiramisu_py.algorithm.expressions import Access, Component, Const, Expr
from tiramisu_py.algorithm.traversal import accesses, rewrite, walk
from tiramisu_py.algorithm.types import TupleType, array_names, component_types
from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.adjoints import Adjoints


@dataclass(frozen=True, eq=False)
class TwoFunctions:
    """The algorithm forwards and that of the adjoints, which reads the arrays in `saved`."""

    forward: Algorithm
    backward: Algorithm
    saved: tuple[str, ...]


def divided(original: Algorithm, adjoints: Adjoints, recompute: Sequence[str]) -> TwoFunctions:
    """An algorithm and its adjoints as two; values in `recompute` are computed again backwards, and not saved."""
    _check_recompute(original, adjoints, recompute)
    step = adjoints.algorithm
    again = {each.name for name in recompute for each in _with_its_group(original, name)}
    kept = {name: c for name, c in step.computations.items() if name in again or name in adjoints.added}
    kept = _that_count(kept, adjoints.gradients)
    read = {access for c in kept.values() for access in _sources(c)} - set(kept)
    computed = [name for name in original.computations if name in read]
    saved = [name for name in computed if name not in original.outputs]
    forward = replace(original, name=f"{original.name}_forward", outputs=(*original.outputs, *saved))
    arrays = {name: _as_inputs(original, original.computations[name]) for name in computed}
    read |= {each.inverts.of for name, each in step.inputs.items() if name in read and each.inverts is not None}
    read |= {each.run_of for name, each in step.inputs.items() if name in read and each.run_of}
    together = _declared_together(step, read)
    inputs = {name: each for name, each in step.inputs.items() if name in read or name in together}
    inputs |= {each.name: each for listed in arrays.values() for each in listed}
    used = _components_read(kept.values())
    inputs = {name: each for name, each in inputs.items() if name in used or name in read or name in together}
    computations = {name: _reading_inputs(original, c, arrays) for name, c in kept.items()}
    backward = replace(
        step, name=f"{original.name}_backward", inputs=inputs, computations=computations, outputs=adjoints.gradients
    )
    names = tuple(each.name for name in saved for each in arrays[name])
    return TwoFunctions(forward, backward, names)


def _check_recompute(original: Algorithm, adjoints: Adjoints, recompute: Sequence[str]) -> None:
    if isinstance(recompute, str) or not isinstance(recompute, Sequence):
        raise DeclarationError(f"recompute={recompute!r}: give a list of names of computations of {original.name}")
    for name in recompute:
        if str(name) not in original.computations:
            raise DeclarationError(
                f"recompute= names {name}, which is no computation of {original.name}: it has "
                f"{', '.join(original.computations)}"
            )


def _with_its_group(original: Algorithm, name: str) -> Sequence[Computation]:
    own = original.computations[str(name)]
    return original.together(own.group) if own.group else [own]


def _sources(c: Computation) -> set[str]:
    return {access.source for each in (c.expr, *c.guards) for access in accesses(each)}


def _that_count(kept: dict[str, Computation], results: Sequence[str]) -> dict[str, Computation]:
    """The computations that the results need."""
    needed, waiting = set(results), [*results]
    while waiting:
        new = (_sources(kept[waiting.pop()]) & set(kept)) - needed
        needed |= new
        waiting += new
    return {name: c for name, c in kept.items() if name in needed}


def _components_read(computations: Iterable[Computation]) -> set[str]:
    """The names of arrays of components that are read."""
    found: set[str] = set()
    for c in computations:
        for each in (c.expr, *c.guards):
            for node in walk(each):
                if isinstance(node, Component) and isinstance(node.whole, Access):
                    found.add(array_names(node.whole.source, node.whole.dtype)[node.position])
    return found


def _declared_together(step: Algorithm, read: Collection[str]) -> set[str]:
    """The inputs that facts about those that are read name, and their inverses, by which scatters are gathered."""
    found: set[str] = set()
    for name, each in step.inputs.items():
        if each.distinct is not None and name in read:
            found |= {*each.distinct.keys, *each.distinct.columns}
    for name, each in step.inputs.items():
        if each.inverts is not None and (each.inverts.of in read or each.inverts.of in found):
            found |= {name, each.inverts.start}
    return found


def _as_inputs(original: Algorithm, c: Computation) -> list[Input]:
    """The arrays of a computation as inputs."""
    shape = extents(original, c)
    names = array_names(c.name, c.dtype)
    found: list[Input] = []
    for part, (name, dtype) in enumerate(zip(names, component_types(c.dtype), strict=True)):
        values = _range(original, c, part if isinstance(c.dtype, TupleType) else None) if dtype.is_integer else None
        found.append(Input(name, dtype, shape, scalar=False, values=values, location=c.location))
    return found


def _range(original: Algorithm, c: Computation, part: int | None) -> tuple[Expr, Expr] | None:
    """A range of saved integers that follows from their expression, or None.

    Elements of the array that no value is kept in are 0.
    """
    known = ranges_of(original).of(c.name, part)
    if known is None:
        return None
    values = known.values.intersect_params(original.context.params())
    own = values.intersect_domain(sets.named(c.domain, sets.in_name(known.values) or None)).range()
    written = own.union(sets.singleton(own, [0]))
    try:
        low, high = sets.smallest_coordinate(written, 0), sets.raised(sets.largest(written, 0), 1)
        found = of_params(low, original.context), of_params(high, original.context)
    except isl.Error:
        return None
    least, most = component_types(c.dtype)[part or 0].limits
    ends = [each.value if isinstance(each, Const) else None for each in found]
    return None if ends == [least, most + 1] else found


def _reading_inputs(original: Algorithm, c: Computation, arrays: dict[str, list[Input]]) -> Computation:
    """A computation that reads what is saved from arrays, which begin at index 0."""

    def indices(access: Access) -> tuple[Expr, ...]:
        moved = element_of(original, original.computations[access.source], access.indices)
        return tuple(rewrite(index, changed) for index in moved)

    def changed(e: Expr) -> Access | None:
        if isinstance(e, Component) and isinstance(e.whole, Access) and e.whole.source in arrays:
            array = arrays[e.whole.source][e.position]
            return Access(array.name, indices(e.whole), array.dtype, e.whole.owner)
        if isinstance(e, Access) and e.source in arrays:
            return Access(e.source, indices(e), e.dtype, e.owner)
        return None

    guards = tuple(rewrite(guard, changed) for guard in c.guards)
    written = c.written
    if written is not None and isinstance(written.where, Expr):
        written = replace(written, where=rewrite(written.where, changed))
    stage = c.stage
    if stage is not None:
        kept = [(each, changed(each.access)) for each in stage.parts]
        parts = tuple(each if moved is None else replace(each, access=moved) for each, moved in kept)
        stage = replace(stage, parts=parts)
    return replace(c, expr=rewrite(c.expr, changed), guards=guards, written=written, stage=stage)
