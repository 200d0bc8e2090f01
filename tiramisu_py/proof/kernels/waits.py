"""GPU operations and asynchronous messages are complete before anything depends on them: conflicting accesses by the
host, by different operation sequences and at the end of the function are ordered by happens-before.

From its own time until a wait for it on its rank, an asynchronous send reads the values that it sends, and an
asynchronous receive writes the values that it receives.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.happens_before import Queue
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import local_time
from tiramisu_py.program.statement import FILES, Role, Statement, sequence_words
from tiramisu_py.proof.memory.races import all_pairs, pair_key, pair_spots, statements
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import (
    Finding,
    Key,
    Named,
    Spot,
    memory_words,
    on_rank,
    queue_words,
    rank_words,
    wanted,
    words,
    work,
)
from tiramisu_py.sets import smallest

#: The sorts of findings: about two accesses, at the end of the function, at the end of a loop, and at a wait.
_RACE, _UNFINISHED, _FREED, _EARLY = "race", "unfinished", "freed", "early"


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every conflict of operations that no wait orders, every operation that nothing waits for, every early wait."""
    sorts = (_RACE, _UNFINISHED, _FREED, _EARLY) if sought is None else (sought.sort,)
    if _EARLY in sorts:
        yield from _early(flow, sought, of_messages=True)
    if _RACE in sorts and flow.happens.pending:
        for a, b in all_pairs(flow, _RACE, sought):
            yield from _between(flow, a, b)
    if _UNFINISHED in sorts:
        yield from _unfinished(flow, sought)
    if _FREED in sorts and flow.happens.pending:
        yield from _freed(flow)
    if _EARLY in sorts:
        yield from _early(flow, sought, of_messages=False)


# -- two accesses


def _between(flow: Flow, a: MemoryAccess, b: MemoryAccess) -> Iterator[Finding]:
    for x, y in ((a, b), (b, a)):
        bad = _unordered(flow, x, y)
        if bad is not None and not bad.is_empty():
            yield Finding(pair_key(_RACE, a, b), partial(_too_early, flow, x, y, bad))


def _unordered(flow: Flow, x: MemoryAccess, y: MemoryAccess) -> isl.Map | None:
    if flow.happens.lane(statements(x, y)[0]) is None:
        return None
    found = flow.happens.unordered(x, y, flow.same_place(x, y))
    return found if found is None or found.is_empty() else flow.exclusions.possible(x, y, found)


def _too_early(flow: Flow, x: MemoryAccess, y: MemoryAccess, bad: isl.Map) -> Violation:
    program = flow.accesses.program
    (first, second), (pair, one, other) = statements(x, y), pair_spots(flow, x, y, bad)
    if first.link.message is not None:
        return _before_the_wait(program, one, other, pair)
    who = f"{doing(program, other)} on {queue_words(program, second)}"
    before = f"{doing(program, one)} on {queue_words(program, first)}"
    where = f"{words(other.element)} in {memory_words(y.device)}"
    message = f"{who} touches {where}{on_rank(other)}, and nothing makes it wait for {before}, {pair}"
    writer, reader = (one, other) if x.is_write else (other, one)
    witness = Witness(pair.params, writer.named, reader.computed(program), one.element)
    return Violation("race", message, witness, repair=_wait_between(program, first, second))


def _before_the_wait(program: Program, one: Spot, other: Spot, pair: Witness) -> Violation:
    """The violation of `other`, which touches the memory of a message, `one`, that may not be complete."""
    first, second = statements(one.access, other.access)
    wait, where = first.handle, on_rank(other)
    who = doing(program, other)
    if other.access.is_write:
        mine = f"sends {words(one.named)} from there" if first.stores is False else f"receives {words(one.named)} there"
        does = f"{who} overwrites {words(other.element)}{where} before the wait for {wait}, which {mine}"
    else:
        does = f"{who} reads {words(other.named)}{where} before the wait for {wait}, which receives {words(one.named)}"
    writer, reader = (one, other) if one.access.is_write else (other, one)
    reading_ = other.computed(program) if reader is other else reader.named
    witness = Witness(pair.params, writer.named, reading_, one.element)
    to_itself = "leave out what a rank sends to itself: it has these values"
    repair = to_itself if _is_own(program, one, second) else _wait_for(program, first, second)
    return Violation("race", f"{does}, {witness}", witness, repair=repair)


