"""Dataflow inherited from a simpler schedule: the test of memory dependences, which is sufficient, not necessary.

The schedule of a program may be simpler in an earlier state: before tiles and wavefronts. Given a *reference*, the same
statements with the same executions, values and places, but the schedule of such a state,

    served in the reference, and
    every conflict, { a -> b : same place, one of them a write, a before b in the reference }, is in order here

together imply that every read is served here too: the write that serves a read there comes before it here, a write
after the read is still after it, and a write before the serving write is still before that. `Flow.unserved` depends on
values, places, and the order of such pairs alone, so the reference needs no other property; it need not be free of
races, nor be executable.

A store of the bits that are there may be anywhere. The load of its execution is in order with all stores that change
the place, as are all other reads; so each finds what the last of these has brought, here as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.precedence import Precedence
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Home
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.dependence.flow import Flow


@dataclass(frozen=True, eq=False)
class Inherited:
    """The result of the dependence test: a buffer instance compared with a reference that serves all its reads.

    `violated` are the parameters for which a conflict is reversed here: every read is served for all others. With
    `but_idle`, conflicts with stores that change nothing do not count.
    """

    violated: isl.Set
    reference: Flow
    but_idle: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether every read is served, for all parameters."""
        return bool(self.violated.is_empty())


def inherited(flow: Flow, home: Home, made: Callable[[MemoryAccesses], Flow]) -> Inherited | None:
    """Compare this schedule with the first earlier one that serves all reads of `home`; None if there is none.

    `made` builds the dataflow of a reference.
    """
    accesses = flow.accesses
    if not _is_plain(accesses, home):
        return None
    for program in _references(accesses, home):
        plainer = made(MemoryAccesses(program, accesses.values))
        if all(plainer.unserved(read).is_empty() for read in _reading(plainer.accesses, home)):
            violated = _violated(flow, plainer, home, list(accesses.writers(home)))
            changing = list[MemoryAccess]() if violated.is_empty() else flow.changing_writes(home)
            if changing:
                return Inherited(_violated(flow, plainer, home, changing), plainer, but_idle=True)
            return Inherited(violated, plainer)
    return None


def _is_plain(accesses: MemoryAccesses, home: Home) -> bool:
    """Whether places are the same in every order, and nothing but time orders executions; and tiles are all around."""
    program, buffer = accesses.program, home.buffer
    if program.runs_on_ranks or program.buffers[buffer].scope:
        return False
    if any(storage.inner for storage in program.storages_in(buffer)):
        return False
    statements = _accessing(accesses, home)
    if any(
        program.queue_of(s) is not None or s.link.message is not None or s.memory.onto is not None for s in statements
    ):
        return False
    return any(has_tiles(s) for s in statements)


def _accessing(accesses: MemoryAccesses, home: Home) -> list[Statement]:
    found = [t.actor.statement for t in (*accesses.writers(home), *accesses.readers(home))]
    return list({s.name: s for s in found if s is not None}.values())


def has_tiles(statement: Statement) -> bool:
    """Whether some loop of a statement runs over tiles (its coordinate contains a floor division)."""
    return any(sets.has_floors(form) for form in sets.outputs(statement.coords))


def _references(accesses: MemoryAccesses, home: Home) -> Iterator[Program]:
    """The program with the loops of its first state that has the same statements, and of the last one without tiles."""
    program, statements = accesses.program, _accessing(accesses, home)
    usable = [found for state in program.history[:-1] if (found := _reference(program, state, statements)) is not None]
    if usable:
        yield usable[0]
    if len(usable) > 1:
        yield usable[-1]


def _reference(program: Program, state: Program, statements: list[Statement]) -> Program | None:
    """The program with these statements alone, in the schedule of another state; None if that is no reference."""
    found: dict[str, Statement] = {}
    wanted = {statement.name: statement for statement in statements}
    for name, then in state.statements.items():  # in the order of that state
        if name in wanted:
            now = wanted[name]
            if then.role is not now.role or not then.frame.is_equal(now.frame) or has_tiles(then):
                return None
            found[name] = replace(now, loops=then.loops, coords=then.coords)
    if len(found) < len(wanted):
        return None
    loops = {number: replace(loop, tag=None) for number, loop in state.loops.items()}
    return program.with_(
        statements=found, loops=loops, orders=state.orders, origin=replace(program.origin, parent=None, command=None)
    )


def _reading(accesses: MemoryAccesses, home: Home) -> Iterator[MemoryAccess]:
    """Everything that finds a value there: what reads it, and what adds a term to it.

    Where a result is read after its start, terms may yet have been added before that.
    """
    yield from accesses.readers(home)
    for write in accesses.writers(home):
        found = accesses.accumulator(write.actor.statement) if write.adds and write.actor.statement else None
        if found is not None:
            yield found


# -- conflicts


def _violated(flow: Flow, plainer: Flow, home: Home, stores: list[MemoryAccess]) -> isl.Set:
    """The parameters for which two conflicting accesses are in another order than in the reference."""
    found = isl.Set.empty(flow.accesses.program.context.get_space()).params()
    for a, b in _conflicting(flow.accesses, home, stores):
        pairs = flow.same_place(a, b)
        x, y = _there(plainer.accesses, a), _there(plainer.accesses, b)
        found = found.union(_reversed(flow.precedence, plainer.precedence, (a, b), (x, y), pairs))
        if a is not b:
            found = found.union(_reversed(flow.precedence, plainer.precedence, (b, a), (y, x), pairs.reverse()))
    return found.coalesce()


def _conflicting(
    accesses: MemoryAccesses, home: Home, stores: list[MemoryAccess]
) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    writes = [t for t in stores if t.actor.statement is not None]
    reads = [t for t in accesses.readers(home) if t.actor.statement is not None]
    for k, write in enumerate(writes):
        for other in (*reads, *writes[k:]):
            yield write, other


def _there(accesses: MemoryAccesses, access: MemoryAccess) -> MemoryAccess:
    """The access in a reference that corresponds to an access here."""
    statement = accesses.program.statements[access.actor.name]
    found = accesses.write(statement) if access.is_write else accesses.read(statement, access.source)
    assert found is not None
    return found


def _reversed(
    now: Precedence,
    then: Precedence,
    here: tuple[MemoryAccess, MemoryAccess],
    there: tuple[MemoryAccess, MemoryAccess],
    pairs: isl.Map,
) -> isl.Set:
    """The parameters for which a pair is in order in the reference (`then`), and is not `now`."""
    before = then.before(*there, pairs)
    if before is None:
        return isl.Set.empty(pairs.get_space().params())
    return now.not_before(*here, before).params()
