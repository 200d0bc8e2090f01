"""Stages of pictures that are read a few rows and columns away: rows of all stages follow each other in the cache.

For each row of the last stage, an earlier one computes the rows that no earlier iteration has, and keeps those that are
read again. Stages of which one row and nearby columns are read stay in registers, a vector after the other. Or stages
are computed in bands of rows whose earlier stages stay in registers: rows beside a band are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from tiramisu_py import Function, Iter, Memory
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.single.phases import in_phases, phases_of
from tiramisu_py.errors import TiramisuError
from tiramisu_py.queries import LinearRead
from tiramisu_py.recipes import stencil
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.stencil import Plan
from tiramisu_py.records import dataclass

#: The rows of a band that a thread computes, for each row that it computes in advance; and the least rows.
BAND, LEAST = 8, 64
#: The columns of a row for which the cache has to suffice: wider rows are cut.
USUAL = 4096
#: The least width of a strip of columns, for each column beside it that is computed again.
ENDS = 4
#: The most columns of a stage that are read from registers.
NEAR = 8
#: The least bytes of an element that vectors without mask registers have masks for.
MASKED = 4
#: The most iterations of a loop that are unrolled.
UNROLLED = 4


class StagePlace(Enum):
    """Where a stage is computed: for each row, for each vector of a row, or where it is read."""

    ROW = "rows"
    VECTOR = "vectors"
    INLINE = "inline"


@dataclass(frozen=True)
class RowWindow:
    """The rows and columns of a stage that one point of the last stage needs, relative to that point.

    `columns` is None if the stage is not read column for column.
    """

    rows: tuple[int, int]
    columns: tuple[int, int] | None

    @property
    def height(self) -> int:
        return self.rows[1] - self.rows[0] + 1

    @property
    def width(self) -> int | None:
        return None if self.columns is None else self.columns[1] - self.columns[0] + 1

    def moved(self, row: tuple[int, int], column: tuple[int, int] | None) -> RowWindow:
        """The window of what is read so far away from this one."""
        rows = self.rows[0] + row[0], self.rows[1] + row[1]
        if self.columns is None or column is None:
            return RowWindow(rows, None)
        return RowWindow(rows, (self.columns[0] + column[0], self.columns[1] + column[1]))

    def joined(self, other: RowWindow) -> RowWindow:
        rows = min(self.rows[0], other.rows[0]), max(self.rows[1], other.rows[1])
        if self.columns is None or other.columns is None:
            return RowWindow(rows, None)
        return RowWindow(rows, (min(self.columns[0], other.columns[0]), max(self.columns[1], other.columns[1])))


HERE = RowWindow((0, 0), (0, 0))


@dataclass(frozen=True, eq=False)
class RowPipeline:
    """A last stage and those before it, the last ones first, with the window of each.

    `alike` says whether all are computed for the same iteration of the loops outside the rows.
    """

    problem: Problem
    last: str
    windows: dict[str, RowWindow]
    sliding: dict[str, RowWindow]
    alike: bool

    @property
    def earlier(self) -> list[str]:
        return list(self.windows)[1:]


def pipeline(problem: Problem, name: str) -> RowPipeline | None:
    """The stages that end in a computation; None if there are none before it, or its rows are few.

    A stage takes part if only other stages read it, all of them row for row. Loops outside the rows stay there if all
    stages have them; else they are put inside the rows, where only few iterations are worth it.
    """
    if len(problem.computation(name).iterators) < 2 or problem.extents(name)[-2] is not None:
        return None
    windows, sliding, alike = {name: HERE}, {name: HERE}, True
    for source in list(problem.algorithm.computations)[::-1]:
        if not _may_take_part(problem, source) or not set(problem.readers[source]) <= set(windows):
            continue
        whole, newest, same = None, None, True
        for reader in problem.readers[source]:
            for touch in problem.reads_of(reader, source):
                row = touch.offset(len(touch.forms) - 2, problem.computation(reader).iterators[-2])
                if row is None:
                    break
                column = touch.offset(len(touch.forms) - 1, problem.computation(reader).iterators[-1])
                beside = None if column is None else (column, column)
                one = windows[reader].moved((row, row), beside)
                whole = one if whole is None else whole.joined(one)
                ahead = sliding[reader].rows[1]
                late = RowWindow((ahead, ahead), sliding[reader].columns).moved((row, row), beside)
                newest = late if newest is None else newest.joined(late)
                same = same and _same_leads(problem, reader, touch)
            else:
                continue
            break
        else:
            assert whole is not None and newest is not None
            windows[source], sliding[source], alike = whole, newest, alike and same
    if len(windows) == 1 or not (alike or _extent(problem, name)):
        return None
    return RowPipeline(problem, name, windows, sliding, alike)


def _may_take_part(problem: Problem, name: str) -> bool:
    declared = problem.computation(name)
    plain = not declared.is_reduction and not declared.group and declared.stage is None
    free = plain and name not in problem.given and name not in problem.algorithm.outputs
    return free and len(declared.iterators) >= 2 and bool(problem.readers[name]) and not problem.is_recurrent(name)


def _same_leads(problem: Problem, reader: str, touch: LinearRead) -> bool:
    """Whether a read is in the same iteration of the loops outside the rows."""
    leads = problem.computation(reader).iterators[:-2]
    found = [touch.offset(axis, lead) for axis, lead in enumerate(leads[: len(touch.forms) - 2])]
    return len(leads) == len(touch.forms) - 2 and all(offset == 0 for offset in found)


def places(found: RowPipeline, lanes: int, *, vectors: bool) -> dict[str, StagePlace]:
    """Where each earlier stage is computed."""
    problem = found.problem
    chosen: dict[str, StagePlace] = {found.last: StagePlace.VECTOR}
    room = problem.cpu.registers // 2 * problem.cpu.vector_bytes
    for name in found.earlier:
        window, readers = found.sliding[name], problem.readers[name]
        reads = [touch for reader in readers for touch in problem.reads_of(reader, name)]
        declared = problem.computation(name)
        in_one = phases_of(problem, name, declared.iterators[-1]) == 1
        if in_one and len(reads) == 1 and len(declared.iterators) == len(problem.computation(readers[0]).iterators):
            chosen[name] = StagePlace.INLINE
            continue
        chosen[name] = StagePlace.ROW
        width, many = window.width, _extent(problem, name)
        near = width is not None and width <= min(lanes, NEAR) and window.height == 1
        if vectors and in_one and near and many and all(_is_vector(chosen, problem, reader) for reader in readers):
            size = many * lanes * declared.dtype.bytes * (1 if width == 1 else 2)
            if size <= room:
                chosen[name] = StagePlace.VECTOR
                room -= size
    del chosen[found.last]
    if _few_in_vectors(found, chosen):
        return places(found, lanes, vectors=False)
    return chosen


def _few_in_vectors(found: RowPipeline, chosen: dict[str, StagePlace]) -> bool:
    """Whether most of what the last stage reads is kept in rows: then registers would hold little of it."""
    reads = [chosen.get(touch.access.source) for touch in found.problem.touches(found.last)]
    return StagePlace.VECTOR in reads and 2 * reads.count(StagePlace.ROW) > len(reads)


def _is_vector(chosen: dict[str, StagePlace], problem: Problem, reader: str) -> bool:
    """Whether what reads a stage is computed vector for vector, also where that is inlined."""
    if chosen[reader] is StagePlace.INLINE:
        return all(_is_vector(chosen, problem, each) for each in problem.readers[reader])
    return chosen[reader] is StagePlace.VECTOR


def _extent(problem: Problem, name: str) -> int:
    """The iterations of all loops outside the rows; 0 if they are not known to be few."""
    found = 1
    for extent in problem.extents(name)[:-2]:
        if extent is None or extent > 2 * UNROLLED:
            return 0
        found *= extent
    return found


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The commands for a pipeline: where its stages are, the lanes, and the sizes of bands and strips (0: not cut)."""

    of: RowPipeline
    places: dict[str, StagePlace]
    lanes: int
    band: int
    strip: int

    def apply(self, function: Function) -> None:
        for name in self._at(StagePlace.INLINE):
            function[name].inline()
        rows, block = self._last(function)
        for name, place in self.places.items():
            stage: Any = function[name]
            iterators = self.of.problem.computation(name).iterators
            column, window = Iter(iterators[-1]), self.of.sliding[name]
            if place is StagePlace.INLINE:
                continue
            if place is StagePlace.ROW:
                stage.compute_at(function[self.of.last], rows)
                if window.height > 1:
                    stage.slide(rows, Iter(iterators[-2]))
                lanes, phases = self.of.problem.lanes(name), phases_of(self.of.problem, name, column.name)
                if phases > 1:
                    in_phases(function, name, column, phases, lanes)
                else:
                    stage.vectorize(column, lanes, remainder=self._remainder(name))
                continue
            stage.compute_at(function[self.of.last], block)
            if window.width != 1:
                stage.slide(block, column, self.lanes)
            for lead in iterators[:-2]:
                stage.unroll(Iter(lead))
            stage.vectorize(column, self.lanes, remainder="mask")
            stage.store_in(Memory.REGISTER)

    def _remainder(self, name: str) -> str:
        """How the last columns of a stage's rows are computed: as a whole vector, if all that it reads is in such rows,
        too, where there are no masks for its elements.
        """
        problem = self.of.problem
        masks = problem.cpu.costs.has_mask_registers or problem.computation(name).dtype.bytes >= MASKED
        return "mask" if masks or not self._reads_rows(name) else "pad"

    def _reads_rows(self, name: str) -> bool:
        """Whether all that a stage reads is in rows of this plan, column by column, also by stages that are inlined."""
        for source in {touch.access.source for touch in self.of.problem.touches(name)}:
            at = self.places.get(source)
            if at is None or at is StagePlace.VECTOR or self.of.sliding[source].columns is None:
                return False
            if at is StagePlace.INLINE and not self._reads_rows(source):
                return False
        return True

    def _at(self, place: StagePlace) -> list[str]:
        return [name for name, found in self.places.items() if found is place]

    def _last(self, function: Function) -> tuple[Iter, Iter]:
        """The loops of the last stage; those over its rows and over vectors of a row are returned."""
        problem, name = self.of.problem, self.of.last
        last: Any = function[name]
        fresh = Fresh(function)
        *leads, row, column = map(Iter, problem.computation(name).iterators)
        outer, rows, block, inner = [], row, column, column
        if self.band:
            band, rows = fresh(f"{row.name}0"), fresh(f"{row.name}1")
            last.split(row, self.band, band, rows)
            outer.append(band)
        outer += leads if self.of.alike else []
        if self.strip:
            strip, inner = fresh(f"{column.name}0"), fresh(f"{column.name}1")
            last.split(column, self.strip, strip, inner)
            outer.append(strip)
        order = [*outer, rows]
        if self._at(StagePlace.VECTOR):
            block, lane = fresh(f"{column.name}2"), fresh(f"{column.name}3")
            last.split(inner, self.lanes, block, lane)
            order.append(block)
            inner = lane
        order += [] if self.of.alike else leads
        if len(order) > 1:
            last.reorder(*order, inner)
        if not self.of.alike and _extent(problem, name):
            for lead in leads:
                last.unroll(lead)
        if problem.threads > 1:
            last.parallelize(order[0])
        phases = 1 if self._at(StagePlace.VECTOR) else phases_of(problem, name, column.name)
        in_phases(function, name, inner, phases if self.strip % phases == 0 else 1, self.lanes)
        if problem.is_only_written(name):
            last.store_nontemporal()
        return rows, block


