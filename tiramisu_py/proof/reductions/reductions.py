"""Condition (c): a reduction contains every term once, and only its complete results are read.

A *chain* is a place and a value: the partial results of this value that are kept there. Each chain is started once and
has every term once; its start comes before all updates, and all updates before every read of the result; nothing else
is stored there in between (`dependence.flow` proves that). Then every partial result is consumed exactly once,
whatever the order of the updates.

Executors that collect terms separately (ranks, threads of a tree) have one *partial* chain each, which they merge into
another chain: a merge counts as all terms of the partial results that were combined for it. A partial chain is
combined once, after all of its updates, and merged after that; nothing else reads it.

If values are recomputed in one place, a chain is also identified by the iteration of the loops that starts and updates
share (its *generation*): lexicographic order keeps generations apart in time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Candidate, Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.loops import GpuThread, Rank
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.combined_reductions import combined_loops, not_combined
from tiramisu_py.program.statement import Device, Role, device_words
from tiramisu_py.program.storage import Memory
from tiramisu_py.proof.memory.loop_repairs import order_repair
from tiramisu_py.proof.memory.races import pair_spots
from tiramisu_py.proof.memory.values import first_spot, one
from tiramisu_py.proof.reductions.chains import Chains, Miscount, union_of
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, access_key, on_rank, rank_words, reading, wanted, words
from tiramisu_py.proof.violations.repairs import onto_gpu
from tiramisu_py.sets import smallest

#: The sorts of findings: missing or repeated terms, in a chain or in a merge; terms before the start; starts with
#: another value; results copied over partial ones; reads before all terms are added; reads of partial results.
_MISCOUNTED, _MERGED, _UNSTARTED, _OTHER_START = "miscounted", "merged twice", "unstarted", "other start"
_REPLACED, _EARLY, _PARTIAL = "replaced", "early", "partial"
_SORTS = (_MISCOUNTED, _MERGED, _UNSTARTED, _OTHER_START, _REPLACED, _EARLY, _PARTIAL)


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every way in which a reduction lacks or repeats terms, or is read before it is complete."""
    sorts = _SORTS if sought is None else (sought.sort,)
    for name, computation in flow.accesses.program.algorithm.computations.items():
        if computation.is_reduction and (sought is None or sought.about[0] == name):
            chains = Chains.of(flow, computation)
            yield from _miscounted(chains) if _MISCOUNTED in sorts else ()
            yield from _merged_twice(chains) if _MERGED in sorts else ()
            yield from _unstarted(chains) if _UNSTARTED in sorts else ()
            yield from _other_starts(chains) if _OTHER_START in sorts else ()
            yield from _replaced(chains) if _REPLACED in sorts else ()
            yield from _early_readers(chains, sought) if _EARLY in sorts else ()
            yield from _readers_of_partials(chains) if _PARTIAL in sorts else ()


def _key(sort: str, chains: Chains, *about: Hashable) -> Key:
    return Key(sort, (chains.computation.name, *about))


def _miscounted(chains: Chains) -> Iterator[Finding]:
    for wrong in (*chains.miscounts(), *chains.combined_again()):
        yield Finding(_key(_MISCOUNTED, chains), partial(_counted_wrong, chains, wrong))
        return


def _where(device: Device) -> str:
    return device_words(device)


def _merged_twice(chains: Chains) -> Iterator[Finding]:
    for a, b, bad in chains.merged_again():
        yield Finding(_key(_MERGED, chains), partial(_added_twice, chains, a, b, bad))
        return


def _added_twice(chains: Chains, a: MemoryAccess, b: MemoryAccess, bad: isl.Map) -> Violation:
    witness, one, other = pair_spots(chains.flow, a, b, bad)
    ranks = f" on {rank_words(one.rank)} and on {rank_words(other.rank)}" if a.ranks else ""
    message = f"{words(one.named)} gets a term twice: it is added{ranks}, and these are combined, {witness}"
    return Violation("reduction", message, witness, repair=_on_one_rank(chains))


