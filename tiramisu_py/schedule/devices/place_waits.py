"""Waits for operations and messages, and barriers between the threads of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.domains.domain import parse_domain
from tiramisu_py.algorithm.expressions import Const, Iter
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.kernels import KernelNest, all_threads, kernels
from tiramisu_py.program.loops import GpuThread, Loop, LoopId, Tag
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import FILES, Link, MemoryUse, Role, Statement, Waiting
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, find, scope_of, size, statements
from tiramisu_py.schedule.command_fields import (
    OnFunction,
    OnStatements,
    StatementsHandle,
    statements_given,
)
from tiramisu_py.schedule.loops.order import inner_level
from tiramisu_py.schedule.nesting import check_nesting


def with_barrier(
    program: Program, name: str, loops: tuple[LoopId, ...], after: str, before: str | None, command: str
) -> Program:
    """The program with an additional barrier, between the statements `after` and `before` of a kernel.

    `loops` are the loops around it: host loops and block loops, then sequential and thread loops that both statements
    share. All threads of the block meet it in each iteration of the sequential loops in which some thread executes a
    statement inside them. `before` may be None: the barrier then only follows `after`, for example to separate
    successive iterations of the innermost of `loops`.
    """
    check_name(name, "a barrier")
    check_new_name(program, name, "the barrier (see name=)")
    nest_ = _kernel_around(program, loops, after)
    dims = distinct([program.loops[loop].name for loop in loops])
    instances = sets.with_dims(sets.named(_uniform(nest_, loops), name), dims)
    statement = idle(Role.BARRIER, name, dims, instances, loops, sets.variables(instances.get_space()))
    program = _declared_after(program, statement, [after])
    level = loops[-1]
    orders = [Order(after, name, level, command)]
    if before is not None:
        orders.append(Order(name, before, level, command))
    return program.with_(orders=(*program.orders, *orders))


def _kernel_around(program: Program, loops: tuple[LoopId, ...], inside: str) -> KernelNest:
    for nest_ in kernels(program):
        if nest_.first in loops and any(s.name == inside for s in nest_.statements):
            if set(nest_.blocks) <= set(loops):
                return nest_
            outermost = program.loops[nest_.blocks[-1]].name
            raise CommandError(
                f"a barrier is inside all block loops of its kernel: choose {outermost} or a loop inside"
            )
    raise CommandError(f"a barrier is for the threads of a block, and {inside} is in no kernel: see tag_gpu")


def _uniform(nest_: KernelNest, loops: tuple[LoopId, ...]) -> isl.Set:
    """The iterations of `loops` that some thread executes, for all threads of the block."""
    parts = list[isl.Set]()
    count = len(loops)
    for statement in nest_.statements:
        if statement.loops[:count] == loops and statement.stores:
            parts.append(sets.graph(statement.prefix(count), statement.instances).range())
    found = sets.united(parts)
    if found is None:
        raise CommandError("no statement of the kernel is inside all of these loops")
    for position, loop in enumerate(loops):
        if isinstance(nest_.program.loops[loop].tag, GpuThread):
            found = all_threads(nest_, found, position, loop)
    if any(statement.link.deferred > 1 and statement.loops[:count] == loops for statement in nest_.statements):
        found = _without_gaps(found, count)
    return found.coalesce()


def _without_gaps(found: isl.Set, count: int) -> isl.Set:
    """Iterations, with those of the innermost loop between others: a copy counts the barriers until it is complete."""
    alike = sets.equal_prefix(isl.Map.universe(found.get_space().map_from_set()), count - 1)
    same = sets.equal_at(alike, count - 1)
    later = sets.less_at(alike, count - 1).union(same)
    return found.apply(later).intersect(found.apply(later.reverse()))


def idle(
    role: Role,
    name: str,
    dims: Sequence[str],
    instances: isl.Set,
    loops: tuple[LoopId, ...],
    coords: Sequence[isl.Aff],
    waits: Waiting | None = None,
) -> Statement:
    """A statement that stores nothing."""
    space = instances.get_space()
    return Statement(
        name=name,
        source="",
        role=role,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, None, []),
        loops=loops,
        coords=sets.function(space, None, coords),
        body=Const(0, int64),
        memory=MemoryUse(target=""),
        link=Link(waits=waits),
    )


def _declared_after(program: Program, statement: Statement, others: Sequence[str]) -> Program:
    names = list(program.statements)
    last = max(names.index(name) for name in others)
    return program.with_statement_before(statement, names[last + 1 :])


def barrier(
    program: Program, name: str, first: Sequence[str], second: Sequence[str], level: str, command: str
) -> Program:
    """A barrier between two statements of a kernel, inside their shared loops up to `level`."""
    loops = scope_of(program, first, level)
    befores = [s for s in statements(program, first) if s.loops[: len(loops)] == loops]
    afters = [s for s in statements(program, second) if s.loops[: len(loops)] == loops]
    if not afters:
        words = "; ".join(nest(program, program.statements[name]) for name in (*first, *second))
        raise CommandError(
            f"the two do not share loop {level}: {words}; loops of equal names are different loops "
            "until the two are ordered or fused there"
        )
    before, after = befores[-1], afters[0]
    follows = program.positions[before.name] < program.positions[after.name]
    return with_barrier(program, name, loops, before.name, after.name if follows else None, command)


def wait(
    program: Program,
    name: str,
    of: str,
    names: Sequence[str],
    domain: tuple[Sequence[str], isl.Set] | None,
    on: int | None,
    device: int,
) -> Program:
    """The program with a wait for the operations of the statements `names`; the user calls them `of`.

    `domain` gives the iterations of the wait: its iterators name dimensions of the values of a computation, or
    iterators of a transfer or of half of an exchange, or host loops around the operations; None waits for everything.
    """
    check_name(name, "a wait")
    check_new_name(program, name, "the wait (see name=)")
    awaited = statements(program, names)
    if any(not statement.acts for statement in awaited):
        raise CommandError(f"{of} is no operation: there is nothing to wait for")
    if domain is None:
        space = program.algorithm.frame(name, ())
        made = idle(
            Role.WAIT,
            name,
            (),
            sets.universe(space).intersect_params(program.context),
            (),
            [],
            Waiting(of, (), on, device),
        )
        return _declared_after(program, made, names)
    dims, points = domain
    by_loop, places = _places(program, awaited, of, dims)
    first = program.next_loop()
    loops = [Loop(first + k, dim, *_rank_of(program, awaited[0], dim, by_loop)) for k, dim in enumerate(dims)]
    instances, coords = _moved(sets.with_dims(sets.named(points, name), dims), [apart for _, apart in places])
    by_iterator = awaited[0].link.message is not None
    waiting = Waiting(of, tuple(position for position, _ in places), on, device, by_iterator, by_loop)
    made = idle(Role.WAIT, name, dims, instances, tuple(loop.id for loop in loops), coords, waiting)
    program = _declared_after(program.with_loop(*loops), made, names)
    for loop in loops:
        check_nesting(program, loop.id)
    return program


def _rank_of(program: Program, awaited: Statement, dim: str, by_loop: bool) -> tuple[Tag | None, str]:
    """The tag of a wait's loop: that of the rank loop of the same name around the awaited operations, if any."""
    found = find(program, awaited, dim) if awaited.link.message is not None or by_loop else None
    loop = None if found is None else program.loops[found]
    return (loop.tag, loop.tagged_by) if loop is not None and loop.is_rank else (None, "")


