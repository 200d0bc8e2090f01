"""Repairs of an order: shifts, or changes of loops that are tried on the program: reversals, skews before a command.

A recurrence whose loops run against its dependences may be legal with loops reversed. If a command (a tile, an
interchange) makes a legal order illegal, skews before the command may keep it legal: each loop is skewed by the loops
around it until no dependence points backwards along it,

    for b, for a < b:  skew(a, b, -least distance along b of the dependences that a carries)

and the later commands are applied to the skewed coordinates, `since . skews . before`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.inherited import has_tiles
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import reversed_loop
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Home
from tiramisu_py.proof.memory import races
from tiramisu_py.proof.violations.repairs import shift_repair

#: Statements with more loops than this get no such repair.
MOST_LOOPS = 6

Skew = tuple[int, int, int]


def order_repair(flow: Flow, read: MemoryAccess, writes: Sequence[MemoryAccess]) -> str:
    """The changes that place a read after the writes of the value it names; "" if no simple one is known."""
    alone = all(write.actor.statement is read.actor.statement for write in writes)
    return shift_repair(flow, read, writes) or (_rearranged(flow, read) if alone else "")


def _rearranged(flow: Flow, read: MemoryAccess) -> str:
    """The commands that order a statement along its dependences on itself; "" if none are found."""
    statement, program = read.actor.statement, flow.accesses.program
    plain = not program.runs_on_ranks and not flow.kernels
    if statement is None or not plain or not 0 < len(statement.loops) <= MOST_LOOPS:
        return ""
    try:
        return _skewed(flow, statement, read.home) or _reversed(flow, statement, read.home)
    except (isl.Error, CommandError):
        return ""


def _is_right(flow: Flow, program: Program, home: Home) -> bool:
    """Whether a program serves all reads of a buffer instance, and has no race for it."""
    other = Flow(MemoryAccesses(program, flow.accesses.values))
    inherited = other.inherited(home)
    if inherited is not None and not inherited.is_kept:
        return False  # or legal only by values, which takes long to find out
    if any(not other.unserved(read).is_empty() for read in other.accesses.readers(home)):
        return False
    pairs = races.pairs(other, home.buffer)
    return not any(True for a, b in pairs for _ in races.between(other, a, b))


# -- shifts of what overwrites


def overwriting_repair(flow: Flow, read: MemoryAccess) -> str:
    """The command after which a read comes before its element is stored anew; "" if none is found.

    It is a shift of a statement in the loops of the read, or has the reader in the loops of the value that it reads.
    """
    reader, program = read.actor.statement, flow.accesses.program
    if reader is None or program.runs_on_ranks or flow.kernels:
        return ""
    whole = flow.accesses.read(reader, read.source)
    for write in flow.accesses.writers(read.home):
        writer = write.actor.statement
        if whole is None or writer is None or writer is reader:
            continue
        try:
            found = _joined(flow, reader, writer, read.home) if write.source == read.source else ""
            found = found or ("" if write.source == read.source else _later(flow, whole, write))
        except isl.Error:
            return ""
        if found:
            return found
    return ""


def _joined(flow: Flow, reader: Statement, writer: Statement, home: Home) -> str:
    """``rec.after(u, t)``, if readers then find each value in the iteration that computes it, or soon after.

    It is the command for the reader alone, or else for all that read the values in loops of their own.
    """
    depth = shared(reader, writer)
    others = (access.actor.statement for access in flow.accesses.readers(home))
    outside = [each.source for each in others if each is not None and shared(each, writer) <= depth]
    for sources in ([reader.source], list(dict.fromkeys(outside))):
        try:
            found = _are_right_inside(flow, sources, writer, depth, home)
        except CommandError:  # the orders of the program do not allow it
            continue
        if found:
            level = flow.accesses.program.loops[writer.loops[depth]].name
            return " and ".join(f"{source}.after({writer.source}, {level})" for source in sources)
    return ""


def _are_right_inside(flow: Flow, sources: Sequence[str], writer: Statement, depth: int, home: Home) -> bool:
    """Whether each read of what these computations read and store sees its value if they follow a statement."""
    turned = _with_readers_inside(flow.accesses.program, sources, writer, depth)
    if turned is None:
        return False
    homes = dict.fromkeys([home, *(each.home for source in sources for each in _writes(turned, flow, source))])
    return all(_is_right(flow, turned, each) for each in homes)


def _with_readers_inside(program: Program, sources: Sequence[str], writer: Statement, depth: int) -> Program | None:
    """The program in which computations share one more loop with a statement, after it; None if that is not so simple.

    Their loops have no tags, no other computation in them, and no buffers of their own.
    """
    readers = [each for source in sources for each in program.statements_of(source)]
    if any(min(len(each.loops), len(writer.loops)) <= depth or shared(each, writer) != depth for each in readers):
        return None
    level, old = writer.loops[depth], {each.loops[depth] for each in readers}
    inside = {each.source for loop in old for each in program.with_this_loop(loop)}
    scoped = any(old & {*buffer.scope} for buffer in program.buffers.values())
    if scoped or inside != {*sources} or any(program.loops[loop].tag is not None for loop in (level, *old)):
        return None
    joining = [replace(each, loops=(*each.loops[:depth], level, *each.loops[depth + 1 :])) for each in readers]
    orders = [Order(writer.name, each.name, level) for each in joining]
    return program.with_statement(*joining).with_(orders=(*program.orders, *orders))


def _writes(program: Program, flow: Flow, source: str) -> Iterator[MemoryAccess]:
    accesses = MemoryAccesses(program, flow.accesses.values)
    for statement in program.statements_of(source):
        found = accesses.write(statement)
        if found is not None:
            yield found


def _later(flow: Flow, read: MemoryAccess, write: MemoryAccess) -> str:
    """The least shift of a write's statement, in the outermost loop where it comes too early, that serves all reads."""
    reader, writer = read.actor.statement, write.actor.statement
    assert reader is not None and writer is not None
    count = shared(reader, writer)
    times = flow.same_place(read, write).apply_domain(read.prefix(count)).apply_range(write.prefix(count))
    for depth in range(count):
        least = sets.least_distance(times, depth)
        if least is None or least < 0:
            return "" if least is None else _shifted(flow, writer, depth, (-least, 1 - least), read.home)
        times = sets.equal_at(times, depth)
    return ""


