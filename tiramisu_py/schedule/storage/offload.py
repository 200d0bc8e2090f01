"""offload: the levels of a recurrence are put in a file, and fetched again before they are read late.

The levels are the values at one index, t; the loop in which they are computed runs through them one by one. With
coordinates c of that loop, and of each loop in which levels are read late,

    [c] -> [level]   is   { [c] -> [l] : 0 <= c - sign * l - low <= span },   sign = 1 or -1, low affine in the sizes.

A level is fetched at ``sign * l + low - ahead`` and waited for at ``sign * l + low``. The buffer in memory is a ring:
the place of a level is that of ``l + sign * ring``, which is fetched once nobody reads l any more if
``ring > span + ahead``. Nothing of this is trusted: the program is proven like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, value_names
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import FILES, LOADS, STORES, Device, Role, Statement, Transfer, Waiting, device_words
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, size, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.devices.files import file_of
from tiramisu_py.schedule.devices.place_waits import idle
from tiramisu_py.schedule.devices.transfers import collapsed, with_transfer
from tiramisu_py.schedule.loops.transforms import reorder
from tiramisu_py.schedule.storage.fold import fold
from tiramisu_py.schedule.storage.one_buffer import check_all_parts


@dataclass(frozen=True, eq=False)
class Sweep:
    """The statements in one outermost loop that read `levels`, or compute them.

    Level l is first touched in iteration ``sign * l + low``, and last `span` iterations later.
    """

    loop: LoopId
    sign: int
    low: isl.Aff
    span: int
    levels: isl.Set
    statements: tuple[str, ...]


class Offloading:
    """The reads and the stores of one source, level by level along one index."""

    def __init__(self, program: Program, source: str, axis: int, index: str) -> None:
        self.program = program
        self.source = source
        self.axis = axis
        self.index = index
        self.accesses = MemoryAccesses(program)
        self.producers = program.statements_of(source)
        self.readers = [s for s in program.acting if s.source != source and source in self.accesses.sources(s)]
        self.device = self._where()

    def _where(self) -> Device:
        """Where the levels are computed and read: on the host, or on one GPU."""
        program, source = self.program, self.source
        device = program.device_of(self.producers[0])
        for statement in (*self.producers, *self.readers):
            if program.device_of(statement) != device:
                raise CommandError(
                    f"{self.producers[0].handle} runs on {device_words(device)}, and {statement.handle} on "
                    f"{device_words(program.device_of(statement))}: levels in a file are computed and read by one of "
                    "them; compute what the other reads in a computation of its own, and offload that"
                )
            if statement.link.transfer is not None or statement.link.message is not None:
                raise CommandError(f"{statement.handle} moves {source} already: offload comes before transfers")
        return device

    # -- levels by iterations

    def relation(self, statement: Statement, depth: int, values: isl.Map) -> isl.Map:
        """``[iteration of the loop at a depth] -> [level]`` of values that a statement touches."""
        instances = statement.instances.intersect_params(self.program.context)
        form = sets.outputs(statement.coords)[depth]
        loop = sets.graph(sets.function(statement.frame, None, [form]), instances)
        levels = sets.component(sets.range_named(values, None), self.axis)
        return loop.reverse().apply_range(levels).coalesce()

    def read_at(self, statement: Statement, depth: int) -> isl.Map:
        """The levels that a statement reads."""
        found = self.accesses.read_relation(statement, self.source)
        assert found is not None
        return self.relation(statement, depth, found)

    def stored_at(self, statement: Statement) -> isl.Map:
        """The levels that a statement computes."""
        return self.relation(statement, 0, sets.graph(self.program.value_of(statement), statement.instances))

    def own(self) -> Sweep:
        """The loop that computes the levels, and reads earlier ones; raises `CommandError`."""
        first = self.producers[0]
        loop = first.loops[0] if first.loops else None
        if loop is None or any(s.loops[:1] != (loop,) for s in self.producers):
            raise CommandError(
                f"the levels of {self.source} are computed in no loop of their own: {nest(self.program, first)}; "
                f"offload needs an outermost loop {self.index}"
            )
        stored = sets.union_of(self.stored_at(s) for s in self.producers)
        found = offsets(stored)
        if found is None or found[2] != 0:
            raise CommandError(
                f"loop {self.program.loops[loop].name} of {first.handle} does not compute one level {self.index} of "
                f"{self.source} after another: keep {self.index} its outermost loop"
            )
        sign, low, span = found
        inside = [s for s in (*self.producers, *self.readers) if s.loops[:1] == (loop,)]
        for statement in inside:
            if self.accesses.read_relation(statement, self.source) is not None:
                reach = interval(self.read_at(statement, 0), sign, low)
                if reach is None:
                    name = self.program.loops[loop].name
                    raise CommandError(f"loop {name} reads levels of {self.source} at any distance: all must stay")
                span = max(span, reach[1])
        return Sweep(loop, sign, low, span, stored.range().coalesce(), tuple(s.name for s in self.producers))

    def late(self, own: Sweep, ring: int) -> tuple[list[Statement], list[Statement]]:
        """The readers after the loop that computes levels: those that read the last ones, which are still in memory,
        and those that read more, or come after such.
        """
        after = [s for s in self.readers if s.loops[:1] != (own.loop,)]
        after.sort(key=lambda s: self.program.positions[s.name])
        last = own.levels.subtract(moved(own.levels, -own.sign * ring))
        for number, statement in enumerate(after):
            values = self.accesses.read_relation(statement, self.source)
            assert values is not None
            read = sets.component(sets.range_named(values, None), self.axis).range()
            if not read.intersect_params(self.program.context).is_subset(last):
                loops = {each.loops[:1] for each in after[number:]}
                late = [each for each in after if each in after[number:] or each.loops[:1] in loops]
                return [each for each in after if each not in late], late
        return after, []

    def depth_of_levels(self, statement: Statement) -> int:
        """The depth of the loop that goes through the levels which a statement reads; raises `CommandError`."""
        for depth in range(len(statement.loops)):
            if offsets(self.read_at(statement, depth)) is not None:
                return depth
        raise CommandError(
            f"{nest(self.program, statement)}, none of which goes through the levels {self.index} of {self.source} "
            "that it reads one by one: it needs them in memory together"
        )

    def passes(self, late: Sequence[Statement]) -> list[Sweep]:
        """The outermost loops in which levels are read late."""
        by_loop: dict[LoopId, list[Statement]] = {}
        for statement in late:
            by_loop.setdefault(statement.loops[0], []).append(statement)
        found = []
        for loop, inside in by_loop.items():
            relation = sets.union_of(self.read_at(s, 0) for s in inside)
            known = offsets(relation)
            if known is None:
                name = self.program.loops[loop].name
                raise CommandError(
                    f"{', '.join(s.handle for s in inside)} read levels {self.index} of {self.source} in different "
                    f"orders in loop {name}: give them loops of their own"
                )
            names = tuple(s.name for s in inside)
            found.append(Sweep(loop, *known, relation.range().coalesce(), names))
        return found


def offsets(relation: isl.Map) -> tuple[int, isl.Aff, int] | None:
    """The sign, the low end and the span of ``[c] -> [level]``; None if the span grows with the sizes."""
    for sign in (1, -1):
        least = sets.smallest_coordinate(distances(relation, sign), 0)
        for low in sets.pieces(least):
            found = interval(relation, sign, low)
            if found is not None:
                return sign, sets.plus(low, found[0]), found[1] - found[0]
    return None


def distances(relation: isl.Map, sign: int) -> isl.Set:
    """``c - sign * level`` of the pairs of ``[c] -> [level]``."""
    pairs = sets.named(sets.flat_pairs(relation, ""), None)
    c, level = sets.variables(pairs.get_space())
    distance = c.sub(level) if sign == 1 else c.add(level)
    return pairs.apply(sets.graph(sets.function(pairs.get_space(), None, [distance])))


def interval(relation: isl.Map, sign: int, low: isl.Aff) -> tuple[int, int] | None:
    """The least and the largest ``c - sign * level - low`` for any sizes; None if they grow with these."""
    found = distances(relation, sign)
    (distance,) = sets.variables(found.get_space())
    rest = distance.sub(sets.on_frame(low, found.get_space()))
    return sets.interval(sets.at_any_params(found.apply(sets.graph(sets.function(found.get_space(), None, [rest])))), 0)


def moved(levels: isl.Set, by: int) -> isl.Set:
    """The levels, each moved by a distance."""
    space = levels.get_space()
    (level,) = sets.variables(space)
    return levels.apply(sets.graph(sets.function(space, None, [sets.plus(level, by)])))


# -- the command


def offload(program: Program, source: str, names: Sequence[str], index: str, ahead: int, command: str) -> Program:
    """Put the levels `index` of a source that are read late in a file, and keep a ring of them in memory."""
    check_all_parts(program, statements(program, names), "offload")
    declared = program.algorithm.source(source)
    known = value_names(declared)
    if not isinstance(declared, Computation) or index not in known:
        raise CommandError(f"{index} is not an index of {source}: choose one of {', '.join(known)}")
    if file_of(program, source) is not None:
        raise CommandError(f"{source} is in a file already")
    axis = known.index(index)
    reads = Offloading(program, source, axis, index)
    own = reads.own()
    soon, late = reads.late(own, own.span + 1 + ahead)
    if not late:
        raise CommandError(
            f"nothing reads the levels {index} of {source} late: {source}.fold({index}, {own.span + 1}) keeps those "
            "that live, without a file"
        )
    program = _outermost(reads, late)
    reads = Offloading(program, source, axis, index)
    passes = reads.passes([program.statements[s.name] for s in late])
    ring = max(one.span for one in (own, *passes)) + 1 + ahead
    made = _Additions(program, source, axis, reads.device, command)
    made.store(own, sets.union_of(one.levels for one in passes).coalesce(), ring)
    for one in passes:
        made.fetch(one, ahead, [s.name for s in soon])
    return fold(made.program, source, names, Iter(index), ring)


def _outermost(reads: Offloading, late: Sequence[Statement]) -> Program:
    """The program in which the loops through levels that are read late are outermost ones."""
    program = reads.program
    for statement in late:
        depth = reads.depth_of_levels(statement)
        if depth:
            names = program.loop_names(statement)
            program = reorder(program, [statement.name], [names[depth], *names[:depth]])
    return program


class _Additions:
    """A program to which the transfers of a source, and their waits, are added."""

    def __init__(self, program: Program, source: str, axis: int, device: Device, command: str) -> None:
        self.program = program
        self.source = source
        self.axis = axis
        self.device = device
        self.command = command
        self.stored = ""

    def store(self, own: Sweep, levels: isl.Set, ring: int) -> None:
        """Each level is stored once it is computed; the host waits before its place is used again, and at the end."""
        name = free_name(self.program, f"{self.source}_stored")
        self._transfer(name, Transfer(self.device, FILES, True, STORES), own, levels)
        self._order((producer, name, own.loop) for producer in own.statements)
        again = moved(levels, own.sign * ring).intersect(own.levels)
        kept = moved(again, -own.sign * ring).coalesce()
        if not kept.intersect_params(self.program.context).is_empty():
            wait = self._wait(name, own, kept, ring)
            self._order((wait, producer, own.loop) for producer in own.statements)
        self.stored = self._wait(name, None, kept)
        self._order([(name, self.stored, None)])

    def fetch(self, one: Sweep, ahead: int, soon: Sequence[str]) -> None:
        """Each level is fetched some iterations before it is first read, after all are stored and others have read."""
        name = free_name(self.program, f"{self.source}_loaded")
        transfer = Transfer(FILES, self.device, True, LOADS)
        self._transfer(name, transfer, one, one.levels, -ahead)
        wait = self._wait(name, one, one.levels)
        self._order([(name, wait, one.loop), *((wait, reader, one.loop) for reader in one.statements)])
        self._order((before, name, None) for before in (self.stored, *soon))

    def _transfer(self, name: str, transfer: Transfer, one: Sweep, levels: isl.Set, later: int = 0) -> None:
        """A transfer of levels, one operation each, some iterations `later` than each is first touched."""
        program, declared = self.program, self.program.algorithm.source(self.source)
        assert isinstance(declared, Computation)
        values = sets.named(declared.domain, None)
        level = sets.function(values.get_space(), None, [sets.variables(values.get_space())[self.axis]])
        values = values.intersect(sets.preimage(levels, level))
        program = with_transfer(
            program, name, self.source, values.intersect_params(program.context), transfer, False, self.command
        )
        statement = program.statements[name]
        inner = [own for axis, own in enumerate(statement.loops) if axis != self.axis]
        forms = sets.variables(statement.frame)
        at = _iteration(one, forms[self.axis], later)
        coords = [at, *(form for axis, form in enumerate(forms) if axis != self.axis)]
        placed = replace(statement, loops=(one.loop, *inner), coords=sets.function(statement.frame, None, coords))
        unused = statement.loops[self.axis]
        program = program.with_(loops={number: each for number, each in program.loops.items() if number != unused})
        self.program = collapsed(program.with_statement(placed), name, inner, self.command)

    def _wait(self, of: str, one: Sweep | None, levels: isl.Set, later: int = 0) -> str:
        """A wait for each level, some iterations `later` than it is first touched; without a loop, for all."""
        program = self.program
        name = free_name(program, f"{of}_wait")
        if one is None:
            space = program.algorithm.frame(name, ())
            everywhere = sets.universe(space).intersect_params(program.context)
            made = idle(Role.WAIT, name, (), everywhere, (), [], Waiting(of))
        else:
            dims = (program.loops[one.loop].name,)
            instances = sets.with_dims(sets.named(levels.intersect_params(program.context), name), dims)
            (level,) = sets.variables(instances.get_space())
            at = _iteration(one, level, later)
            made = idle(Role.WAIT, name, dims, instances, (one.loop,), [at], Waiting(of, (self.axis,)))
        after = list(program.statements)
        self.program = program.with_statement_before(made, after[after.index(of) + 1 :])
        return name

    def _order(self, pairs: Iterable[tuple[str, str, LoopId | None]]) -> None:
        made = (Order(before, after, level, self.command) for before, after, level in pairs)
        self.program = self.program.with_(orders=(*self.program.orders, *made))


def _iteration(one: Sweep, level: isl.Aff, later: int) -> isl.Aff:
    """The iteration in which a level is first touched, or a later one."""
    low = sets.on_frame(one.low, level.get_domain_space())
    return sets.plus(sets.scaled(level, one.sign).add(low), later)


# -- the command as a value


@dataclass(frozen=True, eq=False)
class Offload(OnStatements):
    """Put the levels of a recurrence in a file once nothing reads them soon, and fetch them before they are read late.

    ::

        for t: u[t]                     -->   for t: wait until level t - 4 is stored
                                                     u[t % 4], and start to store it
                                              wait until all are stored
        for t downwards: .. u[t]              for t downwards: start to fetch level t - 2
                                                     wait for level t
                                                     .. u[t % 4]                            (u.offload(t, ahead=2))

    `t` is the index of the levels, which the outermost loop around u goes through one by one, as do loops that read
    them late; where that is an inner loop of such a nest, it is moved outwards. Each level that is read late is stored
    once, in a file of ``compile(storage=folder)``, and fetched `ahead` iterations before it is read, in each of these
    nests. The buffer in memory is a ring of the levels that live. Nests that are fused before share what is fetched.
    Levels that kernels of one GPU compute and read have their ring there; `derive_transfers` adds the waits for these.
    All that moves is statements of the program: it is proven, counted (`communication`) and drawn like transfers to
    GPUs. Raises `CommandError` where nothing is read late, or where levels are read together, and for outputs. Source:
    Wu, chapter 5 (SSDTrain).
    """

    index: Iter
    _: KW_ONLY
    ahead: int = 2

    def applied(self, program: Program) -> Program:
        index, ahead = loop_name(self.index, "an index"), size(self.ahead, "ahead")
        return offload(program, self.computation, self.names(program), index, ahead, self.text)
