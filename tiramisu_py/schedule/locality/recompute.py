"""recompute: of a recurrence each k-th level is kept, and those between are computed again where they are read late.

With s the number of a segment of k levels, the program becomes

    for t: u[t % window]                       (as before, in a few levels)
        if t % k < depth: u_kept[..]           (copies of the levels from which a segment starts)
    for s, in the order in which late reads need them:
        u_again[s * k ..] = u_kept[..]         (depth levels)
        u_again[..] = what u computes          (the other levels of the segment)
        what reads u late, the iterations that read this segment, from u_again

With several widths, each a multiple of the next, segments are inside of segments: the levels of one of k are computed
again in a few places, and each k'-th of them is kept until the segment ends,

    for s, in the order in which late reads need them:
        u_between[(s * k + ..) % window] = u_kept[..]
        u_between[..] = what u computes
            if t % k' < depth: u_kept2[..]     (copies of the levels from which a segment of k' starts)
        for s2, the segments of k' in s: as above, from u_kept2

All of these are statements of the program: the proof finds that each read sees the value that it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from itertools import pairwise

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import on_instances
from tiramisu_py.program.fresh_names import free_loop, free_name
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES, STORES, Statement, Transfer
from tiramisu_py.program.storage import Memory, Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, size, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.devices.transfers import collapsed
from tiramisu_py.schedule.locality.checkpoints import checkpoints
from tiramisu_py.schedule.locality.compute_at import read_by
from tiramisu_py.schedule.locality.late_reads import LevelWalk, Recurrence, all_reads, recurrence
from tiramisu_py.schedule.locality.level_copies import (
    as_copy,
    cloned,
    folded,
    levels_again,
    levels_copied,
    loaded_from,
    place_of_level,
    with_form,
    with_local,
    with_ring,
)
from tiramisu_py.schedule.locality.segments import SegmentedNests, groups, with_segments
from tiramisu_py.schedule.storage.fold import check_plain
from tiramisu_py.schedule.storage.one_buffer import check_all_parts
from tiramisu_py.schedule.storage.store import scoped


def recompute(
    program: Program,
    source: str,
    names: Sequence[str],
    iterator: str,
    widths: tuple[int, ...],
    command: str,
    places: int = 0,
    memory: Memory | None = None,
) -> Program:
    """Keep some levels of a recurrence, and compute those between again in the loops that read them late.

    Segments have `widths` levels; each width is a multiple of the next, that of the segments inside. Without widths the
    schedule is a binomial one, with so many `places`. Levels kept in the whole call are in `memory`, a file perhaps.
    """
    check_all_parts(program, statements(program, names), "recompute")
    of = recurrence(program, statements(program, names), source, iterator)
    every = widths[-1] if widths else of.depth + 1
    if every <= of.depth:
        raise CommandError(
            f"every={every}: a value of {source} reads {of.depth} levels, so that {of.depth} of each {every} would be "
            f"kept; give every={of.depth + 1} or more"
        )
    check_plain(program, program.storages[source], apart=of.axis)
    copied = [s.name for s in program.acting if s.link.transfer is not None and source in s.loads]
    if copied:
        raise CommandError(
            f"levels of {source} are copied by {' and '.join(copied)}: choose one, to put them in files or another "
            "memory, or to compute them again"
        )
    reads = all_reads(program, of, widths)
    if not reads.late:
        raise CommandError(
            f"nothing reads levels of {source} long after they are computed: {source}.fold({iterator}, "
            f"{reads.lag + 1}) keeps all that is read"
        )
    if not widths:
        return checkpoints(program, of, reads, places, command)
    found = groups(program, of, reads.late, every)
    program, kept = _with_kept(program, of, widths[0], memory, command)
    for group in found:
        program = _again(program, of, kept, group, widths, command)
    return folded(program, of, reads.lag + 1)


def _with_kept(
    program: Program, of: Recurrence, every: int, memory: Memory | None, command: str
) -> tuple[Program, str]:
    """The program with copies of the first levels of each segment, made as soon as these are computed."""
    kept = free_name(program, f"{of.source}_kept")
    if memory is Memory.FILE and any(program.device_of(own) is not None for own in of.own):
        raise CommandError(
            f"kept=tm.FILE: {of.source} is computed on a GPU, and levels that are computed again go to a file from the "
            f"host: leave kept= out, or put all levels in a file, {of.source}.offload({of.iterator})"
        )
    program = _copied_to(program, of, every, kept, command, in_file=memory is Memory.FILE)
    storage = program.storages[of.source]
    level = place_of_level(storage, of)
    index = with_form(storage, of, _in_segments(level, of, every))
    domain = sets.named(program.algorithm.computations[of.source].domain, None)
    first = domain.intersect(sets.within(_offset(domain, of, every), 0, of.depth)).intersect_params(program.context)
    own = program.buffers[storage.buffer]
    extents = list(own.extents)
    extents[of.axis] = extents_of(first.apply(sets.graph(index)), program.context)[of.axis]
    buffer = replace(own, name=kept, extents=tuple(extents), passed=None, memory=memory or own.memory)
    return program.with_buffer(buffer).with_storage(Storage(kept, of.source, kept, index)), kept


def _copied_to(program: Program, of: Recurrence, every: int, kept: str, command: str, in_file: bool = False) -> Program:
    """The program with copies, into the storage `kept`, of the first levels of each segment that `of.own` computes.

    To a file they are transfers of a level each, which the host waits for.
    """
    for statement, loop in zip(of.own, of.level_loop, strict=True):
        name = kept if len(of.own) == 1 else free_name(program, f"{kept}_{statement.name}")
        offset = sets.modulo(sets.plus(_level(program, of, statement), -of.base), every)
        instances = statement.instances.intersect(sets.within(offset, 0, of.depth))
        depth = statement.depth(loop) + 1
        program, inner = cloned(program, statement.loops[depth:])
        copy = on_instances(statement, name, sets.named(instances, name), statement.loops[:depth] + inner)
        copy = as_copy(program, copy, kept)
        copy = replace(copy, memory=replace(copy.memory, sources=loaded_from(of.source, statement.memory.target)))
        if in_file:
            copy = replace(copy, link=replace(copy.link, transfer=Transfer(None, FILES, stream=STORES)))
            program = collapsed(program.with_statement(copy), name, inner, command)
        program = program.with_statement(copy)
        program = program.with_(orders=(*program.orders, Order(statement.name, name, loop, command)))
    return program


def _in_segments(level: isl.Aff, of: Recurrence, every: int) -> isl.Aff:
    """Where a level is kept: ``depth * floor(level / every) + level % every``."""
    segment = sets.scaled(sets.floor_div(level, every), of.depth)
    return segment if of.depth == 1 else segment.add(sets.modulo(level, every))


def _offset(domain: isl.Set, of: Recurrence, every: int) -> isl.Aff:
    """The position of a value's level in its segment."""
    level = sets.variables(domain.get_space())[of.axis]
    return sets.modulo(sets.plus(level, -of.base), every)


