"""The waits that a program needs: for operations that nothing else completes before something depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.happens import Happens
from tiramisu_py.dependence.kernel_order import statement_of
from tiramisu_py.dependence.touch import Touch
from tiramisu_py.dependence.touches import Memory, Touches
from tiramisu_py.errors import CommandError
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks import spread
from tiramisu_py.program.statement import Statement, Waiting
from tiramisu_py.schedule.selection import free_name
from tiramisu_py.schedule.waits import wait


def with_waits(program: Program, command: str, late: bool = False) -> Program:
    """The program with waits for what operations of other sequences, the host and the end of the function need.

    A wait comes right after what it is for, or, where it is to be `late`, just before the first that needs it.
    Where a wait cannot be expressed the conflict is left, for the proof to name.
    """
    memory: Memory = {}
    given_up: set[tuple[str, str]] = set()
    while (conflict := _first_conflict(program, memory, given_up, late)) is not None:
        changed = _between(program, *conflict, command, late)
        if changed is None:
            given_up.add((conflict[0].name, conflict[1].name))
        else:
            program = changed
    return _finished(program, command, late)


def _first_conflict(
    program: Program, memory: Memory, given_up: set[tuple[str, str]], late: bool
) -> tuple[Statement, Statement] | None:
    """Two statements that touch one place, in an order that nothing guarantees; the earliest second one.

    Where waits are `late`, the latest of those that it may wait for: what is before that is then complete too.
    """
    if not Happens(program).operations:
        return None
    touches = Touches(spread(program), memory=memory)
    flow, happens = Flow(touches), Happens(touches.program)
    found: list[tuple[Statement, Statement]] = []
    for x, y in _pairs(touches):
        first, second = (program.statements[statement_of(touch).name] for touch in (x, y))
        if (first.name, second.name) in given_up or not _crosses(program, first, second):
            continue
        if not happens.unordered(x, y, flow.same_place(x, y)).is_empty():
            found.append((first, second))
    by_second = {pair: program.positions[pair[1].name] for pair in found}
    earliest = [pair for pair in found if by_second[pair] == min(by_second.values())]
    chosen = max if late else min
    return chosen(earliest, key=lambda pair: program.positions[pair[0].name], default=None)


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


def _between(program: Program, first: Statement, second: Statement, command: str, late: bool) -> Program | None:
    """The program with a wait for `first`, of the host or of the sequence of `second`, before `second`."""
    depth = min(shared(first, second), program.host_depth(first), program.host_depth(second))
    queue = program.queue_of(second)
    name = free_name(program, f"{first.name}_done")
    changed = _waited(program, name, first, depth, queue)
    if changed is None:
        return None
    level = first.loops[depth - 1] if depth else None
    orders = [Order(first.name, name, level, command)]
    low, high = (program.positions[s.name][depth] for s in (first, second))
    if low < high:
        orders.append(Order(name, second.name, level, command))
    if late:
        here = [s for s in program.statements.values() if s.loops[:depth] == first.loops[:depth]]
        at = {s.name: program.positions[s.name][depth] for s in here}
        orders += [Order(s, name, level, command) for s, place in at.items() if low < place and not low < high <= place]
    return _ordered(changed, orders)


def _ordered(program: Program, orders: list[Order]) -> Program | None:
    """The program with more orders; None where they contradict others."""
    changed = program.with_(orders=(*program.orders, *orders))
    try:
        return changed if changed.positions else None
    except CommandError:
        return None


def _waited(
    program: Program, name: str, operation: Statement, depth: int, queue: tuple[int, int] | None
) -> Program | None:
    """The program with a wait of the host (or of a sequence) for what each iteration of outer loops has started.

    Each iteration waits for the first value of its operation. None where a value does not tell the iteration.
    """
    own = program.queue_of(operation)
    on, device = (None, own) if queue is None else (queue[1], queue)
    assert device is not None
    program = wait(program, name, operation.name, [operation.name], None, on, device[0])
    if not depth:
        return program
    chosen = _first_values(program, operation, depth)
    if chosen is None:
        return None
    first, back = chosen
    dims = [f"w{k}" for k in range(sets.out_size(first))]
    instances = sets.with_dims(sets.named(sets.as_set(first.range()), name), dims)
    space = instances.get_space()
    made = replace(
        program.statements[name],
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, None, []),
        loops=operation.loops[:depth],
        coords=sets.renamed(sets.from_frame(back, space), None),
        waits=Waiting(operation.name, tuple(range(len(dims))), on, device[0]),
    )
    return program.with_statement(made)


def _first_values(program: Program, operation: Statement, depth: int) -> tuple[isl.Map, isl.MultiAff] | None:
    """``iteration -> first value indices`` of an operation, as few as tell the iteration, and the way back."""
    instances = operation.instances.intersect_params(program.context.params())
    iterations = sets.graph(sets.renamed(operation.prefix(depth), None), instances)
    values = sets.renamed(program.value_of(operation), None)
    for count in range(1, sets.out_size(values) + 1):
        relation = iterations.reverse().apply_range(sets.graph(sets.prefix(values, count), instances)).coalesce()
        back = relation.reverse()
        alone = back.lexmin().intersect(back.lexmax())  # values of one iteration only
        for way in _pieces(alone):
            found = alone.intersect(sets.graph(way)).reverse()
            if relation.domain().is_subset(found.domain()):
                return found.lexmin(), way
    return None


def _pieces(of: isl.Map) -> list[isl.MultiAff]:
    """The functions that a single-valued map consists of."""
    found: list[isl.MultiAff] = []
    isl.PwMultiAff.from_map(of).coalesce().foreach_piece(sets.carrying(lambda domain, piece: found.append(piece)))
    return found


# -- ends


def _finished(program: Program, command: str, late: bool) -> Program:
    """The program with waits of the host for what may not be complete at the end.

    That is the end of the function and, for what touches a buffer of one iteration of loops, that of the iteration.
    """
    done: set[tuple[str, int]] = set()
    while (last := _last_open(program, done)) is not None:
        statement, depth = last
        done.add((statement.name, depth))
        program = _closed(program, statement, depth, command, late) or program
    return program


def _last_open(program: Program, done: set[tuple[str, int]]) -> tuple[Statement, int] | None:
    """The latest operation that may not be complete at an end, the innermost end first, with its number of loops."""
    happens = Happens(program)
    found = [(s, 0) for s in happens.operations] + (_scoped(program) if happens.operations else [])
    left = [(s, depth) for s, depth in found if (s.name, depth) not in done]
    open_ = [(s, depth) for s, depth in left if not happens.unfinished(s, depth).is_empty()]
    return max(open_, key=lambda pair: (pair[1], program.positions[pair[0].name]), default=None)


def _scoped(program: Program) -> list[tuple[Statement, int]]:
    """The operations that touch buffers of one iteration of loops of the host, with the number of these loops."""
    touches = Touches(program)
    found: dict[tuple[str, int], Statement] = {}
    for buffer in program.buffers.values():
        for touch in touches.of_buffer(buffer.name) if buffer.scope else ():
            statement, depth = touch.actor.statement, len(buffer.scope)
            if statement and program.queue_of(statement) is not None and depth <= program.host_depth(statement):
                found[statement.name, depth] = statement
    return [(statement, depth) for (_, depth), statement in found.items()]


def _closed(program: Program, last: Statement, depth: int, command: str, late: bool) -> Program | None:
    """The program with a wait of the host for an operation, after all others in the same loops.

    Where waits are `late` it is after everything there.
    """
    name = free_name(program, f"{last.name}_done")
    loops = last.loops[:depth]
    changed = _waited(program, name, last, depth, None)
    others = program.statements.values() if late else Happens(program).operations
    inside = [s for s in others if s.loops[:depth] == loops]
    orders = [Order(s.name, name, loops[-1] if loops else None, command) for s in inside]
    return None if changed is None else _ordered(changed, orders)
