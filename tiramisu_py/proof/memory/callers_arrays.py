"""The caller's arrays hold outputs and nothing else: where an output has no value, nothing is stored.

Elements of an output's array for which the output has no value keep what the caller passed; another computation kept
in the same array must stay within the output's elements. A transfer to the array moves boxes: where conditions on
values decide which values there are, it would move what is there in their place. The conditions of runs are those of
the transfer, which then moves the positions of the runs and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import mentions
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.storage import Buffer, home_of
from tiramisu_py.proof.memory.places import extent_box
from tiramisu_py.proof.memory.values import first_spot
from tiramisu_py.proof.violations.findings import Finding, Key, on_rank, words


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every store to an element of an output's array that holds no value of the output at the end."""
    for buffer in flow.accesses.program.buffers.values():
        if sought is None or buffer.name in sought.about:
            for write, bad in _strays(flow, buffer):
                yield Finding(Key("stray", (buffer.name, write.source)), partial(_stray, write, bad))
            for write in _moved_whole(flow, buffer):
                yield Finding(Key("moved", (buffer.name, write.source)), partial(_moved, write))


def _moved_whole(flow: Flow, buffer: Buffer) -> Iterator[MemoryAccess]:
    """The transfers to an array of the caller of an output whose values exist under conditions on values."""
    outputs = {
        storage.source for storage in flow.accesses.program.storages_in(buffer.name) if _is_output(flow, storage.name)
    }
    for write in flow.accesses.writers(home_of(buffer, buffer.device)) if outputs else ():
        statement = write.actor.statement
        if statement is None or statement.link.transfer is None or write.source not in outputs:
            continue
        moved = {part.key() for guard in statement.guards for part in conjuncts(guard)}
        left = [part for part in _conditions(flow, write.source) if part.key() not in moved]
        if left and not write.domain.is_empty():
            yield write


def _strays(flow: Flow, buffer: Buffer) -> Iterator[tuple[MemoryAccess, isl.Set]]:
    inside = flow.accesses.program.storages_in(buffer.name)
    outputs = [storage.source for storage in inside if _is_output(flow, storage.name)]
    if not outputs:
        return
    home = home_of(buffer, buffer.device)
    others = [w for w in flow.accesses.writers(home) if w.actor.statement is not None and w.source not in outputs]
    exits = [r for r in flow.accesses.readers(home) if r.actor.statement is None and r.source in outputs]
    for write in others:
        bad = write.domain
        for kept in exits:
            if not _is_conditional(flow, kept.source):
                bad = bad.subtract(sets.preimage(kept.accessed, write.place))
        bad = _in_callers_array(flow, outputs[0], write, bad)
        if not bad.is_empty():
            yield write, bad


def _in_callers_array(flow: Flow, output: str, write: MemoryAccess, bad: isl.Set) -> isl.Set:
    """The stores to elements that this rank's part of the caller's array holds."""
    program = flow.accesses.program
    if bad.is_empty() or not program.ranks.is_spread:
        return bad
    held = told_ranks(program).places(output, extent_box(program, write.buffer), str(write.home))
    return bad if held is None else bad.intersect(sets.preimage(held, write.place))


def _is_output(flow: Flow, name: str) -> bool:
    return name in flow.accesses.program.algorithm.outputs


def _is_conditional(flow: Flow, source: str) -> bool:
    """Whether some condition on values decides which values of a source exist."""
    return bool(_conditions(flow, source))


def _conditions(flow: Flow, source: str) -> list[Expr]:
    """The conditions on values that decide which values of a source exist."""
    computation = flow.accesses.program.algorithm.computations[source]
    outer = (guard for guard in computation.guards if not mentions(guard, computation.over))
    return [part for guard in outer for part in conjuncts(typed(guard))]


def _stray(write: MemoryAccess, bad: isl.Set) -> Violation:
    spot = first_spot(write, bad)
    witness = Witness(spot.params, spot.named, None, spot.element)
    message = (
        f"{words(spot.named)} is stored to {words(spot.element)}{on_rank(spot)}, in an array of the caller, and no "
        "output "
        f"has a value there: such elements keep their values, {witness}"
    )
    return Violation("overwritten", message, witness, repair=f"keep {write.source} in a buffer of its own")


def _moved(write: MemoryAccess) -> Violation:
    spot = first_spot(write, write.domain)
    statement = write.actor.statement
    assert statement is not None
    witness = Witness(spot.params, spot.named, None, spot.element)
    message = (
        f"{statement.handle} copies whole boxes of {write.source} to an array of the caller, but values decide where "
        f"{write.source} has a value: elements without one, {words(spot.element)} perhaps, would not keep theirs, "
        f"{witness}"
    )
    name = write.source
    repair = (
        f"leave {name} on the GPU, {name}.store_in(tm.GPU_MEMORY), and copy what a call returns, .get(); or give it a "
        "value at all its indices, tm.select(<its condition>, .., 0)"
    )
    return Violation("overwritten", message, witness, repair=repair)
