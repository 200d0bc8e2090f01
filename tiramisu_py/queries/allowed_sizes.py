"""Allowed values of parameters: the function's assumptions at known sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.program import Program
from tiramisu_py.program.targets import Partition

#: Larger than any value of a parameter.
HUGE = 2**48


class Room:
    """The allowed values of parameters, given the `known` ones. Raises `ArgumentError` if there are none."""

    def __init__(self, program: Program, known: Mapping[str, int]) -> None:
        self._names = program.algorithm.params
        self._set = self._where(sets.params_as_dims(program.context), known)
        if self._set.is_empty():
            given = ", ".join(f"{name} = {value}" for name, value in known.items())
            raise ArgumentError(f"{program.algorithm.name} is not defined for {given}: it assumes {program.context}")

    def largest(self, chosen: Mapping[str, int], name: str, most: int) -> int | None:
        """The largest allowed value of a parameter up to `most`, given the `chosen` ones; None if there is none."""
        side = self._between(self._where(self._set, chosen), name, 0, most) if most >= 0 else None
        return None if side is None else side[1]

    def least(self, chosen: Mapping[str, int], name: str, low: int = 0) -> int | None:
        """The least allowed value of a parameter from `low` on, given the `chosen` ones; None if there is none."""
        side = self._between(self._where(self._set, chosen), name, low, HUGE)
        return None if side is None else side[0]

    def some(self, chosen: Sequence[str]) -> dict[str, int]:
        """Allowed values of parameters: for each in turn the least value, given those before it."""
        at: dict[str, int] = {}
        for name in chosen:
            value = self.least(at, name)
            assert value is not None
            at[name] = value
        return at

    def _where(self, of: isl.Set, values: Mapping[str, int]) -> isl.Set:
        for name, value in values.items():
            of = of.intersect(sets.within(self._variable(of, name), value, value + 1))
        return of

    def _between(self, of: isl.Set, name: str, low: int, high: int) -> tuple[int, int] | None:
        inside = of.intersect(sets.within(self._variable(of, name), low, high + 1))
        return sets.interval(sets.component_of(inside, self._names.index(name)), 0)

    def _variable(self, of: isl.Set, name: str) -> isl.Aff:
        return sets.variables(of.get_space())[self._names.index(name)]


def are_allowed(program: Program, sizes: Mapping[str, int]) -> bool:
    """Whether a program assumes nothing that these sizes contradict."""
    return not sets.fixed(program.context, sizes).is_empty()


def part_ranges(partition: Partition, sizes: Mapping[str, int]) -> list[tuple[int, int] | None]:
    """The first and the last iteration of each part of a level at some sizes; None for a part without any."""
    return [sets.interval(sets.fixed(of, dict(sizes)), 0) for of in partition.iterations]
