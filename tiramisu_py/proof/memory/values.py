"""Condition (b): the last write to the place that a read loads from carries the value that the read names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.declared_orders import suggested
from tiramisu_py.program.ordering import static_positions
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Home, array_begin
from tiramisu_py.proof.memory.loop_repairs import order_repair, overwriting_repair
from tiramisu_py.proof.memory.sequential_runs import Unserved, first_unserved, is_sequential, unserved_at
from tiramisu_py.proof.messages.windows import of_another_block
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import (
    Finding,
    Key,
    Named,
    Spot,
    access_key,
    accesses_alike,
    memory_words,
    on_rank,
    reading,
    words,
)
from tiramisu_py.proof.violations.missing_message import missing_message
from tiramisu_py.proof.violations.repairs import create_xfer, storage_repair, transfer_repair
from tiramisu_py.sets import smallest

#: How many reads and writes are run before isl follows copies.
MOST_BEFORE_COPIES = 30_000


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every read that does not see its value."""
    if sought is not None:
        yield from _again(flow, sought)
        return
    for home in flow.accesses.homes():
        found = _soon(flow, home)
        yield from found
        yield from () if found else _unserved(flow, flow.accesses.readers(home))


def _unserved(flow: Flow, reads: Sequence[MemoryAccess]) -> Iterator[Finding]:
    tried = set[Home]()
    for number, read in enumerate(reads):
        bad = flow.unserved_by_name(read)
        if flow.follows_copies(read, bad):
            if read.home not in tried and (found := _of_short_runs(flow, reads[number:], bad)):
                yield from found
                return
            tried.add(read.home)
            bad = flow.unserved_by_copies(read, bad)
        if not bad.is_empty():
            yield Finding(Key("unserved", access_key(read)), partial(explained, flow, read, bad))


def _of_short_runs(flow: Flow, reads: Sequence[MemoryAccess], missing: isl.Set) -> list[Finding]:
    """The findings among these reads at small sizes: there copies are followed at once, by isl in seconds."""
    found = first_unserved(flow, reads[0].home, missing.params(), MOST_BEFORE_COPIES)
    sought = () if found is None else tuple(each for each in found.reads if each[0] in reads)
    return list(_of_run(flow, replace(found, reads=sought))) if found is not None else []


def _soon(flow: Flow, home: Home) -> list[Finding]:
    """The findings of small runs, tried if conflicts are ordered otherwise than in a program that serves all reads."""
    if all(map(flow.determined, flow.accesses.readers(home))):
        return []
    inherited = flow.inherited(home)
    if inherited is None or inherited.is_kept:
        return []
    return list(_of_run(flow, first_unserved(flow, home, inherited.violated)))


def _of_run(flow: Flow, unserved: Unserved | None) -> Iterator[Finding]:
    for read, at in () if unserved is None else unserved.reads:
        assert unserved is not None
        bad = smallest.alone(read.domain, at, unserved.params)
        yield Finding(Key("unserved", access_key(read), unserved.params), partial(explained, flow, read, bad))


def _again(flow: Flow, sought: Key) -> Iterator[Finding]:
    """The unserved reads that stand for one of another state; a run at the sizes of that one may find them at once."""
    alike = accesses_alike(flow, sought.about)
    for home in {read.home for read in alike} if sought.at is not None else ():
        if is_sequential(flow, home):
            yield from _of_run(flow, unserved_at(flow, home, sought.at or {}))
    yield from _unserved(flow, alike)


