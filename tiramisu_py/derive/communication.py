"""How much a program moves between memories and between ranks: elements, bytes and messages, counted exactly.

Between ranks it is counted by class: pairs of ranks that exchange as many elements in as many messages are one
`Share`, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.derive.boxes import copies_of
from tiramisu_py.derive.combinations import given
from tiramisu_py.derive.counting import classes, count
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.collectives import collectives
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks import axes, spread
from tiramisu_py.program.statement import Device, Role, Statement

#: The direction of what goes from rank to rank.
BETWEEN_RANKS = "rank -> rank"
#: The direction of partial results that ranks combine: each gives its own, and gets the outcome.
COMBINED = "ranks -> all"


@dataclass(frozen=True)
class Amount:
    """Elements, bytes and messages."""

    elements: int = 0
    bytes: int = 0
    messages: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.elements + other.elements, self.bytes + other.bytes, self.messages + other.messages)


@dataclass(frozen=True)
class OfRank:
    """What one rank sends to others, and receives from them."""

    sent: Amount = Amount()
    received: Amount = Amount()


@dataclass(frozen=True)
class Channel:
    """What one rank sends to another, with one exchange: the ranks by their numbers."""

    exchange: str
    sender: int
    receiver: int
    elements: int
    bytes: int
    messages: int


@dataclass(frozen=True, eq=False)
class Share:
    """Pairs ``[coordinates of the sender, coordinates of the receiver]`` that exchange `each`."""

    pairs: isl.Set
    each: Amount

    def of_rank(self, at: Sequence[int], sends: bool) -> Amount:
        """What the rank at some coordinates sends, or receives."""
        first = 0 if sends else len(at)
        mine = self.pairs
        for axis, value in enumerate(at):
            mine = mine.intersect(sets.within(sets.variables(mine.get_space())[first + axis], value, value + 1))
        return times(self.each, count(mine))


def times(amount: Amount, number: int) -> Amount:
    """An amount, so many times."""
    return Amount(amount.elements * number, amount.bytes * number, amount.messages * number)


@dataclass(frozen=True)
class Moved:
    """What one transfer or exchange moves in a call: elements, bytes, and messages (operations, towards a GPU)."""

    name: str
    direction: str
    elements: int
    bytes: int
    messages: int
    shares: tuple[Share, ...] = ()


@dataclass(frozen=True)
class Communication:
    """What all transfers of a program move in a call, and what each of them does.

    `grid` are the extents of the process grid. `elements`, `bytes` and `messages` are totals over all ranks. Of partial
    results that ranks combine each rank's are counted once, as one message that it sends and one that it receives,
    however MPI does it; not those of a rank that combines with no other.
    """

    transfers: tuple[Moved, ...] = ()
    grid: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """How many elements are moved."""
        return sum(moved.elements for moved in self.transfers)

    @property
    def bytes(self) -> int:
        """How many bytes are moved."""
        return sum(moved.bytes for moved in self.transfers)

    @property
    def messages(self) -> int:
        """How many copies are made, or messages sent."""
        return sum(moved.messages for moved in self.transfers)

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return prod(self.grid)

    def towards(self, direction: str) -> Communication:
        """Only what goes in one direction, as in ``"host -> gpu 0"`` or ``"rank -> rank"``."""
        return Communication(tuple(moved for moved in self.transfers if moved.direction == direction), self.grid)

    def of_rank(self, rank: int | Sequence[int]) -> OfRank:
        """What one rank sends and receives: a rank by its number, or by its coordinates in the process grid."""
        at = self._coordinates(rank)
        shares = [share for moved in self.transfers for share in moved.shares]
        sent = sum((share.of_rank(at, True) for share in shares), Amount())
        return OfRank(sent, sum((share.of_rank(at, False) for share in shares), Amount()))

    def _coordinates(self, rank: int | Sequence[int]) -> tuple[int, ...]:
        if isinstance(rank, Sequence):
            at = tuple(rank)
        elif not hasattr(rank, "__index__"):
            raise ArgumentError(f"there is no rank {rank!r}: give its number, or its coordinates in the process grid")
        elif 0 <= rank < self.ranks:
            at = tuple(rank // prod(self.grid[axis + 1 :]) % extent for axis, extent in enumerate(self.grid))
        else:
            at = ()
        if len(at) != len(self.grid) or any(not 0 <= x < extent for x, extent in zip(at, self.grid, strict=True)):
            words = " x ".join(map(str, self.grid)) or "no"
            raise ArgumentError(f"there is no rank {rank}: there are {words} ranks")
        return at

    @cached_property
    def by_rank(self) -> tuple[OfRank, ...]:
        """What each rank sends and receives, by its number."""
        return tuple(self.of_rank(rank) for rank in range(self.ranks))

    def channels(self) -> Iterator[Channel]:
        """Who sends what to whom: exchange by exchange, every pair of ranks."""
        for moved in self.towards(BETWEEN_RANKS).transfers:
            found = [(pair, share.each) for share in moved.shares for pair in sets.points(share.pairs)]
            for pair, each in sorted(found, key=lambda entry: entry[0]):
                ends = self._number(pair[: len(self.grid)]), self._number(pair[len(self.grid) :])
                yield Channel(moved.name, *ends, each.elements, each.bytes, each.messages)

    @property
    def _is_between_ranks(self) -> bool:
        return bool(self.grid) or any(moved.direction == BETWEEN_RANKS for moved in self.transfers)

    def _number(self, at: Sequence[int]) -> int:
        number = 0
        for x, extent in zip(at, self.grid, strict=True):
            number = number * extent + x
        return number

    def __str__(self) -> str:
        header = ("", "direction", "elements", "bytes", "messages" if self._is_between_ranks else "operations")
        total = Moved("together", "", self.elements, self.bytes, self.messages)
        rows = [header]
        for moved in (*self.transfers, total):
            rows.append((moved.name, moved.direction, str(moved.elements), str(moved.bytes), str(moved.messages)))
        widths = [max(len(row[k]) for row in rows) for k in range(len(header))]
        lines = []
        for row in rows:
            words = [word.ljust(width) for word, width in zip(row[:2], widths[:2], strict=True)]
            words += [word.rjust(width) for word, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(words).rstrip())
        return "\n".join(lines)


def communication(program: Program, params: Mapping[str, int]) -> Communication:
    """What a program moves at some parameter values; with blocks that have bounds of their own, what one rank sends."""
    _check(program, params)
    statements = program.statements.values()
    moved = [_moved(program, statement, params) for statement in statements if statement.transfer is not None]
    if not axes(program):
        return Communication(tuple(moved))
    spread_out = spread(program)
    if spread_out.blocks is not None:
        return Communication((*moved, *_of_one_rank(spread_out, params)))
    assert spread_out.ranks is not None
    everyone = sets.fixed(spread_out.ranks, params)
    sides = [sets.interval(everyone, axis) for axis in range(spread_out.rank_axes)]
    grid = tuple(0 if side is None else side[1] + 1 for side in sides)
    sends = (s for s in spread_out.statements.values() if s.role is Role.SEND)
    exchanged = _exchanges(spread_out, sends, params)
    return Communication((*moved, *exchanged, *_combinations(spread_out, params)), grid)


def _check(program: Program, params: Mapping[str, int]) -> None:
    names = program.algorithm.params
    missing = [name for name in names if name not in params]
    unknown = [name for name in params if name not in names]
    if missing or unknown:
        wrong = f"{', '.join(missing)} has no value" if missing else f"{', '.join(unknown)} is not one of them"
        raise ArgumentError(f"{program.algorithm.name} has the parameters {', '.join(names)}: {wrong}")
    for name, value in params.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentError(f"the parameter {name} is an integer, not {value!r}")
    if sets.fixed(program.context, params).is_empty():
        values = ", ".join(f"{name} = {params[name]}" for name in names)
        raise ArgumentError(f"{program.algorithm.name} is not defined for {values}")


def _moved(program: Program, statement: Statement, params: Mapping[str, int]) -> Moved:
    assert statement.transfer is not None
    instances = sets.fixed(statement.instances, params)
    elements = count(instances)
    messages = sum(count(sets.fixed(iterations, params)) for iterations in copies_of(program, statement))
    direction = f"{_words(statement.transfer.source)} -> {_words(statement.transfer.target)}"
    return Moved(statement.name, direction, elements, elements * _size(program, statement), messages)


def _size(program: Program, statement: Statement) -> int:
    """The bytes of an element."""
    return program.buffers[program.storages[statement.target].buffer].dtype.bytes


def _words(device: Device) -> str:
    return "host" if device is None else f"gpu {device}"


# -- between ranks


def _exchanges(program: Program, sends: Iterator[Statement], params: Mapping[str, int]) -> Iterator[Moved]:
    """What each exchange moves: its sends may have been cut into parts."""
    shares: dict[str, list[Share]] = {}
    for send in sends:
        assert send.message is not None
        shares.setdefault(send.message.exchange, []).extend(_shares(program, send, params))
    for name, found in shares.items():
        total = sum((times(share.each, count(share.pairs)) for share in found), Amount())
        yield Moved(name, BETWEEN_RANKS, total.elements, total.bytes, total.messages, tuple(found))


def _combinations(program: Program, params: Mapping[str, int]) -> Iterator[Moved]:
    """What ranks give to the combinations of partial results: a message from a rank to itself stands for each."""
    shares: dict[str, list[Share]] = {}
    for one in given(program, params):
        to_itself = sets.named(sets.flat_pairs(sets.graph(sets.identity(one.ranks.get_space()), one.ranks), ""), None)
        amount = Amount(one.elements, one.bytes, one.combinations)
        shares.setdefault(one.source, []).append(Share(to_itself, amount))
    for name, found in shares.items():
        total = sum((times(share.each, count(share.pairs)) for share in found), Amount())
        yield Moved(name, COMBINED, total.elements, total.bytes, total.messages, tuple(found))


def _of_one_rank(program: Program, params: Mapping[str, int]) -> Iterator[Moved]:
    """What the rank with some bounds of its block sends in each exchange."""
    totals: dict[str, list[int]] = {}
    for send in program.statements.values():
        if send.role is Role.SEND and send.message is not None:
            instances = send.instances.intersect_params(program.context)
            events = instances.apply(sets.graph(sets.renamed(send.prefix(program.host_depth(send)), None)))
            elements, messages = count(sets.fixed(instances, params)), count(sets.fixed(events, params))
            total = totals.setdefault(send.message.exchange, [0, 0, 0])
            totals[send.message.exchange] = [
                total[0] + elements, total[1] + elements * _size(program, send), total[2] + messages
            ]  # fmt: skip
    for name, (elements, size, messages) in totals.items():
        yield Moved(name, BETWEEN_RANKS, elements, size, messages)


def _shares(program: Program, send: Statement, params: Mapping[str, int]) -> Iterator[Share]:
    """The pairs of ranks that a send is for, with what it sends from one to the other."""
    assert send.message is not None
    instances = sets.fixed(send.instances.intersect_params(program.context.params()), params)
    ends = sets.joined(program.rank_of(send), send.message.peer)
    pairs = _at(ends, send, params).intersect_domain(instances)
    message = send.prefix(program.host_depth(send))
    if send.message.collective:
        message = next(one for one in collectives(program) if send in one.sends).call_of(send)
        to_itself = sets.graph(program.rank_of(send)).intersect(sets.graph(sets.renamed(send.message.peer, None)))
        pairs = pairs.subtract_domain(sets.fixed_map(to_itself, params).domain())
    iterations = _at(sets.renamed(message, None), send, params)
    elements = list(classes(pairs.reverse()))
    for several in classes(pairs.reverse().apply_range(iterations)):
        for single in elements:
            both = several.keys.intersect(single.keys).coalesce()
            if not both.is_empty():
                size = single.images * _size(program, send)
                yield Share(both, Amount(single.images, size, several.images))


def _at(of: isl.MultiAff, send: Statement, params: Mapping[str, int]) -> isl.Map:
    """A function of instances, at some parameter values."""
    return sets.fixed_map(sets.graph(of), params)
