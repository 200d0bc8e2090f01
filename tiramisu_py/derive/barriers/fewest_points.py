"""Minimum hitting set on a circle: the fewest places such that each arc contains one."""

from __future__ import annotations

from collections.abc import Sequence


def fewest(arcs: Sequence[frozenset[int]], places: int) -> list[int]:
    """The fewest of the places 0, 1, ..., `places` - 1 such that each arc contains one; prefers late ones.

    Each arc is a run of consecutive places; place 0 follows the last one.
    """
    needs = list(dict.fromkeys(arcs))
    if not needs:
        return []
    best: list[int] | None = None
    for start in sorted(sorted(needs, key=len)[0], reverse=True):
        chosen = _from(start, needs, places)
        if best is None or len(chosen) < len(best):
            best = chosen
    assert best is not None
    return sorted(best)


def _from(start: int, needs: list[frozenset[int]], places: int) -> list[int]:
    """`start` and the fewest other places: on the circle cut at `start`, the arcs without it are intervals."""
    chosen = [start]
    left = [arc for arc in needs if start not in arc]

    def distance(place: int) -> int:
        return (place - start) % places

    for arc in sorted(left, key=lambda arc: max(map(distance, arc))):
        if not any(place in arc for place in chosen):
            chosen.append(max(arc, key=distance))
    return chosen
