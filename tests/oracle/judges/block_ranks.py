"""Ranks with blocks of any split, simulated with names in place of values: a stencil and its exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any


@dataclass(frozen=True)
class Half:
    """One half: rows from `low` to `high` where `where` holds, `away` ranks away; expressions of lo, hi and R."""

    low: str
    high: str
    where: str
    away: int


@dataclass(frozen=True)
class Exchange:
    """Rows of bx that go to, and come from, a neighbour."""

    name: str
    send: Half
    receive: Half


#: What a rank does after it computed bx: ``("send" or "recv", exchange)``, each complete before the next.
Order = tuple[tuple[str, str], ...]


def splits(extent: int, ranks: int, least: int) -> Iterator[list[tuple[int, int]]]:
    """All splits of the numbers up to an extent over some ranks, each with enough numbers if there are several."""
    for cuts in combinations(range(1, extent), ranks - 1):
        bounds = [0, *cuts, extent]
        blocks = list(pairwise(bounds))
        if ranks == 1 or all(high - low >= least for low, high in blocks):
            yield blocks


def verdict(
    exchanges: tuple[Exchange, ...], order: Order, reach: tuple[int, ...], blocks: list[tuple[int, int]]
) -> str:
    """What goes wrong with one split: empty, or "communication", "deadlock" or "bounds".

    ``by[r]`` reads ``bx[r + d]`` for each d in `reach`; it exists where all of these do.
    """
    extent = blocks[-1][1]
    memory: list[dict[int, int]] = [{r: r for r in range(low, high)} for low, high in blocks]
    named = {e.name: e for e in exchanges}
    plan: list[list[tuple[str, str, int, int]]] = []
    for rank, block in enumerate(blocks):
        mine = []
        for does, name in order:
            half = named[name].send if does == "send" else named[name].receive
            for row in _rows(half, block, extent):
                if not 0 <= row < extent:
                    return "bounds"
                if not 0 <= rank + half.away < len(blocks):
                    return "communication"
                mine.append((does, name, rank + half.away, row))
        plan.append(mine)
    wrong = _run(plan, memory)
    if wrong:
        return wrong
    for rank, (low, high) in enumerate(blocks):
        for row in range(max(low, -min(reach)), min(high, extent - max(reach))):
            if any(memory[rank].get(row + d) != row + d for d in reach):
                return "communication"
    return ""


def _rows(half: Half, block: tuple[int, int], extent: int) -> range:
    names: dict[str, Any] = {"lo": block[0], "hi": block[1], "R": extent}
    if not eval(half.where, {}, names):
        return range(0)
    return range(eval(half.low, {}, names), eval(half.high, {}, names))


def _run(plan: list[list[tuple[str, str, int, int]]], memory: list[dict[int, int]]) -> str:
    """Pair messages by their order on each channel, then run with sends that wait for their receives."""
    channels: dict[tuple[str, int, int, str], list[int]] = {}
    for rank, acts in enumerate(plan):
        for does, name, peer, row in acts:
            ends = (rank, peer) if does == "send" else (peer, rank)
            channels.setdefault((name, *ends, does), []).append(row)
    for name, source, target, _ in list(channels):
        if channels.get((name, source, target, "send")) != channels.get((name, source, target, "recv")):
            return "communication"
    at = [0] * len(plan)
    while True:
        moved = False
        for rank, acts in enumerate(plan):
            if at[rank] < len(acts) and acts[at[rank]][0] == "send":
                _, name, peer, row = acts[at[rank]]
                theirs = plan[peer][at[peer]] if at[peer] < len(plan[peer]) else None
                if theirs is not None and theirs[:3] == ("recv", name, rank):
                    if memory[rank].get(row) != row:
                        return "communication"
                    memory[peer][row] = row
                    at[rank], at[peer], moved = at[rank] + 1, at[peer] + 1, True
        if not moved:
            return "" if all(a == len(acts) for a, acts in zip(at, plan, strict=True)) else "deadlock"