def _places(
    program: Program, awaited: Sequence[Statement], of: str, dims: Sequence[str]
) -> tuple[bool, list[tuple[int, isl.Aff]]]:
    """Whether the iterators stand for host loops, because some stand for no value index; and the place of each."""
    try:
        return False, [_place(program, awaited[0], of, dim) for dim in dims]
    except CommandError:
        depths = [[_depth(program, statement, dim) for dim in dims] for statement in awaited]
        if awaited[0].link.message is not None or any(None in each or each != depths[0] for each in depths):
            raise
        nothing = sets.constant(program.algorithm.frame(None, ()), 0)
        return True, [(depth, nothing) for depth in depths[0] if depth is not None]


def _depth(program: Program, statement: Statement, name: str) -> int | None:
    """The depth of the host loop of this name around an operation; None if there is no such loop."""
    loop = find(program, statement, name)
    depth = None if loop is None else statement.depth(loop)
    return depth if depth is not None and depth < program.host_depth(statement) else None


def _place(program: Program, awaited: Statement, of: str, dim: str) -> tuple[int, isl.Aff]:
    """The value index that an iterator stands for, and the constant form that is added to the iterator there.

    For half of an exchange, the position of the iterator itself.
    """
    if awaited.link.transfer is None and awaited.link.message is None:
        values = value_names(program.algorithm.source(awaited.source))
        if dim in values:
            return values.index(dim), sets.constant(program.algorithm.frame(None, ()), 0)
        raise CommandError(f"{of} has the iterators {', '.join(values)}, and not {dim}")
    if dim not in awaited.dims:
        raise CommandError(f"{awaited.handle} has the iterators {', '.join(awaited.dims)}, and not {dim}")
    if awaited.link.message is not None:
        return awaited.dims.index(dim), sets.constant(program.algorithm.frame(None, ()), 0)
    variable = sets.variables(awaited.frame)[awaited.dims.index(dim)]
    for position, index in enumerate(sets.outputs(awaited.point)):
        apart = index.sub(variable)
        if sets.is_of_parameters(apart):
            return position, apart
    raise CommandError(f"the indices of what {of} takes are not {dim} plus a constant: wait without {dim}")


