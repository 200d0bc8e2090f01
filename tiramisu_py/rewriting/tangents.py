"""Forward mode: the tangent of each value, as a computation over the same points.

y[i] = x[i + 1] * w[k]   -->   t_y[i] = t_x[i + 1] * w[k] + x[i + 1] * t_w[k]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.declare.declare import declare_input
from tiramisu_py.algorithm.expressions import Access, Expr
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import component_types
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.activity import active_sources, array_of, check_operators, components, flows, needed_sources
from tiramisu_py.rewriting.partial_derivatives import zero
from tiramisu_py.rewriting.read_adjoints import Source, tangent
from tiramisu_py.rewriting.sketches import FreshNames, Sketch, read, same_domain, with_sketches
from tiramisu_py.rewriting.terms_of_reductions import weight_of_terms


@dataclass(frozen=True, eq=False)
class Tangents:
    """An algorithm with the tangents of its values; `results` are those of the outputs, in their order."""

    algorithm: Algorithm
    results: tuple[str, ...]


def with_tangents(algorithm: Algorithm, wrt: Sequence[str]) -> Tangents:
    """The algorithm with the tangents of its outputs, for given tangents ``t_x`` of these inputs.

    Raises `DeclarationError`, naming what has no derivative.
    """
    names, found = FreshNames(algorithm), algorithm
    active = active_sources(algorithm, wrt)
    outputs = [s for name in algorithm.outputs for s in components(algorithm.computations[name])]
    needed = needed_sources(flows(algorithm, active), outputs)
    check_operators(algorithm, needed, forwards=True)
    tangents: dict[Source, str] = {}
    for name in wrt:
        declared = algorithm.inputs[name]
        tangents[name, None] = names.fresh(f"t_{name}")
        made = declare_input(
            found,
            tangents[name, None],
            declared.dtype,
            declared.passed_shape,
            scalar=declared.scalar,
            owner=algorithm.owner,
            location=declared.location,
        )
        found = found.with_input(replace(made, device=declared.device))
    for source in [*needed, *outputs]:
        if source not in tangents:
            tangents[source] = names.fresh(f"t_{array_of(algorithm, source)}")

    def of_read(access: Access, part: int | None) -> Expr:
        source = (access.source, part)
        dtype = component_types(algorithm.source(access.source).dtype)[part or 0]
        return read(algorithm, tangents[source], access.indices, dtype)

    sketches: list[Sketch] = []
    for c in algorithm.computations.values():
        for source in components(c):
            if source in tangents:
                value = tangent(c.expr, source[1], of_read, lambda s: s in tangents) if source in needed else None
                sketches += _sketches(algorithm, c, tangents[source], source, value, names)
    whole = with_sketches(found, sketches)
    results = tuple(tangents[source] for source in outputs)
    return Tangents(whole.with_outputs((*algorithm.outputs, *results)), results)


def _sketches(
    algorithm: Algorithm, c: Computation, name: str, source: Source, value: Expr | None, names: FreshNames
) -> list[Sketch]:
    dtype = component_types(c.dtype)[source[1] or 0]
    if value is None:
        return [same_domain(c, name, dtype, zero(dtype))]
    if not c.is_reduction:
        return [same_domain(c, name, dtype, value)]
    weight, extra = weight_of_terms(algorithm, c, names)
    return [*extra, same_domain(c, name, dtype, weight(value), sum_)]
