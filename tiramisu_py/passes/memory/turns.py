"""Arrays that have one block of memory in turns: each is done before the next is used.

Any such choice is right, so that sizes are only compared at sample values of the parameters. The largest array comes
first; each goes where the most bytes that exist at a time grow least, else to the smallest block that it fits in
(the "greedy by size" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from tiramisu_py.passes.memory.lifetimes import Lifetime
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Tenant:
    """An array that wants memory: its size in bytes at sample values, and when it lives."""

    name: str
    size: int
    life: Lifetime

    def shares_with(self, other: Tenant) -> bool:
        """Whether the two never live together."""
        return self.life.before(other.life) or other.life.before(self.life)


@dataclass
class SharedBlock:
    """The arrays of one block, and the statements during which the block exists."""

    tenants: list[Tenant] = field(default_factory=list)
    size: int = 0
    first: int = 0
    end: int = -1

    def beside(self, first: int, end: int) -> tuple[tuple[int, int], ...]:
        """The statements of a span at which the block does not exist yet, before and after."""
        return (first, min(end, self.first - 1)), (max(first, self.end + 1), end)

    def in_order(self) -> list[Tenant]:
        """The arrays, in the order of their turns."""
        return sorted(self.tenants, key=lambda each: each.life.first)


def assigned(tenants: Sequence[Tenant], count: int, lasting: bool) -> list[SharedBlock]:
    """The blocks of arrays that are used in `count` statements; one for each array where sharing saves nothing.

    Blocks that are `lasting` exist all the time; others from the first use of an array in them to the end of the last.
    """
    shared = _placed(tenants, count, lasting, shares=True)
    alone = _placed(tenants, count, lasting, shares=False)
    return shared if most_bytes(shared, count) <= most_bytes(alone, count) else alone


def most_bytes(turns: Sequence[SharedBlock], count: int) -> int:
    """The most bytes that these blocks have at one of `count` statements."""
    level = _Level(count)
    for turn in turns:
        level.add(turn.size, turn.first, turn.end)
    return level.peak


def _placed(tenants: Sequence[Tenant], count: int, lasting: bool, shares: bool) -> list[SharedBlock]:
    level, turns = _Level(count), list[SharedBlock]()
    for tenant in sorted(tenants, key=lambda each: (-each.size, each.life.first)):
        first, end = (0, count - 1) if lasting else (tenant.life.first, tenant.life.until(count))
        found, least = None, level.with_more(tenant.size, ((first, end),))
        for turn in sorted(turns, key=lambda each: each.size) if shares else ():
            if all(map(tenant.shares_with, turn.tenants)):
                peak = level.with_more(turn.size, turn.beside(first, end))
                if peak < least or (peak == least and found is None):
                    found, least = turn, peak
        if found is None:
            turns.append(found := SharedBlock(size=tenant.size, first=first, end=first - 1))
        for span in found.beside(first, end):
            level.add(found.size, *span)
        found.first, found.end = min(found.first, first), max(found.end, end)
        found.tenants.append(tenant)
    return turns


class _Level:
    """The bytes that exist at each statement, and the most of them."""

    def __init__(self, count: int) -> None:
        self.bytes = [0] * count
        self.peak = 0

    def with_more(self, size: int, spans: Sequence[tuple[int, int]]) -> int:
        """The peak if `size` bytes more existed from the first to the last statement of some spans."""
        return max(self.peak, *(max(self.bytes[a : b + 1], default=-size) + size for a, b in spans))

    def add(self, size: int, first: int, last: int) -> None:
        """More bytes from one statement to another."""
        for at in range(first, last + 1):
            self.bytes[at] += size
            self.peak = max(self.peak, self.bytes[at])
