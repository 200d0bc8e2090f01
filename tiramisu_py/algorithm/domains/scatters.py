"""Scatters: reductions whose conditions equate an index with a value, such as ``where=b == level[r, c]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, as_expr, binary, check_single
from tiramisu_py.algorithm.traversal import accesses, mentions
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import DeclarationError, DTypeError


def placed(c: Computation) -> dict[str, Expr]:
    """The iterators of a reduction's values that its terms choose, each with the value that it then has.

    ``h[b]`` over r, c where ``b + 1 == level[r, c]`` gives ``b: level[r, c] - 1``. Such a value depends on no other
    chosen iterator.
    """
    return _equated(c, c.over)


def chosen_by_values(c: Computation) -> dict[str, Expr]:
    """The iterators that a value chooses: of a scatter those that are `placed`, and j of ``where=order[i] == j``."""
    return _equated(c, c.over if c.is_reduction else c.iterators)


def _equated(c: Computation, by: tuple[str, ...]) -> dict[str, Expr]:
    """The iterators of values that are equal to a value read at some of the iterators `by`."""
    found: dict[str, Expr] = {}
    for guard in c.guards:
        for condition in conjuncts(guard):
            for iterator, value in _sides(condition):
                if iterator in c.iterators and iterator not in found and mentions(value, by):
                    found[iterator] = value
    return {i: v for i, v in found.items() if not mentions(v, tuple(found))}


def update_order(c: Computation) -> tuple[str, ...]:
    """The iterators of a reduction's terms in the order of its loops: values first, then terms.

    An index that a term chooses is inside the loops over terms, so that the term goes to its place directly:
    ``for r, c: h[level[r, c]] += ..``, and not a search of the terms of each b.
    """
    chosen = {*placed(c), *in_ranges_of_terms(c)}
    if not chosen or any(access.source == c.name for access in accesses(c.expr)):
        return c.point_iterators
    first = min(c.iterators.index(iterator) for iterator in chosen)
    return (*c.iterators[:first], *c.over, *c.iterators[first:])


def in_ranges_of_terms(c: Computation) -> set[str]:
    """The iterators of a reduction's values that lie, for each term, between two values: ``start[i] <= p < end[i]``.

    A loop over i goes through the ranges one by one; any part of the loop over p would go through all of them.
    """
    found: dict[str, set[str]] = {}
    for condition in (each for guard in c.guards for each in conjuncts(guard)):
        if isinstance(condition, Binary) and condition.op in ("<", "<=", ">", ">="):
            for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(one, Iter) and one.name in c.iterators and accesses(other) and mentions(other, c.over):
                    is_below = (condition.op in ("<", "<=")) == (one is condition.left)
                    found.setdefault(one.name, set()).add("above" if is_below else "below")
    return {name for name, ends in found.items() if len(ends) > 1}


def _sides(condition: Expr) -> Iterator[tuple[str, Expr]]:
    """The readings of an equation as ``iterator == value``, where the value is read from an array."""
    if not isinstance(condition, Binary) or condition.op != "==":
        return
    for side, value in ((condition.left, condition.right), (condition.right, condition.left)):
        known = _moved(side)
        if known is not None and accesses(value) and not value.dtype.is_float:
            yield known[0], value if known[1] == 0 else _wide(value) - known[1]


def _wide(value: Expr) -> Expr:
    """An integer in a type that holds its sum with a literal: the one of 8 bits may not even hold the literal."""
    return value if value.dtype.weak or (value.dtype.kind == "i" and value.dtype.bits >= 32) else Cast(value, int64)


def _moved(e: Expr) -> tuple[str, int] | None:
    """The iterator and the constant of ``iterator + constant``."""
    match e:
        case Iter():
            return e.name, 0
        case Binary(op="+" | "-", left=Iter(name=name), right=Const(value=value)):
            return name, int(value) if e.op == "+" else -int(value)
    return None


def placement(name: str, domain: Any, at: Any) -> Expr:
    """The condition that a term of a scatter goes to the place `at`: ``b == level[r, c]`` for each index.

    Raises `DeclarationError`, naming the scatter.
    """
    if not isinstance(domain, Mapping | list) or not domain or not all(isinstance(each, Iter) for each in domain):
        raise DeclarationError(
            f"the domain of the scatter {name} is {domain!r}; write a dict such as {{b: B}}, or a list of iterators, "
            "[b], for what is read of it"
        )
    if not isinstance(at, list | tuple) or len(at) != len(domain):
        needed = ", ".join(map(str, domain))
        raise DeclarationError(f"at= of the scatter {name} is {at!r}; list a place for each of {needed}")
    conditions = [_equation(name, i, given) for i, given in zip(domain, at, strict=True) if given is not i]
    if not conditions:
        raise DeclarationError(
            f"at= of the scatter {name} names the iterators of its values alone, so that every term would go to every "
            "value: write f.reduction"
        )
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def _equation(name: str, iterator: Any, given: Any) -> Expr:
    try:
        place = as_expr(given)
        check_single(place)
    except (DeclarationError, DTypeError) as error:
        raise DeclarationError(f"at= of the scatter {name} cannot be used: {error}") from None
    if not place.dtype.is_integer:
        raise DeclarationError(
            f"the place {place} of the scatter {name} is {place.dtype}; places are integers: tm.cast(tm.int32, {place})"
        )
    return binary("==", as_expr(iterator), place)
