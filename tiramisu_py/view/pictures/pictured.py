"""The scenes of a picture, from a program and the report of its check."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.evaluate.drawn_arguments import arguments
from tiramisu_py.algorithm.evaluate.evaluate import all_values
from tiramisu_py.algorithm.evaluate.valuation import Points, Valuation
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.errors import ArgumentError, TiramisuError, Violation
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import home_of
from tiramisu_py.proof import Report
from tiramisu_py.proof.memory.sequential_runs import images
from tiramisu_py.proof.violations.findings import rank_words
from tiramisu_py.records import dataclass
from tiramisu_py.view.pictures.picture_instances import (
    Ordered,
    ends_of,
    instances_at,
    ordered_instances,
    pictured_statement,
)
from tiramisu_py.view.pictures.picture_reads import PictureMemory
from tiramisu_py.view.pictures.picture_sizes import amount, chosen_sizes
from tiramisu_py.view.pictures.scene import (
    Number,
    PicturedInstance,
    PicturedMessage,
    PicturedRead,
    PicturedStatement,
    PicturedViolation,
    Point,
    Scene,
)

#: The most counterexamples at different sizes that one picture shows.
MOST_SCENES = 3


def pictured(
    program: Program, report: Report, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None = None
) -> tuple[Scene, ...]:
    """The picture of a program as it is proven (completed, and spread over its ranks).

    Without `sizes`, a refused program is shown at the sizes of its counterexamples, then at sizes that are easy to
    see. Values are those of `inputs`, cut to these sizes; of an input that is not given, random ones. Raises
    `ArgumentError` for sizes at which it is not defined or cannot be drawn, for inputs that do not fit, and for blocks
    with bounds of their own.
    """
    if what := told_ranks(program).unnumbered:
        raise ArgumentError(f"{program.algorithm.name} has {what}: no picture of it is drawn")
    accesses = MemoryAccesses(program)
    wanted = list[Mapping[str, int]]()
    for violation in report.violations if not sizes else ():
        params = violation.witness.params
        if set(params) == set(program.algorithm.params) and params and params not in wanted:
            wanted.append(params)
    wanted = [*wanted[:MOST_SCENES], chosen_sizes(accesses, sizes)]
    kept = [given for number, given in enumerate(wanted) if given not in wanted[:number]]
    return tuple(
        _scene(accesses, report, given, inputs) for given in kept if given is kept[-1] or amount(accesses, given)
    )


def _scene(
    accesses: MemoryAccesses, report: Report, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None
) -> Scene:
    program = accesses.program
    ordered = ordered_instances(program, sizes)
    memory = PictureMemory(accesses, ordered, sizes)
    statements = _statements(program, memory)
    stored, reads = memory.stored(), memory.reads(not report.ok)
    values = picture_values(program, sizes, inputs)
    instances = values.of_instances(stored)
    return Scene(
        name=program.algorithm.name,
        verdict="proven" if report.ok else "refused",
        sizes={name: sizes[name] for name in program.algorithm.params},
        statements=statements,
        arrays=memory.arrays(),
        executors=ordered.executors,
        instances=instances,
        reads=reads,
        messages=messages(program, ordered, sizes),
        violations=pictured_violations(report, sizes, statements, instances, reads),
        commands=tuple(str(entry.command) for entry in program.log),
        values=values.named(statements, instances, reads),
        inputs=values.words,
    )


def _statements(program: Program, memory: PictureMemory) -> tuple[PicturedStatement, ...]:
    found = list[PicturedStatement]()
    for statement in program.statements.values():
        array = None
        if statement.stores and memory.accesses.write(statement) is not None:
            buffer = program.buffers[program.storages[statement.memory.target].buffer]
            array = memory.number(home_of(buffer, program.stores_at(statement)))
        found.append(pictured_statement(program, statement, array))
    return tuple(found)


# -- values that go from one memory to another at given sizes


#: An exchange, the rank that sends and the one that receives.
_Channel = tuple[str, Point, Point]
#: The instances of each message of a channel, by their iterations outside of the message, in their order.
_Halves = dict[_Channel, dict[Point, list[int]]]


def messages(program: Program, ordered: Ordered, sizes: Mapping[str, int]) -> tuple[PicturedMessage, ...]:
    """All messages between ranks, then all copies between the host and GPUs."""
    numbers = {name: number for number, name in enumerate(program.statements)}
    sent: _Halves = {}
    received: _Halves = {}
    copies = list[PicturedMessage]()
    for statement in program.statements.values():
        position = ordered.positions[numbers[statement.name]]
        if statement.link.message is not None:
            _add(program, statement, position, sizes, sent if statement.role is Role.SEND else received)
        elif statement.link.transfer is not None:
            copies += _copies(program, statement, ordered, position, sizes)
    return (*_exchanged(program, ordered, sent, received, _waits(program, ordered, sizes)), *copies)


def _add(
    program: Program, statement: Statement, position: Mapping[Point, int], sizes: Mapping[str, int], halves: _Halves
) -> None:
    """Put the instances of a half of an exchange into its messages."""
    assert statement.link.message is not None
    points = instances_at(statement, program, sizes)
    peers, ranks = images(statement.link.message.peer, points, sizes), images(program.rank_of(statement), points, sizes)
    outside = images(statement.prefix(program.host_depth(statement)), points, sizes)
    name = statement.link.message.exchange
    for point, peer, rank, around in zip(points, peers, ranks, outside, strict=True):
        ends = (name, rank, peer) if statement.role is Role.SEND else (name, peer, rank)
        halves.setdefault(ends, {}).setdefault(around, []).append(position[point])


def _exchanged(
    program: Program, ordered: Ordered, sent: _Halves, received: _Halves, waits: Mapping[int, int]
) -> Iterator[PicturedMessage]:
    """The k-th message of a channel meets the k-th receive, and its elements are in the order of both."""
    widths = {
        s.link.message.exchange: program.buffers[program.storages[s.memory.target].buffer].dtype.bytes
        for s in program.statements.values()
        if s.link.message is not None
    }
    for channel, halves in sent.items():
        name, sender, receiver = channel
        if sender == receiver:
            continue
        theirs = sorted(sorted(half) for half in received.get(channel, {}).values())
        for mine, other in zip(sorted(sorted(half) for half in halves.values()), theirs, strict=False):
            pairs = tuple(zip(mine, other, strict=False))
            arrived = max(waits.get(order, ordered.instances[order].step) for order in other)
            yield PicturedMessage(
                name, rank_words(sender), rank_words(receiver), pairs, len(pairs) * widths[name],
                max(ordered.instances[order].step for order in mine), arrived,
            )  # fmt: skip


def _waits(program: Program, ordered: Ordered, sizes: Mapping[str, int]) -> dict[int, int]:
    """The step of the wait for each receive that does not block, by the number of the receive."""
    found: dict[int, int] = {}
    numbers = {name: number for number, name in enumerate(program.statements)}
    for wait in program.statements.values():
        awaited = program.awaited(wait) if wait.link.waits is not None else ()
        for operation in (each for each in awaited if each.receives):
            told = program.told_apart(wait, operation)
            points = instances_at(operation, program, sizes)
            keys = images(sets.function(operation.frame, None, told), points, sizes)
            ranks = images(program.rank_of(operation), points, sizes)
            waiting = instances_at(wait, program, sizes)
            steps = {
                (point[: len(told)], rank): ordered.instances[ordered.positions[numbers[wait.name]][point]].step
                for point, rank in zip(waiting, images(program.rank_of(wait), waiting, sizes), strict=True)
            }
            position = ordered.positions[numbers[operation.name]]
            for point, key, rank in zip(points, keys, ranks, strict=True):
                if (key, rank) in steps:
                    found[position[point]] = steps[key, rank]
    return found


def _copies(
    program: Program, statement: Statement, ordered: Ordered, position: Mapping[Point, int], sizes: Mapping[str, int]
) -> Iterator[PicturedMessage]:
    """The copies of a transfer: one for each iteration of the host's loops."""
    assert statement.link.transfer is not None
    points = instances_at(statement, program, sizes)
    ranks = images(program.rank_of(statement), points, sizes)
    outside = images(statement.prefix(program.host_depth(statement)), points, sizes)
    found: dict[tuple[Point, Point], list[int]] = {}
    for point, rank, around in zip(points, ranks, outside, strict=True):
        found.setdefault((rank, around), []).append(position[point])
    ends = ends_of(statement.link.transfer)
    bytes_each = program.buffers[program.storages[statement.memory.target].buffer].dtype.bytes
    for (rank, _), orders in found.items():
        on = f"{rank_words(rank)}, " if rank else ""
        pairs = tuple((order, order) for order in sorted(orders))
        step = max(ordered.instances[order].step for order in orders)
        yield PicturedMessage(statement.name, on + ends[0], on + ends[1], pairs, len(pairs) * bytes_each, step, step)