def _counted_wrong(chains: Chains, wrong: Miscount) -> Violation:
    c, access = chains.computation, wrong.access
    params = smallest.smallest_params(wrong.keys)
    key = smallest.first(sets.fixed(wrong.keys, params))
    place = sets.out_size(access.places)
    point = key[place + chains.generation :]
    value = (c.name, point[: len(c.iterators)])
    first = access.owners
    witness = Witness(params, None, value, (access.array, key[first:place]))
    over = f" ({_term(c, point)})" if len(point) > len(c.iterators) else ""
    where = f" on {rank_words(key[: access.ranks])}" if access.ranks else ""
    elsewhere = _added_elsewhere(chains, params, point, key[: access.ranks]) if over else None
    if elsewhere is not None:
        message = (
            f"{words(value)} {wrong.what}{where}: {_term(c, point)} is added on {rank_words(elsewhere)}, {witness}"
        )
        combined = any(w.role is Role.MERGE for w in chains.updates)
        start = f"let each of them start it, with no loop over ranks around {c.name}.init"
        return Violation(
            "reduction",
            message,
            witness,
            repair=f"all ranks combine {c.name}: {start}" if combined else _on_one_rank(chains),
        )
    repair = _copies_on_threads(chains, wrong) or _on_one_device(chains, access)
    return Violation("reduction", f"{words(value)} {wrong.what}{over}{where}, {witness}", witness, repair=repair)


def _copies_on_threads(chains: Chains, wrong: Miscount) -> str:
    """The repair of a value that is started in each iteration of a loop of its own: each thread has a copy."""
    program, start = chains.flow.accesses.program, wrong.access.actor.statement
    if start is None or start.role is not Role.INIT or start.link.combination is not None:
        return ""
    point, coords = sets.outputs(start.point), sets.outputs(start.coords)
    for axis in range(sets.size(start.frame)):
        if any(sets.involves_axes(form, axis, 1) for form in point):
            continue
        own = [number for number, form in zip(start.loops, coords, strict=True) if sets.involves_axes(form, axis, 1)]
        if len(own) != 1 or any(other.source != start.source for other in program.with_this_loop(own[0])):
            continue
        loop = program.loops[own[0]]
        on_threads = [] if isinstance(loop.tag, GpuThread) else [f"run loop {loop.name} on threads"]
        in_registers = (
            [] if wrong.access.buffer.memory is Memory.REGISTER else [f"{start.source}.store_in(tm.REGISTER)"]
        )
        return f"each thread has one copy: {' and '.join([*on_threads, *in_registers])}"
    return ""


