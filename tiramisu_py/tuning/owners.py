"""The part of a partition that owns each statement: computing statements, and the transfers that serve them."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.queries import Program, Statement, accesses
from tiramisu_py.tuning.levels import Level, Slot


def owners(program: Program, levels: Sequence[Level]) -> dict[str, Slot]:
    """The part that each statement belongs to, by name, without statements outside all parts.

    An upload belongs to the first part on its GPU that reads the uploaded values, a download to the first part that
    computes the downloaded values.
    """
    slots = [slot for level in levels for slot in level.slots]
    found = {name: slot for slot in slots for name in slot.statements}
    for statement in program.statements.values():
        if statement.transfer is not None:
            served = _served(program, statement, slots)
            if served is not None:
                found[statement.name] = served
    return found


def _served(program: Program, transfer: Statement, slots: Sequence[Slot]) -> Slot | None:
    assert transfer.transfer is not None
    ends = (transfer.transfer.source, transfer.transfer.target)
    near = [slot for slot in slots if slot.gpu is not None and slot.gpu in ends]
    for slot in near:
        statements = [program.statements[name] for name in slot.statements]
        if slot.gpu == ends[1] and any(transfer.source in _read(s) for s in statements):
            return slot
        if slot.gpu == ends[0] and any(transfer.source == s.source for s in statements):
            return slot
    return near[0] if near else None


def _read(statement: Statement) -> set[str]:
    return {access.source for e in (statement.body, *statement.guards) for access in accesses(e)}
