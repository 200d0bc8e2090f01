"""Stages whose rows are read by formulas, such as ``r // 8`` and ``8 * y + i``: computed for each band of rows that
reads them, while they are in the cache.

::

    for y, x: a[y, x]                                        for r0:
    for r, c: out[r, c] .. a[r // 8, c], a[r // 8 + 1, c]  -->   for y in the band's rows, x: a[y, x]
                                                                 for r in r0, c: out[r, c]

A band has so many rows that few rows of earlier stages, those at its ends, are computed again. A stage whose rows one
row of the last stage needs alone, such as the eight rows of pixels of a cell, is computed for that row. Coarser grids,
pictures in another size and scatters into cells are of this form; what is read row for row is in
`auto.groups.row_pipelines`, whose stages keep rows instead of computing them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tiramisu_py import Expr, Function, Iter
from tiramisu_py.auto.groups.row_pipelines import USUAL, pipeline, work_in_cache
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.single.independent import streamed
from tiramisu_py.auto.single.inlining import inlined
from tiramisu_py.auto.single.sums import scattered
from tiramisu_py.queries import Binary, Cast, Const, Declared, LinearRead, Select, chosen_by_values
from tiramisu_py.records import dataclass

#: The rows of a band, the most first.
BANDS = (64, 32, 16, 8)
#: The most often that rows of a stage may be computed, on average.
AGAIN = Fraction(5, 4)
#: The most values of an iterator that are counted in the bytes of a row: a bound of more says little.
FEW = 16


@dataclass(frozen=True)
class RowRange:
    """The rows that a row r reads: from ``rate * r + low`` to ``rate * r + high``."""

    rate: Fraction
    low: Fraction
    high: Fraction

    def of(self, reader: RowRange) -> RowRange:
        """The rows that a row of the last stage needs, where those of `reader` are known."""
        return RowRange(self.rate * reader.rate, self.rate * reader.low + self.low, self.rate * reader.high + self.high)

    def joined(self, other: RowRange) -> RowRange:
        """Both ranges as one; they have one rate."""
        return replace(self, low=min(self.low, other.low), high=max(self.high, other.high))

    def scaled(self, factor: Fraction) -> RowRange:
        """The range of a multiple of an index."""
        ends = sorted((factor * self.low, factor * self.high))
        return RowRange(factor * self.rate, ends[0], ends[1])

    def plus(self, other: RowRange) -> RowRange:
        """The range of a sum of indices."""
        return RowRange(self.rate + other.rate, self.low + other.low, self.high + other.high)

    def rows(self, band: int) -> int:
        """The most rows that a band of so many rows needs, which begins at a multiple of them."""
        end = self.rate * (band - 1) + self.high
        if (self.rate * band).denominator == 1:
            return math.floor(end) - math.ceil(self.low) + 1
        return math.floor(end - self.low) + 1

    def again(self, band: int) -> Fraction:
        """How often a row is computed in bands, on average."""
        return self.rows(band) / (self.rate * band)


HERE = RowRange(Fraction(1), Fraction(0), Fraction(0))


def read_rows(index: Expr, row: str, extents: Mapping[str, int | None]) -> RowRange | None:
    """The range of an index by an iterator; None if it has another form.

    Where it is clipped, the ends do not count; other iterators run from 0, as far as `extents` says.
    """

    def of(node: Expr) -> RowRange | None:
        return read_rows(node, row, extents)

    if isinstance(index, Iter):
        if index.name == row:
            return HERE
        extent = extents.get(index.name)
        return None if extent is None else RowRange(Fraction(0), Fraction(0), Fraction(extent - 1))
    if isinstance(index, Const):
        return RowRange(Fraction(0), Fraction(index.value), Fraction(index.value))
    if isinstance(index, Cast):
        return of(index.children()[0])
    if isinstance(index, Select):
        return _either(list(map(of, index.children()[1:])))
    if not isinstance(index, Binary):
        return None
    left, right = of(index.left), of(index.right)
    if index.op in ("min", "max"):
        return _either([left, right])
    if left is None or right is None:
        return None
    if index.op in ("+", "-"):
        return left.plus(right if index.op == "+" else right.scaled(Fraction(-1)))
    constant, other = (right, left) if isinstance(index.right, Const) else (left, right)
    if constant.rate or constant.low != constant.high:
        return None
    if index.op == "*":
        return other.scaled(constant.low)
    if constant is not right or right.low <= 0 or index.op not in ("//", "%"):
        return None
    if index.op == "%":
        return None if left.rate else RowRange(Fraction(0), Fraction(0), right.low - 1)
    quotient = left.scaled(1 / right.low)
    return replace(quotient, low=quotient.low - 1 + 1 / right.low)


def _either(found: list[RowRange | None]) -> RowRange | None:
    """The range of what is one of several values; those that do not move with the row are ends of the array."""
    moving = [each for each in found if each is not None and each.rate]
    if not moving or any(each.rate != moving[0].rate for each in moving):
        return None
    joined = moving[0]
    for each in moving[1:]:
        joined = joined.joined(each)
    return joined


@dataclass(frozen=True)
class BandStage:
    """An earlier stage: the iterator of its rows, those of the loops outside the last stage's rows, and the rows that
    a row of the last stage needs. `readers_are_rows` says that each of its readers is computed for such a row.
    """

    row: str
    leads: tuple[str, ...]
    range: RowRange
    is_inlined: bool = False
    readers_are_rows: bool = True

    @property
    def is_row(self) -> bool:
        """Whether it is computed for each row of the last stage: no row of it is needed for two of them."""
        return self.is_inlined or (self.readers_are_rows and self.range.again(1) == 1)


def in_bands(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a computation that reads rows of earlier ones by formulas: these are computed for bands of it."""
    iterators, extents = problem.computation(name).iterators, problem.extents(name)
    row = next((at for at, extent in enumerate(extents) if extent is None), len(iterators))
    if row >= len(iterators) - 1:
        return
    band, found = _largest(problem, name, BandStage(iterators[row], iterators[:row], HERE))
    in_turn = pipeline(problem, name)
    if len(found) < 2 or all(each in (in_turn.windows if in_turn else ()) for each in found):
        return
    inner = {each: made for each in found if (made := _alone(problem, each, found[each])) is not None}
    if len(inner) < len(found):
        return
    said = [f"{each} {_place(at)}" for each, at in list(found.items())[1:]]
    work = work_in_cache(problem, list(found)[::-1])
    more = sum(
        problem.operations(each) * float(at.range.again(band) - 1) for each, at in found.items() if not at.is_row
    )
    yield Offer(
        name, f"{', '.join(said)}, of {name}" + ("" if _by_row(found) else f", in bands of {band} rows"),
        "they are in the cache while all rows that read them are computed",
        lambda function: _apply(problem, function, found, inner, band), tuple(found),
        replace(work, operations=work.operations + more), is_tiled=True,
    )  # fmt: skip


