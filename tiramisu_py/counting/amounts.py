"""Amounts of data moved by transfers and messages, and queries on them: in total, by rank, by channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.counting.lattice_points import count
from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass

#: The direction of messages between ranks.
BETWEEN_RANKS = "rank -> rank"
#: The direction of combined partial results: each rank contributes its own, and receives the result.
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
    """The amounts that one rank sends and receives."""

    sent: Amount = Amount()
    received: Amount = Amount()


@dataclass(frozen=True)
class Channel:
    """The amount that one rank sends to another in one exchange; ranks are given by number."""

    exchange: str
    sender: int
    receiver: int
    elements: int
    bytes: int
    messages: int


@dataclass(frozen=True, eq=False)
class Share:
    """Pairs ``[coordinates of the sender, coordinates of the receiver]``, of which `each` exchanges the same amount."""

    pairs: isl.Set
    each: Amount

    def of_rank(self, at: Sequence[int], sends: bool) -> Amount:
        """The amount that the rank at given coordinates sends, or receives."""
        first = 0 if sends else len(at)
        mine = self.pairs
        for axis, value in enumerate(at):
            mine = mine.intersect(sets.within(sets.variables(mine.get_space())[first + axis], value, value + 1))
        return times(self.each, count(mine))


def times(amount: Amount, number: int) -> Amount:
    """`number` times an amount."""
    return Amount(amount.elements * number, amount.bytes * number, amount.messages * number)


@dataclass(frozen=True)
class Moved:
    """The amounts that one transfer or exchange moves in a call: elements, bytes, and messages (for a GPU, copies)."""

    name: str
    direction: str
    elements: int
    bytes: int
    messages: int
    shares: tuple[Share, ...] = ()


@dataclass(frozen=True)
class InPlace:
    """Accesses of kernels of a GPU to an array in the host's memory, in place: each one of each instance.

    Those under conditions on values count whether or not these hold.
    """

    name: str
    direction: str
    elements: int
    bytes: int


@dataclass(frozen=True)
class Communication:
    """The amounts that a program's transfers move in a call, in total and for each transfer.

    Beside them, `in_place` lists what GPUs read and write in unified arrays, which is in no total.
    `grid` are the extents of the process grid. `elements`, `bytes` and `messages` are totals over all ranks. Combined
    partial results count once for each rank, as one message that it sends and one that it receives, whatever MPI's
    algorithm is; a rank that has nothing to combine with counts none.
    """

    transfers: tuple[Moved, ...] = ()
    grid: tuple[int, ...] = ()
    in_place: tuple[InPlace, ...] = ()

    @property
    def elements(self) -> int:
        """The number of elements moved."""
        return sum(moved.elements for moved in self.transfers)

    @property
    def bytes(self) -> int:
        """The number of bytes moved."""
        return sum(moved.bytes for moved in self.transfers)

    @property
    def messages(self) -> int:
        """The number of copies made and messages sent."""
        return sum(moved.messages for moved in self.transfers)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return prod(self.grid)

    def towards(self, direction: str) -> Communication:
        """Only the transfers in one direction, such as ``"host -> gpu 0"`` or ``"rank -> rank"``."""
        return Communication(tuple(moved for moved in self.transfers if moved.direction == direction), self.grid)

    def of_rank(self, rank: int | Sequence[int]) -> OfRank:
        """The amounts that one rank sends and receives; `rank` is its number, or its process grid coordinates."""
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
        """The amounts that each rank sends and receives, by rank number."""
        return tuple(self.of_rank(rank) for rank in range(self.ranks))

    def channels(self) -> Iterator[Channel]:
        """The amount for each sender and receiver, exchange by exchange."""
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
        rows += [(one.name, one.direction, str(one.elements), str(one.bytes), "") for one in self.in_place]
        widths = [max(len(row[k]) for row in rows) for k in range(len(header))]
        lines = []
        for row in rows:
            words = [word.ljust(width) for word, width in zip(row[:2], widths[:2], strict=True)]
            words += [word.rjust(width) for word, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(words).rstrip())
        return "\n".join(lines)