# -- the numbers of a picture


#: Where the random inputs of all pictures begin.
SEED = 0
#: Larger integers are not exact in a page, whose numbers are all of 64 bits with a binary point.
_EXACT = 1 << 53


def picture_values(program: Program, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None) -> PictureValues:
    """The values of a program at given sizes, for `inputs` and random ones.

    If random inputs are not as the algorithm needs them (an index out of bounds, a fact that does not hold), the
    picture has no values, and says why. Raises `ArgumentError` for given inputs that do not fit.
    """
    algorithm = program.algorithm
    try:
        valuation = all_values(algorithm, arguments(algorithm, inputs or {}, sizes, SEED), sizes)
    except TiramisuError as error:
        if inputs:
            raise
        return PictureValues(program, None, f"no values, since random inputs do not fit: {error}")
    if not algorithm.inputs:
        return PictureValues(program, valuation, "")
    drawn = [name for name in algorithm.inputs if name not in (inputs or {})]
    of = f"random {', '.join(drawn)}" if inputs else "random inputs"
    return PictureValues(program, valuation, f"values of {of if drawn else 'the given inputs'}")


@dataclass(frozen=True)
class PictureValues:
    """The values of a program at one size, if there are any, and in words which inputs they are of."""

    program: Program
    valuation: Valuation | None
    words: str

    def of_instances(self, instances: Sequence[PicturedInstance]) -> tuple[PicturedInstance, ...]:
        """The instances with their terms, and whether those that may run do."""
        if self.valuation is None:
            return tuple(instances)
        found = list(instances)
        for number, statement in enumerate(self.program.statements.values()):
            if statement.role is Role.UPDATE or (statement.role is Role.VALUE and statement.guards):
                for each in self._computed(statement, [each for each in instances if each.statement == number]):
                    found[each.order] = each
        return tuple(found)

    def _computed(self, statement: Statement, own: Sequence[PicturedInstance]) -> Iterable[PicturedInstance]:
        """The instances of a statement: what its guards say at their points, and its term where they hold."""
        assert self.valuation is not None
        self.valuation.reader, self.valuation.iterators = statement.source, self.program.point_names(statement)
        rank = len(self.valuation.iterators)
        columns = np.array([each.point for each in own], dtype=np.int64).reshape(len(own), rank).T
        at = Points(dict(zip(self.valuation.iterators, columns, strict=True)), len(own), np.arange(len(own)))
        for guard in statement.guards:
            at = at.where(self.valuation.column(typed(guard, bool_), at))
        assert at.rows is not None
        runs = set(at.rows.tolist()) if statement.guards else None
        terms = dict[int, Number]()
        if statement.role is Role.UPDATE:
            dtype = self.program.algorithm.computations[statement.source].dtype
            with np.errstate(all="ignore"):
                column = self.valuation.column(typed(statement.body, dtype), at)
            terms = dict(zip(at.rows.tolist(), map(plain, column), strict=True))
        for row, each in enumerate(own):
            yield replace(each, term=terms.get(row), runs=None if runs is None else row in runs)

    def named(
        self,
        statements: Sequence[PicturedStatement],
        instances: Iterable[PicturedInstance],
        reads: Iterable[PicturedRead],
    ) -> dict[str, dict[Point, Number]]:
        """All values that are stored, moved or read, by their source."""
        if self.valuation is None:
            return {}
        wanted = {(statements[each.statement].source, each.value): None for each in instances}
        wanted |= {(read.source, read.value): None for read in reads}
        found: dict[str, dict[Point, Number]] = {}
        for source, at in wanted:
            value = self._value(source, at)
            if value is not None:
                found.setdefault(source, {})[at] = value
        return found

    def _value(self, source: str, at: Point) -> Number | None:
        """A value; None if there is none with these indices."""
        assert self.valuation is not None
        if source not in self.valuation.values:
            return None
        values = self.valuation.values[source]
        place = tuple(index - low for index, low in zip(at, values.low, strict=True))
        if any(not 0 <= k < extent for k, extent in zip(place, values.array.shape, strict=True)):
            return None
        known = values.done is None or bool(values.done[place])
        return plain(values.array[place]) if known else None