def _place(stage: BandStage) -> str:
    return "inlined" if stage.is_inlined else "for each row" if stage.is_row else "for each band"


def _by_row(found: Mapping[str, BandStage]) -> bool:
    return all(each.is_row for each in found.values())


def _largest(problem: Problem, name: str, last: BandStage) -> tuple[int, dict[str, BandStage]]:
    """The band of most rows whose stages fit the second-level cache, and its stages, the last ones first."""
    for band in BANDS:
        found = _stages(problem, name, last, band)
        if sum(_bytes(problem, each, at, band) for each, at in found.items()) <= problem.cpu.second * 3 // 4:
            break
    return band, found


def _bytes(problem: Problem, name: str, stage: BandStage, band: int) -> int:
    """The bytes of a stage that a band needs, in rows of usual length and of iterators that are known to be few."""
    if stage.range == HERE or stage.is_inlined:
        return 0
    declared = problem.computation(name)
    extents = zip(declared.iterators, problem.extents(name), strict=True)
    beside = math.prod(
        extent for each, extent in extents if each not in (stage.row, *stage.leads) and extent and extent <= FEW
    )
    return stage.range.rows(1 if stage.is_row else band) * beside * USUAL * declared.dtype.bytes


def _stages(problem: Problem, name: str, last: BandStage, band: int) -> dict[str, BandStage]:
    """The stages that end in a computation, the last ones first: few of their rows are computed again in bands."""
    found = {name: last}
    for source in list(problem.algorithm.computations)[::-1]:
        if source in found or not problem.readers[source] or not set(problem.readers[source]) <= set(found):
            continue
        if not _may_take_part(problem, source):
            continue
        stage = _read_by(problem, source, found)
        if stage is not None and (stage.is_row or stage.range.again(band) <= AGAIN):
            found[source] = stage
    return found