def _level(program: Program, of: Recurrence, statement: Statement) -> isl.Aff:
    return sets.outputs(program.value_of(statement))[of.axis]


# -- the segments, computed again


def _again(
    program: Program, of: Recurrence, kept: str, group: SegmentedNests, widths: tuple[int, ...], command: str
) -> Program:
    """The program with loops over segments around the late readers of a group, which compute their levels again."""
    program, loops = _loops(program, of, group, len(widths))

    def placed(statement: Statement, walk: LevelWalk) -> Statement:
        coords = [*(walk.segment(statement, of.base, every) for every in widths), *sets.outputs(statement.coords)]
        function = sets.function(statement.frame, None, coords)
        return replace(statement, loops=(*loops, *statement.loops), coords=function)

    program = with_segments(program, group, loops, placed, command)
    readers = [program.statements[name] for name in group.late]
    before: list[str] = []
    for k in range(1, len(widths)):
        program, kept, before = _on_the_way(program, of, kept, group, (loops[:k], widths[: k + 1], before), command)
    again = free_name(program, f"{of.source}_again")
    read = read_by(program, of.source, readers, len(widths))
    needed, starts = _needed(program, of, group, widths[-1], read)
    name = free_name(program, f"{again}_start")
    program = levels_copied(program, of, loops, needed.intersect(starts), name, (kept, again), command)
    program, rest = levels_again(program, of, loops, needed.subtract(starts).coalesce(), again)
    orders = [Order(each.name, name, None, command) for each in of.own]
    orders += [Order(each, name, loops[-2], command) for each in before]
    orders += [Order(name, each, loops[-1], command) for each in rest]
    orders += [Order(each, late, loops[-1], command) for each in (name, *rest) for late in group.late]
    program = program.with_(orders=(*program.orders, *orders))
    own = program.storages[of.source]
    buffer = replace(program.buffers[own.buffer], name=again, passed=None)
    program = program.with_buffer(buffer).with_storage(replace(own, name=again, buffer=again))
    for reader in readers:
        program = program.with_statement(reader.loading(of.source, again))
    return scoped(program, program.storages[again], loops, again)


