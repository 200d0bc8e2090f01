"""Condition (a): conflicting accesses are ordered by happens-before.

Time orders instances, except along parallel and vector loops. Two accesses to one place, at least one of them a write,
are a race if their times first differ along such a loop, or are equal. Updates of one reduction are excepted on a loop
that says how partial results are combined; so are reads in a vector that come before the stores of later lanes
(`dependence/lanes.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.dependence import lanes
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.loops import Bulk, Loop, Parallel, Vector
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Home
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, Spot, access_key, on_rank, reading, words
from tiramisu_py.proof.violations.repairs import own_buffer
from tiramisu_py.sets import smallest

#: The sort of findings about two accesses.
_RACE = "race"


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every pair of accesses that conflict and have no order."""
    for a, b in all_pairs(flow, _RACE, sought):
        yield from between(flow, a, b)


def all_pairs(flow: Flow, sort: str, sought: Key | None = None) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """Pairs of statements' accesses to one instance of a buffer, the first of them a write.

    With a key `sought`, only the pairs that stand for the two accesses of this key, for findings of this sort.
    """
    storages = flow.accesses.program.storages
    if sought is None:
        found: Iterable[str] = flow.accesses.program.buffers
    else:
        found = [storage.buffer for name, storage in storages.items() if sought.about[:1] == (name,)]
    for buffer in found:
        for a, b in pairs(flow, buffer):
            if sought is None or pair_key(sort, a, b) == sought:
                yield a, b


def pair_key(sort: str, a: MemoryAccess, b: MemoryAccess) -> Key:
    """The key of a finding about two accesses of one buffer."""
    return Key(sort, (a.storage.name, access_key(a), access_key(b)))


def pairs(flow: Flow, buffer: str) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """Pairs of statements' accesses to one instance of this buffer, the first of them a write."""
    for home in flow.accesses.homes_of(buffer):
        yield from _pairs_at(flow, home)


def _pairs_at(flow: Flow, home: Home) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    writes = [t for t in flow.accesses.writers(home) if t.actor.statement is not None]
    reads = [t for t in flow.accesses.readers(home) if t.actor.statement is not None]
    for k, write in enumerate(writes):
        for other in (*reads, *writes[k:]):
            yield write, other


def between(flow: Flow, a: MemoryAccess, b: MemoryAccess) -> Iterator[Finding]:
    """The conflicts of two accesses that have no order."""
    first, second = statements(a, b)
    depths = unordered(flow, a, b)
    ties = first is second and (first.is_call or flow.has_ties(first)) and not _is_update_in_place(first, a, b)
    if not (depths or ties) or (a is b and _injective(a)):
        return
    conflict = flow.same_place(a, b)
    if conflict.is_empty():
        return
    for depth in depths:
        bad = between_iterations(flow, a, b, conflict, depth)
        if not bad.is_empty() and not (bad := flow.exclusions.possible(a, b, bad)).is_empty():
            bad = flow.between_changes(a, b, bad)
        if not bad.is_empty():
            yield Finding(pair_key(_RACE, a, b), partial(_race, flow, a, b, bad, depth))
    if ties:
        bad = _same_time(a, b, conflict)
        if not bad.is_empty() and not (bad := flow.exclusions.possible(a, b, bad)).is_empty():
            yield Finding(pair_key(_RACE, a, b), partial(_tie, flow, a, b, bad))


def statements(a: MemoryAccess, b: MemoryAccess) -> tuple[Statement, Statement]:
    """The statements of two accesses, neither of them the caller's."""
    assert a.actor.statement is not None and b.actor.statement is not None
    return a.actor.statement, b.actor.statement


def _injective(write: MemoryAccess) -> bool:
    """Whether no two instances store to one place."""
    return bool(isl.Map.from_multi_aff(write.place).is_injective() or write.places.is_injective())


def unordered(flow: Flow, a: MemoryAccess, b: MemoryAccess) -> list[int]:
    """The depths of shared loops, except over blocks and threads, whose iterations are unordered and share the buffer.

    The iterations of a bulk transfer are one operation, so they are unordered too.
    """
    first, second = statements(a, b)
    loops = flow.accesses.program.loops
    inside = len(a.buffer.scope)
    return [
        k
        for k in range(inside, shared(first, second))
        if isinstance(loops[first.loops[k]].tag, Parallel | Vector | Bulk)
    ]


