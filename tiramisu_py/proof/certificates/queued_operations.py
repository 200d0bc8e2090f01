"""The operations of a certificate: which queue they are put on, what waits for them, and where barriers are.

A time of a certificate is the rank, 1 (between the beginning and the end), and then the time vector without the
coordinates of loops over ranks and threads: threads run a kernel in this order. An operation is issued at the first
coordinates of its time, with zeros for the others. So is a half of a message, which has a queue of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.happens_before import Happens, Queue, is_asynchronous
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.loops import GpuThread, Rank
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement

#: What a certificate calls the host, among the queues.
HOST = "host"
_AXES = 3


class Operations:
    """Queues, threads, barriers and waits of a program whose time vectors have `size` coordinates."""

    def __init__(self, program: Program, happens: Happens, size: int) -> None:
        self.program = program
        self.happens = happens
        self.size = size
        self.kernels = {s.name: nest for nest in kernels(program) for s in nest.statements}
        self.halves = [s for s in program.acting if s.link.message is not None]
        #: How many numbers a thread has: none in a program without operations.
        self.numbers = _AXES if self.kernels or happens.operations or self.halves else 0
        #: How many coordinates of the time are those of the rank.
        self.ranks = program.ranks.axes

    # -- statements

    def time(self, program: Program, name: str) -> isl.Map:
        """The time of a statement in a schedule of its program, padded with zeros."""
        statement, time = program.statements[name], program.times[name]
        space, forms = time.get_domain_space(), sets.outputs(time)
        for depth, loop in enumerate(statement.loops):
            if isinstance(program.loops[loop].tag, GpuThread | Rank):
                forms[2 * depth + 1] = sets.constant(space, 0)
        padding = [sets.constant(space, 0)] * (self.size - 1 - self.ranks - len(forms))
        rank = sets.outputs(program.rank_of(statement))
        return sets.graph(sets.function(space, None, [*rank, sets.constant(space, 1), *forms, *padding]))

    def thread(self, statement: Statement) -> isl.Map:
        """``instance -> thread``: three numbers, or none in a program without operations."""
        nest = self.kernels.get(statement.name)
        if nest is not None:
            return sets.graph(nest.thread_of(statement))
        return self.no_thread(statement.frame)

    def no_thread(self, frame: isl.Space) -> isl.Map:
        """The thread of what does not run in a kernel."""
        zeros = [sets.constant(frame, 0)] * self.numbers
        return sets.graph(sets.function(frame, None, zeros))

    def queue(self, statement: Statement) -> dict[str, int | str | None] | None:
        """The queue, and how many coordinates of the time say when it is issued, and which block runs it."""
        found = self.program.queue_of(statement)
        device, stream = (None, statement.name) if statement.link.message is not None else found or (None, None)
        if stream is None:
            return None
        host, nest = self.program.host_depth(statement), self.kernels.get(statement.name)
        block = self.size if nest is None else self._block(statement, nest)
        return {"device": device, "stream": stream, "issue": self.coordinate(host), "block": block}

    def coordinate(self, depth: int) -> int:
        """The coordinate of a loop in the time: after the rank, the moment and the static one, every other one."""
        return self.ranks + 2 * depth + 2

    def _block(self, statement: Statement, nest: KernelNest) -> int:
        return self.coordinate(self.program.host_depth(statement) + len(nest.blocks)) - 1

    def unordered(self, statement: Statement) -> list[int]:
        """Of a deferred copy, all coordinates inside its block: no order of its thread, only a barrier completes it."""
        nest = self.kernels.get(statement.name)
        if not statement.link.deferred or nest is None:
            return []
        return list(range(self._block(statement, nest), self.size))

    # -- barriers

    def barriers(self) -> Iterator[dict[str, str]]:
        """The threads of each barrier's blocks, and when each of them comes to it: ``time -> thread``."""
        for nest in dict.fromkeys(self.kernels.values()):
            for statement in nest.statements:
                if statement.role is Role.BARRIER:
                    yield self._barrier(nest, statement)

    def _barrier(self, nest: KernelNest, barrier: Statement) -> dict[str, str]:
        instances = barrier.instances.intersect_params(self.program.context.params())
        time = self.time(self.program, barrier.name).intersect_domain(instances)
        threads = sets.universe(sets.sized_frame(self.program.algorithm.param_space, None, _AXES))
        for number, extent in zip(sets.variables(threads.get_space()), nest.shape, strict=True):
            threads = threads.intersect(sets.within(number, 0, extent))
        come = time.reverse().apply_range(self._coming(nest, barrier)).intersect_range(threads)
        queue = _name(self.program.queue_of(barrier))
        return {"queue": queue, "threads": str(threads), "come": str(come.coalesce())}

    def _coming(self, nest: KernelNest, barrier: Statement) -> isl.Map:
        """``instance -> thread``: those that come to a barrier, all of them along axes that no loop around it has."""
        own = self.thread(barrier)
        alike = isl.Map.universe(own.get_space().range().map_from_set())
        for axis, loop in enumerate(nest.thread_loops(barrier)):
            alike = alike if loop is None else sets.equal_at(alike, axis)
        return own.apply_range(alike)

    # -- waits

    def waits(self) -> Iterator[dict[str, str]]:
        """``issue -> time``: the host, or a queue, waits for what was put on a queue until then."""
        for wait in self.happens.waits:
            assert wait.link.waits is not None
            by = None if wait.link.waits.on is None else (wait.link.waits.device, wait.link.waits.on)
            for operation in self.program.awaited(wait):
                of = self.lane(operation)
                if of is not None:
                    yield self._wait(by, of, self.happens.awaited(wait, operation))
        for operation in (*self.happens.operations, *self.halves):
            if not is_asynchronous(operation):
                yield self._wait(None, self.lane(operation), self._at_once(operation))

    def lane(self, statement: Statement) -> Queue:
        """The queue of a statement; a half of a message that blocks has one, too, and is waited for at once."""
        return statement.name if statement.link.message is not None else self.happens.lane(statement)

    def _at_once(self, operation: Statement) -> isl.Map:
        return sets.graph(sets.identity(self.happens.space), self.happens.times(operation).range())

    def _wait(self, by: Queue, of: Queue, issued: isl.Map) -> dict[str, str]:
        return {"by": _name(by), "of": _name(of), "issued": str(self._padded(issued))}

    def ends(self) -> Iterator[dict[str, str]]:
        """``issue of an operation -> time`` of a wait after which it is complete, by queue and by who waits."""
        operations = (*self.happens.operations, *self.halves)
        for queue in dict.fromkeys(self.lane(s) for s in operations):
            on_it = [s for s in operations if self.lane(s) == queue]
            issued = sets.union_of(self.happens.times(s).range() for s in on_it)
            reached = {None: sets.no_pair(self.happens.later)} | self.happens.reached(queue)
            if on_it[0].link.message is not None and not is_asynchronous(on_it[0]):
                reached = {None: self._at_once(on_it[0])}
            for by, times in reached.items():
                ends = self._padded(times.intersect_domain(issued)).coalesce()
                yield {"of": _name(queue), "by": _name(by), "ends": str(ends)}

    def issued(self, statement: Statement) -> isl.Map:
        """``instance -> time`` at which the host executes a statement, or issues its operation."""
        return self.happens.times(statement).apply_range(self._whole)

    def _padded(self, times: isl.Map) -> isl.Map:
        """The relation between times of issue as one between times of the certificate."""
        return times.apply_domain(self._whole).apply_range(self._whole)

    @cached_property
    def _whole(self) -> isl.Map:
        """A time of issue as a time of the certificate."""
        space = self.happens.space
        zeros, variables = [sets.constant(space, 0)] * (self.size - 1 - sets.size(space)), sets.variables(space)
        forms = [*variables[: self.ranks], sets.constant(space, 1), *variables[self.ranks :], *zeros]
        return sets.graph(sets.function(space, None, forms))


def _name(queue: Queue) -> str:
    if isinstance(queue, str):
        return f"None.{queue}"
    return HOST if queue is None else f"{queue[0]}.{queue[1]}"
