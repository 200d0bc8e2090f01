"""Changes of a program that commands, the proof (to try a repair) and derivations share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass

Coordinates = list[isl.Aff]


@dataclass(frozen=True)
class Rewrite:
    """A run of adjacent loops `old`, the loops that replace it, and the maps of coordinates in both directions.

    The first `kept` loops only say where the others are: they remain as they are, and statements without the others
    may share them.
    """

    old: tuple[LoopId, ...]
    new: tuple[Loop, ...]
    forward: Callable[[Coordinates], Coordinates]
    backward: Callable[[Coordinates], Coordinates]
    kept: int = 0

    def applied(self, program: Program) -> Program:
        """The program after the rewrite, with statements, scopes and orders adapted."""
        changed = self.old[self.kept :]
        for statement in program.with_this_loop(changed[0]):
            program = program.with_statement(self._statement(program, statement))
        for buffer in list(program.buffers.values()):
            if any(loop in buffer.scope for loop in changed):
                program = self._scope(program, buffer.name)
        for storage in list(program.storages.values()):
            if any(loop in storage.inner for loop in changed):
                program = self._inner(program, storage)
        last = self.new[-1].id
        orders = tuple(replace(o, level=last) if o.level in changed else o for o in program.orders)
        return program.with_(orders=orders).with_loop(*self.new)

    def _statement(self, program: Program, statement: Statement) -> Statement:
        at, end = statement.depth(self.old[0]), statement.depth(self.old[0]) + len(self.old)
        if statement.loops[at:end] != self.old:
            inner = ", ".join(program.loops[loop].name for loop in self.old)
            raise CommandError(
                f"{nest(program, statement)}: it shares only the outer ones of the loops {inner}; the command "
                "needs them perfectly nested"
            )
        coords = sets.outputs(statement.coords)
        changed = coords[:at] + self.forward(coords[at:end]) + coords[end:]
        loops = statement.loops[:at] + tuple(loop.id for loop in self.new) + statement.loops[end:]
        return replace(statement, loops=loops, coords=sets.function(statement.frame, None, changed))

    def _scope(self, program: Program, name: str) -> Program:
        buffer = program.buffers[name]
        at = next(i for i, loop in enumerate(buffer.scope) if loop in self.old)
        end = at + len(self.old)
        if buffer.scope[at:end] != self.old:
            names = ", ".join(program.loops[loop].name for loop in buffer.scope)
            raise CommandError(
                f"{name} has one copy for each iteration of ({names}): rearrange these loops before compute_at/store_at"
            )
        scope = buffer.scope[:at] + tuple(loop.id for loop in self.new) + buffer.scope[end:]
        if any(loop in storage.inner for storage in program.storages_in(name) for loop in self.old):
            raise CommandError(
                f"{name} is filled in loops that would leave its block: rearrange them before the copy is made"
            )
        for storage in list(program.storages_in(name)):
            program = program.with_storage(replace(storage, index=self._index(storage.index, at, len(buffer.scope))))
        return program.with_buffer(replace(buffer, scope=scope))

    def _inner(self, program: Program, storage: Storage) -> Program:
        at = next(i for i, loop in enumerate(storage.inner) if loop in self.old)
        end = at + len(self.old)
        if storage.inner[at:end] != self.old:
            names = ", ".join(program.loops[loop].name for loop in storage.inner)
            raise CommandError(
                f"{storage.name} is filled again in each iteration of ({names}): rearrange these loops before the "
                "command that fills it"
            )
        inner = storage.inner[:at] + tuple(loop.id for loop in self.new) + storage.inner[end:]
        before = len(program.buffers[storage.buffer].scope)
        index = self._index(storage.index, before + at, before + len(storage.inner))
        return program.with_storage(replace(storage, index=index, inner=inner))

    def _index(self, index: isl.MultiAff, at: int, scope: int) -> isl.MultiAff:
        rank = sets.in_size(index) - scope
        grown = scope - len(self.old) + len(self.new)
        variables = sets.variables(sets.sized_frame(index.get_space(), None, grown + rank))
        old = self.backward(variables[at : at + len(self.new)])
        inner = variables[:at] + old + variables[at + len(self.new) :]
        space = sets.sized_frame(index.get_space(), None, grown + rank)
        return sets.compose(sets.function(space, None, inner), index)


def reversed_loop(program: Program, loop: LoopId) -> Program:
    """``i' = -i``: the loop runs backwards."""
    return Rewrite((loop,), (program.loops[loop],), _negated, _negated).applied(program)