def explained(flow: Flow, read: MemoryAccess, bad: isl.Set) -> Violation:
    """The smallest counterexample of unserved reads, and what went wrong there."""
    spot = first_spot(read, bad)
    only = replace(read, domain=one(read, spot))
    program = flow.accesses.program
    reader, value, element = spot.computed(program), spot.named, spot.element
    if read.is_merged:
        witness = Witness(spot.params, value, reader, element)
        message = f"a partial result of {words(value)} is merged before it is combined{on_rank(spot)}, {witness}"
        return Violation("reduction", message, witness)
    asks = f"{_asking(program, spot)} {words(value)}"
    where = asks if element == value else f"{asks} in {words(element)}"
    writers = _who_computes(flow, only)
    here = [w for w in writers if w.home == only.home and not flow.one_chain(only, w).is_empty()]
    if only.ranks and all(w.adds for w in here):  # terms without a start are no value: it is started elsewhere
        writers, here = [w for w in writers if not w.adds] or writers, []
    if any(not w.adds and _precedes(flow, w, only) for w in here):
        return _overwritten(flow, only, spot, where)
    if here:
        witness = Witness(spot.params, value, reader, element)
        done = "copied there" if all(w.role is Role.COPY for w in here) else "computed"
        done = "received" if all(_receives(w) for w in here) else done
        message = f"{where}{on_rank(spot)} before it is {done}, {witness}"
        return Violation("order", message, witness, repair=order_repair(flow, read, here))
    origins = [w for w in writers if not _is_transfer(w)]
    if origins and not any(_on_its_rank(flow, w, only) for w in origins):
        return missing_message(flow, read, bad, spot, origins, where)
    elsewhere = [w for w in writers if w.buffer is only.buffer and w.device != only.device]
    if elsewhere:
        witness = Witness(spot.params, value, reader, element)
        return _not_brought(flow, only, f"{asks}{on_rank(spot)}", elsewhere, witness)
    if writers:
        witness = Witness(spot.params, value, reader, element)
        kept = ", ".join(dict.fromkeys(w.array for w in writers))
        kept = f"it is kept in {kept}, in another element or another copy{on_rank(spot)}"
        message = f"{where}, but it is never there: {kept}, {witness}"
        return Violation("order", message, witness, repair="copy it, or read it from where it is kept")
    elsewhere_in_blocks = of_another_block(program, spot, where)
    if elsewhere_in_blocks is not None:
        return elsewhere_in_blocks
    witness = Witness(spot.params, None, reader, element)
    return Violation("order", f"{where}, but nothing computes {words(value)}, {witness}", witness)


def _is_transfer(write: MemoryAccess) -> bool:
    return write.actor.statement is not None and write.actor.statement.link.transfer is not None


def _receives(write: MemoryAccess) -> bool:
    return write.actor.statement is not None and write.actor.statement.receives


def _asking(program: Program, spot: Spot) -> str:
    statement = spot.access.actor.statement
    if statement is None:
        return "the caller finds"
    does = "sends" if statement.role is Role.SEND else "copies" if statement.link.transfer is not None else "reads"
    return f"{reading(program, spot)} {does}"


def _not_brought(
    flow: Flow, only: MemoryAccess, asks: str, elsewhere: list[MemoryAccess], witness: Witness
) -> Violation:
    """A value that exists, but only in the memory of another device."""
    there = list(dict.fromkeys(w.device for w in elsewhere))
    computed = [w.device for w in elsewhere if w.role is not Role.COPY]
    where = " and ".join(memory_words(device) for device in there)
    asked = memory_words(only.device)
    message = f"{asks} in {asked}, but it is only in {where}: no transfer brings it, {witness}"
    source, statement = (computed or there)[0], only.actor.statement
    repair = transfer_repair(flow, only, source)
    if (
        statement is not None
        and statement.link.transfer is not None
        and None not in (source, statement.link.transfer.source)
    ):
        repair = f"{create_xfer(flow, only, source, statement.link.transfer.target)} in place of {statement.name}"
    return Violation("communication", message, witness, repair=repair)


def _on_its_rank(flow: Flow, write: MemoryAccess, read: MemoryAccess) -> bool:
    """Whether the value that a read names is written on the rank of the read, wherever it is kept there."""
    return not read.ranks or not flow.same_value(write, read).is_disjoint(flow.same_rank(write, read))


def _precedes(flow: Flow, write: MemoryAccess, read: MemoryAccess) -> bool:
    return flow.precedence.happens(write, read, flow.one_chain(write, read))


def _overwritten(flow: Flow, only: MemoryAccess, spot: Spot, where: str) -> Violation:
    reader = spot.computed(flow.accesses.program)
    other = _last_wrong(flow, only, spot.params)
    witness = Witness(spot.params, other, reader, spot.element)
    by = f"{words(other)} has been" if other else "another value has been"
    if only.actor.statement is None and only.source in flow.accesses.program.algorithm.inputs:
        changed = f"the caller's array {only.source} is changed{on_rank(spot)}"
        message = f"{changed}: {by} written to {words(spot.element)}, {witness}"
        advice = f"{only.source} is not an output: keep {other[0] if other else 'the value'} in a buffer of its own"
        return Violation("overwritten", message, witness, repair=advice)
    message = f"{where}, where {by} written in the meantime{on_rank(spot)}, {witness}"
    return Violation("overwritten", message, witness, repair=_kept_apart(flow, only))


