"""Commands on how a statement stores what it computes: past the caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import NonTemporal, Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.selection import size, statements

#: Memory that no cache of the host stands before.
_ELSEWHERE = {
    Memory.GPU: "the memory of a GPU",
    Memory.SHARED: "the shared memory of a GPU",
    Memory.REGISTER: "registers",
}
#: Bounds are below this.
_MOST_BYTES = 2**62


def store_nontemporal(program: Program, names: Sequence[str], above: object) -> Program:
    """Let statements store past the caches, in calls whose arrays have more than `above` bytes."""
    chosen = NonTemporal(None if above is None else _bound(above))
    for statement in statements(program, names):
        _check(program, statement)
        program = program.with_statement(replace(statement, nontemporal=chosen))
    return program


def _bound(above: object) -> int:
    if isinstance(above, bool) or not isinstance(above, int) or not 0 <= above < _MOST_BYTES:
        return size(above, "above", 0)
    return above


def _check(program: Program, statement: Statement) -> None:
    handle = statement.handle
    if not statement.stores:
        raise CommandError(f"{handle} stores nothing")
    if statement.receives:
        raise CommandError(f"what {handle} stores comes in a message, which MPI writes to memory as it likes")
    if statement.transfer is not None or program.device_of(statement) is not None:
        raise CommandError(f"{handle} is done by a GPU: only what the host stores can go past its caches")
    if statement.role is Role.UPDATE:
        raise CommandError(
            f"{handle} reads what it stores: a sum that goes past the caches comes back from memory for the next term"
        )
    buffer = program.buffers[program.storages[statement.target].buffer]
    if buffer.memory in _ELSEWHERE:
        raise CommandError(f"{handle} stores to {_ELSEWHERE[buffer.memory]}: no cache of the host is on the way there")
