"""Indices that follow from floats, where a compiler may round these in another way than the text says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.declare.declared_ranges import broken_claim
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.expressions import Cast
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import ArgumentError

#: The names in `fast=` by which sums, products and quotients are rounded in another way.
ROUNDING = ("reassociate", "reciprocal")


def check_rounding(algorithm: Algorithm, fast: Collection[str]) -> None:
    """Refuse names in `fast` by which an index may leave what the proof knows of it; raises `ArgumentError`."""
    changing = [name for name in ROUNDING if name in fast]
    if not changing or not any(map(_is_converted, _expressions(algorithm))):
        return
    strict, loose = ValueSets(algorithm), ValueSets(replace(algorithm, rounds_as_written=False))
    for c in algorithm.computations.values():
        if broken_claim(loose.algorithm, c):
            raise ArgumentError(
                f"fast={tuple(changing)!r} may round values of {c.name} beyond those that it is declared to have: clip "
                "the integer, tm.clip(tm.cast(...), low, high), or leave it out"
            )
        for known, reading in zip(strict.of(c), loose.of(c), strict=True):
            if not reading.relation.is_subset(known.relation):
                raise ArgumentError(
                    f"fast={tuple(changing)!r} may round the index of {reading.access} in {c.name} to another element "
                    "than its text says: clip the integer, tm.clip(tm.cast(...), low, high), or leave it out"
                )


def _expressions(algorithm: Algorithm) -> list[object]:
    return [e for c in algorithm.computations.values() for whole in (c.expr, *c.guards) for e in walk(whole)]


def _is_converted(e: object) -> bool:
    """Whether a float becomes an integer."""
    return isinstance(e, Cast) and e.dtype.is_integer and e.operand.dtype.is_float
