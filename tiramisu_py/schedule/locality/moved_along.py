"""compute_at with guests: what is computed in the loops of a computation moves along with it.

::

    for r: { for r': p[r']; q[r] }      -->     for n: for r: { for r': p[r']; q[r] }

A guest is taken out of the loops that it shares, its host is moved, and the guest is computed in the loops of its host
again: for each iteration the values that this reads now. So is a copy that a statement in these loops reads. The
program is all that this asks for. Given the iterations
o of the loops that a guest shares, its own iterators x, and needed = {o -> v}, its instances must be
{S[o, x] : V(x) in needed(o)}, as `compute_at` has made them, or what `slide` has left of these; what another rule has
changed since stays where it is, and so does its host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.domains.extents import default_place
from tiramisu_py.algorithm.domains.runs import stored_axes
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Slides, Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import scope_of, statements
from tiramisu_py.schedule.command_fields import OnStatements, StatementsHandle, statements_given
from tiramisu_py.schedule.locality.compute_at import InnerNeeds, compute_at, loads, needed_by
from tiramisu_py.schedule.locality.reduction_ends import is_start_of
from tiramisu_py.schedule.locality.slide import slid
from tiramisu_py.schedule.loops.order import inner_level
from tiramisu_py.schedule.loops.single_iterations import without_single_iterations
from tiramisu_py.schedule.nesting import check_nesting
from tiramisu_py.schedule.storage.shared_scope import settled
from tiramisu_py.schedule.storage.store import scoped


@dataclass(frozen=True)
class Guest:
    """The statements of one computation, or copy, in loops of others, and the loops that they share with these.

    `stored` is the storage in which they keep their values: that of the source, or the copy's. What was `copied_later`
    is what readers of its copies read, of which a copy has the holes filled.
    """

    source: str
    stored: str
    names: tuple[str, ...]
    scope: tuple[LoopId, ...]
    slides: Slides | None
    copied_later: bool = False


def _guests_of(program: Program, own: Sequence[Statement]) -> list[Guest] | None:
    """The guests in the loops of `own`, readers first; None if a statement there cannot be taken out of them."""
    loops = {loop for statement in own for loop in statement.loops}
    names = {statement.name for statement in own}
    inside = [s for s in program.statements.values() if s.name not in names and loops.intersection(s.loops)]
    found = list[Guest]()
    for stored in dict.fromkeys(map(_stored, inside)):
        mine = [s for s in inside if _stored(s) == stored]
        readers = [s for s in (*own, *inside) if _stored(s) != stored and stored in s.loads]
        depths = {shared(s, reader) for s in mine for reader in readers or own}
        is_moved = any(s.link.transfer or s.link.message or (s.role is Role.COPY and not readers) for s in mine)
        if mine[0].source == own[0].source or len(depths) > 1 or is_moved:
            return None
        depth = depths.pop()
        first = mine[0]
        alike = all(s.loops[:depth] == first.loops[:depth] and s.along.slides == first.along.slides for s in mine)
        if not alike or any(_outside(s, depth) is None for s in mine):
            return None
        found.append(Guest(first.source, stored, tuple(s.name for s in mine), first.loops[:depth], first.along.slides))
    return _readers_first(program, found)


def _stored(statement: Statement) -> str:
    """The storage in which a copy keeps values, or the computation that stores them."""
    return statement.memory.target if statement.role is Role.COPY else statement.source


def _readers_first(program: Program, guests: Iterable[Guest]) -> list[Guest] | None:
    """The guests, each after those that read it; None if two of them read each other."""
    left, ordered = list(guests), list[Guest]()
    while left:
        read = {
            name for guest in left for one in guest.names for name in program.statements[one].loads - {guest.stored}
        }
        ready = [guest for guest in left if guest.stored not in read]
        if not ready:
            return None
        ordered += ready
        left = [guest for guest in left if guest not in ready]
    return ordered


def _taken_out(program: Program, guests: Iterable[Guest]) -> Program:
    """The program with guests in nests of their own, and without the orders in which they take part."""
    names = {name for guest in guests for name in guest.names}
    for guest in guests:
        apart = [_outside(program.statements[name], len(guest.scope)) for name in guest.names]
        program = program.with_statement(*(statement for statement in apart if statement is not None))
    kept = tuple(order for order in program.orders if not names & {order.before, order.after})
    return program.with_(orders=kept)


def _outside(statement: Statement, depth: int) -> Statement | None:
    """A statement without its outermost `depth` loops; None if these say more than the iteration that needs the value.

    The iteration of the last of these loops, along which a window slides, follows from the value.
    """
    count = depth
    if statement.along.slides is not None:
        if statement.loops[depth - 1 : depth] != (statement.along.slides.loop,):
            return None
        count = depth - 1
    space, coords = statement.frame, sets.outputs(statement.coords)
    variables = sets.variables(space)
    if len(variables) < count or not all(map(_is_equal, coords[:count], variables[:count])):
        return None
    drop = sets.function(space, statement.name, variables[count:])
    instances = sets.as_set(statement.instances.apply(sets.graph(drop)))
    instances = sets.with_dims(instances, statement.dims[count:])
    own = instances.get_space()
    inside = sets.function(own, statement.name, [*[sets.constant(own, 0)] * count, *sets.variables(own)])
    kept = sets.function(space, None, coords[depth:])
    point, rest = sets.compose(inside, statement.point), sets.compose(inside, kept)
    if not (_is_same(sets.compose(drop, point), statement.point) and _is_same(sets.compose(drop, rest), kept)):
        return None
    return replace(
        statement,
        dims=statement.dims[count:],
        instances=instances,
        point=point,
        coords=rest,
        loops=statement.loops[depth:],
        along=replace(statement.along, slides=None),
    )


def _is_equal(a: isl.Aff, b: isl.Aff) -> bool:
    return bool(a.plain_is_equal(b))


def _is_same(a: isl.MultiAff, b: isl.MultiAff) -> bool:
    return bool(sets.without_dim_names(a).plain_is_equal(sets.without_dim_names(b)))


def _with_scopes(program: Program, before: Program, guests: Iterable[Guest], own: Sequence[Statement]) -> Program:
    """The program with the buffers of what has moved along kept for each iteration of the loops where it is now.

    `own` are the statements of the computation that moved, as they were `before`; windows that slide have theirs.
    """
    loops = {loop for statement in own for loop in statement.loops}
    outer = _added(program, own[0])
    stored = {guest.stored for guest in guests}
    for buffer in list(program.buffers.values()):
        if not buffer.scope or buffer.scope[0] not in loops or buffer != before.buffers.get(buffer.name):
            continue
        storages = list(program.storages_in(buffer.name))
        if len(storages) == 1 and storages[0].name in stored and not _is_fixed(storages[0], buffer):
            program = scoped(program, storages[0], (*outer, *buffer.scope), storages[0].source)
        else:
            program = _prefixed(program, buffer, outer)
    return program


def _is_fixed(storage: Storage, buffer: Buffer) -> bool:
    """Whether a copy has a layout in blocks, or a size that its kernel relies on: these stay."""
    if storage.name == storage.source:
        return False
    return buffer.memory is not Memory.HOST or any(map(sets.has_floors, sets.outputs(storage.index)))


def _added(program: Program, old: Statement) -> tuple[LoopId, ...]:
    """The loops that a statement has in addition to its old ones."""
    now = program.statements[old.name].loops
    return now[: len(now) - len(old.loops)]


def _has_moved(program: Program, own: Sequence[Statement]) -> bool:
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


def _as_they_were(program: Program, before: Program, guests: Iterable[Guest]) -> bool:
    """Whether guests have the same executions in two programs, and windows the same rings."""
    return all(
        sets.plain(program.statements[name].instances).is_equal(sets.plain(before.statements[name].instances))
        and (guest.slides is None or _has_ring(program, before, name))
        for guest in guests
        for name in guest.names
    )


def _has_ring(program: Program, before: Program, name: str) -> bool:
    """Whether a statement that slides has the place in its buffer that it had before."""
    now, old = (each.storages[each.statements[name].memory.target] for each in (program, before))
    scopes = [each.buffers[storage.buffer].scope for each, storage in ((program, now), (before, old))]
    return scopes[0] == scopes[1] and bool(now.index.plain_is_equal(old.index))


def _inside_again(program: Program, guests: Sequence[Guest], outer: tuple[LoopId, ...]) -> Program:
    """The program with guests, readers first, in the loops that they had before, which are inside `outer` now."""
    for guest in guests:
        scope = (*outer, *guest.scope)
        needs = InnerNeeds.inside_of(program, statements(program, guest.names), scope)
        needed = _needed_of(guest, needs)
        program = program.with_statement(*(needs.moved(statement, needed) for statement in needs.own))
        if guest.slides is not None:
            level = program.loops[guest.slides.loop].name
            program = slid(_with_whole_box(program, guest, scope), guest.source, guest.names, level, guest.slides)
        for loop in {loop for name in guest.names for loop in program.statements[name].loops}:
            check_nesting(program, loop)
    return program


def _needed_of(guest: Guest, needs: InnerNeeds) -> isl.Map:
    """The values of a guest that each iteration needs: of a copy those that its readers take from it."""
    loading = [s for s in needs.inside if loads(s, guest.source)]
    if guest.stored == guest.source:
        readers = needs.readers
        if guest.copied_later:
            copies = {s.memory.target for s in readers if s.role is Role.COPY}
            readers = [s for s in readers if s.memory.target not in copies]
            readers += [s for s in loading if s.memory.sources.get(guest.source) in copies]
        return needs.values(readers)
    readers = [s for s in loading if s.memory.sources.get(guest.source) == guest.stored]
    return needed_by(needs.program, guest.source, readers, len(needs.scope))


def _with_whole_box(program: Program, guest: Guest, scope: tuple[LoopId, ...]) -> Program:
    """The program in which all values that an iteration needs have a place of their own, before a window slides."""
    storage = program.storages[guest.stored]
    buffer = program.buffers[storage.buffer]
    if storage.chosen or buffer.argument or len(list(program.storages_in(buffer.name))) > 1:
        return program
    if guest.stored == guest.source:
        declared = program.algorithm.computations[guest.source]
        index = default_place(declared.domain, stored_axes(program.algorithm, declared))
    else:
        values = len(value_names(program.algorithm.source(guest.source)))
        index = sets.renamed(sets.identity(sets.sized_frame(program.algorithm.param_space, None, values)), None)
    plain = replace(storage, index=index)
    return scoped(program.with_storage(plain), plain, scope, guest.source)


def _explained(program: Program, apart: Program, guests: list[Guest]) -> list[Guest]:
    """The guests with needs that explain their executions; none if they have others."""
    later = [replace(guest, copied_later=True) for guest in guests]
    tried = [guests, later] if any(guest.stored != guest.source for guest in guests) else [guests]
    return next((each for each in tried if _as_they_were(_inside_again(apart, each, ()), program, each)), [])


def _with_guests(
    program: Program, source: str, names: Sequence[str], consumer: Sequence[str], level: str, command: str
) -> Program:
    """Compute `source` inside the consumer's loops, together with what is computed in its own loops."""
    own = statements(program, names)
    found = _guests_of(program, own) if not is_start_of(own, statements(program, consumer)) else None
    apart = _taken_out(program, found or ())
    guests = _explained(program, apart, found or [])
    if guests:
        moved = compute_at(apart, source, names, consumer, level, command)
        if _has_moved(moved, own):
            orders = (*program.orders, *moved.orders[len(apart.orders) :])
            inside = _inside_again(moved, guests, scope_of(moved, consumer, level))
            inside = _with_scopes(inside, program, guests, own).with_(orders=orders)
            return without_single_iterations(settled(inside))
    return compute_at(program, source, names, consumer, level, command)


