"""The cheapest choices whose peak is within a budget, found exactly.

Each value has some options, with the seconds that each adds. Combinations are tried in the order of their sums, so that
the first one whose peak is within the budget is the cheapest; among equals, the one whose options come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

from tiramisu_py.errors import ArgumentError

#: The bytes that a combination holds, by the positions of its options; None for options that do not go together.
Peak = Callable[[tuple[int, ...]], int | None]


def cheapest(seconds: Sequence[Sequence[float]], peak: Peak, budget: int) -> tuple[int, ...]:
    """The position of the option of each value; raises `ArgumentError`, with the least peak of all, if none fits."""
    least: int | None = None
    for chosen in in_order(seconds):
        found = peak(chosen)
        if found is None:
            continue
        if found <= budget:
            return chosen
        least = found if least is None else min(least, found)
    raise ArgumentError(f"budget={budget}: the least that any choice needs are {least} bytes")


def in_order(seconds: Sequence[Sequence[float]]) -> Iterator[tuple[int, ...]]:
    """All combinations of options, by the sum of their seconds; equal ones in the order of their positions.

    The options of each value are sorted once. A combination is followed by those in which one option is the next one,
    of the last value that is not at its first option or of those after it, so that each is reached once.
    """
    sorted_ = [[k for _, k in sorted((one, k) for k, one in enumerate(each))] for each in seconds]
    heap: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []

    def push(ranks: tuple[int, ...]) -> None:
        chosen = tuple(order[rank] for order, rank in zip(sorted_, ranks, strict=True))
        total = sum(each[k] for each, k in zip(seconds, chosen, strict=True))
        heappush(heap, (total, chosen, ranks))

    push((0,) * len(seconds))
    while heap:
        _, chosen, ranks = heappop(heap)
        yield chosen
        last = max((k for k, rank in enumerate(ranks) if rank), default=0)
        for k in range(last, len(ranks)):
            if ranks[k] + 1 < len(sorted_[k]):
                push((*ranks[:k], ranks[k] + 1, *ranks[k + 1 :]))