def rows_in_turn(problem: Problem, name: str) -> Iterator[Offer]:
    """The offers of a computation at the end of stages that are read row for row."""
    found = pipeline(problem, name)
    if found is None:
        return
    made = [_plan(found, vectors=vectors) for vectors in (True, False)]
    for number, plan in enumerate(made):
        if number and plan.places == made[0].places:
            continue
        by_place = {place: [each for each, at in plan.places.items() if at is place] for place in StagePlace}
        said = [f"{', '.join(names)} {_SAID[place]}" for place, names in by_place.items() if names]
        own = work_in_cache(problem, list(found.windows)[::-1])
        kept = sum(1 + _reads_of_all(problem, each) for each in by_place[StagePlace.ROW])
        work = replace(own, accesses=own.accesses + kept)
        yield Offer(
            name, f"{'; '.join(said)}, of {name}" + (f", in strips of {plan.strip}" if plan.strip else ""),
            "a row is in the cache while all stages that read it are computed", plan.apply, tuple(found.windows), work,
            is_tiled=True,
        )  # fmt: skip


def work_in_cache(problem: Problem, stages: Sequence[str]) -> ValueWork:
    """The work of a value of the last stage, if earlier ones are neither written to memory nor read from there.

    Bytes that are saved are negative: offers without earlier stages leave these to others.
    """
    *earlier, name = stages
    own = problem.work(name, problem.computation(name).iterators[-1], problem.lanes(name))
    return replace(own, bytes=own.bytes - 2.0 * sum(problem.computation(each).dtype.bytes for each in earlier))