def _kept_apart(flow: Flow, only: MemoryAccess) -> str:
    """The repair of an overwritten value: a fact under which nothing overwrites it, or another place."""
    repair = overwriting_repair(flow, only) or storage_repair(flow, only)
    advice = {flow.exclusions.advice(only, wrong.write, wrong.pairs, repair) for wrong in flow.wrong(only)}
    return advice.pop() if len(advice) == 1 else repair


def _who_computes(flow: Flow, only: MemoryAccess) -> list[MemoryAccess]:
    """The writes, anywhere, of the value that one read names."""
    found = []
    for home in flow.accesses.homes():
        for write in flow.accesses.writers(home):
            if write.storage.name in flow.accesses.partials and write.storage is not only.storage:
                continue
            if write.source == only.source and not flow.same_value(only, write).is_empty():
                found.append(write)
    return found


def _last_wrong(flow: Flow, only: MemoryAccess, params: dict[str, int]) -> Named | None:
    """The value that is at the place instead: the last write of another value before the read."""
    latest: tuple[tuple[int, ...], Named] | None = None
    for candidate in flow.wrong(only):
        write = candidate.write
        writes = sets.fixed(candidate.pairs.range(), params)
        if write.actor.statement is None:
            when, at = smallest.BEFORE_ALL, smallest.first(writes)
        else:
            clock = flow.accesses.program.times[write.actor.name]
            when, at = smallest.latest(writes, clock, params)
        if latest is None or when > latest[0]:
            latest = (when, Spot(write, params, at).named)
    return None if latest is None else latest[1]


def first_spot(access: MemoryAccess, bad: isl.Set) -> Spot:
    """The smallest element of a part of an access's domain, as a spot.

    Least sum of the parameters, then earliest in time, then on the first rank.
    """
    params = smallest.smallest_params(bad)
    clock = access.when if access.when is not None else access.value
    return Spot(access, params, smallest.earliest(bad, clock, params))


def one(access: MemoryAccess, spot: Spot) -> isl.Set:
    """The domain that holds one element at given parameters."""
    return smallest.alone(access.domain, spot.at, spot.params)


# -- in the report


def _seen(program: Program) -> str:
    return "every read sees the value it names"


def _moved(program: Program) -> str:
    """Computations that were moved before their readers, against the order of declaration."""
    declared, found = static_positions(program.statements, program.orders), dict[str, None]()
    for first, second in suggested(program.statements, program.storages).values:
        a, b = program.statements[first], program.statements[second]
        if declared[first] > declared[second] and program.positions[first] < program.positions[second]:
            found[f"{a.handle} comes before {b.handle}, which reads it"] = None
    return "; ".join(found)


def _found(program: Program) -> str:
    outputs = ", ".join(program.algorithm.outputs)
    return f"the caller finds every value of {outputs}, and its other arrays unchanged" if outputs else ""


def _begin(program: Program) -> str:
    """Where the caller's arrays begin that do not begin at index 0."""
    begins = {
        name: array_begin(program.storages[name], program.context)
        for name in program.algorithm.outputs
        if program.buffers[program.storages[name].buffer].argument
    }
    return "; ".join(f"the array {program.storages[name].buffer} begins at {at}" for name, at in begins.items() if at)


def _own(program: Program) -> str:
    if not program.runs_on_ranks:
        return ""
    return "each rank reads only what it computes, receives, or has in its arrays"


def _on_every_rank(program: Program) -> str:
    own = [s for s in program.storing if s.link.message is None and s.link.combination is None]
    everywhere = [s.source for s in own if _is_on_all(program, s)]
    return f"every rank computes {', '.join(dict.fromkeys(everywhere))}" if everywhere else ""


def _is_on_all(program: Program, statement: Statement) -> bool:
    """Whether a computation has no loop over ranks of its own: each rank executes it (`program.ranks.spread`)."""
    loops = [program.loops[loop] for loop in statement.loops if program.loops[loop].is_rank]
    return bool(program.ranks.axes) and all(loop.added for loop in loops)


SENTENCES = (
    Sentence(Topic.VALUES, _seen),
    Sentence(Topic.VALUES, _found),
    Sentence(Topic.VALUES, _begin),
    Sentence(Topic.VALUES, _moved),
    Sentence(Topic.RANKS, _own),
    Sentence(Topic.RANKS, _on_every_rank),
)
