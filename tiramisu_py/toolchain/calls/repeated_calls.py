"""Calls like earlier ones: what was found out about arguments of certain types and shapes is not found out again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import ArrayArgument, ScalarArgument
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.calls.arguments import Arguments, PreparedCall
from tiramisu_py.toolchain.calls.c_function import CFunction
from tiramisu_py.toolchain.calls.numpy_arrays import Address, address_of, allocated_at, byte_range
from tiramisu_py.toolchain.calls.scalar_arguments import passed_scalar

Array = npt.NDArray[Any]
Key = tuple[object, ...]

#: The number of kinds of calls that are kept.
_MOST = 64


@dataclass(frozen=True, eq=False)
class _Given:
    """An array that the caller passes as the value number `position`, and the C function gets as its argument `slot`.

    Its bytes are those from ``address + low`` to before ``address + high``.
    """

    position: int
    slot: int | None
    element: int
    low: int
    high: int
    address: Address


@dataclass(frozen=True, eq=False)
class _Made:
    """An array that is made for the caller, and the C function gets as its argument `slot`."""

    slot: int
    declared: ArrayArgument
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class _Plan:
    """The calls of one kind: the arguments in C so far, what the caller passes, and what is made for it.

    What follows from types, shapes, strides and sizes has been checked; where arrays are has not. `apart` are the
    positions in `given` of pairs that may not overlap, `results` those in `made` or among the values of a call.
    """

    passed: tuple[int | None, ...]
    given: tuple[_Given, ...]
    apart: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int | None, ScalarArgument], ...]
    made: tuple[_Made, ...]
    results: tuple[tuple[bool, int], ...]

    def addresses(self, values: Sequence[Any]) -> list[int] | None:
        """Where the arrays of a call are; None if one is not aligned, or overlaps another that it should not."""
        found = []
        for each in self.given:
            start = each.address(values[each.position])
            if start % each.element:
                return None
            found.append(start)
        for one, other in self.apart:
            first, second = self.given[one], self.given[other]
            begins, ends = found[one] + first.low, found[one] + first.high
            if begins < found[other] + second.high and found[other] + second.low < ends:
                return None
        return found


class RepeatedCalls:
    """The kinds of calls of a kernel so far, by the types and shapes of their arguments.

    It is for kernels whose arrays are all in the host's memory, and have no facts that each call verifies.
    """

    def __init__(self, arguments: Arguments, function: CFunction) -> None:
        self.arguments, self.function = arguments, function
        self.sizes = frozenset(arguments.function.params)
        self.plans: dict[Key, _Plan] = {}

    def results(self, inputs: tuple[object, ...], named: Mapping[str, object]) -> tuple[Array, ...] | None:
        """The results of a call; None if it is of no known kind, or has to be refused, and nothing has run.

        Raises `KernelError` if the function reports a failure.
        """
        key = self._key(inputs, named)
        plan = self.plans.get(key) if key is not None else None
        if plan is None:
            return None
        values: tuple[Any, ...] = (*inputs, *named.values())
        starts = plan.addresses(values)
        if starts is None:
            return None
        passed: list[Any] = [*plan.passed]
        for each, start in zip(plan.given, starts, strict=True):
            if each.slot is not None:
                passed[each.slot] = start
        try:
            for position, slot, scalar in plan.scalars:
                value = passed_scalar(scalar, values[position])
                if slot is not None:
                    passed[slot] = value
        except ArgumentError:
            return None
        new = []
        for made in plan.made:
            own, passed[made.slot] = allocated_at(made.declared, made.shape, made.strides)
            new.append(own)
        self.function.call(passed)
        return tuple([new[k] if is_new else values[k] for is_new, k in plan.results])

    def remember(self, inputs: tuple[object, ...], named: Mapping[str, object], call: PreparedCall) -> None:
        """Keeps what has been found out about a call, for others of its kind."""
        key = self._key(inputs, named)
        if key is None:
            return
        if len(self.plans) >= _MOST:
            self.plans.clear()
        self.plans[key] = self._plan(inputs, named, call)

    def _key(self, inputs: tuple[object, ...], named: Mapping[str, object]) -> Key | None:
        """All that a call is checked for, but for addresses and values of scalars; None if there may be more."""
        found: list[object] = [tuple(named), *map(_form, inputs)]
        for name, value in named.items():
            found.append(value if type(value) is int and name in self.sizes else _form(value))
        return None if _OTHER in found else tuple(found)

    def _plan(self, inputs: tuple[object, ...], named: Mapping[str, object], call: PreparedCall) -> _Plan:
        known, sizes = self.arguments, self.arguments.function.params
        labels = [*[*known.inputs][: len(inputs)], *named]
        positions = {
            known.aliases.get(label, label): position
            for position, (label, value) in enumerate(zip(labels, (*inputs, *named.values()), strict=True))
            if value is not None
        }
        slots = {name: len(sizes) + k for k, name in enumerate(known.passed)}
        given = {name: array for name, array in known.arrays.items() if name in positions}
        new = [name for name in known.arrays if name not in positions]
        return _Plan(
            (*(call.params[name] for name in sizes), *(None for _ in known.passed)),
            tuple(_given(positions[name], slots.get(name), of, call.values[name]) for name, of in given.items()),
            _apart([(of.is_output, call.values[name].size) for name, of in given.items()]),
            tuple((positions[name], slots.get(name), of) for name, of in known.scalars.items()),
            tuple(_made(slots[name], known.arrays[name], call.values[name]) for name in new),
            tuple(
                (name in new, new.index(name) if name in new else positions[name]) for name in known.function.outputs
            ),
        )


#: The form of an argument of which more must be looked at.
_OTHER = "other"


def _form(value: Any) -> object:
    of = type(value)
    if of is np.ndarray:
        return value.dtype, value.shape, value.strides, value.flags.writeable
    return of if of is float or of is int or of is bool or value is None else _OTHER


def _given(position: int, slot: int | None, declared: ArrayArgument, array: Any) -> _Given:
    low, high = byte_range(array)
    return _Given(position, slot, declared.dtype.bytes, low, high, address_of(array))


def _made(slot: int, declared: ArrayArgument, array: Any) -> _Made:
    return _Made(slot, declared, array.shape, None if declared.strides is None else array.strides)


def _apart(arrays: Sequence[tuple[bool, int]]) -> tuple[tuple[int, int], ...]:
    """The pairs of arrays that may not overlap: one is written, and both have elements; (written, size) of each."""
    filled = [position for position, (_, size) in enumerate(arrays) if size]
    return tuple((one, other) for one in filled if arrays[one][0] for other in filled if other != one)