def _shifted(flow: Flow, statement: Statement, depth: int, distances: Sequence[int], home: Home) -> str:
    program = flow.accesses.program
    for by in distances:
        coords = sets.outputs(statement.coords)
        coords[depth] = sets.plus(coords[depth], by)
        moved = replace(statement, coords=sets.function(statement.frame, None, coords))
        if _is_right(flow, program.with_statement(moved), home):
            return f"{statement.handle}.shift({program.loop_names(statement)[depth]}, {by})"
    return ""


# -- reversals


def _reversed(flow: Flow, statement: Statement, home: Home) -> str:
    program = flow.accesses.program
    loops = {program.loops[loop].name: loop for loop in statement.loops}
    if has_tiles(statement):
        return ""
    for count in (1, 2):
        for chosen in combinations(loops, count):
            changed = program
            for name in chosen:
                changed = reversed_loop(changed, loops[name])
            if _is_right(flow, changed, home):
                return " and ".join(_reversal(program, f"{statement.handle}.reverse({name})") for name in chosen)
    return ""


def _reversal(program: Program, command: str) -> str:
    """A reversal to add, or, where it is there, to leave out: loops may have been turned before any command."""
    return f"leave {command} out" if command in [entry.text for entry in program.log] else command


# -- skews


def _skewed(flow: Flow, statement: Statement, home: Home) -> str:
    program = flow.accesses.program
    history = program.history
    for before, after in zip(reversed(history[:-1]), reversed(history[1:]), strict=True):
        then = before.statements.get(statement.name)
        if then is None or not then.frame.is_equal(statement.frame) or len(then.loops) > MOST_LOOPS:
            return ""
        if has_tiles(then):
            continue
        state = _with_loops(program, before, statement, then)
        if not _is_right(flow, state, home):
            continue
        skews = _skews(Flow(MemoryAccesses(state, flow.accesses.values)), then.name, home)
        changed = _after_skews(statement, then, skews)
        if not skews or changed is None or not _is_right(flow, program.with_statement(changed), home):
            return ""
        names = [before.loops[loop].name for loop in then.loops]
        commands = (f"{statement.handle}.skew({names[a]}, {names[b]}, {by})" for a, b, by in skews)
        where = "" if after.origin.command is None else f" before {after.origin.command.text}"
        return " and ".join(commands) + where
    return ""


def _with_loops(program: Program, before: Program, statement: Statement, then: Statement) -> Program:
    """The program in which one statement has the loops of an earlier state."""
    return program.with_statement(replace(statement, loops=then.loops, coords=then.coords)).with_(
        loops={**program.loops, **{loop: replace(before.loops[loop], tag=None) for loop in then.loops}}
    )


def _skews(flow: Flow, name: str, home: Home) -> list[Skew]:
    """The skews, outermost first, after which no dependence of a statement on itself points backwards along a loop."""
    distances = list(_distances(flow, name, home))
    found: list[Skew] = []
    for inner in range(1, sets.out_size(sets.graph(flow.accesses.program.statements[name].coords))):
        for outer in range(inner):
            carried = [_carried(pairs, outer) for pairs in distances]
            known = [sets.least_distance(pairs, inner) for pairs in carried if not pairs.is_empty()]
            if any(least is None for least in known):
                return []
            by = -min((least for least in known if least is not None), default=0)
            if by > 0:
                found.append((outer, inner, by))
                distances = [sets.skewed(pairs, outer, inner, by) for pairs in distances]
    return found


def _distances(flow: Flow, name: str, home: Home) -> Iterator[isl.Map]:
    """``coordinates -> coordinates`` of conflicting accesses by one statement, the earlier one first."""
    mine = [t for t in (*flow.accesses.writers(home), *flow.accesses.readers(home)) if t.actor.name == name]
    for a in mine:
        for b in mine:
            if a.is_write or b.is_write:
                count = len(flow.accesses.program.statements[name].loops)
                pairs = flow.same_place(a, b).apply_domain(a.prefix(count)).apply_range(b.prefix(count))
                yield pairs.intersect(isl.Map.lex_lt(pairs.get_space().domain()))


def _carried(pairs: isl.Map, depth: int) -> isl.Map:
    return sets.less_at(sets.equal_prefix(pairs, depth), depth)


def _after_skews(statement: Statement, then: Statement, skews: list[Skew]) -> Statement | None:
    """The statement as it would be now if these skews had come before the later commands."""
    back = sets.as_single_function(sets.graph(then.coords).reverse())
    if back is None:
        return None
    forms = sets.outputs(then.coords)
    for outer, inner, by in skews:
        forms[inner] = forms[inner].add(sets.scaled(forms[outer], by))
    moved = sets.compose(sets.function(statement.frame, None, forms), back)
    return replace(statement, coords=sets.compose(moved, statement.coords))
