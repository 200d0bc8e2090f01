"""time_tile: overlapped tiles in time and space; each tile recomputes the values that it needs of its neighbours.

A *pass* is a run of `steps` levels of time. Within a pass each tile computes its own part of the last level and, at
each earlier level, that part widened by the halo that later levels need. Levels inside a pass are kept in a buffer of
the tile; the values that the next pass reads are stored to the arrays of the computations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from itertools import pairwise

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.values_read import existing
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import in_place_of
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import MemoryUse, Role, Statement
from tiramisu_py.program.storage import Buffer, Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, loop_name, size, statements, whole
from tiramisu_py.schedule.command_fields import OnStatements, StatementsHandle, statements_given
from tiramisu_py.schedule.locality.time_levels import Passes, TimeTile


def wanted(
    time: object, steps: object, tiles: object, outer: object, origin: object, wavefront: object = None
) -> TimeTile:
    """The arguments of `time_tile`, checked."""
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
    names = tuple(loop_name(given) for given in outer)
    return TimeTile(name, count, sizes, names, whole(origin, "origin"), _wavefront(wavefront, sizes))


def _wavefront(given: object, sizes: Mapping[str, int]) -> tuple[str, int] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or len(given) != 1:
        raise CommandError(f"wavefront={given!r}: give a dict of one loop to a number of rows, as in {{y: 8}}")
    ((loop, rows),) = given.items()
    if loop_name(loop) not in sizes:
        raise CommandError(
            f"wavefront={{{loop_name(loop)}: {rows}}}: tiles are along {', '.join(sizes)}; name one of these"
        )
    return loop_name(loop), size(rows, "the number of rows of a wavefront")


def time_tile(program: Program, names: Sequence[str], asked: TimeTile, command: str) -> Program:
    """Compute the statements of a time step in overlapped tiles of several levels."""
    chosen = statements(program, names)
    for statement in chosen:
        _check(program, statement, asked)
    return _Tiling(Passes(program, chosen, asked), command).applied(program)


def _check(program: Program, statement: Statement, asked: TimeTile) -> None:
    if statement.role is not Role.VALUE:
        raise CommandError(f"{statement.handle} is a reduction or a copy: time_tile takes only values of a level")
    own = value_names(program.algorithm.source(statement.source))
    if not own or own[0] != asked.time:
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
    taken = [name for name in asked.outer if name in own]
    if taken or len(set(asked.outer)) < len(asked.outer):
        raise CommandError(f"the loops over passes and tiles need names of their own, not {', '.join(asked.outer)}")
    tagged = [program.loops[loop] for loop in statement.loops if program.loops[loop].tag]
    if tagged:
        raise CommandError(f"loop {tagged[0].name} is tagged by {tagged[0].tagged_by}: tile before tagging it")
    storage = program.storages[statement.memory.target]
    if storage.name != statement.source or program.buffers[storage.buffer].scope:
        raise CommandError(f"{statement.name} has a buffer local to a loop: choose one for the whole call")


class _Tiling:
    """One tiling of a time step, and the loops that its statements share: over passes, over tiles, and over levels."""

    def __init__(self, passes: Passes, command: str) -> None:
        self.passes = passes
        self.asked = passes.asked
        self.command = command
        first = passes.program.next_loop()
        blocks = () if self.asked.wavefront is None else (f"{self.asked.wavefront[0]}1",)
        names = (*self.asked.outer, *blocks, self.asked.time)
        self.loops = tuple(Loop(first + k, name) for k, name in enumerate(names))
        self.shared = tuple(loop.id for loop in self.loops)
        self.scope = self.shared[: len(self.asked.outer)]
        self.context = passes.program.context.params()
        self.local = {source: free_name(passes.program, f"{source}_tile") for source in passes.sources}

    def applied(self, program: Program) -> Program:
        """The program with the time step in tiles."""
        program = program.with_loop(*self.loops)
        old = {loop for s in self.passes.steps for loop in s.loops}
        level = self.shared[-1]
        program = program.with_(orders=tuple(replace(o, level=level) if o.level in old else o for o in program.orders))
        parts: dict[str, list[str]] = {}
        for statement in self.passes.steps:
            program, parts[statement.name] = self._parts(program, statement)
        program = program.with_(orders=(*program.orders, *self._within_levels(parts)))
        for source in self.passes.sources:
            program = stored(program, self.passes, source, self.local[source], self.scope)
        program = self._copies(program, [name for made in parts.values() for name in made])
        used = {loop for s in program.statements.values() for loop in s.loops}
        return program.with_(loops={number: loop for number, loop in program.loops.items() if number in used})

    def _within_levels(self, parts: Mapping[str, list[str]]) -> Iterable[Order]:
        """The orders between the computation of a value and its reads in the same level."""
        for d in self.passes.reads:
            for writer in self.passes.steps:
                if d.least == 0 and writer.source == d.source and writer.name != d.reader:
                    for a in parts[writer.name]:
                        yield from (Order(a, b, self.shared[-1], self.command) for b in parts[d.reader])

    # -- parts that compute

    def _parts(self, program: Program, statement: Statement) -> tuple[Program, list[str]]:
        """A statement's parts: by what they read from the previous pass, and by whether the next pass reads them."""
        of, made, only = self.passes, list[Statement](), list[Statement]()
        region = of.region(statement.instances, statement.source, statement.name)
        space = region.get_space()
        starts = [0, *sorted(set(of.starts(statement).values()) - {0}), self.asked.steps]
        last = of.last(space, 1) if of.is_direct(statement.source) else sets.empty(space)
        for number, (begin, end) in enumerate(pairwise(starts)):
            levels = region.intersect(of.levels(space, begin, end))
            early = number < len(starts) - 2
            for is_last, cut in ((False, levels.subtract(last)), (True, levels.intersect(last))):
                piece = cut.intersect_params(self.context).coalesce()
                if not piece.is_empty():
                    name = f"{statement.name}_{_role(number, early, is_last)}"
                    program, part = self._part(program, statement, name, piece, begin, is_last)
                    (only if early and is_last else made).append(part)
        made += only
        return in_place_of(program, statement, made), [part.name for part in made]

    def _part(
        self, program: Program, statement: Statement, name: str, piece: isl.Set, begin: int, is_last: bool
    ) -> tuple[Program, Statement]:
        check_new_name(program, name, f"a part of {statement.name}")
        program, dims, loops = self._inner(program, statement.dims, statement.dims[1:], self.shared)
        instances = sets.with_dims(sets.named(piece, name), dims)
        space = instances.get_space()
        own = sets.function(space, statement.name, sets.variables(space)[len(self.asked.outer) :])
        in_tile = [source for source, first in self.passes.starts(statement).items() if first <= begin]
        part = replace(
            statement,
            name=name,
            dims=dims,
            instances=instances,
            point=sets.compose(own, statement.point),
            coords=self._coords(space, statement.source),
            loops=loops,
            memory=replace(
                statement.memory,
                sources={**statement.memory.sources, **{source: self.local[source] for source in in_tile}},
                target=statement.source if is_last else self.local[statement.source],
            ),
            origin=replace(statement.origin, part_of=(*statement.origin.part_of, statement.name)),
        )
        return program, part

    def _coords(self, space: isl.Space, source: str) -> isl.MultiAff:
        """The coordinates of an instance: its dimensions, with the block of a wavefront before its level."""
        forms = sets.variables(space)
        if self.asked.wavefront is not None:
            forms.insert(len(self.asked.outer), self.passes.block(space, source))
        return sets.function(space, None, forms)

    def _inner(
        self, program: Program, own: Sequence[str], names: Sequence[str], shared: tuple[LoopId, ...]
    ) -> tuple[Program, tuple[str, ...], tuple[LoopId, ...]]:
        """Names for the dimensions of a statement inside the tile loops, and fresh loops `names` inside `shared`."""
        first = program.next_loop()
        loops = [Loop(first + k, name) for k, name in enumerate(names)]
        dims = tuple(distinct([*self.asked.outer, *own]))
        return program.with_loop(*loops), dims, shared + tuple(loop.id for loop in loops)

    # -- copies

    def _copies(self, program: Program, computing: Sequence[str]) -> Program:
        """The program with copies: of levels of the previous pass into tiles, and of levels for the next pass out."""
        for source in self.passes.sources:
            region = self.passes.region(sets.named(existing(program, source), None), source, source)
            loaded = region.intersect(self.passes.before(region.get_space(), source))
            if not loaded.is_empty():
                self._check_rows(source, "reads reach back more than a level")
                program, name = self._copy(program, source, "load", loaded, source, self.local[source])
                program = self._ordered(program, [(name, other) for other in computing])
            left = region.intersect(self.passes.left(region.get_space(), source))
            if not left.is_empty():
                self._check_rows(source, "the last levels of a pass are read in the tile too")
                program, name = self._copy(program, source, "store", left, self.local[source], source)
                program = self._ordered(program, [(other, name) for other in computing])
        return program

    def _check_rows(self, source: str, why: str) -> None:
        if self.asked.wavefront is not None:
            raise CommandError(f"a wavefront keeps few rows of each level, but {source} is copied, since {why}")

    def _ordered(self, program: Program, pairs: Iterable[tuple[str, str]]) -> Program:
        orders = (Order(a, b, self.scope[-1], self.command) for a, b in pairs)
        return program.with_(orders=(*program.orders, *orders))

    def _copy(
        self, program: Program, source: str, what: str, copied: isl.Set, origin: str, target: str
    ) -> tuple[Program, str]:
        """A statement that copies levels between the array of a source and the buffer of the tile."""
        declared = program.algorithm.computations[source]
        name = free_name(program, f"{source}_{what}")
        program, dims, loops = self._inner(program, declared.iterators, declared.iterators, self.scope)
        instances = sets.named(copied.intersect_params(self.context).coalesce(), name)
        instances = sets.with_dims(instances, dims)
        space = instances.get_space()
        statement = Statement(
            name=name,
            source=source,
            role=Role.COPY,
            dims=dims,
            instances=instances,
            point=sets.function(space, source, sets.variables(space)[len(self.asked.outer) :]),
            loops=loops,
            coords=sets.renamed(sets.identity(space), None),
            body=Access(source, tuple(map(Iter, declared.iterators)), declared.dtype),
            memory=MemoryUse(target=target, sources={} if origin == source else {source: origin}),
        )
        return program.with_statement(statement), name


