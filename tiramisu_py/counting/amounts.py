"""What is counted of transfers and messages, and how it is asked for: in total, by rank, by channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.counting.lattice_points import count
from tiramisu_py.errors import ArgumentError

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
