"""Conditions on parameters in the words of the user: ``N <= 10``, ``R >= 1 and C >= 1``."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets

#: A condition with more integer divisions is in nobody's words, and takes isl for ever to subtract.
_MOST_DIVISIONS = 6


def missing_condition(bad: isl.Set | isl.Map, context: isl.Set) -> str:
    """The weakest condition on the parameters, within the context, under which `bad` is empty.

    "" if there is none, or none that can be said in a few words.
    """
    assumed, wrong = context.params(), bad.params()
    if sets.count_of_divisions(wrong) > _MOST_DIVISIONS:
        return ""
    fine = assumed.subtract(wrong).coalesce()
    return "" if fine.is_empty() else in_words(fine.gist(assumed).coalesce())


def in_words(values: isl.Set) -> str:
    """A set of parameter values as a condition."""
    return " or ".join(_conjunction(part) for part in values.get_basic_sets())


def _conjunction(part: isl.BasicSet) -> str:
    constraints = sets.parameter_constraints(part)
    if constraints is None:
        return str(part).split(":", 1)[-1].strip(" }")
    return " and ".join(_comparison(*constraint) for constraint in constraints) or "always"


def _comparison(equation: bool, factors: dict[str, int], constant: int) -> str:
    left = [(name, factor) for name, factor in factors.items() if factor > 0]
    right = [(name, -factor) for name, factor in factors.items() if factor < 0]
    if not left:
        return f"{_sum(right, 0)} {'=' if equation else '<='} {constant}"
    return f"{_sum(left, max(constant, 0))} {'=' if equation else '>='} {_sum(right, max(-constant, 0))}"


def _sum(terms: list[tuple[str, int]], constant: int) -> str:
    words = [name if factor == 1 else f"{factor}*{name}" for name, factor in terms]
    if constant or not words:
        words.append(str(constant))
    return " + ".join(words)