def _is_own(program: Program, one: Spot, other: Statement) -> bool:
    """Whether a rank sends values to itself that the other half of the exchange receives over them."""
    statement = one.access.actor.statement
    if statement is None or statement.link.message is None or statement.link.message.is_relative or not one.rank:
        return False
    if other.link.message is None or other.link.message.exchange != statement.link.message.exchange:
        return False
    instance = smallest.evaluated(one.access.instance, one.at, one.params)
    return smallest.evaluated(statement.link.message.peer, instance, one.params) == one.rank


def _wait_for(program: Program, message: Statement, other: Statement) -> str:
    """The wait that completes a message before another statement: once, or in the loops that repeat both."""
    depth = min(shared(message, other), program.host_depth(message))
    repeated = [loop for loop in message.loops[:depth] if not program.loops[loop].is_rank]
    if not repeated:
        return f"{message.handle}.wait(), ordered before {other.handle}"
    names = [program.loops[loop].name for loop in repeated]
    wait = f"{message.handle}.wait({{{', '.join(f'{name}: ...' for name in names)}}})"
    return f"{wait} in loop {names[-1]}" + ("" if other is message else f", ordered before {other.handle}")


def doing(program: Program, spot: Spot) -> str:
    """The work of an instance, in words: a message, a transfer, or the computation of a value."""
    statement = spot.access.actor.statement
    assert statement is not None
    named = spot.computed(program)
    if statement.link.message is not None:
        return f"{statement.handle} of {words(named)}"
    if statement.role is Role.COPY:
        return f"the {'transfer' if statement.link.transfer else 'copy'} {statement.name} of {words(named)}"
    return f"the computation of {words(named)}"


def _wait_between(program: Program, first: Statement, second: Statement) -> str:
    queue = program.queue_of(second)
    if queue is None:
        return f"{first.handle}.wait(), ordered before {second.handle}"
    if queue[0] == FILES:
        return f"{first.handle}.wait(), ordered between {first.handle} and {second.handle}"
    device = f", device={queue[0]}" if queue[0] else ""
    return f"{first.handle}.wait(on={queue[1]}{device}), ordered between {first.handle} and {second.handle}"


# -- the end


def _unfinished(flow: Flow, sought: Key | None) -> Iterator[Finding]:
    """Operations that may not be complete when the function returns; if none is sought, the last of each sequence."""
    keys = {s.name: Key(_UNFINISHED, (work(s),)) for s in flow.happens.pending}
    pending = [s for s in flow.happens.pending if wanted(keys[s.name], sought)]
    found = [(s, bad) for s in pending if not (bad := flow.happens.unfinished(s)).is_empty()]
    for statement, bad in _last(flow, found) if sought is None else found:
        yield Finding(keys[statement.name], partial(_at_return, flow.accesses.program, statement, bad))


def _last(flow: Flow, found: list[tuple[Statement, isl.Set]]) -> list[tuple[Statement, isl.Set]]:
    """The last operation of each sequence, for sequences that no other one of these waits for."""
    program, happens = flow.accesses.program, flow.happens
    by_queue = {happens.lane(s): (s, bad) for s, bad in sorted(found, key=lambda f: program.positions[f[0].name])}
    ends = [one for queue, one in by_queue.items() if not set(happens.reached(queue)) & set(by_queue)]
    return ends or list(by_queue.values())


def _at_return(program: Program, statement: Statement, bad: isl.Set) -> Violation:
    params, named, where = _first(program, statement, bad)
    witness = Witness(params, named, None)
    does = "the transfer" if statement.link.transfer else "the computation"
    who = f"{does} {statement.name} of {words(named)}" if statement.link.transfer else f"{does} of {words(named)}"
    who = f"{who} on {queue_words(program, statement)}"
    if statement.link.message is not None:
        who = f"{statement.handle} of {words(named)}"
    message = f"the function returns, and nothing waits for {who}{where}, {witness}"
    return Violation("race", message, witness, repair=f"{statement.handle}.wait(), ordered last")


def _first(program: Program, statement: Statement, bad: isl.Set) -> tuple[dict[str, int], Named, str]:
    """The first instance of a set: its parameters, its value, and its rank in words."""
    params = smallest.smallest_params(bad)
    instance = smallest.earliest(bad, local_time(program, statement), params)
    rank = smallest.evaluated(program.rank_of(statement), instance, params)
    where = f" on {rank_words(rank)}" if rank else ""
    return params, (statement.source, smallest.evaluated(program.value_of(statement), instance, params)), where


