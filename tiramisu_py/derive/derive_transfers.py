"""The transfers that a program needs: values that a device reads and does not store, from the device that stores them.

A transfer is on the operation sequence of the kernel that it follows or precedes; the host waits for it if nothing
else does. It is placed as far out as possible, between a whole nest that stores the values and a whole nest that reads
them. If writers and readers share loops of the host, it is inside these loops, and moves the values that the iteration
has stored. If the host has work of its own, operations are started before work that they need not follow, and waited
for just before their first dependent.

One operation sequence for each direction: kernels keep theirs, uploads and downloads get one each.

Copies to a GPU, its kernels, and copies from it can then overlap. A copy from one GPU to another is on the sequence of
the first GPU's downloads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Any

from tiramisu_py import sets
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.kernel_order import statement_of
from tiramisu_py.dependence.value_boxes import loops_outside
from tiramisu_py.derive.dependences import meet
from tiramisu_py.derive.devices.asynchronous import completed, is_ordered, relaxed
from tiramisu_py.derive.devices.batches import Batch, batches
from tiramisu_py.derive.devices.derive_waits import with_waits
from tiramisu_py.derive.devices.early_start import early, has_work_beside
from tiramisu_py.derive.devices.needs import needs
from tiramisu_py.derive.devices.pipelines import pipelines
from tiramisu_py.derive.ranks.deep_halos import deepened
from tiramisu_py.derive.ranks.derive_exchanges import Exchanged, axis_name, with_exchanges
from tiramisu_py.derive.ranks.overlap import overlapped
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import removed
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.kernels import kernels
from tiramisu_py.program.loops import Loop, LoopId, Rank
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import foreseen
from tiramisu_py.program.statement import Device, Statement, Transfer
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_fields import OnFunction
from tiramisu_py.schedule.devices.transfers import collapsed, with_transfer


def derived_transfers(
    program: Program,
    command: str,
    overlap: bool = False,
    depth: Mapping[object, object] | None = None,
    together: bool = False,
    pipeline: object = None,
) -> Program:
    """The program with the missing transfers, and then the missing waits, added.

    With `overlap`, messages between ranks, and transfers in both directions, are overlapped with work. With `together`,
    messages are collective calls if possible. `depth` gives the depth of halos. In the loops that `pipeline` names,
    each iteration moves the values that it is the first to read, and the values that it stores.
    Values that cannot be transferred legally are left out: the proof reports them.
    """
    if overlap and together:
        raise CommandError(
            "overlap= computes while messages are under way, but calls of all ranks (collectives=True) are complete "
            "before a rank continues: choose one"
        )
    program = _without_derived(program)
    along = frozenset[LoopId]() if pipeline is None else pipelines(program, pipeline)
    program = program if depth is None else deepened(program, depth)
    known = set(program.statements)
    program, exchanged = with_exchanges(program, command, together)
    apart = overlap or bool(along)
    if overlap and exchanged and kernels(program):
        tried = _moved(_cut(program, known, exchanged, command), along, apart, command)
        if _is_supplied(tried):
            return tried
    changed = _moved(_marked(program, known), along, apart, command)
    return overlapped(changed, exchanged, command) if overlap and exchanged else changed


def _marked(program: Program, known: set[str]) -> Program:
    """The program with all statements that are not in `known` marked as derived."""
    made = [s for s in program.statements.values() if s.name not in known]
    return program.with_statement(*(replace(s, origin=replace(s.origin, derived=True)) for s in made))


def _cut(program: Program, known: set[str], exchanged: Sequence[Exchanged], command: str) -> Program:
    """The program with messages between ranks overlapped with the GPUs' work, before transfers for it are added."""
    return overlapped(_marked(program, known), exchanged, command)


def _is_supplied(program: Program) -> bool:
    """Whether each device has the values that it reads when it reads them."""
    on_ranks = foreseen(program)
    return is_ordered(program) and not any(True for _ in needs(on_ranks, MemoryAccesses(on_ranks)))


