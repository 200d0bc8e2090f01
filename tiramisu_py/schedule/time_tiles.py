"""time_tile: overlapped tiles in time and space; what a tile needs of its neighbours it computes itself.

A *pass* is a run of `steps` levels of time. Within a pass each tile computes its own part of the last level, and of
each level before what that one needs: its part, widened by a halo. Levels inside a pass are kept in a buffer of the
tile; what the next pass reads is stored to the arrays of the computations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter
from tiramisu_py.algorithm.extents import extents_of
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Storage
from tiramisu_py.schedule.needed import existing, needed_values
from tiramisu_py.schedule.parts import in_place_of
from tiramisu_py.schedule.recompute import distinct
from tiramisu_py.schedule.selection import check_new_name, free_name, loop_name, nest, size, statements
from tiramisu_py.schedule.steps import Distance, Halo, distances, halos

#: Rows of a tile's buffer begin at multiples of so many elements, and its own points too.
ALIGNED = 16


@dataclass(frozen=True)
class TimeTile:
    """What is asked for: levels of a pass, the sizes of tiles by dimension, and names for the loops outside."""

    time: str
    steps: int
    tiles: Mapping[str, int]
    outer: tuple[str, ...]
    origin: int = 0


def wanted(time: object, steps: object, tiles: object, outer: object, origin: object) -> TimeTile:
    """What `time_tile` is asked for, its arguments checked."""
    if not isinstance(tiles, Mapping) or not tiles:
        raise CommandError(f"tiles={tiles!r}: give a dict of the sizes of tiles by loop, as in {{y: 64, x: 1024}}")
    name, count = loop_name(time), size(steps, "the number of levels of a pass")
    sizes = {loop_name(dim): size(by, f"the size of tiles along {loop_name(dim)}") for dim, by in tiles.items()}
    if name in sizes:
        raise CommandError(f"{name} is the loop over time: give the number of its levels, and tiles along others")
    if outer is None:
        outer = [f"{dim}0" for dim in (name, *sizes)]
    if not isinstance(outer, list | tuple) or len(outer) != 1 + len(sizes):
        raise CommandError(f"outer={outer!r}: name {1 + len(sizes)} loops, over passes and over tiles along each loop")
    if isinstance(origin, bool) or not isinstance(origin, int):
        raise CommandError(f"origin={origin!r}: give the level, an integer, at which a pass begins")
    return TimeTile(name, count, sizes, tuple(loop_name(given) for given in outer), origin)


def time_tile(program: Program, names: Sequence[str], asked: TimeTile, command: str) -> Program:
    """Compute the statements of a time step in overlapped tiles of several levels."""
    chosen = statements(program, names)
    for statement in chosen:
        _check(program, statement, asked)
    return _Tiling(program, chosen, asked, command).applied()


def _check(program: Program, statement: Statement, asked: TimeTile) -> None:
    if statement.role is not Role.VALUE:
        raise CommandError(
            f"{statement.handle} is no plain value of a level: time_tile takes computations without reductions and copies"
        )
    own = value_names(program.algorithm.source(statement.source))
    if asked.time not in own or own[0] != asked.time:
        raise CommandError(f"{asked.time} is not the first iterator of {statement.source}: {nest(program, statement)}")
    missing = [dim for dim in asked.tiles if dim not in own]
    if missing:
        raise CommandError(f"no loop {missing[0]} here: {nest(program, statement)}")
    plain = sets.outputs(sets.prefix(statement.point, len(own)))
    coords = sets.outputs(statement.coords)
    same = len(plain) == len(coords) and all(a.plain_is_equal(b) for a, b in zip(plain, coords, strict=True))
    if not same or program.loop_names(statement) != tuple(own):
        raise CommandError(
            f"{nest(program, statement)}: time_tile comes before other commands on its loops ({', '.join(own)})"
        )
    tagged = [program.loops[loop] for loop in statement.loops if program.loops[loop].tag]
    if tagged:
        raise CommandError(f"loop {tagged[0].name} is tagged by {tagged[0].tagged_by}: tile before tagging it")
    if program.storages[statement.target].name != statement.source or program.buffers[statement.source].scope:
        raise CommandError(f"{statement.name} is kept in each iteration of some loops: choose a buffer of the whole call")


class _Tiling:
    """One tiling of a time step: who computes what, and where it is kept."""

    def __init__(self, program: Program, steps: Sequence[Statement], asked: TimeTile, command: str) -> None:
        self.program = program
        self.steps = steps
        self.asked = asked
        self.command = command
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
        self.local = {source: free_name(program, f"{source}_tile") for source in self.sources}

    # -- checks

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
            copied = [source for source in self.sources if source in statement.sources]
            if copied:
                raise CommandError(f"{statement.name} reads a copy of {copied[0]}: tile before copying")

    def _top(self) -> isl.Aff:
        """The last level of all, as a form of the parameters."""
        times = [sets.component_of(existing(self.program, source), 0) for source in self.sources]
        every = times[0]
        for other in times[1:]:
            every = every.union(other)
        try:
            found = sets.pieces(sets.largest(every.intersect_params(self.program.context.params()), 0))
        except isl.Error:
            found = []
        if len(found) != 1:
            raise CommandError(f"there is no last level of {self.asked.time} that is affine in the parameters")
        return found[0]

    def _kept(self, source: str) -> int:
        """How many levels at the end of a pass are read after it."""
        back = max((d.most for d in self.reads if d.source == source), default=0)
        if source in self.program.algorithm.outputs:
            raise CommandError(
                f"{source} is an output, with the values of all levels, and a pass keeps the last of its levels only: "
                f"make the last level the output, as in f.outputs({source}[T, ...])"
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
                f"{reader.name} reads {source} at other levels than the last one, and a pass keeps no others"
            )

    # -- the command

    def applied(self) -> Program:
        """The program with the time step in tiles."""
        names = (*self.asked.outer, self.asked.time)
        first = self.program.next_loop()
        self.loops = tuple(Loop(first + k, name) for k, name in enumerate(names))
        program = self.program.with_loop(*self.loops)
        old = {loop for s in self.steps for loop in s.loops}
        moved = tuple(replace(o, level=self.loops[-1].id) if o.level in old else o for o in program.orders)
        program = program.with_(orders=moved)
        parts: dict[str, list[str]] = {}
        for statement in self.steps:
            program, made = self._parts(program, statement)
            parts[statement.name] = made
        for source in self.sources:
            program = self._stored(program, source)
        program = program.with_(orders=(*program.orders, *self._orders(parts)))
        program = self._copies(program, [name for made in parts.values() for name in made])
        used = {loop for s in program.statements.values() for loop in s.loops}
        return program.with_(loops={number: loop for number, loop in program.loops.items() if number in used})

    def _orders(self, parts: Mapping[str, list[str]]) -> list[Order]:
        level = self.loops[-1].id
        found = []
        for d in self.reads:
            if d.least == 0:
                writers = [s.name for s in self.steps if s.source == d.source and s.name != d.reader]
                found += [
                    Order(a, b, level, self.command) for w in writers for a in parts[w] for b in parts[d.reader]
                ]
        return found

    # -- statements

    def _parts(self, program: Program, statement: Statement) -> tuple[Program, list[str]]:
        """A statement's parts: by what they read from the pass before, and whether the next pass reads them."""
        region = self._region(statement.instances, statement.source, statement.name)
        space = region.get_space()
        starts = sorted({d.least for d in self.reads if d.reader == statement.name and d.least > 0})
        made: list[Statement] = []
        early = [*starts, self.asked.steps]
        for number, end in enumerate(early):
            begin = 0 if number == 0 else early[number - 1]
            of = region.intersect(self._levels(space, begin, end))
            last = self._last(space, 1)
            for is_last, piece in ((False, of.subtract(last)), (True, of.intersect(last))):
                if self.direct(statement.source):
                    name = self._role(number, len(starts), is_last)
                elif is_last:
                    continue
                else:
                    name, piece = self._role(number, len(starts), False), of
                piece = piece.intersect_params(self.program.context.params()).coalesce()
                if not piece.is_empty():
                    program, part = self._part(program, statement, f"{statement.name}_{name}", piece, begin, is_last)
                    made.append(part)
        return in_place_of(program, statement, made), [part.name for part in made]

    def _role(self, number: int, early: int, is_last: bool) -> str:
        which = "" if number == 0 or number == early else str(number + 1)
        if number < early:
            return f"only{which}" if is_last else f"first{which}"
        return "last" if is_last else "inner"

    def _part(
        self, program: Program, statement: Statement, name: str, piece: isl.Set, begin: int, is_last: bool
    ) -> tuple[Program, Statement]:
        check_new_name(program, name, f"a part of {statement.name}")
        instances = sets.with_dims(sets.named(piece, name), self._dim_names(statement.dims))
        space = instances.get_space()
        own = sets.function(space, statement.name, sets.variables(space)[len(self.asked.outer) :])
        program, inner = self._inner(program, [program.loops[x].name for x in statement.loops[1:]])
        tile = [d.source for d in self.reads if d.reader == statement.name and d.least <= begin]
        direct = is_last and self.direct(statement.source)
        part = replace(
            statement,
            name=name,
            dims=tuple(self._dim_names(statement.dims)),
            instances=instances,
            point=sets.compose(own, statement.point),
            coords=sets.renamed(sets.identity(space), None),
            loops=tuple(loop.id for loop in self.loops) + inner,
            sources={**statement.sources, **{source: self.local[source] for source in tile}},
            target=statement.source if direct else self.local[statement.source],
            part_of=(*statement.part_of, statement.name),
        )
        return program, part

    def _inner(self, program: Program, names: Sequence[str]) -> tuple[Program, tuple[LoopId, ...]]:
        first = program.next_loop()
        loops = [Loop(first + k, name) for k, name in enumerate(names)]
        return program.with_loop(*loops), tuple(loop.id for loop in loops)

    def _dim_names(self, own: Sequence[str]) -> list[str]:
        return distinct([*self.asked.outer, *own])

    def direct(self, source: str) -> bool:
        """Whether the last level of a pass is computed where the next one reads it, and not kept in the tile."""
        same_level = any(d.source == source and d.least == 0 for d in self.reads)
        wide = any(halo.offsets[source] for sides in self.halo.values() for halo in sides)
        return self.kept[source] > 0 and not same_level and not wide

    # -- sets

    def _region(self, instances: isl.Set, source: str, name: str) -> isl.Set:
        """What tiles compute of a source: ``name[pass, tiles..., level, point...]``."""
        space = instances.get_space()
        outer = sets.universe(sets.sized_frame(space, None, len(self.asked.outer)))
        region = sets.flat_product(outer, instances, name)
        frame = region.get_space()
        variables = sets.variables(frame)
        own = value_names(self.program.algorithm.source(source))
        at = dict(zip(own, variables[len(self.asked.outer) :], strict=False))
        left = self._left(frame)
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
        """The tiles that have a point of their own."""
        found: isl.Set | None = None
        for source in self.sources:
            axis = value_names(self.program.algorithm.source(source)).index(dim)
            points = sets.component_of(existing(self.program, source), axis)
            of = sets.floor_div(sets.variables(points.get_space())[0], by)
            tiles = points.apply(sets.graph(sets.function(points.get_space(), None, [of])))
            found = tiles if found is None else found.union(tiles)
        assert found is not None
        return found.intersect_params(self.program.context.params()).coalesce()

    def _since(self, frame: isl.Space) -> isl.Aff:
        """The number of a level within its pass."""
        variables = sets.variables(frame)
        level = variables[len(self.asked.outer)]
        return sets.plus(level.sub(sets.scaled(variables[0], self.asked.steps)), -self.asked.origin)

    def _left(self, frame: isl.Space) -> list[isl.Aff]:
        """How many levels follow in the pass: the less of the two forms."""
        level = sets.variables(frame)[len(self.asked.outer)]
        return [
            sets.plus(self._since(frame).neg(), self.asked.steps - 1),
            sets.on_frame(self.top, frame).sub(level),
        ]

    def _levels(self, frame: isl.Space, begin: int, end: int) -> isl.Set:
        """The levels of a pass from one to before another."""
        return sets.within(self._since(frame), begin, end)

    def _last(self, frame: isl.Space, count: int) -> isl.Set:
        """The last levels of passes."""
        full, cut = (_nonnegative(sets.plus(left.neg(), count - 1)) for left in self._left(frame))
        return full.union(cut)

    # -- storage

    def _stored(self, program: Program, source: str) -> Program:
        """The program with a buffer for the tile, and the array of the source folded to what passes exchange."""
        declared = program.algorithm.computations[source]
        own, scope = declared.iterators, tuple(loop.id for loop in self.loops[:-1])
        space = sets.sized_frame(program.algorithm.param_space, None, len(scope) + len(own))
        variables = sets.variables(space)
        at = dict(zip(own, variables[len(scope) :], strict=True))
        levels = max((d.most for d in self.reads if d.source == source), default=0) + 1
        index, extents = [sets.modulo(at[self.asked.time], levels)], [Const(levels, int64)]
        whole = extents_of(existing(program, source), program.context)
        for axis, dim in enumerate(own[1:], 1):
            if dim not in self.asked.tiles:
                index.append(at[dim])
                extents.append(whole[axis])
                continue
            below, above = self.halo[dim]
            most = self.asked.steps - 1 + self._copied_in(source)
            before = below.slope * most + below.offsets[source]
            after = above.slope * most + above.offsets[source]
            by, rounded = self.asked.tiles[dim], ALIGNED if axis == len(own) - 1 else 1
            before = -(-before // rounded) * rounded
            room = -(-(before + by + after) // rounded) * rounded
            tile = variables[1 + list(self.asked.tiles).index(dim)]
            index.append(sets.plus(at[dim].sub(sets.scaled(tile, by)), before))
            extents.append(Const(room, int64))
        name = self.local[source]
        buffer = Buffer(name, tuple(extents), declared.dtype, scope=scope)
        program = program.with_buffer(buffer)
        program = program.with_storage(Storage(name, source, name, sets.function(space, None, index)))
        return self._folded(program, source)

    def _folded(self, program: Program, source: str) -> Program:
        """The array of a source with room for what two passes keep, unless the user chose another layout."""
        storage = program.storages[source]
        if storage.chosen or storage.buffer != source or program.buffers[source].argument:
            return program
        buffer, kept = program.buffers[source], max(self.kept[source], 1)
        space = storage.index.get_space().domain()
        level, *rest = sets.variables(space)
        number = sets.modulo(sets.floor_div(sets.plus(level, -self.asked.origin), self.asked.steps), 2)
        index, extents = [number], [Const(2, int64)]
        if kept > 1:
            index.append(sets.modulo(level, kept))
            extents.append(Const(kept, int64))
        whole = extents_of(existing(program, source), program.context)
        folded = replace(buffer, extents=(*extents, *whole[1:]))
        program = program.with_buffer(folded)
        return program.with_storage(replace(storage, index=sets.function(space, None, [*index, *rest]), chosen=True))

    # -- copies

    def _copied_in(self, source: str) -> int:
        """How many levels of the pass before a tile copies, since some read reaches them and the tile's own levels."""
        found = 0
        for statement in self.steps:
            mine = [d for d in self.reads if d.reader == statement.name and d.source == source]
            if mine:
                found = max(found, max(d.most for d in mine) - min(d.least for d in mine))
        return found

    def _copies(self, program: Program, computing: Sequence[str]) -> Program:
        level = self.loops[-2].id
        for source in self.sources:
            frame = sets.named(existing(program, source), None)
            region = self._region(frame, source, source)
            space = region.get_space()
            if count := self._copied_in(source):
                before = region.intersect(self._before(space, count))
                program, made = self._copy(program, source, "load", before, source, self.local[source])
                program = program.with_(
                    orders=(*program.orders, *(Order(made, name, level, self.command) for name in computing))
                )
            late = self._last(space, self.kept[source]) if self.kept[source] else None
            if late is not None and self.direct(source):
                late = late.subtract(self._last(space, 1))
            if late is None or (late := late.intersect(self._levels(space, 0, self.asked.steps))).is_empty():
                continue
            own = region.intersect(late).intersect(self._own(space, source))
            program, made = self._copy(program, source, "store", own, self.local[source], source)
            program = program.with_(
                orders=(*program.orders, *(Order(name, made, level, self.command) for name in computing))
            )
        return program

    def _before(self, space: isl.Space, count: int) -> isl.Set:
        """The last levels of the pass before."""
        return sets.within(self._since(space), -count, 0)

    def _own(self, space: isl.Space, source: str) -> isl.Set:
        """The points of a tile without its halo."""
        variables = sets.variables(space)
        own = value_names(self.program.algorithm.source(source))
        found = sets.universe(space)
        for position, (dim, by) in enumerate(self.asked.tiles.items()):
            at = variables[len(self.asked.outer) + own.index(dim)]
            found = found.intersect(sets.within(at.sub(sets.scaled(variables[1 + position], by)), 0, by))
        return found

    def _copy(
        self, program: Program, source: str, what: str, instances: isl.Set, origin: str, target: str
    ) -> tuple[Program, str]:
        """A statement that copies levels between the array of a source and the buffer of the tile."""
        declared = program.algorithm.computations[source]
        name = free_name(program, f"{source}_{what}")
        dims = self._dim_names(declared.iterators)
        instances = instances.intersect_params(self.program.context.params()).coalesce()
        instances = sets.with_dims(sets.named(instances, name), dims)
        space = instances.get_space()
        program, inner = self._inner(program, list(declared.iterators))
        statement = Statement(
            name=name,
            source=source,
            role=Role.COPY,
            dims=tuple(dims),
            instances=instances,
            point=sets.function(space, source, sets.variables(space)[len(self.asked.outer) :]),
            loops=tuple(loop.id for loop in self.loops[:-1]) + inner,
            coords=sets.renamed(sets.identity(space), None),
            body=Access(source, tuple(map(Iter, declared.iterators)), declared.dtype),
            target=target,
            sources={} if origin == source else {source: origin},
        )
        return program.with_statement(statement), name


def _nonnegative(form: isl.Aff) -> isl.Set:
    return sets.as_set(form.to_pw_aff().nonneg_set())


def _equal(a: isl.Aff, b: isl.Aff) -> isl.Set:
    return sets.as_set(a.to_pw_aff().eq_set(b.to_pw_aff()))

