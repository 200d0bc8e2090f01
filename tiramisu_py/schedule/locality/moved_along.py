"""Guests: statements that are computed in the loops of another computation, and move along with it.

::

    for r: { for r': p[r']; q[r] }      -->     for n: for r: { for r': p[r']; q[r] }

A guest is taken out of the loops that it shares, its host is moved, and the guest is computed in the loops of its host
again: for each iteration the values that this reads now. The program is all that this asks for. Given the iterations
o of the loops that a guest shares, its own iterators x, and needed = {o -> v}, its instances must be
{S[o, x] : V(x) in needed(o)}, as `compute_at` has made them; what has been changed since by another rule, as windows
that slide are, stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.storage.store import scoped


@dataclass(frozen=True)
class Guest:
    """The statements of one computation in loops of others, and the loops that they share with these."""

    source: str
    names: tuple[str, ...]
    scope: tuple[LoopId, ...]


def guests_of(program: Program, own: Sequence[Statement]) -> list[Guest] | None:
    """What is computed in the loops of `own`, readers first; None if a statement there cannot be taken out of them."""
    loops = {loop for statement in own for loop in statement.loops}
    names = {statement.name for statement in own}
    inside = [s for s in program.statements.values() if s.name not in names and loops.intersection(s.loops)]
    found = list[Guest]()
    for source in dict.fromkeys(s.source for s in inside):
        mine = [s for s in inside if s.source == source]
        readers = [s for s in (*own, *inside) if s.source != source and source in s.loads]
        depths = {shared(s, reader) for s in mine for reader in readers or own}
        if source == own[0].source or len(depths) > 1 or any(s.role is Role.COPY for s in mine):
            return None
        depth = depths.pop()
        if len({s.loops[:depth] for s in mine}) > 1 or any(_outside(program, s, depth) is None for s in mine):
            return None
        found.append(Guest(source, tuple(s.name for s in mine), mine[0].loops[:depth]))
    return _readers_first(program, found)


def _readers_first(program: Program, guests: Iterable[Guest]) -> list[Guest] | None:
    """The guests, each after those that read it; None if two of them read each other."""
    left, ordered = list(guests), list[Guest]()
    while left:
        read = {
            name for guest in left for one in guest.names for name in program.statements[one].loads - {guest.source}
        }
        ready = [guest for guest in left if guest.source not in read]
        if not ready:
            return None
        ordered += ready
        left = [guest for guest in left if guest not in ready]
    return ordered


def taken_out(program: Program, guests: Iterable[Guest]) -> Program:
    """The program with guests in nests of their own, and without the orders in which they take part."""
    names = {name for guest in guests for name in guest.names}
    for guest in guests:
        apart = [_outside(program, program.statements[name], len(guest.scope)) for name in guest.names]
        program = program.with_statement(*(statement for statement in apart if statement is not None))
    kept = tuple(order for order in program.orders if not names & {order.before, order.after})
    return program.with_(orders=kept)


def _outside(program: Program, statement: Statement, depth: int) -> Statement | None:
    """A statement without its outermost `depth` loops, which number its executions but say nothing of their values."""
    space = statement.frame
    variables = sets.variables(space)
    coords = sets.outputs(statement.coords)
    if len(variables) < depth or not all(
        coord.plain_is_equal(variable) for coord, variable in zip(coords[:depth], variables[:depth], strict=True)
    ):
        return None
    dims = statement.dims[depth:]
    drop = sets.function(space, statement.name, variables[depth:])
    instances = sets.with_dims(sets.as_set(statement.instances.apply(sets.graph(drop))), dims)
    own = instances.get_space()
    at_zero = [sets.constant(own, 0)] * depth + sets.variables(own)
    inside = sets.function(own, statement.name, at_zero)
    point = sets.compose(inside, statement.point)
    kept = sets.function(space, None, coords[depth:])
    rest = sets.compose(inside, kept)
    if not (_is_same(sets.compose(drop, point), statement.point) and _is_same(sets.compose(drop, rest), kept)):
        return None
    return replace(
        statement, dims=tuple(dims), instances=instances, point=point, coords=rest, loops=statement.loops[depth:]
    )


def _is_same(a: isl.MultiAff, b: isl.MultiAff) -> bool:
    return bool(sets.without_dim_names(a).plain_is_equal(sets.without_dim_names(b)))


def with_scopes(program: Program, before: Program, guests: Iterable[Guest], own: Sequence[Statement]) -> Program:
    """The program with the buffers of what has moved along kept for each iteration of the loops where it is now.

    `own` are the statements of the computation that moved, as they were `before`.
    """
    loops = {loop for statement in own for loop in statement.loops}
    outer = _added(program, own[0])
    sources = {guest.source for guest in guests}
    for buffer in list(program.buffers.values()):
        if not buffer.scope or buffer.scope[0] not in loops or buffer != before.buffers.get(buffer.name):
            continue
        storages = list(program.storages_in(buffer.name))
        if len(storages) == 1 and storages[0].source in sources:
            program = scoped(program, storages[0], (*outer, *buffer.scope), storages[0].source)
        else:
            program = _prefixed(program, buffer, outer)
    return program


def _added(program: Program, old: Statement) -> tuple[LoopId, ...]:
    """The loops that a statement has in addition to its old ones."""
    now = program.statements[old.name].loops
    return now[: len(now) - len(old.loops)]


def has_moved(program: Program, own: Sequence[Statement]) -> bool:
    """Whether each of these statements has all of its loops, inside the same additional ones."""
    added = {_added(program, statement) for statement in own}
    return len(added) == 1 and all(program.statements[s.name].loops == (*next(iter(added)), *s.loops) for s in own)


def _prefixed(program: Program, buffer: Buffer, outer: tuple[LoopId, ...]) -> Program:
    """A buffer that several share, or that others fill, with a copy for each iteration of some loops around its own."""
    for storage in list(program.storages_in(buffer.name)):
        space = sets.sized_frame(storage.index.get_space(), None, sets.in_size(storage.index) + len(outer))
        kept = sets.function(space, None, sets.variables(space)[len(outer) :])
        program = program.with_storage(replace(storage, index=sets.compose(kept, storage.index)))
    return program.with_buffer(replace(buffer, scope=(*outer, *buffer.scope)))


def as_they_were(program: Program, before: Program, guests: Iterable[Guest]) -> bool:
    """Whether guests have the same executions in two programs."""
    names = [name for guest in guests for name in guest.names]
    return all(
        sets.plain(program.statements[name].instances).is_equal(sets.plain(before.statements[name].instances))
        for name in names
    )