def between_iterations(flow: Flow, a: MemoryAccess, b: MemoryAccess, conflict: isl.Map, depth: int) -> isl.Map:
    """The conflicts in different iterations of the loop at a depth that have no order, by its tag."""
    program = flow.accesses.program
    loop = program.loops[statements(a, b)[0].loops[depth]]
    bad = race_at(a, b, conflict, depth, loop)
    if bad.is_empty() or not lanes.keeps_order(program, loop, a, b):
        return bad
    return bad.intersect(lanes.out_of_order(program, a, b, depth))


def race_at(a: MemoryAccess, b: MemoryAccess, conflict: isl.Map, depth: int, loop: Loop | None) -> isl.Map:
    """The conflicts ``a -> b`` in different iterations of a loop, but the same iteration of all loops around it.

    Given a `loop`, updates that its `combine` lets run together are left out.
    """
    if loop is not None and commuting(a, b, loop):
        conflict = conflict.subtract(a.values.apply_range(b.values.reverse()))
    before, after = a.prefix(depth + 1), b.prefix(depth + 1)
    times = sets.equal_prefix(conflict.apply_domain(before).apply_range(after), depth)
    apart = sets.less_at(times, depth)
    if a is not b or loop is None:
        apart = apart.union(sets.greater_at(times, depth))
    if apart.is_empty():
        return sets.no_pair(conflict)
    return conflict.intersect(before.apply_range(apart).apply_range(after.reverse()))


def commuting(a: MemoryAccess, b: MemoryAccess, loop: Loop) -> bool:
    """Whether both are updates of one reduction, and the loop says how they are combined."""
    combined = isinstance(loop.tag, Parallel | Vector) and loop.tag.combine is not None
    return combined and a.role is b.role is Role.UPDATE and a.source == b.source and a.is_write and b.is_write


