"""The transfers that a program needs: what each device reads and does not store itself, from where it is stored.

A transfer is on the operation sequence of what it follows or precedes; the host waits for it where nothing else does.
It is as far out as it can be: a whole nest comes before it and a whole nest after it, unless those who store the values
and those who read them share loops of the host; then it is in these loops, and moves what the iteration has stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.kernel_order import statement_of
from tiramisu_py.dependence.touch import Touch
from tiramisu_py.dependence.touches import Touches
from tiramisu_py.derive.boxes import boxes, loops_outside
from tiramisu_py.derive.deep import deepened
from tiramisu_py.derive.exchanges import axis_name, with_exchanges
from tiramisu_py.derive.needs import Need, keys, needs
from tiramisu_py.derive.overlap import overlapped
from tiramisu_py.derive.relaxed import relaxed
from tiramisu_py.derive.waits import with_waits
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Loop, LoopId, Rank
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks import axes, spread
from tiramisu_py.program.statement import Device, Role, Statement, Transfer
from tiramisu_py.schedule.recompute import distinct
from tiramisu_py.schedule.selection import free_name
from tiramisu_py.schedule.transfers import collapsed, with_transfer
from tiramisu_py.schedule.waits import removed


@dataclass(frozen=True, eq=False)
class Batch:
    """What one transfer moves: `values` are ``[coordinates of the loops, of the rank on some axes, indices]``."""

    need: Need
    loops: tuple[LoopId, ...]
    axes: tuple[int, ...]
    values: isl.Set
    writers: tuple[Statement, ...]


def derived_transfers(
    program: Program,
    command: str,
    overlap: bool = False,
    depth: Mapping[object, object] | None = None,
    together: bool = False,
) -> Program:
    """The program with the transfers, and then the waits, that it lacks.

    Messages between ranks are overlapped with work where that is wanted, or calls of all ranks where these are wanted
    `together` and possible, and halos as deep as `depth` says.
    What cannot be transferred in a legal way is left out: the proof says what is missing.
    """
    if overlap and together:
        raise CommandError(
            "overlap= computes while messages are under way, and calls of all ranks (collectives=True) are complete "
            "when a rank goes on: choose one"
        )
    program = _without_derived(program)
    program = program if depth is None else deepened(program, depth)
    before = set(program.statements)
    program, exchanged = with_exchanges(program, command, together)
    on_ranks = spread(program)
    for need in list(needs(on_ranks, Touches(on_ranks))):
        for batch in _batches(program, need):
            program = _transferred(program, batch, command)
    program = with_waits(program, command)
    made = [s for s in program.statements.values() if s.name not in before]
    program = program.with_statement(*(replace(s, derived=True) for s in made))
    if overlap:
        program = overlapped(program, exchanged, command)
    return relaxed(program, [s.name for s in made if s.transfer is not None])


def _without_derived(program: Program) -> Program:
    """The program without what was derived earlier, unless a wait of the user is for it: needs may have changed."""
    derived = [s for s in program.statements.values() if s.derived]
    awaited = {s.waits.of for s in program.statements.values() if s.waits is not None and not s.derived}
    for statement in sorted(derived, key=lambda s: s.acts):
        if statement.name not in awaited:
            program = removed(program, statement.name)
    return program


# -- what is moved together


def _batches(program: Program, need: Need) -> Iterator[Batch]:
    """The transfers that serve a need: writers in the same loops together, unless a reader is among them."""
    left = need.values
    for loops, writers in _groups(program, need):
        moved, movable = (_moved(writers, len(loops), values) for values in (left, need.spare.union(need.values)))
        left = left.subtract(sets.as_set(moved.range()))
        along = {tag.axis for loop in loops if isinstance(tag := program.loops[loop].tag, Rank)}
        own = tuple(axis for axis in range(axes(program)) if axis not in along)
        values, allowed = (_unkeyed(program, need, own, relation) for relation in (moved, movable))
        inside = tuple(statement_of(w) for w in writers if w.actor.statement is not None)
        for box in boxes(values, len(loops) + len(own), allowed):
            if not box.is_empty():
                yield Batch(need, loops, own, box, inside)


def _unkeyed(program: Program, need: Need, own: tuple[int, ...], moved: isl.Map) -> isl.Set:
    """``[coordinates of the loops, of the rank on its own axes, indices]`` of keyed values.

    The loops are inside the scope, and run over the other axes.
    """
    before = axes(program) + len(program.buffers[need.storage.buffer].scope)
    space = moved.get_space().range()
    forms = sets.variables(space)
    index = sets.function(space, need.storage.source, [*(forms[axis] for axis in own), *forms[before:]])
    return sets.flat_pairs(moved.apply_range(sets.graph(index)), need.storage.source)


def _groups(program: Program, need: Need) -> list[tuple[tuple[LoopId, ...], list[Touch]]]:
    found: dict[tuple[LoopId, ...], list[Touch]] = {}
    for writer in need.writers:
        loops = _around(program, need, writer)
        if loops is not None:
            found.setdefault(loops, []).append(writer)
    groups = [part for loops, writers in found.items() for part in _apart(program, need, loops, writers)]
    return sorted(groups, key=lambda group: not any(w.role is Role.UPDATE for w in group[1]))


def _around(program: Program, need: Need, writer: Touch) -> tuple[LoopId, ...] | None:
    """The loops of the host in which what a writer stores is moved; None where there are none that do."""
    if writer.actor.statement is None:
        return ()
    statement = statement_of(writer)
    together = [shared(statement, statement_of(r)) for r in need.readers if r.actor.statement is not None]
    depth = max([len(program.frame(need.storage)), *together])
    return statement.loops[:depth] if depth <= program.host_depth(statement) else None


def _apart(
    program: Program, need: Need, loops: tuple[LoopId, ...], writers: list[Touch]
) -> Iterator[tuple[tuple[LoopId, ...], list[Touch]]]:
    """The writers of a group together, or one by one where some reader comes between them."""
    at = {w: _position(program, w, len(loops)) for w in writers}
    readers = [
        r for r in need.readers if r.actor.statement is not None and statement_of(r).loops[: len(loops)] == loops
    ]
    between = [_position(program, r, len(loops)) for r in readers]
    if any(min(at.values()) < position < max(at.values()) for position in between):
        yield from ((loops, [writer]) for writer in writers)
    else:
        yield loops, writers


def _position(program: Program, touch: Touch, depth: int) -> int:
    return program.positions[touch.actor.name][depth] if touch.actor.statement is not None else -1


def _moved(writers: list[Touch], depth: int, values: isl.Set) -> isl.Map:
    """``coordinates of the outermost loops -> value``: which values each iteration stores (for good, of reductions)."""
    found: isl.Map | None = None
    for writer in writers:
        if writer.actor.statement is None:
            nowhere = sets.function(writer.domain.get_space(), None, [])
            here = sets.graph(nowhere, writer.domain).reverse().apply_range(keys(writer))
        else:
            here = writer.prefix(depth).reverse().apply_range(keys(writer))
        found = here if found is None else found.union(here)
    assert found is not None
    found = found.intersect_range(values).coalesce()
    reduced = depth > 0 and any(writer.role is Role.UPDATE for writer in writers)
    return found.reverse().lexmax().reverse() if reduced else found


# -- the statement


def _transferred(program: Program, batch: Batch, command: str) -> Program:
    name = free_name(program, f"{batch.need.storage.name}_to_{_device_name(batch.need.target)}")
    try:
        changed = _declared(program, name, batch, command)
        ordered = changed.with_(orders=(*changed.orders, *_needed_orders(changed, name, batch, command)))
        if not _same_order(program, ordered):
            ordered = changed.with_(orders=(*changed.orders, *_all_orders(program, name, batch, command)))
        return ordered if _same_order(program, ordered) else program
    except CommandError:
        return program


def _device_name(device: Device) -> str:
    return "cpu" if device is None else f"gpu{device or ''}"


def _declared(program: Program, name: str, batch: Batch, command: str) -> Program:
    storage, depth = batch.need.storage, len(batch.loops) + len(batch.axes)
    variables = sets.variables(batch.values.get_space())
    indices = sets.function(batch.values.get_space(), None, variables[depth:])
    transfer = Transfer(batch.need.source, batch.need.target, stream=_stream(program, batch))
    moved = sets.as_set(batch.values.apply(sets.graph(indices)))
    program = with_transfer(program, name, storage.source, moved, transfer, False, command)
    made = program.statements[name]
    if depth:
        first = program.next_loop()
        fresh = [Loop(first + k, axis_name(program, axis), Rank(axis), command) for k, axis in enumerate(batch.axes)]
        program = program.with_loop(*fresh)
        made = _inside(program, made, batch, (*batch.loops, *(loop.id for loop in fresh)))
        own = zip(made.loops[depth:], made.dims[depth:], strict=True)
        program = program.with_loop(*(replace(program.loops[loop], name=dim) for loop, dim in own))
    if storage.name != storage.source:
        made = replace(made, target=storage.name, sources={storage.source: storage.name})
    program = program.with_statement(made)
    return collapsed(program, name, made.loops[loops_outside(program, made, depth) :], command)


def _inside(program: Program, made: Statement, batch: Batch, loops: tuple[LoopId, ...]) -> Statement:
    """A transfer of the whole in loops of the host, and over ranks: each iteration moves its part."""
    dims = distinct([*(program.loops[loop].name for loop in loops), *made.dims])
    instances = sets.with_dims(sets.named(batch.values, made.name), dims)
    space = instances.get_space()
    return replace(
        made,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, made.source, sets.variables(space)[len(loops) :]),
        loops=loops + made.loops,
        coords=sets.renamed(sets.identity(space), None),
    )


def _stream(program: Program, batch: Batch) -> int:
    """The operation sequence of the last writer on a GPU; for what comes from the host, of the first reader."""
    readers = [statement_of(r) for r in batch.need.readers if r.actor.statement is not None]
    using = readers if batch.need.source is None or not batch.writers else batch.writers
    queues = [(program.positions[s.name], queue) for s in using if (queue := program.queue_of(s)) is not None]
    if not queues:
        return 0
    _, queue = min(queues) if using is readers else max(queues)
    return queue[1]


# -- its place


def _level(batch: Batch) -> LoopId | None:
    return batch.loops[-1] if batch.loops else None


def _needed_orders(program: Program, name: str, batch: Batch, command: str) -> Iterator[Order]:
    """After what stores the values, before what reads them (in an iteration of the loops that all share)."""
    depth, transfer = len(batch.loops), program.statements[name]
    last = max((program.positions[w.name][depth] for w in batch.writers), default=-1)
    for writer in batch.writers:
        yield Order(writer.name, name, _level(batch), command)
        for wait in program.statements.values():
            if writer.receives and wait.waits is not None and wait.waits.of == writer.name:
                yield Order(wait.name, name, _level(batch), command)
    for reader in batch.need.readers:
        beside = reader.actor.statement is not None and shared(statement_of(reader), transfer) == depth
        if beside and program.positions[reader.actor.name][depth] > last:
            yield Order(name, reader.actor.name, _level(batch), command)


def _all_orders(program: Program, name: str, batch: Batch, command: str) -> Iterator[Order]:
    """After everything up to the last writer (or up to the first reader), and before everything else."""
    depth = len(batch.loops)
    at = {
        s.name: program.positions[s.name][depth] for s in program.statements.values() if s.loops[:depth] == batch.loops
    }
    if batch.writers:
        cut = max(at[w.name] for w in batch.writers) + 1
    else:
        cut = min((at[r.actor.name] for r in batch.need.readers if r.actor.statement is not None), default=len(at))
    for other, position in at.items():
        before, after = (other, name) if position < cut else (name, other)
        yield Order(before, after, _level(batch), command)


def _same_order(before: Program, after: Program) -> bool:
    """Whether the statements that were there are in the order in which they were."""
    return _sorted(before, before) == _sorted(before, after)


def _sorted(of: Program, by: Program) -> list[str]:
    return sorted(of.statements, key=lambda name: by.positions[name])