def _reads_of_all(problem: Problem, source: str) -> int:
    return sum(len(problem.reads_of(reader, source)) for reader in problem.readers[source])


_SAID = {StagePlace.ROW: "for each row", StagePlace.VECTOR: "for each vector", StagePlace.INLINE: "inlined"}


def _plan(found: RowPipeline, *, vectors: bool) -> RowPlan:
    problem = found.problem
    narrowest = min(problem.computation(name).dtype.bytes for name in found.windows)
    lanes = min(problem.cpu.lanes(narrowest), 64)
    chosen = places(found, lanes, vectors=vectors)
    in_rows = [name for name, place in chosen.items() if place is StagePlace.ROW]
    reach = max((found.windows[name].height - 1 for name in in_rows), default=0)
    band = max(LEAST, BAND * reach) if in_rows or problem.threads > 1 else 0
    if not any(place is StagePlace.VECTOR for place in chosen.values()):
        lanes = problem.lanes(found.last)
    return RowPlan(found, chosen, lanes, band, _strip(found, in_rows, lanes))


def _strip(found: RowPipeline, in_rows: Sequence[str], lanes: int) -> int:
    """The width of strips of columns whose rows stay in the cache; 0 if whole rows do, or ends would cost too much."""
    problem = found.problem
    leads = 1 if found.alike else _extent(problem, found.last) or UNROLLED
    size = {name: problem.computation(name).dtype.bytes * leads for name in in_rows}
    kept = sum(found.sliding[name].height * size[name] for name in in_rows)
    beside = max((found.windows[name].width or 1 for name in in_rows), default=1) - 1
    if kept * USUAL <= problem.cpu.second // 2:
        return 0
    for cache, each in ((problem.cpu.first, sum(size.values())), (problem.cpu.second, kept)):
        fitting = cache // 2 // each
        width = 1 << (fitting.bit_length() - 1) if fitting else 0
        if width >= max(ENDS * beside, 4 * lanes):
            return width if width < USUAL else 0
    return 0