def delayed(program: Program, loop: LoopId, by: int) -> Program:
    """``i' = i + by``: what was in iteration i of the loop is in iteration i + by."""

    def moved(sign: int) -> Callable[[Coordinates], Coordinates]:
        return lambda coordinates: [sets.plus(each, sign * by) for each in coordinates]

    return Rewrite((loop,), (program.loops[loop],), moved(1), moved(-1)).applied(program)


def _negated(coordinates: Coordinates) -> Coordinates:
    return [each.neg() for each in coordinates]


# -- removed statements


def removed(program: Program, gone: Statement) -> Program:
    """The program without a transfer, a half of an exchange, a wait, a barrier, or a copy that nothing reads.

    Raises `CommandError` for any other statement, and where something waits for it or reads it.
    """
    name = gone.name
    if gone.stores and gone.role is not Role.COPY:
        raise CommandError(
            f"{name} computes values of {gone.source}: only transfers, exchanges, waits, barriers and copies can be "
            "removed"
        )
    is_local = gone.role is Role.COPY and gone.link.transfer is None and gone.link.message is None
    for other in program.statements.values():
        if other.link.waits is not None and other.link.waits.of in (name, *gone.origin.part_of):
            raise CommandError(f"{other.name} waits for {name}: remove {other.name} first")
        if is_local and _reads_copy(program, other, gone):
            raise CommandError(f"{name} is read by {other.name}: it cannot be removed")
    remaining = {n: s for n, s in program.statements.items() if n != name}
    into = [order for order in program.orders if order.after == name]
    out = [order for order in program.orders if order.before == name]
    through = [replace(b, before=a.before) for a in into for b in out if a.before != b.after]
    kept = [order for order in program.orders if name not in (order.before, order.after)]
    program = program.with_(statements=remaining, orders=(*kept, *through))
    used = {loop for s in remaining.values() for loop in s.loops}
    program = program.with_(loops={number: loop for number, loop in program.loops.items() if number in used})
    return _without_buffer(program, program.storages[gone.memory.target].buffer) if is_local else program


def _reads_copy(program: Program, reader: Statement, copy: Statement) -> bool:
    made = program.storages[copy.memory.target].buffer
    return any(program.storages[used].buffer == made for used in reader.memory.sources.values())


def _without_buffer(program: Program, name: str) -> Program:
    """The program without a copy's buffer, and without the storages in it."""
    storages = {n: s for n, s in program.storages.items() if s.buffer != name}
    return program.with_(storages=storages, buffers={n: b for n, b in program.buffers.items() if n != name})


def on_instances(statement: Statement, name: str, instances: isl.Set, loops: tuple[LoopId, ...]) -> Statement:
    """The statement under another name, on other instances and loops, with the same point and coordinates."""
    space = instances.get_space()
    return replace(
        statement,
        name=name,
        instances=sets.with_dims(instances, statement.dims),
        point=sets.from_frame(statement.point, space),
        coords=sets.from_frame(statement.coords, space),
        loops=loops,
        origin=replace(statement.origin, part_of=(*statement.origin.part_of, statement.name)),
    )


def in_place_of(program: Program, old: Statement, parts: list[Statement]) -> Program:
    """The program with a statement replaced by its parts, which inherit its orders."""
    statements_: dict[str, Statement] = {}
    for name, statement in program.statements.items():
        if name == old.name:
            statements_.update({part.name: part for part in parts})
        else:
            statements_[name] = statement
    orders: list[Order] = []
    for order in program.orders:
        befores = [p.name for p in parts] if order.before == old.name else [order.before]
        afters = [p.name for p in parts] if order.after == old.name else [order.after]
        orders += [replace(order, before=b, after=a) for b in befores for a in afters]
    return program.with_(statements=statements_, orders=tuple(orders))