# -- memory that is used again


def _freed(flow: Flow) -> Iterator[Finding]:
    """Operations on a buffer local to an iteration of host loops that may not be complete when it ends."""
    for access, bad in _unfinished_scopes(flow):
        key = Key(_FREED, (work(access.actor.statement), access.buffer.name))
        yield Finding(key, partial(_at_the_end_of_a_loop, flow.accesses.program, access, bad))


def _at_the_end_of_a_loop(program: Program, access: MemoryAccess, bad: isl.Set) -> Violation:
    statement, _ = statements(access, access)
    params, named, where = _first(program, statement, bad)
    loop = program.loops[access.buffer.scope[-1]].name
    witness = Witness(params, named, None)
    who = f"the computation of {words(named)} on {queue_words(program, statement)}"
    if statement.link.message is not None:
        who = f"{statement.handle} of {words(named)}"
    message = (
        f"{access.buffer.name} exists for one iteration of loop {loop}, at whose end nothing waits for "
        f"{who}{where}, {witness}"
    )
    repair = f"{statement.handle}.wait() at the end of loop {loop}, or {access.source}.store_at(tm.root)"
    return Violation("race", message, witness, repair=repair)


def _unfinished_scopes(flow: Flow) -> Iterator[tuple[MemoryAccess, isl.Set]]:
    program = flow.accesses.program
    for buffer in program.buffers.values():
        last: dict[Queue, tuple[MemoryAccess, isl.Set]] = {}
        for access in _by_operations(flow, flow.accesses.of_buffer(buffer.name)) if buffer.scope else ():
            statement, _ = statements(access, access)
            if len(buffer.scope) <= program.host_depth(statement):
                bad = flow.happens.unfinished(statement, len(buffer.scope))
                if not bad.is_empty():
                    last[flow.happens.lane(statement)] = (access, bad)
        yield from last.values()


def _by_operations(flow: Flow, accesses: list[MemoryAccess]) -> list[MemoryAccess]:
    """The accesses by operations of a GPU and by asynchronous messages, in the order of time."""
    found = [t for t in accesses if t.actor.statement is not None and flow.happens.lane(t.actor.statement) is not None]
    return sorted(found, key=lambda access: flow.accesses.program.positions[access.actor.name])


# -- waits that come too early


def _early(flow: Flow, sought: Key | None, *, of_messages: bool) -> Iterator[Finding]:
    for wait in flow.happens.waits:
        key = Key(_EARLY, (wait.name,))
        for operation, bad in flow.happens.early(wait) if wanted(key, sought) else ():
            if (operation.link.message is not None) is of_messages:
                yield Finding(key, partial(_not_issued, flow, wait, operation, bad))


def _not_issued(flow: Flow, wait: Statement, operation: Statement, bad: isl.Map) -> Violation:
    times = flow.happens.times(operation)
    instances = sets.preimage(bad.domain(), flow.happens.issue(operation)).intersect(times.domain())
    params, named, where = _first(flow.accesses.program, operation, instances)
    witness = Witness(params, named, None)
    who = operation.handle if operation.link.message is not None else operation.name
    message = f"{wait.name} waits for {who} of {words(named)}{where} before it is issued, {witness}"
    return Violation("order", message, witness, repair=f"order {operation.handle} before {wait.name}")


# -- in the report


def _left_alone(program: Program) -> str:
    messages = [s.link.message for s in program.acting if s.link.message is not None and s.link.message.asynchronous]
    exchanges = ", ".join(dict.fromkeys(message.exchange for message in messages))
    return f"nothing overwrites, or reads too early, the memory of the messages of {exchanges}" if exchanges else ""


def _waited_for(program: Program) -> str:
    queues = sorted({queue for s in program.storing if (queue := program.queue_of(s)) is not None})
    if not queues:
        return ""
    several = len({device for device, _ in queues}) > 1
    gpus = [(device, stream) for device, stream in queues if device != FILES]
    names = [f"{stream} of GPU {device}" if several else f"{stream}" for device, stream in gpus]
    found = [f"operation sequence{'s' if len(names) > 1 else ''} {', '.join(names)}"] if gpus else []
    found += [sequence_words(FILES, stream) for device, stream in queues if device == FILES]
    return f"everything waits for the operations that it needs, on {', '.join(found)} and on the host"


SENTENCES = (Sentence(Topic.MESSAGES, _left_alone), Sentence(Topic.OPERATIONS, _waited_for))
