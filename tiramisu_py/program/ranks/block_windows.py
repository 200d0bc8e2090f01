"""Blocks whose bounds are known at run time: the messages between a rank and its neighbours.

`window` is the program of three ranks in a row, numbered -1, 0 and 1 from the middle one: b0 <= lower <= upper <= b1
are the bounds of their blocks, of which the outer two are additional parameters. It has only the messages to and from
the middle; messages of the neighbours to others are in the windows of other ranks. An instance has the number of its
rank and the bounds of its block as additional dimensions,

    {[x, q, l, u] : q = -1, l = b0, u = lower;  or  q = 0, l = lower, u = upper;  or  q = 1, l = upper, u = b1}

with `lower` and `upper` replaced by l and u. A neighbour exists if the middle's block does not reach the end of the
numbers.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.program.loops import Loop, Rank
from tiramisu_py.program.machine.distribution import Blocks
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.run_time_blocks import Bounds, both
from tiramisu_py.program.statement import Role, Statement

#: The ranks of a window.
BELOW, MIDDLE, ABOVE = -1, 0, 1


def window(program: Program) -> Program:
    """The messages of one rank, with the statements of it and its neighbours around them; `own` made `program`."""
    blocks = program.ranks.blocks
    assert blocks is not None
    names = outer_names(program.algorithm, blocks)
    params = (*program.algorithm.params, *names)
    algorithm = replace(program.algorithm, params=params)
    frame = sets.sized_frame(algorithm.param_space, None, 0)
    bounds = Bounds(blocks, frame)
    outer = (sets.parameter(frame, names[0]), sets.parameter(frame, names[1]))
    context = program.context.intersect(_window_context(bounds, *outer)).coalesce()
    algorithm = replace(algorithm, context=context)
    changed = program.with_(
        algorithm=algorithm,
        calls=replace(program.calls, narrowed=context),
        ranks=replace(
            program.ranks, axes=1, everyone=_numbers(algorithm, blocks), blocks=None, window=(*blocks.bounds, *names)
        ),
    )
    for statement in program.statements.values():
        loop = Loop(changed.next_loop(), "rank", Rank(), added=True)
        changed = changed.with_loop(loop).with_statement(_on_three(statement, blocks, names, algorithm, loop))
    return changed


def outer_names(algorithm: Algorithm, blocks: Blocks) -> tuple[str, str]:
    """Names for the lower bound of the block below, and the upper bound of the block above."""
    below, above = f"{blocks.lower}_below", f"{blocks.upper}_above"
    while below in algorithm.params or above in algorithm.params:
        below, above = f"{below}_", f"{above}_"
    return below, above


def _window_context(bounds: Bounds, below: isl.Aff, above: isl.Aff) -> isl.Set:
    """The conditions on the outer bounds: neighbours that exist have wide enough blocks, and leave enough to others."""
    no_lower = bounds.first.intersect(sets.as_set(below.eq_set(bounds.zero)))
    lower = both(bounds.zero.le_set(below), bounds.wide(below, bounds.lower)).subtract(bounds.first)
    no_upper = bounds.last.intersect(sets.as_set(above.eq_set(bounds.extent)))
    upper = both(bounds.within(above), bounds.wide(bounds.upper, above)).subtract(bounds.last)
    lower = lower.intersect(sets.as_set(below.eq_set(bounds.zero)).union(bounds.wide(bounds.zero, below)))
    upper = upper.intersect(sets.as_set(above.eq_set(bounds.extent)).union(bounds.wide(above, bounds.extent)))
    return no_lower.union(lower).intersect(no_upper.union(upper)).params().coalesce()


def _numbers(algorithm: Algorithm, blocks: Blocks) -> isl.Set:
    """The ranks that exist: the middle, and its neighbours where its block does not reach the end."""
    space = sets.sized_frame(algorithm.param_space, None, 1)
    bounds, q = Bounds(blocks, space), sets.variables(space)[0]

    def number(value: int) -> isl.Set:
        return sets.as_set(q.eq_set(sets.constant(space, value)))

    below = number(BELOW).subtract(bounds.first)
    above = number(ABOVE).subtract(bounds.last)
    return number(MIDDLE).union(below).union(above).intersect_params(algorithm.context.params())


def _on_three(
    statement: Statement, blocks: Blocks, outer: tuple[str, str], algorithm: Algorithm, loop: Loop
) -> Statement:
    """A half of an exchange, or a wait, on three ranks; a half has only the messages to and from the middle.

    Other statements, which do not concern the neighbours, are on the middle rank alone.
    """
    count = len(statement.dims)
    dims = (*statement.dims, "rank", blocks.lower, blocks.upper)
    frame = algorithm.frame(statement.name, tuple(f"d{k}" for k in range(count + 3)))
    forms = sets.variables(frame)
    q, low, high = forms[count:]
    instances = _moved(statement.instances, blocks, frame, count)
    instances = instances.intersect(_bounds_of_rank(frame, q, low, high, blocks, outer))
    instances = instances.intersect(sets.preimage(_numbers(algorithm, blocks), sets.function(frame, None, [q])))

    def moved(of: isl.MultiAff) -> list[isl.Aff]:
        return [sets.replaced(aff, frame, {blocks.lower: low, blocks.upper: high}) for aff in sets.outputs(of)]

    message, at_middle = statement.link.message, sets.as_set(q.eq_set(sets.constant(frame, MIDDLE)))
    if message is None and statement.role is not Role.WAIT:
        instances = instances.intersect(at_middle)
    if message is not None:
        peer = [q.add(form) for form in moved(message.peer)]
        to_middle = sets.as_set(peer[0].eq_set(sets.constant(frame, MIDDLE)))
        instances = instances.intersect(at_middle.union(to_middle))
        slots = None if message.slots is None else sets.function(frame, None, moved(message.slots))
        message = replace(message, peer=sets.function(frame, None, peer), is_relative=False, slots=slots)
    target = sets.out_name(sets.graph(statement.point)) or None
    return replace(
        statement,
        dims=dims,
        instances=sets.with_dims(instances.coalesce(), tuple(f"d{k}" for k in range(count + 3))),
        point=sets.function(frame, target, moved(statement.point)),
        loops=(*statement.loops, loop.id),
        coords=sets.function(frame, None, [*moved(statement.coords), q]),
        link=replace(statement.link, message=message),
    )


def _moved(instances: isl.Set, blocks: Blocks, frame: isl.Space, count: int) -> isl.Set:
    """Instances with the bounds of the rank's block as their last two dimensions, in place of the parameters."""
    found = sets.param_as_last_dim(sets.param_as_last_dim(instances, blocks.lower), blocks.upper)
    found = sets.with_inserted_dim(found, count)
    return sets.named(found.align_params(frame.params()), sets.tuple_name(frame))


def _bounds_of_rank(
    frame: isl.Space, q: isl.Aff, low: isl.Aff, high: isl.Aff, blocks: Blocks, outer: tuple[str, str]
) -> isl.Set:
    b0, b1, b2, b3 = (sets.parameter(frame, n) for n in (outer[0], blocks.lower, blocks.upper, outer[1]))
    found = sets.empty(frame)
    for number, lower, upper in ((BELOW, b0, b1), (MIDDLE, b1, b2), (ABOVE, b2, b3)):
        here = q.eq_set(sets.constant(frame, number))
        found = found.union(both(here, low.eq_set(lower), high.eq_set(upper)))
    return found
