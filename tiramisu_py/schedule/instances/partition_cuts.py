"""Parts of a level: sets of its iterations, cut at points, by shares or as ranges, disjoint and covering."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr, as_expr
from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.targets import Shares
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import listed
from tiramisu_py.sets import smallest


@dataclass(frozen=True)
class Span:
    """The iterations between two fractions of the extent of a set of one dimension."""

    of: isl.Set
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)

    def at(self, number: int, count: int) -> isl.PwAff:
        """The iteration where block `number` of `count` equal blocks begins, on the frame of the set."""
        fraction = self.low + (self.high - self.low) * Fraction(number, count)
        return _at_fraction(self.of, fraction)


@dataclass(frozen=True)
class Parts:
    """The iterations of each part, as one-dimensional sets and in words, and the points where the level is cut.

    For shares, `spans` gives each part as two fractions of the whole, so that its blocks need no share of a share.
    """

    sets: tuple[isl.Set, ...]
    words: tuple[str, ...]
    points: tuple[Expr, ...] = ()
    spans: tuple[Span, ...] = ()

    def span(self, part: int, taken: isl.Set) -> Span:
        """The iterations of a part, to be dealt out to its ranks; `taken` are those of the level."""
        return self.spans[part] if self.spans else Span(self.sets[part].intersect(taken))


def parts_of(program: Program, taken: isl.Set, level: str, where: object, count: int) -> Parts:
    """The iterations `taken` of a level, cut into parts by the points, shares or ranges in `where`."""
    if isinstance(where, Shares):
        return _by_shares(taken, level, where, count)
    given = listed(where, "where to cut")
    ranges = [one for one in given if isinstance(one, tuple | list)]
    if ranges and len(ranges) < len(given):
        raise CommandError("give points, [G, H], or ranges, [(0, G), (G, R)], not both")
    if ranges:
        return _by_ranges(taken, ranges, count)
    return _by_points(program, taken, level, given, count)


def _by_points(program: Program, taken: isl.Set, level: str, given: Sequence[object], count: int) -> Parts:
    if len(given) != count - 1:
        fewer = f"{_number(count - 1, 'point')}, or " if count > 1 else ""
        raise CommandError(
            f"{_number(len(given), 'point')} cut{'s' if len(given) == 1 else ''} the level {level} into "
            f"{_number(len(given) + 1, 'part')}, and there {'is' if count == 1 else 'are'} {_number(count, 'target')}: "
            f"give {fewer}{_number(len(given) + 1, 'target')}"
        )
    points = [_expression(taken, point, "point") for point in given]
    forms = [_value(taken, point, "point") for point in points]
    for (a, first), (b, second) in pairwise(zip(points, forms, strict=True)):
        ascending = sets.as_set(first.le_set(second)).intersect_params(program.context.params())
        if ascending.is_empty():
            raise CommandError(f"the point {b} is below {a}, the one before it: give the points in order")
    names = [str(point) for point in points]
    words = [f"{low}{level}{high}" for low, high in zip(
        ["", *(f"{name} <= " for name in names)], [*(f" < {name}" for name in names), ""], strict=True
    )]  # fmt: skip
    return Parts(_cut(sets.universe(taken.get_space()), forms), tuple(words), tuple(points))


def _by_shares(taken: isl.Set, level: str, given: Shares, count: int) -> Parts:
    if len(given.of_whole) != count:
        raise CommandError(
            f"{given} has {_number(len(given.of_whole), 'share')}, and there "
            f"{'is' if count == 1 else 'are'} {_number(count, 'target')}: give one share for each"
        )
    ends = [sum(given.of_whole[:k], Fraction(0)) for k in range(count + 1)]
    forms = [_at_fraction(taken, end) for end in ends[1:-1]]
    words = [f"share {share} of {level}" for share in given.of_whole]
    spans = [Span(taken, low, high) for low, high in pairwise(ends)]
    return Parts(_cut(taken, forms), tuple(words), spans=tuple(spans))


def _at_fraction(of: isl.Set, fraction: Fraction) -> isl.PwAff:
    """The lower bound of a one-dimensional set plus a fraction of its extent, rounded down, on the set's frame."""
    low, high = sets.smallest_coordinate(of, 0), sets.largest(of, 0)
    times = sets.scaled(sets.extent_between(low, high), fraction.numerator)
    return sets.at_any_point(low.add(sets.floor_div(times, fraction.denominator)), of.get_space())


