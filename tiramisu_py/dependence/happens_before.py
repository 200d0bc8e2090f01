"""Happens-before across the host, operation sequences and waits.

The host issues operations (kernels and transfers) in the order of its own time; those of one operation sequence run
one after another. The following are certain to come after an operation x:

- operations that are issued to the same sequence after x;
- actions of the host after a wait for x, or for an operation issued after x to the same sequence; likewise after a
  transfer that is not asynchronous;
- operations that are issued to another sequence after a wait of that sequence;

and transitively: an operation of that other sequence may be waited for in turn. Each such chain of waits visits an
operation sequence once, so there are finitely many chains; each is one relation

    lex_le . { operation -> wait : the wait waits for it, and comes after it } . lex_lt . { ... } . lex_lt

between times of issue. A time of issue is a prefix of the time vector, long enough for the host's loops. In a program
on ranks, the coordinates of the rank come first and are left out of the time itself, and only actions of the same
rank are compared: a wait orders the actions of its own rank.

An asynchronous message is an operation too, on a *lane* of its own without any order: it is complete only after a
wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass

#: An operation sequence of a GPU, or the lane of an asynchronous half of an exchange, by its name; None is the host.
Queue = tuple[int, int] | str | None


@dataclass(frozen=True, eq=False)
class Step:
    """One link of a chain of waits: ``time of an operation -> time of the wait`` for it, and the queue that waits."""

    source: Queue
    target: Queue
    relation: isl.Map


class Happens:
    """The order of one program's operations and host actions."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._paths: dict[Queue, dict[Queue, isl.Map]] = {}
        self._after: dict[tuple[Queue, Queue], isl.Map] = {}
        self._awaited: dict[tuple[str, str], isl.Map] = {}

    @cached_property
    def operations(self) -> tuple[Statement, ...]:
        """The statements that run on operation sequences."""
        return tuple(s for s in self.program.storing if self.program.queue_of(s) is not None)

    @cached_property
    def messages(self) -> tuple[Statement, ...]:
        """The asynchronous halves of exchanges."""
        return tuple(s for s in self.program.acting if s.link.message is not None and s.link.message.asynchronous)

    @cached_property
    def pending(self) -> tuple[Statement, ...]:
        """The statements that run concurrently with the host: operations and asynchronous messages."""
        return (*self.operations, *self.messages)

    def lane(self, statement: Statement) -> Queue:
        """The queue of a statement: an operation sequence, the lane of its messages, or the host (None)."""
        if statement.link.message is not None and statement.link.message.asynchronous:
            return statement.name
        return self.program.queue_of(statement)

    @cached_property
    def waits(self) -> tuple[Statement, ...]:
        """The waits."""
        return tuple(s for s in self.program.statements.values() if s.role is Role.WAIT and s.link.waits is not None)

    # -- time of issue

    @cached_property
    def size(self) -> int:
        """The number of leading dimensions of the time vector that distinguish the operations and the waits."""
        timed = (*self.operations, *self.waits, *(s for s in self.program.acting if s.link.message is not None))
        depths = (self.program.host_depth(s) for s in timed)
        return 2 * max(depths, default=0) + 1

    @cached_property
    def space(self) -> isl.Space:
        """The frame of times of issue, with the coordinates of the rank in front."""
        return sets.sized_frame(self.program.algorithm.param_space, None, self._ranks + self.size)

    @property
    def _ranks(self) -> int:
        return self.program.ranks.axes

    @cached_property
    def later(self) -> isl.Map:
        """``time -> time`` later on the same rank."""
        return sets.equal_prefix(isl.Map.lex_lt(self.space), self._ranks)

    def issue(self, statement: Statement) -> isl.MultiAff:
        """``instance -> [rank, time]`` at which the host executes it, or issues the operation that it belongs to."""
        zero = sets.constant(statement.frame, 0)
        time = sets.outputs(self.program.times[statement.name])
        for depth in self.program.rank_depths(statement):
            time[2 * depth + 1] = zero
        kept = min(2 * self.program.host_depth(statement) + 1, self.size)
        rank = sets.outputs(self.program.rank_of(statement))
        return sets.function(statement.frame, None, [*rank, *time[:kept], *[zero] * (self.size - kept)])

    def times(self, statement: Statement) -> isl.Map:
        """`issue` on the instances."""
        return sets.graph(self.issue(statement), self._instances(statement))

    def when(self, access: MemoryAccess) -> isl.Map:
        """`issue` for an access, on the rank whose memory is accessed."""
        assert access.actor.statement is not None
        issued = sets.outputs(sets.compose(access.instance, self.issue(access.actor.statement)))
        there = [*sets.outputs(access.rank), *issued[self._ranks :]]
        return sets.graph(sets.function(access.domain.get_space(), None, there), access.domain)

    def _instances(self, statement: Statement) -> isl.Set:
        return statement.instances.intersect_params(self.program.context.params())

    # -- waits

    def awaited(self, wait: Statement, operation: Statement) -> isl.Map:
        """``time of the operation -> time of the wait`` for all operations that the wait names."""
        key = (wait.name, operation.name)
        if key not in self._awaited:
            self._awaited[key] = self._all_awaited(wait, operation)
        return self._awaited[key]

    def _all_awaited(self, wait: Statement, operation: Statement) -> isl.Map:
        assert wait.link.waits is not None
        kept = sets.function(operation.frame, None, self.program.told_apart(wait, operation))
        chosen = sets.prefix(sets.identity(wait.frame), len(wait.link.waits.positions))
        waiting = sets.graph(chosen, self._instances(wait)).reverse()
        named = sets.graph(kept, self._instances(operation)).apply_range(waiting)
        times = named.apply_domain(self.times(operation)).apply_range(self.times(wait))
        return sets.equal_prefix(times, self._ranks).coalesce()

    @cached_property
    def _steps(self) -> dict[Queue, list[Step]]:
        found: dict[Queue, list[Step]] = {}
        for step in (*self._by_waits(), *self._by_blocking()):
            found.setdefault(step.source, []).append(step)
        return found

    def _by_waits(self) -> Iterator[Step]:
        for wait in self.waits:
            assert wait.link.waits is not None
            target = None if wait.link.waits.on is None else (wait.link.waits.device, wait.link.waits.on)
            parts = list[tuple[Queue, isl.Map]]()
            for operation in self.program.awaited(wait):
                queue = self.lane(operation)
                if queue is not None and queue != target:
                    parts.append((queue, self.awaited(wait, operation).intersect(self.later)))
            merged = sets.united_by_key(parts)
            yield from (Step(queue, target, relation.coalesce()) for queue, relation in merged.items())

    def _by_blocking(self) -> Iterator[Step]:
        """The steps of transfers that are not asynchronous: the host goes on once they and all before are complete."""
        for operation in self.operations:
            if not is_asynchronous(operation):
                when = self.times(operation).range()
                yield Step(self.program.queue_of(operation), None, sets.graph(sets.identity(self.space), when))

    # -- paths

    def reached(self, queue: Queue) -> dict[Queue, isl.Map]:
        """For each queue that waits for `queue`, directly or not: ``time of an operation -> time of the wait``.

        Host actions (or operations issued to that sequence) after the wait come after the operation.
        """
        if queue not in self._paths:
            found: dict[Queue, isl.Map] = {}
            alone = sets.graph(sets.identity(self.space))
            self._follow(queue, alone if isinstance(queue, str) else alone.union(self.later), (queue,), found)
            self._paths[queue] = found
        return self._paths[queue]

    def _follow(self, queue: Queue, before: isl.Map, seen: tuple[Queue, ...], found: dict[Queue, isl.Map]) -> None:
        for step in self._steps.get(queue, ()):
            if step.target in seen:
                continue
            here = before.apply_range(step.relation).coalesce()
            if here.is_empty():
                continue
            found[step.target] = found[step.target].union(here) if step.target in found else here
            if step.target is not None:
                self._follow(step.target, here.apply_range(self.later), (*seen, step.target), found)

    def after(self, queue: Queue, other: Queue) -> isl.Map:
        """``time -> time``: an operation of `queue` issued at the former ends before `other` acts at the latter."""
        if (queue, other) not in self._after:
            in_turn = queue == other and not isinstance(queue, str)
            found = self.later if in_turn else sets.no_pair(self.later)
            for target in {None, other}:
                reached = self.reached(queue).get(target)
                if reached is not None:
                    found = found.union(reached.apply_range(self.later))
            self._after[queue, other] = found
        return self._after[queue, other]

    # -- unordered pairs

    def unordered(self, x: MemoryAccess, y: MemoryAccess, pairs: isl.Map) -> isl.Map:
        """The pairs ``x -> y`` in which x comes before y in time, but may not be complete when y begins."""
        first, second = x.actor.statement, y.actor.statement
        assert first is not None and second is not None
        queue, other = self.lane(first), self.lane(second)
        in_turn = queue == other and not isinstance(queue, str)
        if queue is None or in_turn or not is_asynchronous(first):
            return sets.no_pair(pairs)
        before, after = self.when(x), self.when(y)
        times = pairs.apply_domain(before).apply_range(after).intersect(self.later)
        left = times if times.is_empty() else sets.without(times, self.after(queue, other))
        if left.is_empty():
            return sets.no_pair(pairs)
        return pairs.intersect(before.apply_range(left).apply_range(after.reverse()))

    def unfinished(self, operation: Statement, scope: int = 0) -> isl.Set:
        """The instances that may not be complete at the end: of the function, or of an iteration of `scope` loops."""
        instances = self._instances(operation)
        if not is_asynchronous(operation):
            return sets.empty(operation.frame)
        reached = self.reached(self.lane(operation)).get(None)
        if reached is None:
            return instances
        complete = sets.equal_prefix(reached, self._ranks + 2 * scope).domain()
        return instances.subtract(sets.preimage(complete, self.issue(operation)))

    def early(self, wait: Statement) -> Iterator[tuple[Statement, isl.Map]]:
        """The operations that a wait names although they are issued after it, each with ``time -> time``."""
        for operation in self.program.awaited(wait):
            if self.program.queue_of(operation) is not None or operation.link.message is not None:
                bad = self.awaited(wait, operation).intersect(self.later.reverse())
                if not bad.is_empty():
                    yield operation, bad


def is_asynchronous(operation: Statement) -> bool:
    """Whether the host goes on before an operation is complete: kernels, and asynchronous transfers and messages."""
    if operation.link.message is not None:
        return operation.link.message.asynchronous
    return operation.link.transfer is None or operation.link.transfer.asynchronous
