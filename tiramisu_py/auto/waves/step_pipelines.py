"""Steps that follow one another through the rows of fields, while these are in the cache.

::

    for t:                                  for t0, y:
        for i, j: e[t, i, j]       -->          for t in the block t0:
        for i, j: h[t, i, j]                        for j: e[t, y - t, j]
                                                    for j: h[t, y - t - 1, j]

The loops over steps and rows are made a permutable band (`schedule.loops.bands`): the rows of a step then come after
all that they need of the step before. With several threads, tiles of the band run in wavefronts.

A field alone, of one or two dimensions, is computed in tiles over time instead, by `recipes.time_stencil`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiramisu_py import Band, Function, Iter
from tiramisu_py.auto.groups.kept_levels import KeptLevels, folds_of
from tiramisu_py.auto.groups.nests import members_of
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.errors import CommandError
from tiramisu_py.queries import LoopDependences, Role, Statement, permutable_band
from tiramisu_py.recipes import time_stencil
from tiramisu_py.records import dataclass

#: Sizes are not known here: a row has about so many elements, and a plane of rows.
ROW, PLANE = 1 << 10, 1 << 14
#: The most steps that follow one another.
MOST_STEPS = 16
#: The share of values that come from memory.
MOVED = 0.3


def pipelined(problem: Problem, name: str) -> Iterator[Offer]:
    """The offers of fields over steps: a block of steps runs through the rows, one step behind the other."""
    names = members_of(problem, name)
    folds = list(folds_of(problem, names))
    if any(each.beside for each in folds):
        return  # a reader of whole levels: none is complete before the last step of a block
    kept = problem.function.copy()
    for each in folds:
        each.apply(kept)
    program = kept.program
    statements = tuple(each for source in names for each in program.statements_of(source))
    depths = {len(each.loops) for each in statements}
    if len(depths) != 1 or min(depths) < 3 or any(each.role is not Role.VALUE for each in statements):
        return
    dependences = LoopDependences(program, statements)
    if any(each.loops[-1] in dependences.carrying for each in statements):
        return
    if not {each.loops[0] for each in statements} <= dependences.carrying:
        return
    try:
        band = permutable_band(program, [each.name for each in statements], program.loop_names(statements[0])[:2])
    except CommandError:
        return
    found = _Pipeline(problem, names, folds, statements, band)
    if not band.turned and found.fits:
        yield found.offer(name)


@dataclass(frozen=True, eq=False)
class _Pipeline:
    """Statements over steps and rows, and the commands that make these loops a band."""

    problem: Problem
    names: tuple[str, ...]
    folds: Sequence[KeptLevels]
    statements: tuple[Statement, ...]
    band: Band

    def offer(self, name: str) -> Offer:
        steps, (time, rows) = self._steps(), self.band.loops
        threads = self.problem.threads > 1
        what = f"{steps} steps of {time} follow one another along {rows}"
        declared = self.problem.computation(name)
        return Offer(
            name, f"{what}{', threads share tiles of a wavefront' if threads else ''}",
            f"what a step needs of the one before is near it along {rows}, and still in the cache",
            self._in_waves if threads else self._in_turn, self.names,
            self.problem.work(name, declared.iterators[-1], self.problem.lanes(name), moved=MOVED), is_tiled=True,
        )  # fmt: skip

    @property
    def fits(self) -> bool:
        """Whether the planes that two steps use are in the cache together; rows always are."""
        return len(self.statements[0].loops) == 3 or self._bytes(2) <= self.problem.cpu.second

    def _bytes(self, steps: int) -> int:
        """The bytes of the planes that a block of steps uses."""
        return self._planes(steps) * PLANE * self._element

    def _planes(self, steps: int) -> int:
        """How many planes a block of steps uses: those between its first and its last step, and their neighbours."""
        problem, rows = self.problem, self.problem.computation(self.names[0]).iterators[1]
        touched = [touch for each in self.names for touch in problem.touches(each)]
        own = [touch for touch in touched if touch.access.source in self.names and len(touch.forms) > 1]
        reach = max(abs(touch.offset(1, rows) or 0) for touch in own)
        levels = dict.fromkeys(self.names, 1) | {each.source: each.levels for each in self.folds}
        others = {touch.access.source for touch in touched if len(touch.forms) > 2} - {*self.names}
        behind = reach * steps
        return (behind + 2 * reach + 1) * sum(levels.values()) + (behind + 1) * len(others)

    @property
    def _element(self) -> int:
        return max(self.problem.computation(each).dtype.bytes for each in self.names)

    def _steps(self) -> int:
        """How many steps: what they use of rows fills half of the second cache; of planes it is twice as large as that
        cache, and so half in the next one.
        """
        if len(self.statements[0].loops) > 3:
            near = [steps for steps in (4, 8, MOST_STEPS) if self._bytes(steps) <= 2 * self.problem.cpu.second]
            return max([2, *near])
        levels = max(2, len(self.names))
        most = self.problem.cpu.second // (2 * ROW * self._element * levels)
        return max(2, min(MOST_STEPS, 1 << max(most.bit_length() - 1, 0)))

    def _in_turn(self, function: Function) -> None:
        """Blocks of steps outside, then rows, then the steps of a block."""
        (time, rows), outer = self._joined(function), Fresh(function)(f"{self.band.loops[0]}0")
        base = function[self.statements[0].source]
        base.split(time, self._steps(), outer, time)
        base.reorder(outer, rows, time)
        self._vectors(function)

    def _in_waves(self, function: Function) -> None:
        """Tiles of steps and rows; those with one sum of their numbers run on threads."""
        (time, rows), fresh, steps = self._joined(function), Fresh(function), self._steps()
        outer, tile, wave = fresh(f"{time.name}0"), fresh(f"{rows.name}0"), fresh("wave")
        base = function[self.statements[0].source]
        base.split(time, steps, outer, time)
        base.split(rows, 2 * steps, tile, rows)
        base.reorder(outer, tile, rows, time)
        base.transform([outer, tile], [[1, 1], [0, 1]], [wave, tile])
        base.parallelize(tile)
        self._vectors(function)

    def _joined(self, function: Function) -> tuple[Iter, Iter]:
        """Make the band; its loops over steps and rows."""
        for each in self.folds:
            each.apply(function)
        for command in self.band.commands:
            function.apply(command)
        time, rows = map(Iter, self.band.loops)
        return time, rows

    def _vectors(self, function: Function) -> None:
        for each in self.statements:
            now = function.program.statements[each.name]
            last = Iter(function.program.loop_names(now)[-1])
            function[each.source].vectorize(last, self.problem.lanes(each.source), remainder="mask")


#: In three dimensions the halos of tiles cost as much as they save, unless a level is far larger than all caches.
MOST_DIMENSIONS = 2
#: The share of values that come from memory, if tiles compute several levels.
MOVED_BY_TILES = 0.25


def tiled_over_time(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a field whose levels are computed from earlier ones, the outermost loop being time."""
    declared = problem.computation(name)
    own = problem.reads_of(name, name)
    if len(declared.iterators) < 2 or declared.group or not own:
        return
    time, *space = declared.iterators
    if len(space) > MOST_DIMENSIONS:
        return
    if any((touch.offset(0, time) or 0) >= 0 for touch in own):
        return
    offsets = [[touch.offset(axis, each) for axis, each in enumerate(space, 1)] for touch in own]
    if any(None in each for each in offsets) or not any(any(each) for each in offsets):
        return
    yield Offer(
        name, f"tiles over {', '.join((time, *space))} that compute several levels of {time} in the cache",
        f"a level of {name} needs only neighbours in earlier ones: a tile is read once for several levels",
        lambda function: time_stencil(function[name], cpu=problem.cpu), (name, *_copies(problem, name)),
        problem.work(name, space[-1], problem.lanes(name), moved=MOVED_BY_TILES), is_tiled=True,
    )  # fmt: skip


def _copies(problem: Problem, name: str) -> list[str]:
    """The outputs that are a part of a field, with at least two loops: the recipe gives them their loops."""
    found = []
    for each in problem.readers[name]:
        declared = problem.computation(each)
        alone = {touch.access.source for touch in problem.touches(each)} == {name}
        if each != name and alone and each in problem.algorithm.outputs and len(declared.iterators) > 1:
            found.append(each)
    return found