def _moved(points: isl.Set, apart: Sequence[isl.Aff]) -> tuple[isl.Set, list[isl.Aff]]:
    """The points moved by fixed distances, and the original coordinates as functions of the moved ones."""
    space = points.get_space()
    distances = [sets.on_frame(distance, space) for distance in apart]
    variables = sets.variables(space)
    before = [variable.sub(distance) for variable, distance in zip(variables, distances, strict=True)]
    back = sets.function(space, sets.tuple_name(space), before)
    return sets.with_dims(sets.preimage(points, back), [name or "" for name in sets.dim_names(points)]), before


# -- the commands as values


@dataclass(frozen=True, eq=False)
class PlaceBarrier(OnFunction):
    """Let all threads of a block reach a point between two statements of a kernel before any of them continues.

    ::

        for k on each thread:   -->   for k on each thread:
            p[..]                         p[..]
            q[..]                         barrier
                                          q[..]                       (f.barrier(p, q, at=k))

    The barrier is in the loops that both share, up to `at`; if `second` comes first, it separates an iteration of
    this loop from the next. Barriers that dependences need are placed anyway, unless `tag_gpu` has
    ``barriers=False``.
    """

    verb = "barrier"

    first: StatementsHandle
    second: StatementsHandle
    _: KW_ONLY
    at: Iter
    name: str | None = None

    def made(self, program: Program) -> str:
        """The name of the barrier."""
        return free_name(program, "barrier") if self.name is None else self.name

    def applied(self, program: Program) -> Program:
        before, after = statements_given(program, self.first), statements_given(program, self.second)
        return barrier(program, self.made(program), before, after, inner_level(self.at), self.text)


@dataclass(frozen=True, eq=False)
class WaitFor(OnStatements):
    """Wait for the operations of this handle, and return the wait, to be ordered like a computation.

    ::

        for r: copy row r of a (asynchronously)   -->   for r: copy row r of a (asynchronously)
        for r: p[r] = f(a[r])                           for r: wait for row r of a
                                                        for r: p[r] = f(a[r])              (copy.wait({r: R}))

    `domain` gives the iterations of the wait, each for the operations with these values: its iterators are
    iterators of the computation or the transfer, or else host loops around them. Without a domain the wait is for
    all operations at once. ``wait({t: T}).shift(t, 1)`` waits an iteration later. The host waits; with ``on=2``
    operation sequence 2 of the GPU `device` waits instead, and the host continues. A wait comes after the
    operations that it waits for; `Function.order` places it. Each wait is proven needed, or reported as
    superfluous. Files have queues, too: ``device=tm.FILE`` with ``on=0``, that of stores, or ``on=1``, of loads.
    Source: TIRAMISU, ``wait``.
    """

    verb = "wait"
    spelled_out = ("on",)

    domain: Any = None
    on: int | None = None
    _: KW_ONLY
    device: int | Memory = 0
    name: str | None = None

    def made(self, program: Program) -> str:
        """The name of the wait."""
        return free_name(program, f"{self.of.name}_wait") if self.name is None else self.name

    def applied(self, program: Program) -> Program:
        made = self.made(program)
        stream = None if self.on is None else size(self.on, "on", 0)
        points = None
        if self.domain:
            found = parse_domain(program.algorithm, made, self.domain, None, program.algorithm.owner)
            if found.guards:
                raise CommandError(f"the domain of {made} has conditions that are not affine")
            points = (found.iterators, found.points)
        names = self.names(program)
        device = FILES if self.device is Memory.FILE else size(self.device, "device", 0)
        return wait(program, made, self.of.name, names, points, stream, device)
