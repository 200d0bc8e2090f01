"""Polynomials in the parameters for the counts of a schedule's cost: fitted to exact counts, verified at other sizes.

Counts of polyhedra are quasi-polynomials in the sizes, from some sizes on: one polynomial for each class of sizes that
have the same remainders modulo the sizes of tiles. That of a class is found from exact counts at a grid of small sizes,
by interpolation with rational numbers, and compared with exact counts at sizes that it was not fitted to. It is no
proof: a polynomial says what it was fitted to and verified at, and a count with which one disagrees has none.

Source: Clauss, "Counting solutions to linear and nonlinear constraints through Ehrhart polynomials", ICS 1996.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import lcm, prod

from tiramisu_py import sets
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.program import Program
from tiramisu_py.records import dataclass
from tiramisu_py.styles import as_html, for_prompt

#: Monomials (the exponent of each parameter) with their coefficients.
Polynomial = dict[tuple[int, ...], Fraction]
Counts = Callable[[Mapping[str, int]], Mapping[str, int]]
#: The largest exponent of a parameter that is tried, the sizes that a fit is verified at, and the least of all sizes.
HIGHEST, HELD_OUT, LEAST = 3, 8, 8
#: Tiles of more iterations than this need sizes that are too large.
MOST_PERIOD = 4096
_STYLES = {r"\S.*:$": "advice", r".*: no polynomial": "doubt"}


@dataclass(frozen=True)
class FittedCount:
    """One count as a polynomial in `params`, for sizes of a class: multiples of `period` plus `remainders`.

    It was fitted to counts at `fitted` sizes, the least of them `least`, and verified at `verified` others. If one of
    these disagrees, `disagrees` says so, and there is no polynomial.
    """

    name: str
    params: tuple[str, ...]
    terms: tuple[tuple[tuple[int, ...], Fraction], ...]
    period: tuple[int, ...]
    remainders: tuple[int, ...]
    least: tuple[int, ...]
    fitted: int
    verified: int
    disagrees: str = ""

    def __call__(self, **sizes: int) -> int:
        """The count at sizes of the class. Raises `ArgumentError` for other sizes, and if there is no polynomial."""
        if self.disagrees:
            raise ArgumentError(f"{self.name} has no polynomial: {self.disagrees}")
        if sorted(sizes) != sorted(self.params):
            raise ArgumentError(f"{self.name}: give {', '.join(self.params) or 'no sizes'}")
        at = [sizes[name] for name in self.params]
        for name, size, period, rest, least in zip(
            self.params, at, self.period, self.remainders, self.least, strict=True
        ):
            if size % period != rest or size < least:
                raise ArgumentError(f"{self.name} is fitted for {_class(name, period, rest, least)}, not for {size}")
        return int(_value(dict(self.terms), at))

    def __str__(self) -> str:
        if self.disagrees:
            return f"{self.name}: no polynomial: {self.disagrees}"
        return f"{self.name} = {_written(self.terms, self.params)}"


@dataclass(frozen=True, repr=False)
class SymbolicCost:
    """Counts of a schedule as polynomials in its parameters, by name: fitted, and verified at other sizes."""

    name: str
    counts: Mapping[str, FittedCount]

    def __getitem__(self, name: str) -> FittedCount:
        """The count of this name. Raises `ArgumentError` if there is none."""
        if name not in self.counts:
            raise ArgumentError(f"there is no count {name!r}: {', '.join(self.counts)}")
        return self.counts[name]

    def __str__(self) -> str:
        first = max(self.counts.values(), key=lambda each: each.fitted)
        ends = zip(first.params, first.period, first.remainders, first.least, strict=True)
        classes = ", ".join(itertools.starmap(_class, ends))
        told = f"fitted to {first.fitted} counts at most, verified at {first.verified} others, not proven"
        return "\n".join([f"{self.name} for {classes}; {told}:", *(f"  {each}" for each in self.counts.values())])

    def __repr__(self) -> str:
        """At a prompt: the text, in colours if the terminal takes them."""
        return for_prompt(str(self), _STYLES)

    def _repr_html_(self) -> str:
        """In a notebook: the text."""
        return as_html(str(self), _STYLES)


def symbolic_cost(
    program: Program, counts: Counts, known: Mapping[str, int], remainders: Mapping[str, int]
) -> SymbolicCost:
    """The counts of a program as polynomials in the parameters that are not `known`."""
    params = tuple(name for name in program.algorithm.params if name not in known)
    if not params:
        raise ArgumentError(f"{program.algorithm.name}: all sizes are given: f.cost counts at these")
    unknown = [name for name in (*known, *remainders) if name not in program.algorithm.params]
    if unknown:
        names = ", ".join(program.algorithm.params)
        raise ArgumentError(f"{program.algorithm.name} has the parameters {names}, and no {', '.join(unknown)}")
    tiles = _period(program)
    asked = [int(remainders.get(name, 0)) % tiles for name in params]
    plain = _Fit(params, (1,) * len(params), (0,) * len(params), known, counts)
    whole = _Fit(params, (tiles,) * len(params), tuple(asked), known, counts)
    found = whole.counts() if tiles > 1 and (remainders or not plain.agrees()) else plain.counts()
    return SymbolicCost(program.algorithm.name, found)


def _period(program: Program) -> int:
    """The least common multiple of all sizes of tiles: of the denominators in the coordinates of loops."""
    found = {1}
    for statement in program.acting:
        waiting = list(sets.outputs(statement.coords))
        while waiting:
            taken = sets.terms(waiting.pop())
            found.add(taken.denominator)
            waiting += [form for _, form in taken.divs]
    period = lcm(*found)
    if period > MOST_PERIOD:
        raise ArgumentError(f"{program.algorithm.name}: sizes would be multiples of {period}: give some of the sizes")
    return period


class _Fit:
    """The polynomials of one class of sizes."""

    def __init__(
        self, params: tuple[str, ...], period: tuple[int, ...], remainders: tuple[int, ...], known: Mapping[str, int],
        counts: Counts,
    ) -> None:  # fmt: skip
        self._params, self._period, self._remainders = params, period, remainders
        self._known, self._count = known, counts
        self._found: dict[tuple[int, ...], Mapping[str, int]] = {}
        self._least = tuple(
            rest + each * max(2, -(-LEAST // each)) for each, rest in zip(period, remainders, strict=True)
        )

    def agrees(self) -> bool:
        """Whether every count is a polynomial."""
        return not any(self._fitted(name).disagrees for name in self._at(self._least))

    def counts(self) -> dict[str, FittedCount]:
        """The polynomial of each count, with the lowest exponents for which it agrees."""
        names = list(self._at(self._least))
        return {name: self._fitted(name) for name in names}

    def _fitted(self, name: str) -> FittedCount:
        for highest in range(1, HIGHEST + 1):
            grid = [[self._size(axis, n) for n in range(highest + 1)] for axis in range(len(self._params))]
            fitted = prod(map(len, grid))
            polynomial = _interpolated(grid, lambda *at: self._at(at)[name])
            wrong = self._wrong(name, polynomial, highest)
            if not wrong:
                return self._made(name, polynomial, fitted, "")
        return self._made(name, {}, fitted, wrong)

    def _made(self, name: str, polynomial: Polynomial, fitted: int, wrong: str) -> FittedCount:
        terms = tuple(sorted(((key, c) for key, c in polynomial.items() if c), reverse=True))
        ends = self._period, self._remainders, self._least
        return FittedCount(name, self._params, terms, *ends, fitted, HELD_OUT, wrong)

    def _wrong(self, name: str, polynomial: Polynomial, highest: int) -> str:
        """The first of the held-out sizes at which a polynomial is wrong, in words."""
        for at in self._held_out(highest):
            counted, value = self._at(at)[name], _value(polynomial, at)
            if value != counted:
                sizes = ", ".join(f"{p} = {size}" for p, size in zip(self._params, at, strict=True))
                return f"counted {counted:,} at {sizes}, where the fit has {float(value):,.6g}"
        return ""

    def _held_out(self, highest: int) -> list[tuple[int, ...]]:
        """Sizes beyond the grid in at least one parameter, the same ones each time."""
        numbers = random.Random(highest)
        most, found = 2 * HIGHEST + 3, dict[tuple[int, ...], None]()
        while len(found) < HELD_OUT:
            steps = [numbers.randrange(most + HELD_OUT) for _ in self._params]
            if max(steps) > highest:
                found[tuple(self._size(axis, n) for axis, n in enumerate(steps))] = None
        return list(found)

    def _size(self, axis: int, step: int) -> int:
        return self._least[axis] + step * self._period[axis]

    def _at(self, at: Sequence[int]) -> Mapping[str, int]:
        key = tuple(at)
        if key not in self._found:
            self._found[key] = self._count({**self._known, **dict(zip(self._params, key, strict=True))})
        return self._found[key]


# -- polynomials


def _interpolated(grid: Sequence[Sequence[int]], count: Callable[..., int]) -> Polynomial:
    """The polynomial that has the values of `count` at all points of a grid, in Lagrange's form, axis by axis."""
    if not grid:
        return {(): Fraction(count())}
    found: Polynomial = {}
    for x in grid[0]:
        inner = _interpolated(grid[1:], lambda *rest, x=x: count(x, *rest))
        for power, factor in enumerate(_basis(grid[0], x)):
            for key, value in inner.items():
                found[power, *key] = found.get((power, *key), Fraction(0)) + factor * value
    return found


