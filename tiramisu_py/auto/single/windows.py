"""Sums over windows: all terms of a vector of values at once, so that the sums stay in registers from term to term.

::

    for y, x:                                  for y:
        for m, n: o[y, x] += ..        -->         for x in vectors:
                                                       o[y, x] += .. for each (m, n), unrolled

Conditions such as ``(x + 1 - v) % 2 == 0``, of transposed convolutions, hold for every second value alone. The values
of one phase, x = 2 x0 + x1 for one x1, have the same terms: phases are outside, and the terms of each are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tiramisu_py import Function, Iter
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import APART, read_cost
from tiramisu_py.queries import Declared, congruences
from tiramisu_py.recipes.cpu import MOST_LANES
from tiramisu_py.records import dataclass

#: The most terms of a value that are written out, and operations of them.
MOST_TERMS, MOST_OPERATIONS = 64, 512


@dataclass(frozen=True)
class TermWindow:
    """The iterators of a sum over a window: values outside, the vector, terms in loops, and terms that are written out.

    `phases` are the values for which conditions have a modulus, with it; they may have the vector among them.
    """

    outer: tuple[str, ...]
    vector: str
    loops: tuple[str, ...]
    terms: tuple[str, ...]
    phases: Mapping[str, int]

    @property
    def plain(self) -> tuple[str, ...]:
        """The values outside that have no phases, up to the first one that has some."""
        count = next((at for at, each in enumerate(self.outer) if each in self.phases), len(self.outer))
        return self.outer[:count]


def windowed(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a sum of which some iterators have few terms, whatever the sizes are."""
    found = _window(problem, name)
    if found is None:
        return
    lanes = problem.lanes(name)
    phases = [f"phases of {q} {each}" for each, q in found.phases.items()]
    outside = ", ".join([*found.plain, *phases, *found.loops])
    yield Offer(
        name, f"{f'{outside} outside, ' if outside else ''}vectors of {lanes} along {found.vector} with all terms of "
        f"{', '.join(found.terms)}",
        f"sums stay in registers over the terms of {', '.join(found.terms)}",
        lambda function: _apply(function, name, found, lanes), (name,), _work(problem, name, found, lanes),
    )  # fmt: skip


def _window(problem: Problem, name: str) -> TermWindow | None:
    declared = problem.computation(name)
    if declared.guards or declared.group or not declared.iterators:
        return None
    extents = dict(zip(declared.point_iterators, problem.point_extents(name), strict=True))
    terms: tuple[str, ...] = ()
    for each in reversed(declared.over):
        if extents[each] is None or math.prod(extents[term] or 1 for term in (*terms, each)) > MOST_TERMS:
            break
        terms = (each, *terms)
    phases = _phases(declared, terms)
    count = math.prod(extents[each] or 1 for each in terms)  # each term is in one phase
    if phases is None or not terms or count < 2 or count * problem.operations(name) > MOST_OPERATIONS:
        return None
    *outer, vector = declared.iterators
    extent = extents[vector]
    fits = extent is None or extent >= problem.lanes(name) * phases.get(vector, 1)
    moving = any(touch.mentions(vector) for touch in problem.touches(name))
    if not fits or not moving or (phases and not outer):
        return None
    loops = tuple(each for each in declared.over if each not in terms)
    return TermWindow(tuple(outer), vector, loops, terms, phases)


def filled_lanes(problem: Problem, name: str, vector: str) -> int:
    """The lanes that conditions leave in vectors along an iterator, on average: half of them if every second holds."""
    declared = problem.computation(name)
    phases = _phases(declared, declared.over) or {}
    return max(problem.lanes(name) // phases.get(vector, 1), 1)


def _phases(declared: Declared, terms: Sequence[str]) -> dict[str, int] | None:
    """The moduli of conditions on values and terms, by value; None if one is on anything else."""
    found: dict[str, int] = {}
    for condition in congruences(declared):
        values = [each for each in condition.iterators if each in declared.iterators]
        if not condition.is_plain or any(each not in (*values, *terms) for each in condition.iterators):
            return None
        for each in values:
            found[each] = math.lcm(found.get(each, 1), condition.modulus)
    return found


def _work(problem: Problem, name: str, window: TermWindow, lanes: int) -> ValueWork:
    """The work of a term: a sum is stored once for all terms written out, and loaded unless it begins there."""
    declared = problem.computation(name)
    extents = dict(zip(declared.point_iterators, problem.point_extents(name), strict=True))
    share = math.prod(extents[each] or 1 for each in window.terms) / math.prod(window.phases.values())
    stores = (2.0 if window.loops or window.phases else 1.0) / max(share, 1.0)
    work = problem.work(name, window.vector, lanes, stores=stores)
    if not window.phases:
        return work
    known = (1.0 if None in touch.forms else read_cost(touch, window.vector) for touch in problem.touches(name))
    result = APART if window.vector in window.phases else 1.0
    return replace(work, accesses=sum(known) + stores * result)


def _apply(function: Function, name: str, window: TermWindow, lanes: int) -> None:
    handle: Any = function[name]
    fresh = Fresh(function)
    if not window.outer:
        _of_one_loop(handle, window, lanes, fresh)
        return
    inner = {each: Iter(each) for each in (*window.outer, window.vector)}
    phases = []
    for each, modulus in window.phases.items():
        whole, phase = fresh(f"{each}0"), fresh(f"{each}1")
        handle.update.split(Iter(each), modulus, whole, phase)
        inner[each] = whole
        phases.append(phase)
    outer = [inner[each] for each in window.outer]
    plain, others = outer[: len(window.plain)], outer[len(window.plain) :]
    vector = inner[window.vector]
    loops, terms = list(map(Iter, window.loops)), list(map(Iter, window.terms))
    handle.update.reorder(*plain, *phases, *others, *loops, vector, *terms)
    together = not phases and not loops
    if together:
        handle.update.after(handle.init, vector)
    elif plain:
        handle.update.after(handle.init, plain[-1])
    if plain:
        handle.update.parallelize(plain[0])
    if together:
        handle.vectorize(vector, lanes, remainder="mask")
    else:
        handle.init.vectorize(Iter(window.vector), lanes, remainder="mask")
        handle.update.vectorize(vector, lanes, remainder="mask")
    for loop in (*phases, *terms):
        handle.update.unroll(loop)


def _of_one_loop(handle: Any, window: TermWindow, lanes: int, fresh: Fresh) -> None:
    """Blocks of the values outside, for threads."""
    block, inside = fresh(f"{window.vector}0"), fresh(f"{window.vector}1")
    handle.split(Iter(window.vector), MOST_LANES * 8, block, inside)
    handle.update.reorder(block, *map(Iter, window.loops), inside, *map(Iter, window.terms))
    handle.update.after(handle.init, block if window.loops else inside)
    handle.update.parallelize(block)
    handle.vectorize(inside, lanes, remainder="mask")
    for each in window.terms:
        handle.update.unroll(Iter(each))