def _moved(program: Program, along: frozenset[LoopId], apart: bool, command: str) -> Program:
    """The program with transfers and waits, pipelined `along` some loops; `apart` separates the directions' streams."""
    known = set(program.statements)
    on_ranks = foreseen(program)
    for need in list(needs(on_ranks, MemoryAccesses(on_ranks))):
        for batch in batches(program, need, along):
            program = _transferred(program, batch, command)
    names = [s.name for s in program.statements.values() if s.name not in known]
    if along and not any(along & set(program.statements[name].loops) for name in names):
        loops = ", ".join(dict.fromkeys(program.loops[loop].name for loop in sorted(along)))
        raise CommandError(
            f"pipeline={loops}: there is nothing to pipeline, since nothing has to be copied in iterations of {loops}: "
            "what its kernels read is on the GPU already, and what they store is not read elsewhere"
        )
    program = on_own_sequences(program, names) if apart else program
    if names and (apart or has_work_beside(program, names)):
        tried = _marked(completed(early(program, names, command), names, command), known)
        if is_ordered(tried):
            return tried
    program = _marked(with_waits(program, command).program, known)
    return relaxed(program, names)


def _without_derived(program: Program) -> Program:
    """The program without earlier derived statements, which may be outdated, except those that a user's wait names."""
    derived = [s for s in program.statements.values() if s.origin.derived]
    awaited = {
        s.link.waits.of for s in program.statements.values() if s.link.waits is not None and not s.origin.derived
    }
    for statement in sorted(derived, key=lambda s: s.acts):
        if statement.name not in awaited:
            program = removed(program, statement)
    kept = [o for o in program.orders if not o.derived or {o.before, o.after} & {s.name for s in derived}]
    return program.with_(orders=tuple(kept)) if derived else program


# -- the statement


def _transferred(program: Program, batch: Batch, command: str) -> Program:
    wanted = f"{batch.need.storage.name}_to_{_device_name(batch.need.target)}"
    name = free_name(program, f"{wanted}_first" if batch.is_more else wanted)
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
        made = replace(made, memory=replace(made.memory, target=storage.name, sources={storage.source: storage.name}))
    if batch.loops and not batch.writers:
        inside = [s.name for s in program.with_this_loop(batch.loops[-1]) if s.name != name]
        kept = {other: s for other, s in program.statements.items() if other != name}
        program = program.with_(statements=kept).with_statement_before(made, inside)
    program = program.with_statement(made)
    return collapsed(program, name, made.loops[loops_outside(program, made, depth) :], command)


def _inside(program: Program, made: Statement, batch: Batch, loops: tuple[LoopId, ...]) -> Statement:
    """A transfer of all values placed in loops of the host and over ranks: each iteration moves its part."""
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
    """The operation sequence of the last writer on a GPU; for values from the host, of the first reader."""
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
    """The orders after the writers and before the readers of the values (in an iteration of the loops all share)."""
    depth, transfer = len(batch.loops), program.statements[name]
    last = max((program.positions[w.name][depth] for w in batch.writers), default=-1)
    for before in _arrivals(program, batch):
        yield Order(before.name, name, _level(batch), command, derived=True)
    accesses = MemoryAccesses(foreseen(program))
    arriving = accesses.write(accesses.program.statements[name])
    for reader in batch.need.readers:
        beside = reader.actor.statement is not None and shared(statement_of(reader), transfer) == depth
        later = beside and program.positions[reader.actor.name][depth] > last
        if later and (arriving is None or meet(arriving, reader, depth)):
            yield Order(name, reader.actor.name, _level(batch), command, derived=True)


def _arrivals(program: Program, batch: Batch) -> Iterator[Statement]:
    """The statements that store the values; for messages, also the waits for them."""
    for writer in batch.writers:
        yield writer
        for wait in program.statements.values():
            if writer.receives and wait.link.waits is not None and wait.link.waits.of == writer.name:
                yield wait


