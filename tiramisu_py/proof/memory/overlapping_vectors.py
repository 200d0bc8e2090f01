"""Condition: if the last vector of a loop overlaps others, running these iterations twice changes nothing.

Iterations of a vector loop have no order, so the second run of one may as well follow the first at once. Each read
then sees what it saw before, unless its value comes from outside the iteration and the iteration stores to the same
place:

    again = { read -> write : same place, same iteration }
    own   = { read : the value it names is stored in the same iteration, before it }
    wrong = domain(again) - own

An update of a reduction reads its partial result, so the reduction must start in the same iteration. The first
iteration of a loop never runs twice; none does if the loop is no longer than a vector, or if its iterations are
combined.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.loops import Loop, Vector
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.memory.races import pair_spots
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, on_rank, reading, wanted, words, work


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every read that would not see the same in the second run, and every message that would be repeated."""
    for statement in flow.accesses.program.acting:
        key = Key("again", (work(statement),))
        for violation in _of(flow, statement) if wanted(key, sought) else ():
            yield Finding.of(key, violation)


def _of(flow: Flow, statement: Statement) -> Iterator[Violation]:
    """The violations of one statement."""
    for depth, number in enumerate(statement.loops):
        loop = flow.accesses.program.loops[number]
        if isinstance(loop.tag, Vector) and loop.tag.remainder == "overlap" and loop.tag.combine is None:
            if statement.link.message is not None:
                yield _message(statement, loop)
                continue
            repeated = _repeated(flow, statement, depth, loop.tag.width)
            for read in _reads(flow, statement):
                violation = _wrong(flow, read, depth, loop, repeated)
                if violation is not None:
                    yield violation


def _reads(flow: Flow, statement: Statement) -> Iterator[MemoryAccess]:
    """The reads of a statement: of its sources and, for an update, of its partial result."""
    found = [flow.accesses.read(statement, source) for source in flow.accesses.sources(statement)]
    if statement.role is Role.UPDATE:
        found.append(flow.accesses.accumulator(statement))
    return (access for access in found if access is not None)


def _repeated(flow: Flow, statement: Statement, depth: int, width: int) -> isl.Set:
    """``[loops around, vector loop]``: the iterations of a vector loop that may run twice."""
    program, outer = flow.accesses.program, statement.loops[: depth + 1]
    parts = [
        sets.graph(sets.renamed(sets.prefix(s.coords, depth + 1), None), s.instances).range()
        for s in program.acting
        if s.loops[: depth + 1] == outer
    ]
    whole = reduce(isl.Set.union, parts).intersect_params(program.context.params())
    pairs = sets.equal_prefix(isl.Map.from_domain_and_range(whole, whole), depth)
    apart = sets.less_at(sets.shifted_out(pairs, depth, 1 - width), depth).domain()
    return sets.less_at(pairs.intersect_domain(apart), depth).range()


def _wrong(flow: Flow, read: MemoryAccess, depth: int, loop: Loop, repeated: isl.Set) -> Violation | None:
    own = isl.Set.empty(read.domain.get_space())
    for right in flow.right(read):
        if _share(right.write, read, depth):
            own = own.union(right.pairs.intersect(_same_iteration(read, right.write, depth)).domain())
    for write in flow.accesses.writers(read.home):
        if not _share(write, read, depth):
            continue
        again = flow.same_place(read, write).intersect(_same_iteration(read, write, depth)).subtract_domain(own)
        again = again.intersect_domain(read.prefix(depth + 1).intersect_range(repeated).domain())
        if not again.is_empty():
            return _violation(flow, read, write, again, loop)
    return None


def _share(write: MemoryAccess, read: MemoryAccess, depth: int) -> bool:
    """Whether two statements share a loop and all loops around it."""
    a, b = write.actor.statement, read.actor.statement
    return a is not None and b is not None and shared(a, b) > depth


def _same_iteration(a: MemoryAccess, b: MemoryAccess, depth: int) -> isl.Map:
    return a.prefix(depth + 1).apply_range(b.prefix(depth + 1).reverse())


def _violation(flow: Flow, read: MemoryAccess, write: MemoryAccess, again: isl.Map, loop: Loop) -> Violation:
    program = flow.accesses.program
    if read.role is Role.UPDATE and read.source == write.source:
        pairs = again.reverse()
        witness, stored, _ = pair_spots(flow, write, read, pairs)
        message = (
            f"iterations of loop {loop.name} run twice where its last vector overlaps, and would add the terms of "
            f"{words(stored.named)} twice{on_rank(stored)}, {witness}"
        )
        return Violation("reduction", message, witness, repair=_advice(loop))
    witness, stored, seen = pair_spots(flow, write, read, again.reverse())
    message = (
        f"iterations of loop {loop.name} run twice where its last vector overlaps: {reading(program, seen)} then reads "
        f"{words(seen.named)} from {words(seen.element)}, where {words(stored.named)} is kept since the first time"
        f"{on_rank(seen)}, {witness}"
    )
    return Violation("overwritten", message, witness, repair=_advice(loop))


def _message(statement: Statement, loop: Loop) -> Violation:
    message = (
        f"iterations of loop {loop.name} run twice where its last vector overlaps, and {statement.handle} with them"
    )
    return Violation("communication", message, Witness({}), repair=_advice(loop))


def _advice(loop: Loop) -> str:
    width = loop.tag.width if isinstance(loop.tag, Vector) else 0
    return f'vectorize({loop.name}, {width}, remainder="mask") runs every iteration once'


# -- in the report


def _harmless(program: Program) -> str:
    loops = [loop for loop in program.loops.values() if program.with_this_loop(loop.id)]
    again = [loop.name for loop in loops if isinstance(loop.tag, Vector) and loop.tag.remainder == "overlap"]
    names = ", ".join(dict.fromkeys(again))
    return f"running iterations of {names} twice, where vectors overlap, changes nothing" if names else ""


SENTENCES = (Sentence(Topic.LOOPS, _harmless),)