def _is_update_in_place(call: Statement, a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether a call reads what it overwrites in place: its function is made for that (see `whole_calls`)."""
    updated = call.body.updated if isinstance(call.body, StageCall) else None
    return updated is not None and a.is_write and not b.is_write and b.source == updated.source


def _same_time(a: MemoryAccess, b: MemoryAccess, conflict: isl.Map) -> isl.Map:
    """The conflicts between different instances of one statement that have the same time."""
    first, _ = statements(a, b)
    count = len(first.loops)
    same = conflict.intersect(a.prefix(count).apply_range(b.prefix(count).reverse()))
    if first.is_call and not b.is_write:
        return same  # a call may store an element before it reads it
    return same.subtract(sets.graph(a.instance).apply_range(sets.graph(b.instance).reverse()))


# -- in words


def _race(flow: Flow, a: MemoryAccess, b: MemoryAccess, bad: isl.Map, depth: int) -> Violation:
    program = flow.accesses.program
    witness, write, other = pair_spots(flow, a, b, bad)
    statement, _ = statements(a, b)
    loop = program.loops[statement.loops[depth]]
    tag = loop.tag.name if loop.tag is not None else ""
    if b.is_write:
        does = "update" if a.role is Role.UPDATE else "store to"
        twice = write.named == other.named
        what = f"two executions for {words(write.named)}" if twice else f"{words(write.named)} and {words(other.named)}"
        where = f"in different iterations of the {tag} loop {loop.name}"
        message = f"{what} both {does} {words(write.element)} {where}{on_rank(write)}, {witness}"
    else:
        reads = f"{reading(program, other)} reads {words(other.named)}"
        same = "it is stored" if other.named == write.named else f"{words(write.named)} is stored"
        where = f"in another iteration of the {tag} loop {loop.name}"
        message = f"{reads} from {words(write.element)}, where {same} {where}{on_rank(write)}, {witness}"
    near = _within_a_vector(a, b, bad, depth, loop)
    repair = _advice(program, a, b, loop) if near else _vectors_in_order(program, statement, loop)
    repair = flow.exclusions.advice(a, b, bad, repair)
    return Violation("race", message, witness, repair=repair)


def _within_a_vector(a: MemoryAccess, b: MemoryAccess, bad: isl.Map, depth: int, loop: Loop) -> bool:
    """Whether some races are between iterations that may be in one vector, or the loop is no vector loop."""
    if not isinstance(loop.tag, Vector):
        return True
    times = bad.apply_domain(a.prefix(depth + 1)).apply_range(b.prefix(depth + 1))
    return not sets.near_at(times, depth, loop.tag.width).is_empty()


def _vectors_in_order(program: Program, statement: Statement, loop: Loop) -> str:
    """The split of a loop into vectors that run in order: a dependence may be as long as a vector, or longer."""
    width = loop.tag.width if isinstance(loop.tag, Vector) else 0
    taken = program.loop_names(statement)
    lane = next(n for k in itertools.count() if (n := f"{loop.name}_lane{k or ''}") not in taken)
    cut = f"{statement.handle}.split({loop.name}, {width}, {loop.name}, {lane}).vectorize({lane}, {width})"
    return f"{cut} runs one vector after another: what is at least {width} iterations apart has an order then"


def _advice(program: Program, a: MemoryAccess, b: MemoryAccess, loop: Loop) -> str:
    first, _ = statements(a, b)
    command = "parallelize" if isinstance(loop.tag, Parallel) else "vectorize"
    if a.role is b.role is Role.UPDATE and a.source == b.source and a.is_write and b.is_write:
        declared = program.algorithm.computations[first.source]
        if declared.ordered:
            return f"leave loop {loop.called} sequential: {a.source} is declared ordered=True"
        if declared.in_order and not _has_ranges(loop):
            return f"leave loop {loop.called} sequential: {declared.op} of {a.source} is not commutative"
        width = f", {loop.tag.width}" if isinstance(loop.tag, Vector) else ""
        private = f"{first.handle}.{command}({loop.called}{width}, combine=tm.PRIVATE)"
        return f"{private} keeps partial results apart and combines them"
    if a.is_write and b.is_write and a.source == b.source:
        return (
            f"leave loop {loop.called} sequential, or give each of its iterations its own copy: store_at({loop.name})"
        )
    return f"leave loop {loop.called} sequential: it carries a dependence"


def _has_ranges(loop: Loop) -> bool:
    """Whether each thread of a loop has neighbouring iterations."""
    return isinstance(loop.tag, Parallel) and loop.tag.schedule == "static" and loop.tag.chunk is None


def _tie(flow: Flow, a: MemoryAccess, b: MemoryAccess, bad: isl.Map) -> Violation:
    witness, one, two = pair_spots(flow, a, b, bad)
    call, _ = statements(a, b)
    if isinstance(call.body, StageCall):
        stored = f"{words(one.named)} and {words(two.named)}" if b.is_write else words(one.named)
        other = "" if b.is_write else f", from which the same call reads {words(two.named)}"
        message = f"{call.body.function} stores {stored} to {words(one.element)}{other}{on_rank(one)}, {witness}"
        return Violation("race", message, witness, repair=own_buffer(a))
    first, second = one.computed(flow.accesses.program), two.computed(flow.accesses.program)
    message = (
        f"{words(first)} and {words(second)} both use {words(one.element)} at the same time{on_rank(one)}, {witness}"
    )
    return Violation("race", message, witness, repair="give the executions different times")


def pair_spots(flow: Flow, a: MemoryAccess, b: MemoryAccess, bad: isl.Map) -> tuple[Witness, Spot, Spot]:
    """The smallest pair of a relation ``a -> b``, as a witness and as one spot for each side."""
    params, x, y = _smallest(a, b, bad)
    one, other = Spot(a, params, x), Spot(b, params, y)
    return Witness(params, one.named, other.computed(flow.accesses.program), one.element), one, other


def _smallest(
    a: MemoryAccess, b: MemoryAccess, bad: isl.Map
) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]]:
    """The pair with the least sum of parameters, then the earliest second access, then the earliest first one."""
    params = smallest.smallest_params(bad)
    fixed = sets.fixed_map(bad, params)
    assert a.when is not None and b.when is not None
    y = smallest.earliest_of(fixed.range(), b.when, params)
    there = smallest.at(smallest.singleton(b.domain.get_space(), y), params)
    x = smallest.earliest_of(fixed.intersect_range(there).domain(), a.when, params)
    return params, x, y


# -- in the report


def _free_of_conflicts(program: Program) -> str:
    own = [loop for loop in program.loops.values() if loop.is_concurrent and not loop.added]
    loops = [loop for loop in own if program.with_this_loop(loop.id)]
    names = ", ".join(dict.fromkeys(loop.name for loop in loops))
    ahead = ", ".join(dict.fromkeys(loop.name for loop in lanes.reading_ahead(program)))
    but = f"; in vectors of {ahead}, lanes read places before a later lane stores there" if ahead else ""
    return f"no two iterations of the concurrent loops {names} conflict{but}" if names else ""


SENTENCES = (Sentence(Topic.LOOPS, _free_of_conflicts),)
