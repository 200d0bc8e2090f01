"""Values that go from one memory to another at given sizes: messages between ranks, and copies to and from GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tiramisu_py import sets
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.memory.sequential_runs import images
from tiramisu_py.proof.violations.findings import rank_words
from tiramisu_py.view.pictures.picture_instances import Ordered, ends_of, instances_at
from tiramisu_py.view.pictures.scene import PicturedMessage, Point

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
        if statement.message is not None:
            _add(program, statement, position, sizes, sent if statement.role is Role.SEND else received)
        elif statement.transfer is not None:
            copies += _copies(program, statement, ordered, position, sizes)
    return (*_exchanged(program, ordered, sent, received, _waits(program, ordered, sizes)), *copies)


def _add(
    program: Program, statement: Statement, position: Mapping[Point, int], sizes: Mapping[str, int], halves: _Halves
) -> None:
    """Put the instances of a half of an exchange into its messages."""
    assert statement.message is not None
    points = instances_at(statement, program, sizes)
    peers, ranks = images(statement.message.peer, points, sizes), images(program.rank_of(statement), points, sizes)
    outside = images(statement.prefix(program.host_depth(statement)), points, sizes)
    name = statement.message.exchange
    for point, peer, rank, around in zip(points, peers, ranks, outside, strict=True):
        ends = (name, rank, peer) if statement.role is Role.SEND else (name, peer, rank)
        halves.setdefault(ends, {}).setdefault(around, []).append(position[point])


def _exchanged(
    program: Program, ordered: Ordered, sent: _Halves, received: _Halves, waits: Mapping[int, int]
) -> Iterator[PicturedMessage]:
    """The k-th message of a channel meets the k-th receive, and its elements are in the order of both."""
    widths = {
        s.message.exchange: program.buffers[program.storages[s.target].buffer].dtype.bytes
        for s in program.statements.values()
        if s.message is not None
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
        awaited = program.awaited(wait) if wait.waits is not None else ()
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
    assert statement.transfer is not None
    points = instances_at(statement, program, sizes)
    ranks = images(program.rank_of(statement), points, sizes)
    outside = images(statement.prefix(program.host_depth(statement)), points, sizes)
    found: dict[tuple[Point, Point], list[int]] = {}
    for point, rank, around in zip(points, ranks, outside, strict=True):
        found.setdefault((rank, around), []).append(position[point])
    ends = ends_of(statement.transfer)
    bytes_each = program.buffers[program.storages[statement.target].buffer].dtype.bytes
    for (rank, _), orders in found.items():
        on = f"{rank_words(rank)}, " if rank else ""
        pairs = tuple((order, order) for order in sorted(orders))
        step = max(ordered.instances[order].step for order in orders)
        yield PicturedMessage(statement.name, on + ends[0], on + ends[1], pairs, len(pairs) * bytes_each, step, step)