def _loops(program: Program, of: Recurrence, group: SegmentedNests, count: int) -> tuple[Program, tuple[LoopId, ...]]:
    """The loops over segments of a group, outermost first: those that it is in already, or new ones."""
    around = [program.statements[name] for name in group.walks]
    if group.loop is not None:
        shared = next(each.loops for each in around if group.loop in each.loops)
        return program, shared[: shared.index(group.loop) + 1]
    taken = [*around, *of.own]
    fresh: list[LoopId] = []
    for k in range(count):
        wanted = f"{of.iterator}_segment{k + 1 if k else ''}"
        loop = Loop(program.next_loop(), free_loop(program, taken, wanted))
        program = program.with_loop(loop)
        fresh.append(loop.id)
    return program, tuple(fresh)


def _on_the_way(
    program: Program,
    of: Recurrence,
    kept: str,
    group: SegmentedNests,
    at: tuple[tuple[LoopId, ...], tuple[int, ...], list[str]],
    command: str,
) -> tuple[Program, str, list[str]]:
    """The program in which the levels from which inner segments start are computed again, and kept, in each outer one.

    `at` are the loops over segments down to the outer ones, the widths down to the inner ones, and the statements in
    the loops outside that come first. Returns the storage of the levels, and the statements that come before what
    reads it.
    """
    loops, widths, before = at
    outer, inner = widths[-2:]
    ring, name = free_name(program, f"{of.source}_between"), free_name(program, f"{of.source}_kept")
    program = with_ring(program, of, loops, ring)
    program = _with_packed(program, of, loops, (outer, inner), name)
    needed, starts = _needed(program, of, group, outer, _read_starts(program, of, group, len(loops), inner))
    first = needed.intersect(starts)
    ring_start, kept_start = free_name(program, f"{ring}_start"), free_name(program, f"{name}_start")
    program = levels_copied(program, of, loops, first, ring_start, (kept, ring), command)
    program = levels_copied(program, of, loops, first, kept_start, (kept, name), command)
    program, rest = levels_again(program, of, loops, needed.subtract(starts).coalesce(), ring)
    clones = tuple(program.statements[each] for each in rest)
    places = [each.depth(loop) for each, loop in zip(of.own, of.level_loop, strict=True)]
    levels = tuple(clone.loops[len(loops) + place] for clone, place in zip(clones, places, strict=True))
    known = {*program.statements}
    program = _copied_to(program, replace(of, own=clones, level_loop=levels), inner, name, command)
    copies = [each for each in program.statements if each not in known]
    orders = [Order(each.name, start, None, command) for each in of.own for start in (ring_start, kept_start)]
    orders += [Order(each, start, loops[-2], command) for each in before for start in (ring_start, kept_start)]
    orders += [Order(ring_start, each, loops[-1], command) for each in rest]
    return program.with_(orders=(*program.orders, *orders)), name, [ring_start, kept_start, *rest, *copies]