def _by_ranges(taken: isl.Set, given: Sequence[object], count: int) -> Parts:
    if len(given) != count:
        raise CommandError(
            f"there {'is' if len(given) == 1 else 'are'} {_number(len(given), 'range')} and "
            f"{_number(count, 'target')}: give one range for each"
        )
    x = _variable(taken)
    found, words, lower = [], [], []
    for one in given:
        bounds = listed(one, "a range")
        if len(bounds) != 2:
            raise CommandError(f"a range is a lower bound and an upper one, (0, G), not {one!r}")
        low, high = (_expression(taken, bound, "bound") for bound in bounds)
        above = sets.as_set(x.ge_set(_value(taken, low, "bound")))
        found.append(above.intersect(sets.as_set(x.lt_set(_value(taken, high, "bound")))))
        words.append(f"({low}, {high})")
        lower.append(low)
    return Parts(tuple(found), tuple(words), tuple(lower[1:]))


def _cut(whole: isl.Set, forms: Sequence[isl.PwAff]) -> tuple[isl.Set, ...]:
    """The elements below the first form, from there to the second, and so on."""
    x, rest, found = _variable(whole), whole, []
    for form in forms:
        below = sets.as_set(x.lt_set(form))
        found.append(rest.intersect(below).coalesce())
        rest = rest.subtract(below)
    return (*found, rest.coalesce())


def _variable(of: isl.Set) -> isl.PwAff:
    return sets.variables(of.get_space())[0].to_pw_aff()


def _number(count: int, word: str) -> str:
    return f"{count or 'no'} {word}{'' if count == 1 else 's'}"


def _expression(taken: isl.Set, given: object, what: str) -> Expr:
    try:
        return as_expr(given)
    except (DeclarationError, TypeError):
        raise _not_affine(taken, repr(given), what) from None


def _value(taken: isl.Set, given: Expr, what: str) -> isl.PwAff:
    try:
        return Affine(taken.get_space(), {}).value(given)
    except NotAffine:
        raise _not_affine(taken, str(given), what) from None


def _not_affine(taken: isl.Set, given: str, what: str) -> CommandError:
    known = ", ".join(sets.params(taken)) or "none"
    return CommandError(f"the {what} {given} is neither an integer nor affine in the parameters ({known})")


# -- disjoint and covering


def verify(program: Program, chosen: Sequence[tuple[Statement, LoopId]], taken: isl.Set, parts: Parts) -> None:
    """Refuse parts that overlap or leave something out, with the smallest counterexample."""
    for (a, first), (b, second) in combinations(zip(parts.words, parts.sets, strict=True), 2):
        both = taken.intersect(first).intersect(second)
        if not both.is_empty():
            value, at = _example(chosen, both)
            raise CommandError(f"{value} is in two parts, {a} and {b}{at}: parts share nothing")
    rest = taken
    for part in parts.sets:
        rest = rest.subtract(part)
    if not rest.is_empty():
        value, at = _example(chosen, rest)
        raise CommandError(f"{value} is in no part, of {', '.join(parts.words)}{at}: parts leave nothing out")


def _example(chosen: Sequence[tuple[Statement, LoopId]], wrong: isl.Set) -> tuple[str, str]:
    """The smallest value computed in the iterations `wrong` of the level, and its parameters in words."""
    params = smallest.smallest_params(wrong)
    at = f", at {', '.join(f'{name} = {value}' for name, value in params.items())}" if params else ""
    x = smallest.first(smallest.at(wrong, params))
    for statement, loop in chosen:
        form = sets.outputs(statement.coords)[statement.depth(loop)]
        inside = smallest.at(statement.instances, params)
        here = inside.intersect(_where(form, params, x[0]))
        if not here.is_empty():
            value = sets.prefix(statement.point, sets.out_size(statement.point))
            point = smallest.first(here)
            indices = smallest.evaluated(value, point, params)
            return f"{statement.source}[{', '.join(map(str, indices))}]", at
    raise AssertionError("an iteration of a level is one of some statement")


def _where(form: isl.Aff, params: dict[str, int], value: int) -> isl.Set:
    return smallest.at(sets.as_set(sets.plus(form, -value).zero_basic_set()), params)
