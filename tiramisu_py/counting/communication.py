"""The amount of data that a program moves between memories and between ranks, counted exactly.

Messages between ranks are counted by class: all pairs of ranks that exchange the same number of elements in the same
number of messages are one `Share`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.counting.amounts import BETWEEN_RANKS, COMBINED, Amount, Communication, InPlace, Moved, Share, times
from tiramisu_py.counting.even_runs import with_even_runs
from tiramisu_py.counting.lattice_points import classes, count
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.value_boxes import box_around, copies_of
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.collective_exchanges import collectives
from tiramisu_py.program.ranks.combined_reductions import combined_loops, groups
from tiramisu_py.program.ranks.spread import axes, foreseen
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import FILES, Device, Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


def communication(program: Program, params: Mapping[str, int]) -> Communication:
    """The amounts that a program moves at given parameter values; for irregular blocks, only what one rank sends."""
    _check(program, params)
    statements = program.statements.values()
    in_runs = any((s.link.transfer or s.link.message) and s.guards for s in statements)
    even = with_even_runs(program, params) if in_runs else program
    moved = [_moved(even, each, params) for each in even.statements.values() if each.link.transfer is not None]
    if not axes(program):
        return Communication(tuple(moved), in_place=tuple(_in_place(program, params)))
    spread_out = foreseen(even)
    if told_ranks(spread_out).unnumbered:
        return Communication((*moved, *_of_one_rank(spread_out, params)))
    assert spread_out.ranks.everyone is not None
    everyone = sets.fixed(spread_out.ranks.everyone, params)
    sides = [sets.interval(everyone, axis) for axis in range(spread_out.ranks.axes)]
    grid = tuple(0 if side is None else side[1] + 1 for side in sides)
    sends = (s for s in spread_out.statements.values() if s.role is Role.SEND)
    exchanged = _exchanges(spread_out, sends, params)
    return Communication((*moved, *exchanged, *_combinations(spread_out, params)), grid)


def _check(program: Program, params: Mapping[str, int]) -> None:
    names = program.algorithm.params
    missing = [name for name in names if name not in params]
    unknown = [name for name in params if name not in names]
    if missing or unknown:
        wrong = f"{', '.join(missing)} has no value" if missing else f"{', '.join(unknown)} is not one of them"
        raise ArgumentError(f"{program.algorithm.name} has the parameters {', '.join(names)}: {wrong}")
    for name, value in params.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentError(f"the parameter {name} is an integer, not {value!r}")
    if sets.fixed(program.context, params).is_empty():
        values = ", ".join(f"{name} = {params[name]}" for name in names)
        raise ArgumentError(f"{program.algorithm.name} is not defined for {values}")


def _moved(program: Program, statement: Statement, params: Mapping[str, int]) -> Moved:
    assert statement.link.transfer is not None
    instances = sets.fixed(statement.instances, params)
    elements = count(instances)
    messages = sum(count(sets.fixed(iterations, params)) for iterations in copies_of(program, statement))
    direction = f"{_words(statement.link.transfer.source)} -> {_words(statement.link.transfer.target)}"
    return Moved(statement.name, direction, elements, elements * _size(program, statement), messages)


def _size(program: Program, statement: Statement) -> int:
    """The bytes of an element."""
    return program.buffers[program.storages[statement.memory.target].buffer].dtype.bytes


def _words(device: Device) -> str:
    return "host" if device is None else "file" if device == FILES else f"gpu {device}"


def _in_place(program: Program, params: Mapping[str, int]) -> Iterator[InPlace]:
    """The accesses of kernels in memory of the host: by array, GPU and verb."""
    accesses = MemoryAccesses(program)
    for buffer in program.buffers.values():
        if buffer.memory is not Memory.HOST_MAPPED:
            continue
        found: dict[tuple[int, str], int] = {}
        for access in accesses.of_buffer(buffer.name):
            if access.device is None or access.actor.statement is None:
                continue
            instances = access.domain.apply(sets.graph(access.instance, access.domain))
            key = access.device, "writes" if access.is_write else "reads"
            found[key] = found.get(key, 0) + count(sets.fixed(instances, params))
        for (device, verb), elements in found.items():
            yield InPlace(buffer.name, f"gpu {device} {verb} in place", elements, elements * buffer.dtype.bytes)


# -- between ranks


def _exchanges(program: Program, sends: Iterator[Statement], params: Mapping[str, int]) -> Iterator[Moved]:
    """The amount of each exchange, whose send may be split into several statements."""
    shares: dict[str, list[Share]] = {}
    for send in sends:
        assert send.link.message is not None
        shares.setdefault(send.link.message.exchange, []).extend(_shares(program, send, params))
    for name, found in shares.items():
        total = sum((times(share.each, count(share.pairs)) for share in found), Amount())
        yield Moved(name, BETWEEN_RANKS, total.elements, total.bytes, total.messages, tuple(found))


def _combinations(program: Program, params: Mapping[str, int]) -> Iterator[Moved]:
    """The amount of each combination of partial results, as messages from each rank to itself."""
    shares: dict[str, list[Share]] = {}
    for one in given(program, params):
        to_itself = sets.named(sets.flat_pairs(sets.graph(sets.identity(one.ranks.get_space()), one.ranks), ""), None)
        amount = Amount(one.elements, one.bytes, one.combinations)
        shares.setdefault(one.source, []).append(Share(to_itself, amount))
    for name, found in shares.items():
        total = sum((times(share.each, count(share.pairs)) for share in found), Amount())
        yield Moved(name, COMBINED, total.elements, total.bytes, total.messages, tuple(found))


def _of_one_rank(program: Program, params: Mapping[str, int]) -> Iterator[Moved]:
    """The amount that a rank sends in each exchange, for the block bounds in `params`."""
    totals: dict[str, list[int]] = {}
    for send in program.statements.values():
        if send.role is Role.SEND and send.link.message is not None:
            instances = send.instances.intersect_params(program.context)
            events = instances.apply(sets.graph(sets.renamed(send.prefix(program.host_depth(send)), None)))
            elements, messages = count(sets.fixed(instances, params)), count(sets.fixed(events, params))
            total = totals.setdefault(send.link.message.exchange, [0, 0, 0])
            totals[send.link.message.exchange] = [
                total[0] + elements, total[1] + elements * _size(program, send), total[2] + messages
            ]  # fmt: skip
    for name, (elements, size, messages) in totals.items():
        yield Moved(name, BETWEEN_RANKS, elements, size, messages)


def _shares(program: Program, send: Statement, params: Mapping[str, int]) -> Iterator[Share]:
    """The pairs of ranks that communicate by a send, in classes of equal amounts."""
    assert send.link.message is not None
    instances = sets.fixed(send.instances.intersect_params(program.context.params()), params)
    ends = sets.joined(program.rank_of(send), send.link.message.peer)
    pairs = _at(ends, send, params).intersect_domain(instances)
    message = send.prefix(program.host_depth(send))
    if send.link.message.collective:
        message = next(one for one in collectives(program) if send in one.sends).call_of(send)
        to_itself = sets.graph(program.rank_of(send)).intersect(sets.graph(sets.renamed(send.link.message.peer, None)))
        pairs = pairs.subtract_domain(sets.fixed_map(to_itself, params).domain())
    iterations = _at(sets.renamed(message, None), send, params)
    elements = list(classes(pairs.reverse()))
    for several in classes(pairs.reverse().apply_range(iterations)):
        for single in elements:
            both = several.keys.intersect(single.keys).coalesce()
            if not both.is_empty():
                size = single.images * _size(program, send)
                yield Share(both, Amount(single.images, size, several.images))


def _at(of: isl.MultiAff, send: Statement, params: Mapping[str, int]) -> isl.Map:
    """A function of instances as a map, at given parameter values."""
    return sets.fixed_map(sets.graph(of), params)


# -- the amount of partial results that ranks combine


@dataclass(frozen=True, eq=False)
class Given:
    """Ranks (by coordinates) that each contribute the same number of elements, bytes and combinations."""

    source: str
    ranks: isl.Set
    elements: int
    bytes: int
    combinations: int


def given(program: Program, params: Mapping[str, int]) -> Iterator[Given]:
    """The contribution of each rank to the combinations of a spread program; none from a rank alone on its line."""
    for updates in groups(program):
        size = program.buffers[program.storages[updates[0].memory.target].buffer].dtype.bytes
        whole = sets.fixed(_given(program, updates), params)
        axes, depth = program.ranks.axes, _depth(program, updates[0])
        forms = sets.variables(whole.get_space())
        rank = sets.graph(sets.function(whole.get_space(), None, forms[:axes]), whole)
        outside = sets.graph(sets.function(whole.get_space(), None, forms[axes : axes + depth]), whole)
        together = _together(program, updates[0], sets.fixed(_ranks(program), params))
        values = list(classes(rank.reverse()))
        for several in classes(rank.reverse().apply_range(outside)):
            for single in values:
                both = several.keys.intersect(single.keys).intersect(together).coalesce()
                if not both.is_empty():
                    yield Given(updates[0].source, both, single.images, single.images * size, several.images)


def _ranks(program: Program) -> isl.Set:
    assert program.ranks.everyone is not None
    return program.ranks.everyone


def _depth(program: Program, update: Statement) -> int:
    """The number of loops around a combination, without loops over ranks."""
    outermost = update.depth(next(iter(combined_loops(program, update).values())))
    return sum(not program.loops[loop].is_rank for loop in update.loops[:outermost])


def _given(program: Program, updates: tuple[Statement, ...]) -> isl.Set:
    """``[rank, loops around, value]`` of what each rank gives: a box of values in each iteration."""
    parts = list[isl.Set]()
    for update in updates:
        assert update.memory.onto is not None
        outermost = update.depth(next(iter(combined_loops(program, update).values())))
        coords = zip(update.loops[:outermost], sets.outputs(update.coords), strict=False)
        around = [form for loop, form in coords if not program.loops[loop].is_rank]
        forms = [*sets.outputs(update.memory.onto), *around, *sets.outputs(program.value_of(update))]
        here = update.instances.intersect_params(program.context.params())
        parts.append(here.apply(sets.graph(sets.function(update.frame, None, forms))))
    found = sets.union_of(parts)
    return box_around(found.coalesce(), program.ranks.axes + _depth(program, updates[0]))


def _together(program: Program, update: Statement, everyone: isl.Set) -> isl.Set:
    """The ranks that share their line of the process grid with another rank."""
    combined = combined_loops(program, update)
    variables = sets.variables(everyone.get_space())
    line = [v for axis, v in enumerate(variables) if axis not in combined]
    on = sets.graph(sets.function(everyone.get_space(), None, line), everyone)
    others = on.apply_range(on.reverse()).subtract(sets.graph(sets.identity(everyone.get_space())))
    return others.domain()
