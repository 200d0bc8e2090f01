"""recompute: of a recurrence each k-th level is kept, and those between are computed again where they are read late.

With s the number of a segment of k levels, the program becomes

    for t: u[t % window]                       (as before, in a few levels)
        if t % k < depth: u_kept[..]           (copies of the levels from which a segment starts)
    for s, in the order in which late reads need them:
        u_again[s * k ..] = u_kept[..]         (depth levels)
        u_again[..] = what u computes          (the other levels of the segment)
        what reads u late, the iterations that read this segment, from u_again

All of these are statements of the program: the proof finds that each read sees the value that it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.expressions import Access, Const, Iter
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import on_instances
from tiramisu_py.program.fresh_names import free_loop, free_name
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, size, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.locality.compute_at import moved_into, read_by
from tiramisu_py.schedule.locality.late_reads import Recurrence, all_reads, recurrence
from tiramisu_py.schedule.locality.segments import SegmentedNests, groups, with_segments
from tiramisu_py.schedule.storage.fold import check_plain
from tiramisu_py.schedule.storage.one_buffer import check_all_parts
from tiramisu_py.schedule.storage.store import scoped


def recompute(program: Program, source: str, names: Sequence[str], iterator: str, every: int, command: str) -> Program:
    """Keep each `every`-th level of a recurrence, and compute those between again in the loops that read them late."""
    check_all_parts(program, names, "recompute")
    of = recurrence(program, statements(program, names), source, iterator)
    if every <= of.depth:
        raise CommandError(
            f"every={every}: a value of {source} reads {of.depth} levels, so that {of.depth} of each {every} would be "
            f"kept; give every={of.depth + 1} or more"
        )
    check_plain(program, program.storages[source], apart=of.axis)
    copied = [s.name for s in program.acting if s.transfer is not None and source in s.loads]
    if copied:
        raise CommandError(
            f"levels of {source} are copied by {' and '.join(copied)}: choose one, to put them in files or another "
            "memory, or to compute them again"
        )
    reads = all_reads(program, of, every)
    if not reads.late:
        raise CommandError(
            f"nothing reads levels of {source} long after they are computed: {source}.fold({iterator}, "
            f"{reads.lag + 1}) keeps all that is read"
        )
    found = groups(program, of, reads.late, every)
    program, kept = _with_kept(program, of, every, command)
    for group in found:
        program = _again(program, of, kept, group, every, command)
    return _folded(program, of, reads.lag + 1)


def _with_kept(program: Program, of: Recurrence, every: int, command: str) -> tuple[Program, str]:
    """The program with copies of the first levels of each segment, made as soon as these are computed."""
    kept = free_name(program, f"{of.source}_kept")
    for statement, loop in zip(of.own, of.level_loop, strict=True):
        name = kept if len(of.own) == 1 else free_name(program, f"{kept}_{statement.name}")
        offset = sets.modulo(sets.plus(_level(program, of, statement), -of.base), every)
        instances = statement.instances.intersect(sets.within(offset, 0, of.depth))
        depth = statement.depth(loop) + 1
        program, inner = _cloned(program, statement.loops[depth:])
        copy = on_instances(statement, name, sets.named(instances, name), statement.loops[:depth] + inner)
        program = program.with_statement(_as_copy(program, copy, kept))
        program = program.with_(orders=(*program.orders, Order(statement.name, name, loop, command)))
    storage = program.storages[of.source]
    level = _place_of_level(storage, of)
    index = _with_form(storage, of, _in_segments(level, of, every))
    domain = sets.named(program.algorithm.computations[of.source].domain, None)
    first = domain.intersect(sets.within(_offset(domain, of, every), 0, of.depth)).intersect_params(program.context)
    own = program.buffers[storage.buffer]
    extents = list(own.extents)
    extents[of.axis] = extents_of(first.apply(sets.graph(index)), program.context)[of.axis]
    buffer = replace(own, name=kept, extents=tuple(extents), passed=None)
    return program.with_buffer(buffer).with_storage(Storage(kept, of.source, kept, index)), kept


def _place_of_level(storage: Storage, of: Recurrence) -> isl.Aff:
    """The level, counted from the first one, in the frame of a storage's index."""
    space = storage.index.get_space().domain()
    return sets.plus(sets.variables(space)[of.axis], -of.base)