def _with_packed(
    program: Program, of: Recurrence, loops: tuple[LoopId, ...], widths: tuple[int, int], name: str
) -> Program:
    """The program with a buffer of a segment that holds the first levels of each segment inside."""
    outer, inner = widths

    def place(level: isl.Aff, width: int) -> isl.Aff:
        return _in_segments(sets.modulo(level, width), of, inner)

    return with_local(program, of, loops, name, place, outer, outer // inner * of.depth)


def _read_starts(program: Program, of: Recurrence, group: SegmentedNests, depth: int, inner: int) -> isl.Map:
    """``[segments] -> value``: the first levels of the segments of `inner` levels that late readers run in them."""
    domain = sets.named(program.algorithm.computations[of.source].domain, None).intersect_params(program.context)
    segment = _segments(of, domain, inner, group.sign)
    first = sets.within(_offset(domain, of, inner), 0, of.depth)
    starts = segment.intersect_domain(first).reverse()
    runs: list[isl.Map] = []
    for reader in (program.statements[name] for name in group.late):
        inside = sets.function(reader.frame, None, [sets.outputs(reader.coords)[depth]])
        runs.append(sets.relating(reader.prefix(depth), inside, reader.instances).intersect_params(program.context))
    return sets.union_of(runs).apply_range(starts).coalesce()


def _segments(of: Recurrence, domain: isl.Set, every: int, sign: int) -> isl.Map:
    """``value -> [segment]``, as the coordinate of a loop over segments of `every` levels."""
    level = sets.plus(sets.variables(domain.get_space())[of.axis], -of.base)
    form = sets.scaled(sets.floor_div(level, every), sign)
    return sets.graph(sets.function(domain.get_space(), None, [form]), domain)


def _needed(
    program: Program, of: Recurrence, group: SegmentedNests, every: int, read: isl.Map
) -> tuple[isl.Map, isl.Map]:
    """``[segments] -> value``: from the first level of each to the last one that is read; and its first levels.

    Given the reads {(.., s) -> v} and the segment S(v) of each value, these are {(.., s) -> w : s <= S(w), w <= v for
    a read v}, where levels are compared, and {(.., S(w)) -> w : w is one of the first levels of its segment}.
    """
    domain = sets.named(program.algorithm.computations[of.source].domain, None).intersect_params(program.context)
    earlier = sets.ordered_at(domain.get_space().map_from_set(), of.axis, of.axis).reverse()
    segment = _segments(of, domain, every, group.sign)
    frame = sets.sized_frame(read.get_space(), None, sets.in_size(read))
    innermost = sets.graph(sets.function(frame, None, sets.variables(frame)[-1:]))
    line = sets.sized_frame(frame, None, 1).map_from_set()
    onwards = sets.ordered_at(line, 0, 0) if group.sign > 0 else sets.ordered_at(line, 0, 0).reverse()
    inside = innermost.apply_range(onwards).apply_range(segment.reverse())
    first = sets.within(_offset(domain, of, every), 0, of.depth)
    starts = innermost.apply_range(segment.intersect_domain(first).reverse())
    return read.apply_range(earlier).intersect(inside).coalesce(), starts


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

    ``every="binomial", levels=10`` is the schedule of Revolve with so many places, which computes the fewest levels
    again; the function has to say how many levels there are at most (``assume="T <= 100"``), and one loop to read one
    level at a time, last one first. Of several numbers, such as ``every=(100, 10)``, each is a multiple of the next:
    each 100th level is kept, in a segment of 100 each 10th one is computed again and kept meanwhile, and in one of 10
    all of them are.

    With ``kept=tm.FILE`` the levels that are kept in the whole call, each 100th one, are in a file, and those of
    segments in memory: two storages. The folder is that of ``compile(storage=)``.

    Late reads are those of loops that walk through the levels again after all of them are computed: what a gradient
    (`vjp`) does. The loops that do so are cut into segments of `every` levels; several of them share the segments where
    dependences let them. Each level is computed twice, and ``T / every + every`` levels are kept instead of T: least
    where `every` is the root of T. With ``every=(a, b)`` a level is computed three times, and ``T / a + a / b + b`` are
    kept: least where b is the cube root and a its square; and so on. The bits are the same. Commands on the loops of
    `u` after this one apply to all.

    Raises `CommandError` for what is no recurrence along `level`, for an output, which is kept anyway, and for reads
    that do not walk through the levels. Source: Griewank, "Achieving logarithmic growth of temporal and spatial
    complexity in reverse automatic differentiation", 1992; Chen et al., "Training deep nets with sublinear memory
    cost", 2016; Griewank and Walther, "Algorithm 799: Revolve", 2000.
    """

    level: Iter
    _: KW_ONLY
    every: int | tuple[int, ...] | str
    levels: int | None = None
    kept: Memory | None = None

    def applied(self, program: Program) -> Program:
        iterator = loop_name(self.level, "a level")
        names, given, memory = self.names(program), self.every, _memory(self.kept)
        if isinstance(given, str):
            places = _places(given, self.levels)
            if memory is not None:
                raise CommandError(
                    "every='binomial' writes to its places again and again, and has them in memory: give "
                    "every=(100, 10), kept=tm.FILE, which writes each 100th level to a file once"
                )
            return recompute(program, self.computation, names, iterator, (), self.text, places)
        if self.levels is not None:
            raise CommandError(
                f"levels={self.levels!r} is how many levels every='binomial' keeps, not every={given!r}: give one"
            )
        return recompute(program, self.computation, names, iterator, _widths(given), self.text, 0, memory)


def _memory(given: object) -> Memory | None:
    if given not in (None, Memory.FILE):
        raise CommandError(
            f"kept={given!r} of recompute: levels are kept where the recurrence has its own, or in tm.FILE"
        )
    return Memory.FILE if given is not None else None


def _places(given: str, levels: object) -> int:
    """How many levels a binomial schedule keeps."""
    if given != "binomial":
        raise CommandError(f"every={given!r}: give a number of levels, several of them, or 'binomial'")
    if levels is None:
        raise CommandError("every='binomial' needs levels=, how many levels are kept: levels=10, say")
    return size(levels, "levels", 2)


def _widths(given: object) -> tuple[int, ...]:
    """The levels of segments, and of those inside of them; raises `CommandError` for what are none."""
    if not isinstance(given, tuple | list):
        return (size(given, "every", 2),)
    found = tuple(size(each, "every", 2) for each in given)
    if not found:
        raise CommandError("every=() has no number of levels: give every=20, or every=(100, 10)")
    for outer, inner in pairwise(found):
        if outer <= inner or outer % inner:
            raise CommandError(
                f"every={found}: segments of {inner} levels do not divide one of {outer}; give numbers of which each "
                f"is a multiple of the next, such as every={(inner * inner, inner)}"
            )
    return found
