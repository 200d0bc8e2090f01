"""The space of a search: the values of each parameter, and a condition on them together."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass

#: The values of all parameters by name: a point of a space.
Point = Mapping[str, Any]

#: Spaces up to this size are listed, to count the points that the condition allows.
LISTED = 100_000


@dataclass(frozen=True)
class Space:
    """The values of each parameter in order, and the condition that a point must meet (None: no condition)."""

    values: Mapping[str, Sequence[Any]]
    where: Callable[..., object] | None = None

    @property
    def size(self) -> int:
        """The number of combinations, also of those that the condition excludes."""
        return math.prod(len(values) for values in self.values.values())

    @property
    def is_listed(self) -> bool:
        """Whether it is small enough to list its points."""
        return self.size <= LISTED

    def points(self) -> Iterator[Point]:
        """All points that the condition allows, in lexicographic order."""
        for choice in product(*self.values.values()):
            point = dict(zip(self.values, choice, strict=True))
            if self.allows(point):
                yield point

    def allows(self, point: Point) -> bool:
        """Whether a combination meets the condition."""
        return self.where is None or bool(self.where(**point))

    def is_ordered(self, name: str) -> bool:
        """Whether the values of a parameter are numbers that increase."""
        values = self.values[name]
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        return numbers and all(a < b for a, b in pairwise(values))

    def at(self, indices: Mapping[str, int]) -> Point:
        """The combination of the values with these indices."""
        return {name: values[indices[name]] for name, values in self.values.items()}

    def indices(self, point: Point) -> dict[str, int]:
        """The index of each value of a combination: the inverse of `at`."""
        return {name: _index(values, point[name]) for name, values in self.values.items()}

    def number(self, point: Point) -> int:
        """The number of a combination, in lexicographic order."""
        found = 0
        for name, index in self.indices(point).items():
            found = found * len(self.values[name]) + index
        return found

    def numbered(self, number: int) -> Point:
        """The combination of a number."""
        indices: dict[str, int] = {}
        for name, values in reversed([*self.values.items()]):
            number, indices[name] = divmod(number, len(values))
        return self.at(indices)


def checked_space(given: object, where: object, make: object) -> Space:
    """The space of a user's `space` and `where`, whose points `make` takes. Raises `ArgumentError`."""
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        raise ArgumentError(f'space={given!r}: give the values of each parameter by name, {{"rows": [2, 4, 8], ...}}')
    if not callable(make):
        raise ArgumentError(f"{make!r} is no function: give one that takes a point and returns a scheduled tm.Function")
    values = {name: _values(name, some) for name, some in given.items()}
    _require_taken("make", make, values)
    if where is not None:
        if not callable(where):
            raise ArgumentError(f"where={where!r}: give a function of the parameters, such as lambda rows, lanes: ...")
        _require_taken("where", where, values)
    return Space(values, where)


@own_call
def powers_of_two(low: int, high: int) -> list[int]:
    """The powers of two from `low` to `high`, both included: values of a parameter for `tune`.

    ::

        tm.powers_of_two(8, 64)         # [8, 16, 32, 64]

    Raises `ArgumentError` if there is none.
    """
    for name, value in (("low", low), ("high", high)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(f"powers_of_two: {name} is {value!r}: give an integer of at least 1")
    found = [1 << k for k in range((low - 1).bit_length(), high.bit_length())]
    if not found:
        raise ArgumentError(f"powers_of_two: no power of two lies between {low} and {high}")
    return found


def _values(name: str, given: object) -> tuple[Any, ...]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ArgumentError(f"space: {name} is {given!r}: give a list of its values, or a range")
    values = tuple(given)
    if not values:
        raise ArgumentError(f"space: {name} has no values")
    for number, value in enumerate(values):
        if any(_same(value, other) for other in values[:number]):
            raise ArgumentError(f"space: {name} has {value!r} twice")
    return values


def _same(a: object, b: object) -> bool:
    """Whether two values are one: 1 and True are two."""
    return type(a) is type(b) and bool(a == b)


def _index(values: Sequence[Any], value: object) -> int:
    return next(k for k, one in enumerate(values) if _same(one, value))


def _require_taken(what: str, function: Callable[..., object], values: Mapping[str, object]) -> None:
    """Raises `ArgumentError` if a function does not take the parameters by name."""
    try:
        taken = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    try:
        taken.bind(**values)
    except TypeError as error:
        names = ", ".join(values)
        raise ArgumentError(f"{what} does not take the parameters of the space ({names}): {error}") from None
