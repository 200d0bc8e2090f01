"""The sizes of measuring runs: the levels shortened, so that a run is short, and cut into equal parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Counter, Program, Room
from tiramisu_py.tuning.levels import Level
from tiramisu_py.tuning.splitting import Cost, split

#: The least number of iterations of each part, if its level has that many.
LEAST = 16


def checked_sizes(program: Program, given: object, what: str = "sizes") -> dict[str, int]:
    """Sizes by the names of parameters; raises `ArgumentError`."""
    name, params = program.algorithm.name, program.algorithm.params
    if not isinstance(given, Mapping):
        raise ArgumentError(f'{what} is {given!r}: give the values of parameters by name, {{"{params[0]}": 8000, ...}}')
    found: dict[str, int] = {}
    for named, value in given.items():
        key = getattr(named, "name", named)
        if key not in params:
            raise ArgumentError(f"{what} has {key!r}, which is no parameter of {name}: {', '.join(params)}")
        if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 0:
            raise ArgumentError(f"{what} has {key} = {value!r}: a parameter is an integer of at least 0")
        found[key] = value.__index__()
    return found


def checked_small(program: Program, given: object, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of the measuring run: the `given` small ones, and the full ones of all other parameters."""
    small = checked_sizes(program, given, "small")
    for name, value in small.items():
        if name not in sizes:
            raise ArgumentError(f"small has {name}, which balance chooses: give only sizes")
        if value > sizes[name]:
            raise ArgumentError(f"small has {name} = {value}, which is more than its full size, {sizes[name]}")
    return {**sizes, **small}


def equal_parts(program: Program, found: Sequence[Level], known: Mapping[str, int]) -> dict[str, int]:
    """The points that cut the levels into equal parts, as far as the assumptions allow."""
    at: dict[str, int] = {}
    for level in found:
        some = {**known, **Room(program, known).some(_chosen(program, known))}
        division = replace(level.division(known, some), executors=tuple(range(len(level.slots))))
        at |= split(division, [Cost(0.0, 1.0)] * len(level.slots), Room(program, {**known, **at}))
    return at


def short_sizes(program: Program, found: Sequence[Level], known: Mapping[str, int], most: int) -> dict[str, int]:
    """Sizes at which a run executes about `most` instances at most, but each part still has some iterations."""
    counter, full = Counter(program), {**known, **equal_parts(program, found, known)}
    instances = sum(counter.instances(slot.statements, full) for level in found for slot in level.slots)
    pairs = zip(extents(program, found, known), found, strict=True)
    least = max((LEAST * len(level.slots) / max(extent, 1) for extent, level in pairs), default=1.0)
    factor = max(most / max(instances, 1), least)
    return dict(known) if factor >= 1 else shortened(program, found, known, factor)


def shortened(program: Program, levels: Sequence[Level], sizes: Mapping[str, int], factor: float) -> dict[str, int]:
    """Sizes at which the levels have about `factor` times their iterations, as far as the assumptions allow."""
    short = dict(sizes)
    for name in _lengths(program, levels, sizes):
        least = max(1, math.ceil(sizes[name] * factor))
        value = _allowed(program, short, name, least)
        if value is not None and value < sizes[name]:
            short[name] = value
    return short


def extents(program: Program, levels: Sequence[Level], sizes: Mapping[str, int]) -> list[int]:
    """The number of iterations of each level."""
    found = []
    for level in levels:
        some = {**sizes, **Room(program, sizes).some(_chosen(program, sizes))}
        division = level.division(sizes, some)
        found.append(division.high - division.low)
    return found


def _lengths(program: Program, levels: Sequence[Level], sizes: Mapping[str, int]) -> list[str]:
    """The sizes on which the number of iterations of a level depends."""
    before = extents(program, levels, sizes)
    found = []
    for name, value in sizes.items():
        less = _allowed(program, sizes, name, value // 2)
        if less is not None and less < value and extents(program, levels, {**sizes, name: less}) != before:
            found.append(name)
    return found


def _allowed(program: Program, sizes: Mapping[str, int], name: str, least: int) -> int | None:
    """The least allowed value of a size from `least` on, given all other sizes; None if there is none."""
    return Room(program, {other: value for other, value in sizes.items() if other != name}).least({}, name, least)


def _chosen(program: Program, sizes: Mapping[str, int]) -> list[str]:
    return [name for name in program.algorithm.params if name not in sizes]