def _role(number: int, early: bool, is_last: bool) -> str:
    """The name of a part: of `early` levels, which read the arrays, in groups by number, or of later levels."""
    if early:
        return ("only" if is_last else "first") + (str(number + 1) if number else "")
    return "last" if is_last else "inner"


# -- the commands as values


@dataclass(frozen=True, eq=False)
class TimeTiles(OnStatements):
    """Compute several levels of time in one tile of space; each tile also computes the halo that they need.

    ::

        for t, for y, for x:    -->   for t0:                                passes of 13 levels
            heat[t, y, x]                 for y0, for x0:                    tiles: independent of each other
                                              for t in pass t0:
                                                  for y, for x: heat_tile[t, y, x]   (the tile and its halo)
                                              (the last level of the pass: to the array of heat)
                                      (time_tile(t, 13, {y: 64, x: 1024}))

    A pass computes `steps` levels, those with the same ``floor((t - origin) / steps)``; the number of levels need
    not be a multiple of `steps`. At the last level of a pass each tile computes its own points; at the level before
    also the points that these read, and so on: the *halo*, which neighbouring tiles compute as well. So the tiles
    of a pass are independent: ``heat.parallelize(y0, x0)``. Levels inside a pass are kept in a buffer of the tile,
    one more than the levels that reads reach back; the last level (or as many as reads reach back) goes to the
    array of heat, where the next pass reads it. That array holds two passes alternately, unless `store_in` gave it
    another layout before.

    `tiles` gives the size of tiles by loop; other loops run in full. The new loops are named t0, y0 and x0, or as
    `outer` says; inside, t, y and x keep their names and their values. `together` are other computations of the
    same step, which read each other: the tile computes each level of all of them. Reads must be at constant
    distances along the tiled loops.

    With ``wavefront={y: 8}`` the levels of a tile advance together, 8 rows at a time: a loop y1 over blocks of rows
    surrounds t, and each level is one row (or as far as reads reach) behind the previous one. The buffer then keeps
    only a ring of rows of each level, so that a tile may be tall, with little halo, and the values that a level
    reads have just been computed. A wavefront requires that all reads are of the previous level.

    With ``heat.vectorize(x, 16, remainder="mask")`` the vectors of all levels begin where those of the buffer do,
    whatever column a level begins at. To jam rows too, first cut off the border (`separate_cases`), and jam only
    the parts of the inside.

    Returns the parts of this computation that exist, to be scheduled separately: ``heat_first``, the first levels
    of passes, which read the values that the previous pass stored; ``heat_inner``; ``heat_last``, which stores for
    the next pass; ``heat_only``, for a (last) pass of one level. If reads reach back more than one level, or values
    of the last level are read in that level, there are also copies, ``heat_load`` and ``heat_store``. Commands on
    the computation apply to all parts: ``heat.vectorize(x, 16)``.

    Raises `CommandError` for a loop that is not over time, for reads at no constant distance, if levels other than
    the last are read after the time loop, and after other commands on these loops.
    """

    verb = "time_tile"
    lists = ("outer",)

    time: Iter
    steps: int
    tiles: Mapping[Iter, int]
    outer: Sequence[Iter] | None = None
    _: KW_ONLY
    together: Sequence[StatementsHandle] = ()
    origin: int = 0
    wavefront: Mapping[Iter, int] | None = None

    def applied(self, program: Program) -> Program:
        if not isinstance(self.together, list | tuple):
            raise CommandError(f"together={self.together!r}: give a list of computations, [{self.together!r}]")
        together = [name for each in self.together for name in statements_given(program, each)]
        names = dict.fromkeys([*self.names(program), *together])
        asked = wanted(self.time, self.steps, self.tiles, self.outer, self.origin, self.wavefront)
        return time_tile(program, list(names), asked, self.text)