def stages(problem: Problem, name: str) -> Iterator[Offer]:
    """The stages of a stencil over two dimensions that end here: their rows stay in registers or the cache."""
    if len(problem.computation(name).iterators) != 2:
        return
    chain = [name]
    for reader in chain:
        for source in problem.sources(reader):
            own = problem.computation(source)
            alone = set(problem.readers[source]) <= set(chain) and source not in problem.algorithm.outputs
            plain = not own.is_reduction and not own.group and not problem.is_recurrent(source)
            if source not in chain and alone and plain and len(own.iterators) == 2:
                chain.append(source)
    aligned = pipeline(problem, name)
    chain = [each for each in chain if aligned is not None and each in aligned.windows] or [name]
    if len(chain) == 1 and not _has_neighbours(problem, name):
        return
    ordered = [each for each in problem.algorithm.computations if each in chain]
    if any(phases_of(problem, each, problem.computation(each).iterators[-1]) > 1 for each in ordered):
        return
    work = _work(problem, name, ordered)
    if work is None:
        return
    yield Offer(
        name, f"{', '.join(ordered)} in bands of rows", "neighbours are read again while they are in registers",
        lambda function: stencil(*(function[each] for each in ordered), cpu=problem.cpu), tuple(ordered),
        work, is_tiled=True,
    )  # fmt: skip


def _work(problem: Problem, name: str, ordered: Sequence[str]) -> ValueWork | None:
    """The work of a value: rows of earlier stages are computed again for each band, and read from registers.

    None if the recipe does not take the stages.
    """
    try:
        plan = Plan(Recipe("stencil", [problem.function[each] for each in ordered]), problem.cpu, None)
    except TiramisuError:
        return None
    own = work_in_cache(problem, ordered)
    found = pipeline(problem, name)
    if found is None:
        return replace(own, bytes=0.9 * own.bytes)
    again = sum(
        problem.operations(each) * (found.windows[each].height - 1) / plan.rows
        for each in ordered if each in found.windows
    )  # fmt: skip
    saved = sum(len(problem.reads_of(reader, each)) for each in ordered for reader in problem.readers[each])
    accesses = own.accesses - (saved if plan.in_registers else 0)
    return replace(own, operations=own.operations + again, accesses=accesses)


def _has_neighbours(problem: Problem, name: str) -> bool:
    """Whether a computation reads a source at several places, a constant number of rows and columns apart."""
    declared = problem.computation(name)
    beside = [
        touch.access.source for touch in problem.touches(name)
        if len(touch.forms) == 2 and None not in (touch.offset(axis, declared.iterators[axis]) for axis in (0, 1))
    ]  # fmt: skip
    return len(beside) > len(set(beside))
