"""Passes of a time step: the region that each tile computes at each level, and what one pass keeps for the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.dependence.values_read import existing, needed_values
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.locality.time_halos import Halo, distances, halos


@dataclass(frozen=True)
class TimeTile:
    """The arguments of `time_tile`: levels per pass, tile sizes by dimension, and names for the outer loops.

    With a `wavefront` (a dimension and a number of rows) the levels of a tile advance together by that many rows.
    """

    time: str
    steps: int
    tiles: Mapping[str, int]
    outer: tuple[str, ...]
    origin: int = 0
    wavefront: tuple[str, int] | None = None


class Passes:
    """The statements of one time step in passes of several levels, tile by tile.

    `reads` are the distances of their reads, `halo` is the growth of tiles by dimension, `top` is the last level of the
    last pass, and `kept` is the number of levels of each source that are read after their pass.
    """

    def __init__(self, program: Program, steps: Sequence[Statement], asked: TimeTile) -> None:
        self.program = program
        self.steps = steps
        self.asked = asked
        self.dims = tuple(asked.tiles)
        self.sources = tuple(dict.fromkeys(s.source for s in steps))
        self.names = {s.name for s in steps}
        self._check_whole()
        self.reads = distances(program, steps, self.sources, asked.time, self.dims)
        self.halo: dict[str, tuple[Halo, Halo]] = {
            dim: halos(self.reads, self.sources, dim, position, asked.time) for position, dim in enumerate(self.dims)
        }
        self.top = self._top()
        self.kept = {source: self._kept(source) for source in self.sources}

    def _check_whole(self) -> None:
        for source in self.sources:
            parts = [s.name for s in self.program.statements_of(source) if s.name not in self.names]
            if parts:
                raise CommandError(f"{', '.join(parts)} compute values of {source} too: tile all of {source}")
        for statement in self.steps:
            for loop in statement.loops:
                for other in self.program.with_this_loop(loop):
                    if other.name not in self.names:
                        raise CommandError(
                            f"{statement.name} shares loop {self.program.loops[loop].name} with {other.name}: name it "
                            f"in together=[...], or let it have loops of its own"
                        )
            copied = [source for source in self.sources if source in statement.memory.sources]
            if copied:
                raise CommandError(f"{statement.name} reads a copy of {copied[0]}: tile before copying")

    def _top(self) -> isl.Aff:
        """The last level of the last pass, as a form of the parameters."""
        every = sets.union_of(sets.component_of(existing(self.program, source), 0) for source in self.sources)
        try:
            found = sets.pieces(sets.largest(every.intersect_params(self.program.context.params()), 0))
        except isl.Error:
            found = []
        if len(found) != 1:
            raise CommandError(f"there is no last level of {self.asked.time} that is affine in the parameters")
        return found[0]

    def _last_level(self) -> Expr:
        return of_params(self.top.to_pw_aff(), self.program.context)

    def _kept(self, source: str) -> int:
        """The number of levels at the end of a pass that are read after it."""
        back = self.reach(source)
        if source in self.program.algorithm.outputs:
            last = ", ".join([str(self._last_level()), *self.program.algorithm.computations[source].iterators[1:]])
            raise CommandError(
                f"{source} is an output with the values of all levels, and a pass keeps only its last levels: make the "
                f"last level the output, {self.program.algorithm.name}.outputs({source}[{last}], replace=True)"
            )
        if back > self.asked.steps:
            raise CommandError(
                f"{source} is read {back} levels back, and a pass has {self.asked.steps}: give it {back} levels or more"
            )
        outside = [s for s in self.program.acting if s.name not in self.names]
        for reader in outside:
            values = needed_values(self.program, reader, source).range()
            if not values.is_empty():
                self._check_last(reader, source, values)
                back = max(back, 1)
        return back

    def _check_last(self, reader: Statement, source: str, values: isl.Set) -> None:
        levels = sets.component_of(values.intersect_params(self.program.context.params()), 0)
        x = sets.variables(levels.get_space())[0]
        top = sets.on_frame(self.top, levels.get_space())
        if not levels.subtract(_equal(x, top)).is_empty():
            raise CommandError(
                f"{reader.name} reads {source} at other levels than the last one, but a pass keeps only the last one"
            )

    # -- reads

    def is_direct(self, source: str) -> bool:
        """Whether the last level of a pass is stored to the array that the next pass reads, not to the tile."""
        same_level = any(d.source == source and d.least == 0 for d in self.reads)
        wide = any(halo.offsets[source] for sides in self.halo.values() for halo in sides)
        return self.kept[source] > 0 and not same_level and not wide

    def starts(self, statement: Statement) -> dict[str, int]:
        """For each source, the first level of a pass that reads it from the tile; earlier levels read the array."""
        mine = [d for d in self.reads if d.reader == statement.name]
        sources = dict.fromkeys(d.source for d in mine)
        return {source: min(d.least for d in mine if d.source == source) for source in sources}

    def reach(self, source: str) -> int:
        """How many levels back a source is read at most."""
        return max((d.most for d in self.reads if d.source == source), default=0)

    def copied_in(self, source: str) -> int:
        """The number of previous levels that a tile copies, because some read reaches both them and its own levels."""
        reads = [[d for d in self.reads if d.reader == s.name and d.source == source] for s in self.steps]
        return max((max(d.most for d in mine) - min(d.least for d in mine) for mine in reads if mine), default=0)

    # -- wavefronts

    def block(self, frame: isl.Space, source: str) -> isl.Aff:
        """The number of the block of rows, along the wavefront, in which an instance of a tile runs."""
        assert self.asked.wavefront is not None
        dim, rows = self.asked.wavefront
        below, above = self.halo[dim]
        variables = sets.variables(frame)
        own = value_names(self.program.algorithm.source(source))
        at = variables[len(self.asked.outer) + own.index(dim)]
        corner = sets.scaled(variables[1 + self.dims.index(dim)], self.asked.tiles[dim])
        before = below.slope * (self.asked.steps - 1) + max(below.offsets.values()) + max(above.offsets.values())
        level = sets.scaled(self.since(frame), above.slope)
        moved = at.sub(corner).add(level)
        return sets.floor_div(sets.plus(moved, before - above.offsets[source]), rows)

    def ring(self, source: str) -> int:
        """The number of rows of a level that a source's readers need at a time, in whole blocks of the wavefront."""
        assert self.asked.wavefront is not None
        dim, rows = self.asked.wavefront
        position, above = self.dims.index(dim), self.halo[dim][1]
        apart = [
            d.below[position] + above.slope * d.most + above.offsets[source] - above.offsets[d.by]
            for d in self.reads
            if d.source == source
        ]
        return -(-(rows + max([0, *apart])) // rows) * rows

    # -- sets

    def region(self, instances: isl.Set, source: str, name: str) -> isl.Set:
        """The instances of a source that tiles compute: ``name[pass, tiles..., level, point...]``."""
        space = instances.get_space()
        outer = sets.universe(sets.sized_frame(space, None, len(self.asked.outer)))
        region = sets.flat_product(outer, instances, name)
        frame = region.get_space()
        variables = sets.variables(frame)
        own = value_names(self.program.algorithm.source(source))
        at = dict(zip(own, variables[len(self.asked.outer) :], strict=False))
        left = self.following(frame)
        for position, (dim, by) in enumerate(self.asked.tiles.items()):
            tile = variables[1 + position]
            below, above = self.halo[dim]
            start = sets.scaled(tile, by)
            for more in left if below.slope or above.slope else left[:1]:
                low = at[dim].sub(start).add(sets.scaled(more, below.slope))
                high = start.sub(at[dim]).add(sets.scaled(more, above.slope))
                region = region.intersect(_nonnegative(sets.plus(low, below.offsets[source])))
                region = region.intersect(_nonnegative(sets.plus(high, by - 1 + above.offsets[source])))
            region = region.intersect(sets.preimage(self._tiles(dim, by), sets.function(frame, None, [tile])))
        return region

    def _tiles(self, dim: str, by: int) -> isl.Set:
        """The tiles with at least one point of their own, outside the halo."""
        parts = list[isl.Set]()
        for source in self.sources:
            axis = value_names(self.program.algorithm.source(source)).index(dim)
            points = sets.component_of(existing(self.program, source), axis)
            of = sets.floor_div(sets.variables(points.get_space())[0], by)
            parts.append(points.apply(sets.graph(sets.function(points.get_space(), None, [of]))))
        return sets.union_of(parts).intersect_params(self.program.context.params()).coalesce()

    def since(self, frame: isl.Space) -> isl.Aff:
        """The number of a level within its pass."""
        variables = sets.variables(frame)
        return self.number(variables[0], variables[len(self.asked.outer)])

    def number(self, of: isl.Aff, level: isl.Aff) -> isl.Aff:
        """The number of a level within a pass."""
        return sets.plus(level.sub(sets.scaled(of, self.asked.steps)), -self.asked.origin)

    def following(self, frame: isl.Space) -> list[isl.Aff]:
        """The number of levels that follow in the pass: the minimum of the two forms."""
        level = sets.variables(frame)[len(self.asked.outer)]
        return [
            sets.plus(self.since(frame).neg(), self.asked.steps - 1),
            sets.on_frame(self.top, frame).sub(level),
        ]

    def levels(self, frame: isl.Space, begin: int, end: int) -> isl.Set:
        """The levels of a pass numbered from `begin` up to, but excluding, `end`."""
        return sets.within(self.since(frame), begin, end)

    def last(self, frame: isl.Space, count: int) -> isl.Set:
        """The last `count` levels of each pass."""
        full, cut = (_nonnegative(sets.plus(left.neg(), count - 1)) for left in self.following(frame))
        return full.union(cut)

    def before(self, frame: isl.Space, source: str) -> isl.Set:
        """The levels of the previous pass that a tile copies."""
        return sets.within(self.since(frame), -self.copied_in(source), 0)

    def left(self, frame: isl.Space, source: str) -> isl.Set:
        """A tile's own points in the levels kept for the next pass, except a level stored directly to the array."""
        levels = self.last(frame, self.kept[source]) if self.kept[source] else sets.empty(frame)
        if self.is_direct(source):
            levels = levels.subtract(self.last(frame, 1))
        found = levels.intersect(self.levels(frame, 0, self.asked.steps))
        variables = sets.variables(frame)
        own = value_names(self.program.algorithm.source(source))
        for position, (dim, by) in enumerate(self.asked.tiles.items()):
            at = variables[len(self.asked.outer) + own.index(dim)]
            found = found.intersect(sets.within(at.sub(sets.scaled(variables[1 + position], by)), 0, by))
        return found


def _nonnegative(form: isl.Aff) -> isl.Set:
    return sets.as_set(form.to_pw_aff().nonneg_set())


def _equal(a: isl.Aff, b: isl.Aff) -> isl.Set:
    return sets.as_set(a.to_pw_aff().eq_set(b.to_pw_aff()))
