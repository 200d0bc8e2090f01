"""Segments: rows of blocks, cut into parts of nearly equal length, so that programs have equal work.

Source: Tillet, "Blocked Algorithms for Neural Networks", Harvard 2020, section 6.3.2, figure 6.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Segment:
    """Blocks `first` up to ``first + count`` of the layout, all of one `row`: `part` of so many `parts` of it.

    The results of the parts of a row are added: in turn, or atomically. An empty row has one part without blocks, so
    that its result is stored too.
    """

    head: int
    row: int
    first: int
    count: int
    part: int
    parts: int


def row_segments(starts: Sequence[int], rows: int, most: int) -> list[Segment]:
    """The segments of rows that begin at `starts` (with the end of the last one), of which there are `rows` a head."""
    found = []
    for number, (first, end) in enumerate(pairwise(starts)):
        parts = max(1, -(-(end - first) // most))
        cuts = [first + (end - first) * k // parts for k in range(parts + 1)]
        head, row = divmod(number, rows)
        found += [Segment(head, row, cuts[k], cuts[k + 1] - cuts[k], k, parts) for k in range(parts)]
    return found