# -- the commands as values


@dataclass(frozen=True, eq=False)
class ComputeAt(OnStatements):
    """Compute, in each iteration of a loop of the consumer, the values that this iteration reads.

    ::

        for r, for c: bx[r, c]  -->   for r0, for c0:
        for r0, c0, r1, c1:               for r, for c: bx[r, c]      (what the tile needs)
            by[..]                        for r1, for c1: by[..]

    Values that several iterations need are recomputed. The buffer shrinks to the values that one iteration needs,
    with one copy for each iteration; outputs, and computations placed by `store_in` or `store_at`, keep their
    place. If computations outside the loop read this one, and the iterations read theirs, the values for these are
    computed as well: the computations are moved into the loop by later commands. What earlier commands compute in
    the loops of this computation, by `compute_at` and `slide`, and copies that are read there, move along. What shares
    loops in another way (by `fuse` or `after`, or with loops that were changed since) does not: `CommandError` says to
    give this command first.

    In the loop it comes before what reads it, and the whole nest after what it reads itself. Of the loops of this
    name in a reduction (of its start and its update) the one that reads is meant. A recurrence is moved with all
    values that lead to those read; `CommandError` is raised if iterations would repeat those of others.
    Source: Halide and TIRAMISU, ``compute_at``.

    The start of a reduction, ``C.init.compute_at(C.update, i0)``, moves into the loops of its update: each value is
    started once, in the first iteration of `at` that adds a term to it. Values without terms are started where
    all were, as a part of their own. Source: TVM, ``decompose_reduction``.
    """

    former = (("level", "at"),)

    consumer: StatementsHandle
    at: Iter

    def applied(self, program: Program) -> Program:
        names, others = self.names(program), statements_given(program, self.consumer)
        return _with_guests(program, self.computation, names, others, inner_level(self.at), self.text)
