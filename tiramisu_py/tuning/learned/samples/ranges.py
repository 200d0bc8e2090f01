"""Ranges of sizes: what is sampled, and whether given sizes lie within."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from random import Random

from tiramisu_py.errors import ArgumentError

Sizes = Mapping[str, int]
#: The least and the largest value of each size, both included.
Ranges = Mapping[str, tuple[int, int]]


def checked_ranges(given: Mapping[str, object], params: tuple[str, ...], what: str) -> dict[str, tuple[int, int]]:
    """The range of each parameter, a pair or one value; raises `ArgumentError`, naming the parameter."""
    _require_names(given, params, what, f"{params[0]}=(16, 4096)" if params else "")
    found = {}
    for name in params:
        value = given[name]
        pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
        if len(pair) != 2 or not all(isinstance(end, int) and not isinstance(end, bool) for end in pair):
            raise ArgumentError(f"{name}={value!r}: give the least and the largest size, {name}=(16, 4096)")
        if not 1 <= pair[0] <= pair[1]:
            raise ArgumentError(f"{name}={value!r}: sizes are at least 1, and the least one comes first")
        found[name] = (pair[0], pair[1])
    return found


def checked_values(given: Mapping[str, object], params: tuple[str, ...], what: str) -> dict[str, int]:
    """The value of each parameter; raises `ArgumentError`, naming the parameter."""
    _require_names(given, params, what, f"{params[0]}=1000" if params else "")
    found = {}
    for name in params:
        value = given[name]
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentError(f"{name}={value!r}: a size is an integer of at least 1")
        found[name] = int(value.__index__())
        if found[name] < 1:
            raise ArgumentError(f"{name}={found[name]}: a size is an integer of at least 1")
    return found


def _require_names(given: Mapping[str, object], params: tuple[str, ...], what: str, example: str) -> None:
    for name in given:
        if name not in params:
            raise ArgumentError(f"{what} has no size {name}: the sizes are {', '.join(params) or 'none'}")
    for name in params:
        if name not in given:
            raise ArgumentError(f"{what} lacks the size {name}: give all of {', '.join(params)}, such as {example}")


def outside(sizes: Sizes, ranges: Ranges) -> list[str]:
    """The sizes that lie beyond their range, in words."""
    return [
        f"{name} = {value} is not in {low} to {high}"
        for name, value in sizes.items()
        for low, high in [ranges.get(name, (0, 0))]
        if not low <= value <= high
    ]


def nearest(sizes: Sizes, ranges: Ranges) -> dict[str, int]:
    """The sizes within the ranges that are next to given ones."""
    return {name: min(max(value, ranges[name][0]), ranges[name][1]) for name, value in sizes.items()}


def written(sizes: Sizes) -> str:
    """Sizes as text: JSON, in order of names."""
    return json.dumps(dict(sizes), sort_keys=True)


def hull(some: Iterable[Ranges]) -> dict[str, tuple[int, int]]:
    """The least ranges that contain some."""
    found: dict[str, tuple[int, int]] = {}
    for ranges in some:
        for name, (low, high) in ranges.items():
            least, most = found.get(name, (low, high))
            found[name] = min(least, low), max(most, high)
    return found


def supported(ranges: Ranges, reached: Ranges) -> dict[str, tuple[int, int]]:
    """The parts of ranges that samples support: up to an octave beyond the sizes that they have `reached`, since the
    ends of a range are seldom drawn, and since collecting may have ended before the range was covered.
    """
    return {
        name: (max(low, reached[name][0] // 2), min(high, 2 * reached[name][1])) for name, (low, high) in ranges.items()
    }


class Octaves:
    """The values of one size, in classes that each begin at a power of two; within a class they are log-uniform.

    Logarithms are uniform over the range ``[low, high + 1)``, rounded down, so that every value has a chance.
    """

    def __init__(self, low: int, high: int) -> None:
        cuts = [low, *(1 << k for k in range(low.bit_length(), high.bit_length())), high + 1]
        self._ends = [(a, b) for a, b in pairwise(cuts) if a < b]

    @property
    def shares(self) -> list[float]:
        """The share of each class, of the logarithms of the range."""
        widths = [math.log(high / low) for low, high in self._ends]
        return [width / sum(widths) for width in widths]

    def draw(self, octave: int, random: Random) -> int:
        """A value of a class."""
        low, high = self._ends[octave]
        return min(int(math.exp(random.uniform(math.log(low), math.log(high)))), high - 1)