def plain(value: Any) -> Number:
    """A NumPy scalar as a page holds it, with six digits of a number with a binary point."""
    kind = value.dtype
    if kind.names is not None:
        return "(" + ", ".join(str(plain(value[name])) for name in kind.names) + ")"
    if kind == np.bool_:
        return bool(value)
    if np.issubdtype(kind, np.integer):
        return int(value) if abs(int(value)) < _EXACT else str(int(value))
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else str(number)


# -- the report's counterexamples, as pairs of instances of a picture


Named = tuple[str, Point]


def pictured_violations(
    report: Report,
    sizes: Mapping[str, int],
    statements: Sequence[PicturedStatement],
    instances: Sequence[PicturedInstance],
    reads: Sequence[PicturedRead],
) -> tuple[PicturedViolation, ...]:
    """Each reason of a refusal, with its pair of instances at these sizes where there is one."""
    storing: dict[Named, list[int]] = {}
    for instance in instances:
        statement = statements[instance.statement]
        if statement.role not in ("copy", "send", "wait", "barrier"):
            storing.setdefault((statement.source, instance.value), []).append(instance.order)
    return tuple(_one(violation, sizes, storing, reads) for violation in report.violations)


def _one(
    violation: Violation, sizes: Mapping[str, int], storing: Mapping[Named, list[int]], reads: Sequence[PicturedRead]
) -> PicturedViolation:
    witness = violation.witness
    sides = (witness.writer, witness.reader)
    pair = _wrong_read(*sides, storing, reads) or _named(*sides, storing)
    here = all(sizes.get(name) == value for name, value in witness.params.items())
    if not here and not any(read.wrong for read in reads):
        pair = (None, None)
    return PicturedViolation(
        violation.kind, violation.message, violation.command, violation.repair, dict(witness.params), *pair, here=here
    )


def _wrong_read(
    writer: Named | None, reader: Named | None, storing: Mapping[Named, list[int]], reads: Sequence[PicturedRead]
) -> tuple[int | None, int | None] | None:
    """The pair of a read that finds another value than the one that it names."""
    if writer is None or reader is None:
        return None
    readers = set(storing.get(reader, ()))
    for read in reads:
        if read.wrong and read.reader in readers and (read.source, read.value) == writer:
            return next(iter(storing.get(writer, ())), None), read.reader
    return None


def _named(
    writer: Named | None, reader: Named | None, storing: Mapping[Named, list[int]]
) -> tuple[int | None, int | None]:
    first = None if writer is None else next(iter(storing.get(writer, ())), None)
    second = None if reader is None else next((at for at in reversed(storing.get(reader, ())) if at != first), None)
    return first, second