def _may_take_part(problem: Problem, name: str) -> bool:
    """Whether a computation is one of independent values, or a scatter, that only others of the function read."""
    declared = problem.computation(name)
    if declared.group or declared.stage is not None or (declared.guards and not chosen_by_values(declared)):
        return False
    plain = not declared.is_reduction or bool(chosen_by_values(declared))
    return plain and name not in problem.given and name not in problem.algorithm.outputs


def _read_by(problem: Problem, source: str, found: Mapping[str, BandStage]) -> BandStage | None:
    """A stage by all reads of it; None if they have another form, or are not along one iterator of it."""
    stages = [
        stage
        for reader in problem.readers[source]
        for touch in problem.reads_of(reader, source)
        for stage in [_read_at(problem, problem.computation(reader), found[reader], source, touch)]
    ]
    first = stages[0]
    if first is None or first.row in chosen_by_values(problem.computation(source)):
        return None
    whole = first.range
    for each in stages[1:]:
        if each is None or (each.row, each.leads, each.range.rate) != (first.row, first.leads, whole.rate):
            return None
        whole = whole.joined(each.range)
    inline = not problem.computation(source).is_reduction and any(True for _ in inlined(problem, source))
    rows = all(found[reader].is_row for reader in problem.readers[source])
    return replace(first, range=whole, is_inlined=inline, readers_are_rows=rows)


def _read_at(problem: Problem, reader: Declared, at: BandStage, source: str, touch: LinearRead) -> BandStage | None:
    """A stage by one read of it: one index moves with the reader's row, and one is each of its loops outside."""
    axes = problem.computation(source).iterators
    extents = dict(zip(reader.point_iterators, problem.point_extents(reader.name), strict=True))
    moving = [(axis, read_rows(index, at.row, extents)) for axis, index in enumerate(touch.access.indices)]
    rows = [(axis, found) for axis, found in moving if found is not None and found.rate]
    if len(rows) != 1 or rows[0][1].rate < 0:
        return None
    alone = {index.name: axes[axis] for axis, index in enumerate(touch.access.indices) if isinstance(index, Iter)}
    if any(lead not in alone for lead in at.leads):
        return None
    axis, range_ = rows[0]
    return BandStage(axes[axis], tuple(alone[lead] for lead in at.leads), range_.of(at.range))


def _alone(problem: Problem, name: str, stage: BandStage) -> Offer | None:
    """The best offer of a stage by itself, on one thread."""
    single = replace(problem, threads=1)
    if stage.is_inlined:
        return next(inlined(single, name))
    scatters = chosen_by_values(problem.computation(name))
    made = scattered(single, name) if scatters else streamed(single, name)
    offers = [each for each in made if each.covers == (name,)]
    return min(offers, key=lambda each: problem.cost(each.work), default=None)


def _apply(
    problem: Problem, function: Function, found: Mapping[str, BandStage], inner: Mapping[str, Offer], band: int
) -> None:
    for each in found:
        inner[each].apply(function)
    name, last = next(iter(found.items()))
    handle: Any = function[name]
    fresh, rows = Fresh(function), Iter(last.row)
    bands = rows
    if not _by_row(found):
        bands, rows = fresh(f"{last.row}0"), fresh(f"{last.row}1")
        handle.split(Iter(last.row), band, bands, rows)
    if problem.threads > 1:
        handle.parallelize(*map(Iter, last.leads), bands)
    for each, stage in list(found.items())[1:]:
        if not stage.is_inlined:
            function[each].compute_at(handle, rows if stage.is_row else bands)
