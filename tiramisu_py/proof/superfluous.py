"""Waits, barriers and messages that a program does not need, and transfers that the host waits for needlessly.

Messages that bring more than is needed: values that nothing reads where they arrive, or that are there already.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import Memory, MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import removed
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import local_time
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.kernels import threads, waits
from tiramisu_py.proof.violations.findings import Spot, rank_words, words
from tiramisu_py.sets import smallest


def superfluous(program: Program) -> tuple[str, ...]:
    """The parts that a proven program does not need, one at a time: waits, barriers, and waits of the host for copies.

    If two do the same, both are named, though one of them is needed; a transfer that is named may be `tm.ASYNC`. For
    messages, a sentence says which of their values are not needed.
    """
    memory: Memory = {}
    accesses = MemoryAccesses(program, None, memory)
    names = (s.name for s in program.statements.values() if _is_proven_without(program, s, accesses, memory))
    return (*names, *idle(program, accesses, memory))


def _is_proven_without(program: Program, statement: Statement, accesses: MemoryAccesses, memory: Memory) -> bool:
    try:
        changed = _without(program, statement)
        if changed is None:
            return False
        condition = threads if statement.role is Role.BARRIER else waits
        return not any(True for _ in condition.findings(Flow(MemoryAccesses(changed, accesses.values, memory))))
    except (CommandError, isl.Error):
        return False


def _without(program: Program, statement: Statement) -> Program | None:
    """The program in which a statement no longer waits; None if it waits for nothing."""
    if statement.role in (Role.WAIT, Role.BARRIER):
        return removed(program, statement)
    if statement.link.transfer is None or statement.link.transfer.asynchronous:
        return None
    return program.with_statement(
        replace(statement, link=replace(statement.link, transfer=replace(statement.link.transfer, asynchronous=True)))
    )


def idle(program: Program, accesses: MemoryAccesses, memory: Memory) -> tuple[str, ...]:
    """The values that messages of a proven program bring needlessly, in words: the first one of each exchange.

    Each exchange is tried alone: if two bring the same, both are named.
    """
    receives = [s for s in program.statements.values() if s.receives]
    found = [_in_vain(program, statement, accesses, memory) for statement in receives]
    return tuple(sentence for sentence in found if sentence)


def _in_vain(program: Program, receive: Statement, accesses: MemoryAccesses, memory: Memory) -> str:
    write = accesses.write(receive)
    if write is None:
        return ""
    others = {name: s for name, s in program.statements.items() if s is not receive}
    without = Flow(MemoryAccesses(program.with_(statements=others), accesses.values, memory))
    read = without.accesses.readers(write.home)
    wanted = _needed(without, write, read, served=False)
    needed = _needed(without, write, read, served=True)
    vain = write.domain.subtract(needed)
    if vain.is_empty():
        return ""
    assert receive.link.message is not None
    params = smallest.smallest_params(vain)
    spot = Spot(write, params, smallest.earliest(vain, local_time(program, receive), params))
    why = "it has already" if _contains(wanted, spot) else "nothing there reads"
    count, whole = (sets.number(sets.fixed(of, params).count_val()) for of in (vain, write.domain))
    sizes = ", ".join(f"{name} = {value}" for name, value in params.items())
    at = f" at {sizes}" if sizes else ""
    what = f"{receive.link.message.exchange} brings {words(spot.named)} to {rank_words(spot.rank)}, which {why}"
    size = write.buffer.dtype.bytes
    return f"{what} ({count} of {whole} elements, {count * size} bytes, in vain{at})"


def _needed(flow: Flow, write: MemoryAccess, reads: list[MemoryAccess], served: bool) -> isl.Set:
    """The part of a receive that reads need; with `served`, only reads that nothing else serves count."""
    found = sets.empty(write.domain.get_space())
    for read in reads:
        pairs = flow.one_chain(read, write) if read.source == write.source else None
        if pairs is not None and not pairs.is_empty():
            wanting = flow.unserved(replace(read, domain=pairs.domain())) if served else read.domain
            found = found.union(pairs.intersect_domain(wanting).range())
    return found.coalesce()


def _contains(of: isl.Set, spot: Spot) -> bool:
    return not of.is_disjoint(smallest.alone(of, spot.at, spot.params))
