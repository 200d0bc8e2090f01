"""The work of an algorithm as a function of its sizes: operations, and bytes of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod

from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Algorithm, Counter, SymbolicCost, initial_program, symbolic_cost
from tiramisu_py.tuning.learned.samples.ranges import Sizes

#: What is counted.
OPERATIONS, BYTES = "operations", "bytes"


class AlgorithmWork:
    """Operations and bytes at given sizes: by polynomials where these agree with exact counts, else counted."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._program = initial_program(algorithm)
        self._counter = Counter(self._program)
        self._fitted: SymbolicCost | None = None
        self._asked = False
        self._known: dict[tuple[int, ...], tuple[int, int]] = {}

    def operations(self, sizes: Sizes) -> int:
        """The operators and functions of all values."""
        return self._at(sizes)[0]

    def bytes(self, sizes: Sizes) -> int:
        """The bytes that are read and written, each element once."""
        return self._at(sizes)[1]

    def _at(self, sizes: Sizes) -> tuple[int, int]:
        key = tuple(sizes.values())
        if key not in self._known:
            self._known[key] = self._of(sizes)
        return self._known[key]

    def _of(self, sizes: Sizes) -> tuple[int, int]:
        fitted = self._polynomials()
        if fitted is None:
            counted = self._counted(sizes)
            return counted[OPERATIONS], counted[BYTES]
        at = [sizes[name] for name in self._program.algorithm.params]
        operations, moved = (_value(fitted.counts[name].terms, at) for name in (OPERATIONS, BYTES))
        return operations, moved

    def _polynomials(self) -> SymbolicCost | None:
        """The polynomials, if they hold at small sizes too; None if there are none."""
        if not self._asked:
            self._asked = True
            try:
                found = symbolic_cost(self._program, self._counted, {}, {})
            except ArgumentError:
                return None
            if not any(each.disagrees for each in found.counts.values()):
                self._fitted = found
                params = self._program.algorithm.params
                for corner in product((1, 7), repeat=len(params)) if len(params) <= 4 else []:
                    sizes = dict(zip(params, corner, strict=True))
                    counted = self._counted(sizes)
                    if self._of(sizes) != (counted[OPERATIONS], counted[BYTES]):
                        self._fitted = None
                        break
        return self._fitted

    def _counted(self, sizes: Mapping[str, int]) -> dict[str, int]:
        work = self._counter.work(tuple(self._program.statements), sizes)
        return {OPERATIONS: work.operations, BYTES: work.bytes}


def _value(terms: Sequence[tuple[tuple[int, ...], Fraction]], at: Sequence[int]) -> int:
    monomials = (factor * prod(x**n for x, n in zip(at, powers, strict=True)) for powers, factor in terms)
    return int(sum(monomials, Fraction(0)))
