"""Runs at given sizes, element by element, that find the reads that see another value than they name.

Memory is a dictionary from places to values. Reads and writes happen in the order of time, a read before a write of
the same time. A run finds exactly the reads of `Flow.unserved` at its sizes; an update of a reduction neither provides
a value nor overwrites that of its own chain (see `proof.reductions.reductions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import islpy as isl
import numpy as np

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.cases import Named
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Home
from tiramisu_py.proof.messages.small_sizes import small_params
from tiramisu_py.records import dataclass

#: How many reads and writes one run may have, and all runs of a search for a counterexample together.
MOST_OF_ONE, MOST_OF_ALL = 60_000, 150_000
#: As many as a further size costs, however small it is.
EACH_SIZE = 1_000

Point = tuple[int, ...]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Unserved:
    """Reads that are not served at given sizes: the earliest one of each access."""

    params: dict[str, int]
    reads: tuple[tuple[MemoryAccess, Point], ...]


def first_unserved(flow: Flow, home: Home, violated: isl.Set, most: int = MOST_OF_ALL) -> Unserved | None:
    """The unserved reads of a buffer instance at the smallest sizes that have any.

    The parameters in `violated` are tried in the order of their sum. None if runs of `most` reads and writes in all
    find none, or if runs are not sequential.
    """
    names, done = sets.params(violated), 0
    if not is_sequential(flow, home):
        return None
    for params in small_params(violated, names):
        count = _size(flow, home, params)
        done += count + EACH_SIZE
        if count > MOST_OF_ONE or done > most:
            return None
        found = unserved_at(flow, home, params)
        if found is None or found.reads:
            return found
    return None


def is_sequential(flow: Flow, home: Home) -> bool:
    """Whether the time of the loops alone orders all accesses to a buffer instance, and all of them take place.

    Runs know no values: they would execute what guards and facts about values exclude.
    """
    program = flow.accesses.program
    if program.runs_on_ranks or flow.kernels:
        return False
    accesses = _all(flow, home)
    if any(map(flow.exclusions.restricts, accesses)):
        return False
    return all(s is None or s.link.message is None for s in (t.actor.statement for t in accesses))


def unserved_at(flow: Flow, home: Home, params: Mapping[str, int]) -> Unserved | None:
    """The unserved reads of a buffer instance at given sizes; None if two writes to one place have one time."""
    found = _unserved_at(flow, home, params, {})
    if found is None or not found.reads or flow.copies.parents is None:
        return found
    return _unserved_at(flow, home, params, flow.copies.roots(params))


def _unserved_at(flow: Flow, home: Home, params: Mapping[str, int], roots: Mapping[Named, Named]) -> Unserved | None:
    """The reads that see another value, where copies are equal if they have one root."""
    events = sorted(_events(flow, home, params), key=lambda event: event[0])
    memory: dict[Point, tuple[tuple[int, ...], tuple[str, Point] | None]] = {}
    found: dict[MemoryAccess, Point] = {}
    for when, access, at, place, value in events:
        held = memory.get(place)
        named = (access.source, value)
        if not access.is_write:
            equal = {} if flow.is_protected(access) else roots
            if (held is None or not _is_copy(held[1], named, equal)) and access not in found:
                found[access] = at
        elif held is not None and held[0] == when:
            return None
        elif access.role is not Role.UPDATE:
            memory[place] = (when, named)
        elif held is None or held[1] != named:
            memory[place] = (when, None)
    return Unserved(dict(params), tuple(found.items()))


def _is_copy(held: Named | None, named: Named, roots: Mapping[Named, Named]) -> bool:
    """Whether a place holds a value, or one that is equal to it."""
    return held is not None and roots.get(held, held) == roots.get(named, named)


def _all(flow: Flow, home: Home) -> list[MemoryAccess]:
    return [*flow.accesses.writers(home), *flow.accesses.readers(home)]


def _size(flow: Flow, home: Home, params: Mapping[str, int]) -> int:
    return sum(sets.count(sets.fixed(access.domain, params)) for access in _all(flow, home))


def _events(
    flow: Flow, home: Home, params: Mapping[str, int]
) -> Iterator[tuple[tuple[int, ...], MemoryAccess, Point, Point, Point]]:
    """Time, access, point, place and value of each element accessed; at one time reads come before writes."""
    times, width = flow.accesses.program.times, flow.accesses.program.time_size
    for access in _all(flow, home):
        points = sets.points(sets.fixed(access.domain, params))
        statement = access.actor.statement
        timed = [(0,) * width] * len(points)
        if statement is not None:
            timed = images(sets.compose(access.instance, times[statement.name]), points, params)
        places, values = images(access.place, points, params), images(access.value, points, params)
        for when, at, place, value in zip(timed, points, places, values, strict=True):
            yield (access.actor.moment, *when, int(access.is_write)), access, at, place, value


# -- quasi-affine functions in plain numbers


def images(of: isl.MultiAff, points: Sequence[Point], params: Mapping[str, int]) -> list[Point]:
    """The images of points under a function at given parameters."""
    if not points:
        return []
    at = np.array(points, dtype=np.int64).reshape(len(points), -1)
    columns = [_values(form, at, params) for form in sets.outputs(of)]
    rows = np.stack(columns, axis=1) if columns else np.zeros((len(points), 0), dtype=np.int64)
    return [tuple(row) for row in rows.tolist()]


def _values(aff: isl.Aff, at: Numbers, params: Mapping[str, int]) -> Numbers:
    taken = sets.terms(aff)
    constant = taken.constant + sum(factor * params[name] for factor, name in taken.params)
    total = np.full(len(at), constant, dtype=np.int64)
    for position, factor in enumerate(taken.dims):
        if factor:
            total += factor * at[:, position]
    for factor, inner in taken.divs:
        total += factor * _values(inner, at, params)
    return total // taken.denominator