def _in_segments(level: isl.Aff, of: Recurrence, every: int) -> isl.Aff:
    """Where a level is kept: ``depth * floor(level / every) + level % every``."""
    segment = sets.scaled(sets.floor_div(level, every), of.depth)
    return segment if of.depth == 1 else segment.add(sets.modulo(level, every))


def _with_form(storage: Storage, of: Recurrence, form: isl.Aff) -> isl.MultiAff:
    forms = sets.outputs(storage.index)
    forms[of.axis] = form
    return sets.function(storage.index.get_space().domain(), None, forms)


def _offset(domain: isl.Set, of: Recurrence, every: int) -> isl.Aff:
    """The position of a value's level in its segment."""
    level = sets.variables(domain.get_space())[of.axis]
    return sets.modulo(sets.plus(level, -of.base), every)


def _level(program: Program, of: Recurrence, statement: Statement) -> isl.Aff:
    return sets.outputs(program.value_of(statement))[of.axis]


def _as_copy(program: Program, statement: Statement, target: str) -> Statement:
    """The statement as a copy of the value that it computes."""
    body = _value(program, statement.source)
    return replace(statement, role=Role.COPY, body=body, target=target, sources={}, guards=(), prefetches=())


def _value(program: Program, source: str) -> Access:
    declared = program.algorithm.computations[source]
    return Access(source, tuple(map(Iter, declared.iterators)), declared.dtype)


def _cloned(program: Program, loops: Sequence[LoopId]) -> tuple[Program, tuple[LoopId, ...]]:
    """The program with loops of the same names and tags, for other statements."""
    fresh: list[LoopId] = []
    for old in loops:
        loop = replace(program.loops[old], id=program.next_loop())
        program = program.with_loop(loop)
        fresh.append(loop.id)
    return program, tuple(fresh)


# -- the segments, computed again


def _again(program: Program, of: Recurrence, kept: str, group: SegmentedNests, every: int, command: str) -> Program:
    """The program with a loop over segments around the late readers of a group, which computes their levels again."""
    around = [program.statements[name] for name in group.walks]
    fresh = Loop(program.next_loop(), free_loop(program, [*around, *of.own], f"{of.iterator}_segment"))
    loop = fresh if group.loop is None else program.loops[group.loop]
    program = with_segments(program.with_loop(loop), of, group, loop.id, every, command)
    again = free_name(program, f"{of.source}_again")
    needed, starts = _needed(program, of, group, every)
    program, first = _starts(program, of, loop.id, needed.intersect(starts), kept, again)
    program, rest = _levels(program, of, loop.id, needed.subtract(starts).coalesce(), again)
    orders = [Order(each.name, first, None, command) for each in of.own]
    orders += [Order(first, each, loop.id, command) for each in rest]
    orders += [Order(each, name, loop.id, command) for each in (first, *rest) for name in group.late]
    program = program.with_(orders=(*program.orders, *orders))
    own = program.storages[of.source]
    buffer = replace(program.buffers[own.buffer], name=again, passed=None)
    program = program.with_buffer(buffer).with_storage(replace(own, name=again, buffer=again))
    for name in group.late:
        reader = program.statements[name]
        program = program.with_statement(replace(reader, sources={**reader.sources, of.source: again}))
    return scoped(program, program.storages[again], (loop.id,), again)


def _needed(program: Program, of: Recurrence, group: SegmentedNests, every: int) -> tuple[isl.Map, isl.Map]:
    """``[segment] -> value``: from its first level to the last one that is read of it; and the first levels of each.

    Given the reads {s -> v} and the segment S(v) of each value, these are {s -> w : s <= S(w), w <= v for a read v},
    where levels are compared, and {S(w) -> w : w is one of the first levels of its segment}.
    """
    domain = sets.named(program.algorithm.computations[of.source].domain, None).intersect_params(program.context)
    read = read_by(program, of.source, [program.statements[name] for name in group.late], 1)
    values = domain.get_space()
    earlier = sets.ordered_at(values.map_from_set(), of.axis, of.axis).reverse()
    level = sets.plus(sets.variables(values)[of.axis], -of.base)
    form = sets.scaled(sets.floor_div(level, every), group.sign)
    segment = sets.graph(sets.function(values, None, [form]), domain)
    line = sets.sized_frame(values, None, 1).map_from_set()
    onwards = sets.ordered_at(line, 0, 0) if group.sign > 0 else sets.ordered_at(line, 0, 0).reverse()
    inside = onwards.apply_range(segment.reverse())
    first = sets.within(sets.modulo(level, every), 0, of.depth)
    return read.apply_range(earlier).intersect(inside).coalesce(), segment.intersect_domain(first).reverse()