def _basis(points: Sequence[int], at: int) -> list[Fraction]:
    """The coefficients of the polynomial that is 1 at one of some points, and 0 at the others."""
    found = [Fraction(1)]
    for other in points:
        if other != at:
            scale = Fraction(1, at - other)
            found = [
                scale * ((found[n - 1] if n else 0) - other * (found[n] if n < len(found) else 0))
                for n in range(len(found) + 1)
            ]
    return found


def _value(polynomial: Polynomial, at: Sequence[int]) -> Fraction:
    terms = (c * prod(x**n for x, n in zip(at, key, strict=True)) for key, c in polynomial.items())
    return sum(terms, Fraction(0))


def _written(terms: Sequence[tuple[tuple[int, ...], Fraction]], params: Sequence[str]) -> str:
    """A polynomial as text: ``15/2*N*M + 12*M - 4``."""
    text = ""
    for key, factor in terms:
        names = [name if n == 1 else f"{name}**{n}" for name, n in zip(params, key, strict=True) if n]
        size = [] if abs(factor) == 1 and names else [str(abs(factor))]
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += sign + "*".join([*size, *names])
    return text or "0"


def _class(name: str, period: int, rest: int, least: int) -> str:
    if period == 1:
        return f"{name} >= {least}"
    return f"{name} = {period}*n{f' + {rest}' if rest else ''} >= {least}"
