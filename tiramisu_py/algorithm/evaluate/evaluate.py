"""The oracle: the outputs of an algorithm, computed in NumPy without a schedule, memory or C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.runs import stored_axes
from tiramisu_py.algorithm.evaluate.computing import Computing
from tiramisu_py.algorithm.evaluate.given_values import GivenValues, checked_arguments, output_lows, output_shape
from tiramisu_py.algorithm.evaluate.lattice import Column, Mask
from tiramisu_py.algorithm.evaluate.numeric import Array
from tiramisu_py.algorithm.evaluate.valuation import Valuation, all_known
from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import DeclarationError


def evaluate(
    algorithm: Algorithm, arguments: Mapping[str, Any], params: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """The outputs of an algorithm, by name, as new arrays.

    `arguments` gives each input by name; parameters follow from the shapes, or are given in `params` (or among the
    arguments). An array passed for an output gives the initial contents of the elements that nothing computes; by
    default they are 0. Raises `ArgumentError` for arguments that do not fit and for index values out of bounds, and
    `DeclarationError` if the algorithm reads a value that does not exist at these sizes.
    """
    given = checked_arguments(algorithm, arguments, params or {})
    computed = _computed(algorithm, Valuation(given.params), given, needed(algorithm))
    found: dict[str, Array] = {}
    for name in algorithm.outputs:
        found |= _arrays(name, _output(algorithm, computed[name], given))
    return found


def all_values(algorithm: Algorithm, arguments: Mapping[str, Any], params: Mapping[str, int]) -> Valuation:
    """The values of all inputs and computations, and of any expression over them. Raises as `evaluate` does."""
    given = checked_arguments(algorithm, arguments, params)
    valuation = Valuation(given.params)
    _computed(algorithm, valuation, given, list(algorithm.computations))
    return valuation


def _computed(
    algorithm: Algorithm, valuation: Valuation, given: GivenValues, names: Sequence[str]
) -> dict[str, Computing]:
    """The values of some computations, which read no others."""
    valuation.values.update({name: all_known(name, array) for name, array in given.inputs.items()})
    computed: dict[str, Computing] = {}
    with np.errstate(all="ignore"):
        for group in _by_group(algorithm, names):
            members = [Computing(each, valuation) for each in group]
            for each in members:
                each.announce()
            if len(members) > 1 or members[0].reads_itself:
                compute_together(members, valuation)
            else:
                members[0].run()
            for each in members:
                each.values.finish()
            computed.update({each.c.name: each for each in members})
    return computed


def _arrays(name: str, values: Array) -> dict[str, Array]:
    """The array of an output, or those of its components."""
    if values.dtype.names is None:
        return {name: values}
    return {f"{name}_{own}": np.ascontiguousarray(values[own]) for own in values.dtype.names}


def _by_group(algorithm: Algorithm, names: Sequence[str]) -> list[list[Computation]]:
    """Some computations: those of a group together, the others alone."""
    found = dict[str, list[Computation]]()
    for name in names:
        declared = algorithm.computations[name]
        found.setdefault(declared.group or name, []).append(declared)
    return list(found.values())


def needed(algorithm: Algorithm) -> list[str]:
    """The computations that the outputs depend on, in the order of declaration."""
    found: set[str] = set()
    waiting = list(algorithm.outputs)
    while waiting:
        name = waiting.pop()
        if name not in found and name in algorithm.computations:
            found.add(name)
            c = algorithm.computations[name]
            waiting += [e.source for root in (c.expr, *c.guards) for e in walk(root) if isinstance(e, Access)]
    return [name for name in algorithm.computations if name in found]


def _output(algorithm: Algorithm, computing: Computing, given: GivenValues) -> Array:
    c = computing.c
    array = given.initial.get(c.name)
    if array is None:
        array = np.zeros(output_shape(algorithm, c, given.params), dtype=c.dtype.numpy)
    for own in array.dtype.names or ():
        array[own] = given.initial.get(f"{c.name}_{own}", 0)
    result = replace(all_known(c.name, np.array(array, order="C")), low=output_lows(algorithm, c, given.params))
    flat, inside = result.located([computing.columns[axis] for axis in stored_axes(algorithm, c)], computing.count)
    if not inside.all():
        element = [int(column[np.argmin(inside)]) for column in computing.columns]
        raise DeclarationError(
            f"{c.name}[{', '.join(map(str, element))}] has no place in the array of {c.name}, which has shape "
            f"{array.shape}; give a larger shape=, and let values start from index 0, or give none"
        )
    result.array.reshape(-1)[flat] = computing.values.array.reshape(-1)[computing.flat]
    return result.array


# -- values that read each other: computed in rounds, until all are known


def compute_together(members: Sequence[Computing], valuation: Valuation) -> None:
    """Compute a recurrence, or all computations of a group; raises `DeclarationError` if a value depends on itself.

    A value that reads an unknown value waits for it and is computed again in a later round.
    """
    sizes = [member.values.array.size for member in members]
    offsets = [0, *accumulate(sizes)]
    valuation.offsets = {member.c.name: offset for member, offset in zip(members, offsets, strict=False)}
    done = np.zeros(offsets[-1], dtype=np.bool_)
    rounds = [_Rounds(member, done, offset) for member, offset in zip(members, offsets, strict=False)]
    while any(each.attempt.size for each in rounds):
        for each in rounds:
            each.run(valuation)
        for each in rounds:
            each.find_ready()
    valuation.blocked, valuation.offsets = None, {}
    for each in rounds:
        if each.waiting.size:
            _refuse_cycle(rounds, each)


class _Rounds:
    """One computation: the values to compute in the next round, and those that wait for another value."""

    def __init__(self, computing: Computing, done: Mask, offset: int) -> None:
        self.computing, self.done, self.offset = computing, done, offset
        self.blocked = np.full(computing.count, -1, dtype=np.int64)
        self.attempt: Column = np.arange(computing.count)
        self.waiting: Column = np.arange(0)

    def run(self, valuation: Valuation) -> None:
        """Compute the values that are due; those that read an unknown value wait."""
        computing, attempt = self.computing, self.attempt
        self.attempt = np.arange(0)
        if not attempt.size:
            return
        self.blocked[attempt] = -1
        valuation.blocked = self.blocked
        result = computing.computed(attempt)
        right = self.blocked[attempt] < 0
        found = computing.flat[attempt[right]]
        values = computing.values
        assert values.done is not None
        values.array.reshape(-1)[found] = result[right]
        values.done.reshape(-1)[found] = True
        self.done[self.offset + found] = True
        self.waiting = np.concatenate([self.waiting, attempt[~right]])

    def find_ready(self) -> None:
        """The values whose missing value is known by now are due again."""
        ready = self.done[self.blocked[self.waiting]]
        self.attempt, self.waiting = self.waiting[ready], self.waiting[~ready]


def _refuse_cycle(rounds: Sequence[_Rounds], stuck: _Rounds) -> None:
    row = stuck.waiting[:1]
    needed = int(stuck.blocked[row[0]])
    holder = [each for each in rounds if each.offset <= needed][-1]
    source = holder.computing.values
    value = stuck.computing.point_text(row)
    reads = f"{source.name}[{', '.join(map(str, source.indices(needed - holder.offset)))}]"
    raise DeclarationError(f"{value} depends on itself: it reads {reads}, which waits for it or for another cycle")