def _starts(
    program: Program, of: Recurrence, loop: LoopId, pairs: isl.Map, kept: str, again: str
) -> tuple[Program, str]:
    """The copies of a segment's first levels into the memory in which the others are computed."""
    name = free_name(program, f"{again}_start")
    declared = program.algorithm.computations[of.source]
    dims = distinct([program.loops[loop].name, *declared.iterators])
    instances = sets.with_dims(sets.flat_pairs(pairs, name), dims)
    space = instances.get_space()
    variables = sets.variables(space)
    first = program.next_loop()
    loops = [Loop(first + k, iterator) for k, iterator in enumerate(declared.iterators)]
    statement = Statement(
        name=name,
        source=of.source,
        role=Role.COPY,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, of.source, variables[1:]),
        loops=(loop, *(each.id for each in loops)),
        coords=sets.renamed(sets.identity(space), None),
        body=_value(program, of.source),
        target=again,
        sources={of.source: kept},
    )
    return program.with_loop(*loops).with_statement(statement), name


def _levels(program: Program, of: Recurrence, loop: LoopId, pairs: isl.Map, again: str) -> tuple[Program, list[str]]:
    """The statements of the recurrence once more, inside the loop over segments, for the values of each."""
    names: list[str] = []
    for statement in of.own:
        wanted = again if len(of.own) == 1 else f"{again}_{statement.name}"
        name = wanted if wanted not in program.statements else free_name(program, wanted)
        program, loops = _cloned(program, statement.loops)
        clone = on_instances(statement, name, sets.named(statement.instances, name), loops)
        clone = replace(clone, target=again, sources={**clone.sources, of.source: again})
        values = sets.graph(program.value_of(clone), clone.instances)
        pairs_here = pairs.apply_range(sets.range_named(values, None).reverse())
        program = program.with_statement(moved_into(program, clone, (loop,), pairs_here.coalesce()))
        names.append(name)
    return program, names


def _folded(program: Program, of: Recurrence, window: int) -> Program:
    """The program in which the recurrence itself keeps `window` levels, which follow one another."""
    storage = program.storages[of.source]
    buffer = program.buffers[storage.buffer]
    index = _with_form(storage, of, sets.modulo(_place_of_level(storage, of), window))
    extents = (*buffer.extents[: of.axis], Const(window, int64), *buffer.extents[of.axis + 1 :])
    program = program.with_buffer(replace(buffer, extents=extents, passed=None))
    return program.with_storage(replace(storage, index=index))


# -- the command as a value


@dataclass(frozen=True, eq=False)
class Recompute(OnStatements):
    """Keep each `every`-th level of a recurrence, and compute those between again where they are read late.

    ::

        for t: u[t]                 -->   for t: u[t % 2], and each 20th level in u_kept
        for t (down): d_u reads u[t]      for t_segment (down):
                                              for t in the segment: u_again[t]
                                              for t in the segment (down): d_u reads u_again[t]
                                                                            (u.recompute(t, every=20))

    Late reads are those of loops that walk through the levels again after all of them are computed: what a gradient
    (`vjp`) does. The loops that do so are cut into segments of `every` levels; several of them share the segments where
    dependences let them. Each level is computed twice, and ``T / every + every`` levels are kept instead of T: least
    where `every` is the root of T. The bits are the same. Commands on the loops of `u` after this one apply to both.

    Raises `CommandError` for what is no recurrence along `level`, for an output, which is kept anyway, and for reads
    that do not walk through the levels. Source: Griewank, "Achieving logarithmic growth of temporal and spatial
    complexity in reverse automatic differentiation", 1992; Chen et al., "Training deep nets with sublinear memory
    cost", 2016.
    """

    level: Iter
    _: KW_ONLY
    every: int

    def applied(self, program: Program) -> Program:
        iterator = loop_name(self.level, "a level")
        every = size(self.every, "every", 2)
        return recompute(program, self.computation, self.names(program), iterator, every, self.text)
