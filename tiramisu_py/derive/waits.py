"""The waits that a program needs: for operations that nothing else completes before something depends on it."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.happens import Happens
from tiramisu_py.dependence.kernel_order import statement_of
from tiramisu_py.dependence.touches import Memory, Touch, Touches
from tiramisu_py.errors import CommandError
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.order import merged
from tiramisu_py.schedule.selection import free_name
from tiramisu_py.schedule.waits import wait


def with_waits(program: Program, command: str) -> Program:
    """The program with waits for what operations of other sequences, the host and the end of the function need.

    Where a wait cannot be expressed the conflict is left, for the proof to name.
    """
    memory: Memory = {}
    given_up: set[tuple[str, str]] = set()
    while (conflict := _first_conflict(program, memory, given_up)) is not None:
        changed = _between(program, *conflict, command)
        if changed is None:
            given_up.add((conflict[0].name, conflict[1].name))
        else:
            program = changed
    return _finished(program, command)


def _first_conflict(
    program: Program, memory: Memory, given_up: set[tuple[str, str]]
) -> tuple[Statement, Statement] | None:
    """Two statements that touch one place, in an order that nothing guarantees; the earliest second one."""
    touches = Touches(program, memory=memory)
    flow, happens = Flow(touches), Happens(program)
    found: list[tuple[Statement, Statement]] = []
    if not happens.operations:
        return None
    for x, y in _pairs(touches):
        first, second = statement_of(x), statement_of(y)
        if (first.name, second.name) in given_up or not _crosses(program, first, second):
            continue
        if not happens.unordered(x, y, flow.same_place(x, y)).is_empty():
            found.append((first, second))
    return min(found, key=lambda pair: (program.positions[pair[1].name], program.positions[pair[0].name]), default=None)


def _crosses(program: Program, first: Statement, second: Statement) -> bool:
    queue = program.queue_of(first)
    return queue is not None and queue != program.queue_of(second)


def _pairs(touches: Touches) -> Iterator[tuple[Touch, Touch]]:
    for home in touches.homes():
        writes = [t for t in touches.writers(home) if t.actor.statement is not None]
        reads = [t for t in touches.readers(home) if t.actor.statement is not None]
        for k, write in enumerate(writes):
            for other in (*reads, *writes[k + 1 :]):
                yield write, other
                yield other, write


def _between(program: Program, first: Statement, second: Statement, command: str) -> Program | None:
    """The program with a wait for `first`, of the host or of the sequence of `second`, before `second`."""
    depth = min(shared(first, second), program.host_depth(first), program.host_depth(second))
    dims = _waiting_dims(program, first, depth)
    if dims is None:
        return None
    queue = program.queue_of(second)
    on, device = (None, program.queue_of(first)) if queue is None else (queue[1], queue)
    assert device is not None
    name = free_name(program, f"{first.name}_done")
    try:
        changed = _waited(program, name, first, dims, on, device[0])
        level = first.loops[depth - 1] if depth else None
        orders = [Order(first.name, name, level, command)]
        if program.positions[first.name][depth] < program.positions[second.name][depth]:
            orders.append(Order(name, second.name, level, command))
        changed = changed.with_(orders=(*changed.orders, *orders))
        return changed if changed.positions else None
    except CommandError:
        return None


def _waiting_dims(program: Program, statement: Statement, depth: int) -> list[tuple[str, int]] | None:
    """For each of the outermost loops the name of the value index that is its coordinate; None where one is not."""
    found: list[tuple[str, int]] = []
    values = sets.outputs(program.value_of(statement))
    names = statement.dims if statement.transfer is not None else program.point_names(statement)
    for at, coordinate in enumerate(sets.outputs(statement.coords)[:depth]):
        forms = sets.variables(statement.frame) if statement.transfer is not None else values
        same = [k for k, form in enumerate(forms) if form.plain_is_equal(coordinate)]
        if not same:
            return None
        found.append((names[same[0]], at))
    return found


def _waited(
    program: Program, name: str, first: Statement, dims: list[tuple[str, int]], on: int | None, device: int
) -> Program:
    if not dims:
        return wait(program, name, first.name, [first.name], None, on, device)
    coords = sets.graph(first.prefix(len(dims)), first.instances)
    points = first.instances.intersect_params(program.context.params()).apply(coords)
    names = [dim for dim, _ in dims]
    program = wait(program, name, first.name, [first.name], (names, points), on, device)
    return merged(program, program.statements[first.name], program.statements[name], len(dims))


def _finished(program: Program, command: str) -> Program:
    """The program with waits of the host, last of all, for what may not be complete at the end."""
    while True:
        happens = Happens(program)
        open_ = [s for s in happens.operations if not happens.unfinished(s).is_empty()]
        if not open_:
            return program
        last = max(open_, key=lambda s: program.positions[s.name])
        queue = program.queue_of(last)
        assert queue is not None
        name = free_name(program, f"{last.name}_done")
        changed = wait(program, name, last.name, [last.name], None, None, queue[0])
        orders = tuple(Order(s.name, name, None, command) for s in happens.operations)
        changed = changed.with_(orders=(*changed.orders, *orders))
        if len(_still_open(changed)) >= len(open_):
            return program
        program = changed


def _still_open(program: Program) -> list[Statement]:
    happens = Happens(program)
    return [s for s in happens.operations if not happens.unfinished(s).is_empty()]