def _all_orders(program: Program, name: str, batch: Batch, command: str) -> Iterator[Order]:
    """The orders after all statements up to the last writer (or the first reader), and before all others."""
    depth = len(batch.loops)
    at = {
        s.name: program.positions[s.name][depth] for s in program.statements.values() if s.loops[:depth] == batch.loops
    }
    if batch.writers:
        cut = max(at[s.name] for s in _arrivals(program, batch) if s.name in at) + 1
    else:
        cut = min((at[r.actor.name] for r in batch.need.readers if r.actor.statement is not None), default=len(at))
    for other, position in at.items():
        before, after = (other, name) if position < cut else (name, other)
        yield Order(before, after, _level(batch), command, derived=True)


def _same_order(before: Program, after: Program) -> bool:
    """Whether the statements of `before` have the same order in `after`."""
    return _sorted(before, before) == _sorted(before, after)


def _sorted(of: Program, by: Program) -> list[str]:
    return sorted(of.statements, key=lambda name: by.positions[name])


# -- as a value


@dataclass(frozen=True, eq=False)
class DeriveTransfers(OnFunction):
    """Add the transfers and waits that the program lacks, for values that one device computes and another reads.

    ::

        for r, c0, c1 on the GPU: p[..] = f(a)   -->   copy to the GPU what p reads of a
        for r, c: q[..] = g(p)                         for r, c0, c1 on the GPU: p[..] = f(a)
                                                       copy to the host what q reads of p
                                                       for r, c: q[..] = g(p)

    Between ranks, exactly the values that a rank reads and does not have come in messages from the nearest rank
    that has them: one message from a rank to another in each iteration of the loops around, as far out as is legal.
    ``depth={t: 4}`` lets ranks exchange a halo four times as deep in every fourth iteration of t, and compute the
    overlap twice. With `collectives`, exchanges that loop over ranks (a broadcast, a gather, a transposition)
    become calls of all ranks if every rank takes part (see ``collective=True`` of `create_exchange`): less to start,
    more to wait for.

    If the host has work of its own, kernels and transfers are started before work that they need not follow, unless
    a command orders them after it, and the host waits just before the statements that need them; its own work keeps
    its order. With `overlap` each GPU has an operation sequence for uploads and one for downloads beside those of
    its kernels, and values that need no other rank (the interior) are computed while messages are under way.

    ``pipeline=k`` (a host loop around kernels, or a list of such loops) moves in each iteration of k first the
    values that no earlier one has read, and then its results, on these sequences: values of iteration k + 1 are
    uploaded while k is computed and k - 1 is downloaded::

        by.split(r, 32, k, r1)                     copy to the GPU the rows that the first k reads more than others
        by.tag_gpu(blocks=[r1, c0], ...)    -->    for k: start to copy to the GPU what k reads and no one before it
        f.derive_transfers(pipeline=k)                    start kernel by
                                                          start to copy to the host what k has made
                                                   wait for the last copy

    Transfers of the user are kept, and values that are already on the device are not moved. A second call, after
    other commands, derives the transfers and waits anew. Raises `CommandError` for a pipeline along a name that is
    no loop, or a loop that is tagged or inside a kernel, and if nothing is to be moved in it.
    """

    derives = True

    _: KW_ONLY
    overlap: bool = False
    depth: Mapping[Any, int] | None = None
    collectives: bool = False
    pipeline: Any = None

    def applied(self, program: Program) -> Program:
        for option, given in (("overlap", self.overlap), ("collectives", self.collectives)):
            if not isinstance(given, bool):
                raise CommandError(f"{option}={given!r}: give True or False")
        return derived_transfers(program, self.text, self.overlap, self.depth, self.collectives, self.pipeline)


def on_own_sequences(program: Program, names: Collection[str]) -> Program:
    """The program with these transfers on the first unused sequences: uploads, then downloads."""
    others = (program.queue_of(s) for s in program.acting if s.name not in names)
    used = [queue for queue in others if queue is not None]
    changed = []
    for name in names:
        statement = program.statements[name]
        transfer = statement.link.transfer
        if transfer is not None:
            last = max((stream for device, stream in used if device == transfer.device), default=0)
            stream = last + 1 if transfer.source is None else last + 2
            changed.append(replace(statement, link=replace(statement.link, transfer=replace(transfer, stream=stream))))
    return program.with_statement(*changed)
