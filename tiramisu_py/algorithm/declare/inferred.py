"""Domains that the user leaves open: each computation has the values that are read of it, and no others.

Computations read those before them, so that one pass from the last to the first finds all reads of each. The values
that are read have a smallest box around them, which is the domain unless they are asked for exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.declare.declare import with_values
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.domains.boxes import box_in_words, smallest_box
from tiramisu_py.algorithm.domains.reads import Reading
from tiramisu_py.errors import DeclarationError


def inferred(algorithm: Algorithm) -> Algorithm:
    """The algorithm with the domains that were left open; raises `DeclarationError` for those that nothing gives."""
    found = dict(algorithm.computations)
    values = ValueSets(algorithm)
    reads: dict[str, list[tuple[str, Reading]]] = {name: [] for name in found}
    for name in reversed(found):
        if found[name].is_inferred:
            found[name] = _with_domain(algorithm, found[name], reads[name])
        for reading in values.of(found[name]):
            if reading.access.source in reads:
                reads[reading.access.source].append((name, reading))
    return algorithm.with_computations(found)


def _with_domain(algorithm: Algorithm, declared: Computation, reads: Sequence[tuple[str, Reading]]) -> Computation:
    """A computation with the values that are read of it."""
    name, listed = declared.name, ", ".join(declared.iterators)
    by_hand = f'give its domain, {algorithm.name}.computation("{name}", {{{declared.iterators[0]}: ...}}, ...)'
    if declared.is_reduction:
        by_hand = by_hand.replace(".computation(", ".reduction(")
    if name in algorithm.outputs:
        raise DeclarationError(
            f"{name}[{listed}] is an output, and its domain says what the caller gets: {by_hand}; only those of "
            "computations that others read can be left open"
        )
    if not reads:
        raise DeclarationError(f"nothing reads {name}[{listed}], so that its domain cannot be inferred: {by_hand}")
    for reader, reading in reads:
        if reading.unbounded and not sets.as_set(reading.relation.range()).is_bounded():
            raise DeclarationError(
                f"{reader} reads {reading.access}, and nothing is known of {reading.unbounded[0]}: {by_hand}, or "
                "values=(low, high) of the input that is the index"
            )
    needed = sets.union_of(sets.as_set(reading.relation.range()) for _, reading in reads)
    assert declared.written is not None
    points = needed if declared.written.exact else smallest_box(needed)
    return with_values(algorithm, declared, points.intersect_params(algorithm.context).coalesce())


def domain_line(algorithm: Algorithm, declared: Computation) -> str:
    """The domain of a computation as text: the bounds of each iterator if it is a box, or as isl prints it."""
    name = f"{declared.name}[{', '.join(declared.iterators)}]"
    if declared.is_open:
        return f"{name}: to be inferred"
    domain = declared.domain.intersect_params(algorithm.context)
    if domain.is_empty() or not smallest_box(domain).is_equal(domain):
        return f"{name}: {domain.gist_params(algorithm.context)}"
    return f"{name}: {box_in_words(domain, declared.iterators, algorithm.context)}"
