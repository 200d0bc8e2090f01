"""Private copies of partial results: inside the loop that keeps them, nobody else touches the reduction.

A loop with ``combine=PRIVATE`` combines the copies of a reduction's buffer at its end. An access to the buffer inside
the loop that is not an update would see the buffer without them, even where no two iterations conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.touch import Touch
from tiramisu_py.errors import Violation
from tiramisu_py.program.loops import Combine, Parallel, Vector
from tiramisu_py.program.statement import Role
from tiramisu_py.proof.findings import Finding, words
from tiramisu_py.proof.races import all_pairs, pair_spots, pairs_alike, race_at, statements, unordered


def findings(flow: Flow) -> Iterator[Finding]:
    """Every access to a reduction inside a loop that keeps private copies of it."""
    for a, b in all_pairs(flow):
        yield from _uncombined(flow, a, b)


def _uncombined(flow: Flow, a: Touch, b: Touch) -> Iterator[Finding]:
    """Accesses to partial results inside the loop that keeps private copies of them."""
    for update, other in ((a, b), (b, a)):
        if update.role is Role.UPDATE and update.is_write and not (other.role is Role.UPDATE and other.is_write):
            for depth in _private_depths(flow, update, other):
                bad = _in_one_iteration(flow, update, other, depth)
                if not bad.is_empty() and _meets(flow, update, depth):
                    found = partial(_still_uncombined, a=a, b=b)
                    yield Finding(_not_combined(flow, update, other, bad, depth), found)


def _private_depths(flow: Flow, a: Touch, b: Touch) -> Iterator[int]:
    """The depths of shared loops that keep private copies."""
    first, _ = statements(a, b)
    for depth in unordered(flow, a, b):
        tag = flow.touches.program.loops[first.loops[depth]].tag
        if isinstance(tag, Parallel | Vector) and tag.combine is Combine.PRIVATE:
            yield depth


def _in_one_iteration(flow: Flow, a: Touch, b: Touch, depth: int) -> isl.Map:
    same = a.prefix(depth + 1).apply_range(b.prefix(depth + 1).reverse())
    return flow.same_place(a, b).intersect(same)


def _meets(flow: Flow, update: Touch, depth: int) -> bool:
    """Whether different iterations of a loop update one place."""
    return not race_at(update, update, flow.same_place(update, update), depth, None).is_empty()


def _still_uncombined(flow: Flow, a: Touch, b: Touch) -> bool:
    return any(any(_uncombined(flow, x, y)) for x, y in pairs_alike(flow, a, b))


def _not_combined(flow: Flow, update: Touch, other: Touch, bad: isl.Map, depth: int) -> Violation:
    witness, partial_result, spot = pair_spots(flow, update, other, bad)
    statement, _ = statements(update, other)
    loop = flow.touches.program.loops[statement.loops[depth]].name
    does = "stores" if other.is_write else "reads"
    who = words(spot.computed(flow.touches.program))
    where = f"inside loop {loop}, which combines its partial results only at its end"
    message = f"{who} {does} {words(partial_result.named)} {where}, {witness}"
    return Violation("reduction", message, witness, repair=f"move it out of loop {loop}, or use combine=tm.ATOMIC")