# -- storage for the levels of time tiles


#: Rows of a tile's buffer, and the tile's own points in them, begin at multiples of this number of elements.
ALIGNED = 16


def stored(program: Program, passes: Passes, source: str, local: str, scope: tuple[LoopId, ...]) -> Program:
    """The program with a buffer `local` for each tile, and the array folded to the levels that passes exchange."""
    asked, own = passes.asked, program.algorithm.computations[source].iterators
    space = sets.sized_frame(program.algorithm.param_space, None, len(scope) + len(own))
    outer, inner = sets.variables(space)[: len(scope)], sets.variables(space)[len(scope) :]
    if asked.wavefront is None:
        levels = passes.reach(source) + 1
        index, extents = [sets.modulo(inner[0], levels)], [_constant(levels)]
    else:
        levels = asked.steps - 1 if passes.is_direct(source) else asked.steps
        index, extents = [passes.number(outer[0], inner[0])], [_constant(max(levels, 1))]
    whole = extents_of(existing(program, source), program.context)
    for axis, dim in enumerate(own[1:], 1):
        if dim not in asked.tiles:
            index.append(inner[axis])
            extents.append(whole[axis])
            continue
        if asked.wavefront is not None and dim == asked.wavefront[0]:
            index.append(sets.modulo(inner[axis], passes.ring(source)))
            extents.append(_constant(passes.ring(source)))
            continue
        below, above = passes.halo[dim]
        most = asked.steps - 1 + passes.copied_in(source)
        by, rounded = asked.tiles[dim], ALIGNED if axis == len(own) - 1 else 1
        before = _up(below.slope * most + below.offsets[source], rounded)
        room = _up(before + by + above.slope * most + above.offsets[source], rounded)
        corner = sets.scaled(outer[1 + passes.dims.index(dim)], by)
        index.append(sets.plus(inner[axis].sub(corner), before))
        extents.append(_constant(room))
    buffer = Buffer(local, tuple(extents), program.algorithm.computations[source].dtype, scope=scope)
    program = program.with_buffer(buffer)
    program = program.with_storage(Storage(local, source, local, sets.function(space, None, index)))
    return _folded(program, passes, source)


def _folded(program: Program, passes: Passes, source: str) -> Program:
    """The program with a source's array folded to the levels that two passes keep, unless the user chose a layout."""
    storage, asked = program.storages[source], passes.asked
    if storage.chosen or storage.buffer != source or program.buffers[source].argument:
        return program
    kept = max(passes.kept[source], 1)
    space = storage.index.get_space().domain()
    level, *rest = sets.variables(space)
    number = sets.floor_div(sets.plus(level, -asked.origin), asked.steps)
    index, extents = [sets.modulo(number, 2)], [_constant(2)]
    if kept > 1:
        index.append(sets.modulo(level, kept))
        extents.append(_constant(kept))
    whole = extents_of(existing(program, source), program.context)
    program = program.with_buffer(replace(program.buffers[source], extents=(*extents, *whole[1:]), passed=None))
    return program.with_storage(replace(storage, index=sets.function(space, None, [*index, *rest]), chosen=True))


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _constant(value: int) -> Expr:
    return Const(value, int64)