def _added_elsewhere(
    chains: Chains, params: dict[str, int], point: tuple[int, ...], rank: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The first other rank on which a term is added; None if there is none."""
    for update in chains.updates if rank else ():
        points = chains.terms(update)
        term = smallest.alone(points.range(), point, params)
        ranks = sets.fixed(term.apply(points.reverse()).apply(update.on_ranks), params)
        others = ranks.subtract(smallest.singleton(ranks.get_space(), rank))
        if not others.is_empty():
            return smallest.first(others)
    return None


def _over_ranks(chains: Chains, update: MemoryAccess) -> str:
    """The command that lets ranks combine the terms of an update; "" where it has no loop over ranks."""
    statement = update.actor.statement
    assert statement is not None
    loops = (chains.flow.accesses.program.loops[number] for number in statement.loops)
    found = [loop for loop in loops if isinstance(loop.tag, Rank) and loop.tagged_by]
    by_mpi = not not_combined(chains.computation)
    if not found or update.home in chains.partials or not (by_mpi or not not_combined(chains.computation, True)):
        return ""
    return f"{statement.handle}.tag_distribute({found[0].name}, combine=tm.{'PRIVATE' if by_mpi else 'TREE'})"


def _on_one_rank(chains: Chains) -> str:
    """The repair of a reduction whose terms are on different ranks."""
    c = chains.computation
    tagged = (_over_ranks(chains, update) for update in chains.updates)
    command = next((f"combine them with {loop}, " for loop in tagged if loop), "")
    return (
        f"the terms of {c.name} are on different ranks: {command}keep the loop over "
        f"{', '.join(c.over)} on one rank, or reduce on each rank to a value of its own (the rank as one more index), "
        "bring these to one rank, and combine them"
    )


def _on_one_device(chains: Chains, access: MemoryAccess) -> str:
    """The repair of a chain that is started on one device and updated on another; "" for any other chain."""
    own, others = (
        [w for w in (*chains.starts, *chains.updates) if w.buffer == access.buffer and (w.home == access.home) is here]
        for here in (True, False)
    )
    if not others:
        return ""
    if any(w.role is Role.INIT for w in own) and any(w.adds for w in own):
        apart = next((w for w in others if w.adds), None)
        return "" if apart is None else _on_each_device(chains, access.device, apart.device)
    first, second = own[0].actor.statement, others[0].actor.statement
    assert first is not None and second is not None
    advice = (
        f"partial results are not transferred: run {first.handle} (now on {_where(own[0].device)}) and "
        f"{second.handle} (now on {_where(others[0].device)}) on one device"
    )
    command = onto_gpu(chains.flow, first, second) or onto_gpu(chains.flow, second, first)
    return f"{advice}: {command}" if command else advice


def _on_each_device(chains: Chains, first: Device, second: Device) -> str:
    """The repair of terms on two devices: copies of values are derived, and those of partial results are not."""
    name = chains.computation.name
    return (
        f"the terms of {name} are on {_where(first)} and on {_where(second)}: before its loops are divided, "
        f"{name}.update.rfactor(...) over the loop of the devices makes a value of what each of them adds up"
    )


def _term(c: Computation, point: tuple[int, ...]) -> str:
    """A term in words: the values of the iterators that are reduced over."""
    inner = zip(c.over, point[len(c.iterators) :], strict=True)
    return f"the term {', '.join(f'{name} = {at}' for name, at in inner)}"


# -- the start before the updates


def _unstarted(chains: Chains) -> Iterator[Finding]:
    for update in chains.updates:
        bad = _without_start(chains, update)
        if not bad.is_empty():
            yield Finding(_key(_UNSTARTED, chains), partial(_not_started, chains, update, bad))


def _accumulator(chains: Chains, update: MemoryAccess) -> MemoryAccess:
    assert update.actor.statement is not None
    found = chains.flow.accesses.accumulator(update.actor.statement)
    assert found is not None
    return found


def _without_start(chains: Chains, update: MemoryAccess) -> isl.Set:
    """The updates whose chain is not started before them, or has been overwritten since."""
    flow, accumulator = chains.flow, _accumulator(chains, update)
    bad = flow.unserved(accumulator)
    for start in chains.starts if chains.generation else ():
        if start.home == update.home:
            own = chains.same(start, accumulator)
            earlier = flow.precedence.before(start, accumulator, own)
            bad = bad.union((own if earlier is None else own.subtract(earlier)).range())
    return bad


def _not_started(chains: Chains, update: MemoryAccess, bad: isl.Set) -> Violation:
    flow, accumulator = chains.flow, _accumulator(chains, update)
    spot = first_spot(accumulator, bad)
    witness = Witness(spot.params, spot.named, spot.named, spot.element)
    if any(True for _ in flow.right(replace(accumulator, domain=one(accumulator, spot)))):
        made = f"while terms of {words(spot.named)} are added there{on_rank(spot)}"
        message = f"another value is stored to {words(spot.element)} {made}, {witness}"
        return Violation("overwritten", message, witness, repair=f"keep {spot.named[0]} in a buffer of its own")
    terms = sets.fixed(
        smallest.alone(accumulator.domain, spot.at, spot.params).apply(chains.terms(update)), spot.params
    )
    term = "what is combined" if terms.is_empty() else _term(chains.computation, smallest.first(terms))
    message = f"{term} is added to {words(spot.named)} before its start{on_rank(spot)}, {witness}"
    starts = [start for start in chains.starts if start.home == update.home]
    repair = order_repair(flow, accumulator, starts) or _on_one_device(chains, update)
    return Violation("reduction", message, witness, repair=repair)


def _other_starts(chains: Chains) -> Iterator[Finding]:
    """Starts that store neither the identity nor the neutral value of the operator."""
    for start in chains.starts:
        statement, op, dtype = start.actor.statement, chains.computation.op, chains.computation.dtype
        assert statement is not None and op is not None
        known = any(statement.body.same_as(value) for value in (op.identity(dtype), op.neutral(dtype)))
        if not known and not start.domain.is_empty():
            yield Finding(_key(_OTHER_START, chains), partial(_started_with, start, statement.body, op))


def _started_with(start: MemoryAccess, body: Expr, op: Operator) -> Violation:
    spot = first_spot(start, start.domain)
    witness = Witness(spot.params, spot.named, spot.named, spot.element)
    message = f"{words(spot.named)} is started with {body}, which is not the identity of {op.name}, {witness}"
    return Violation("reduction", message, witness)


# -- nothing else in between


def _replaced(chains: Chains) -> Iterator[Finding]:
    """Complete results that are copied, or received, over a partial result that is still updated."""
    for update in chains.updates:
        for copy in chains.copies:
            bad = _goes_on(chains, update, copy)
            if not bad.is_empty():
                yield Finding(_key(_REPLACED, chains), partial(_copied_over, chains, update, copy, bad))


def _goes_on(chains: Chains, update: MemoryAccess, copy: MemoryAccess) -> isl.Map:
    """``update -> copy`` of one value at one place, where the copy comes first and the chain is not restarted since."""
    flow = chains.flow
    accumulator = _accumulator(chains, update)
    if copy.home != update.home:
        return sets.no_pairs(accumulator.domain.get_space(), copy.domain.get_space())
    pairs = flow.one_chain(copy, accumulator)
    earlier = flow.precedence.before(copy, accumulator, pairs)
    if earlier is None or earlier.is_empty():
        return sets.no_pair(pairs.reverse())
    for start in chains.starts:
        if start.home == copy.home:
            since = flow.precedence.before(copy, start, flow.one_chain(copy, start))
            until = flow.precedence.before(start, accumulator, chains.same(start, accumulator))
            if since is not None and until is not None:
                earlier = earlier.subtract(since.apply_range(until))
    return earlier.reverse()


def _copied_over(chains: Chains, update: MemoryAccess, copy: MemoryAccess, bad: isl.Map) -> Violation:
    witness, one, other = pair_spots(chains.flow, _accumulator(chains, update), copy, bad)
    assert copy.actor.statement is not None
    does = "receives" if copy.actor.statement.receives else "copies"
    message = (
        f"{copy.actor.statement.handle} {does} {words(other.named)} to {words(other.element)}, where terms are added "
        f"to it afterwards{on_rank(one)}, {witness}"
    )
    return Violation("overwritten", message, witness, repair=f"keep {other.named[0]} in a buffer of its own")


# -- the updates before the readers


def _early_readers(chains: Chains, sought: Key | None) -> Iterator[Finding]:
    for home in dict.fromkeys(update.home for update in chains.updates):
        for read in chains.flow.accesses.readers(home):
            key = _key(_EARLY, chains, access_key(read))
            late = list(late_updates(chains, read)) if wanted(key, sought) else []
            if late:
                yield Finding(key, partial(_incomplete, chains.flow, read, late))


def _readers_of_partials(chains: Chains) -> Iterator[Finding]:
    """Reads of partial results, which the algorithm does not name, by other statements than combination and merge."""
    for home in chains.partials:
        for read in chains.flow.accesses.readers(home):
            if read.role not in (Role.COMBINE, Role.MERGE) and not read.domain.is_empty():
                yield Finding(_key(_PARTIAL, chains), partial(_reads_partial, chains, read))


def _reads_partial(chains: Chains, read: MemoryAccess) -> Violation:
    spot, program = first_spot(read, read.domain), chains.flow.accesses.program
    witness = Witness(spot.params, spot.named, spot.computed(program), spot.element)
    who = reading(program, spot)
    message = f"{who} reads a partial result of {words(spot.named)}{on_rank(spot)}, {witness}"
    return Violation("reduction", message, witness)


def late_updates(chains: Chains, read: MemoryAccess) -> Iterator[Candidate]:
    """The updates that do not come before a read of the result of their chain, and the pairs ``read -> update``."""
    flow = chains.flow
    for update in chains.updates:
        if update.source != read.source or update.home != read.home or flow.precedence.always(update, read):
            continue
        pairs = flow.one_chain(read, update)
        earlier = flow.precedence.before(update, read, pairs.reverse())
        late = pairs if earlier is None else pairs.subtract(earlier.reverse())
        late = late.subtract(_of_later_generations(chains, read, update)) if chains.generation else late
        if not late.is_empty():
            yield Candidate(update, late)


def _of_later_generations(chains: Chains, read: MemoryAccess, update: MemoryAccess) -> isl.Map:
    """``read -> update`` of updates whose chain is only started after the read."""
    found = sets.no_pair(chains.flow.one_chain(read, update))
    for start in chains.starts:
        if start.home == read.home:
            later = chains.flow.precedence.before(read, start, chains.flow.one_chain(read, start))
            found = found if later is None else found.union(later.apply_range(chains.same(start, update)))
    return found


def _incomplete(flow: Flow, read: MemoryAccess, late: list[Candidate]) -> Violation:
    bad = union_of([candidate.pairs.domain() for candidate in late], read.domain)
    spot = first_spot(read, bad)
    reader = spot.computed(flow.accesses.program)
    witness = Witness(spot.params, spot.named, reader, spot.element)
    loop = _combining_loop(flow, read, late)
    if loop:
        named = f"{words(reader)} reads {words(spot.named)}{on_rank(spot)} inside loop {loop}"
        message = f"{named}, which combines the partial results of its ranks only at its end, {witness}"
        return Violation("reduction", message, witness, repair=f"move it out of loop {loop}")
    who = f"{reading(flow.accesses.program, spot)} {'sends' if read.role is Role.SEND else 'reads'}"
    message = f"{who} {words(spot.named)} before all of its terms are added{on_rank(spot)}, {witness}"
    return Violation("reduction", message, witness, repair=order_repair(flow, read, [c.write for c in late]))


def _combining_loop(flow: Flow, read: MemoryAccess, late: list[Candidate]) -> str:
    """The loop around a read whose partial results ranks combine only at its end; "" if there is none."""
    program, reader = flow.accesses.program, read.actor.statement
    merged = {c.write.actor.statement.source for c in late if c.write.role is Role.MERGE and c.write.actor.statement}
    for statement in program.statements.values() if reader is not None and merged else ():
        if statement.calls_ranks and statement.link.combination is not None and statement.source in merged:
            update = program.statements[statement.link.combination.of]
            loops = [loop for loop in combined_loops(program, update).values() if reader and loop in reader.loops]
            if loops:
                return program.loops[loops[0]].name
    return ""


# -- in the report


def _complete(program: Program) -> str:
    reductions = [name for name, c in program.algorithm.computations.items() if c.is_reduction]
    if not reductions:
        return ""
    return f"every term is in {', '.join(reductions)} once, and only complete results are read"


SENTENCES = (Sentence(Topic.REDUCTIONS, _complete),)
