"""Batches, the values that one transfer moves: needed by a device, grouped by the host loops that move them.

Values are moved where they are stored, or, in a pipeline, where they are first read: see `pipelines`.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.kernel_order import statement_of
from tiramisu_py.dependence.value_boxes import boxes
from tiramisu_py.derive.devices.needs import Need, keys
from tiramisu_py.derive.devices.pipelines import FirstRead, depth_in, first_reads
from tiramisu_py.program.loops import LoopId, Rank
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import axes
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Batch:
    """The values that one transfer moves, as ``[coordinates of the loops, of the rank on some axes, indices]``.

    `writers` are the writers in its loops; it comes after them. `is_more` marks the additional values that the first
    iteration of a pipeline reads.
    """

    need: Need
    loops: tuple[LoopId, ...]
    axes: tuple[int, ...]
    values: isl.Set
    writers: tuple[Statement, ...]
    is_more: bool = False


# -- grouping


def batches(program: Program, need: Need, along: frozenset[LoopId] = frozenset()) -> Iterator[Batch]:
    """The transfers for a need: one for the writers in the same loops, unless a reader comes between them.

    Values stored outside the pipelines `along` some loops and read inside them are moved where they are first read.
    """
    left = need.values
    for loops, writers in _groups(program, need, along):
        chosen = _moved(writers, len(loops), left)
        left = left.subtract(sets.as_set(chosen.range()))
        if along and not along & set(loops):
            for read in first_reads(program, need.readers, sets.as_set(chosen.range()), need.spare, along):
                chosen = chosen.subtract_range(sets.as_set(read.values.range()))
                yield from _of_first_reads(program, need, read)
        movable = _moved(writers, len(loops), need.spare.union(need.values))
        own = _own_axes(program, loops)
        values, allowed = (_unkeyed(program, need, own, relation) for relation in (chosen, movable))
        inside = tuple(_as_scheduled(program, w) for w in writers if w.actor.statement is not None)
        for box in boxes(values, len(loops) + len(own), allowed):
            if not box.is_empty():
                yield Batch(need, loops, own, box, inside)


def _own_axes(program: Program, loops: tuple[LoopId, ...]) -> tuple[int, ...]:
    """The axes of the process grid along which none of the loops runs."""
    along = {tag.axis for loop in loops if isinstance(tag := program.loops[loop].tag, Rank)}
    return tuple(axis for axis in range(axes(program)) if axis not in along)


def _of_first_reads(program: Program, need: Need, read: FirstRead) -> Iterator[Batch]:
    """The transfers of first reads: one that moves a box per iteration, and one for the first iteration's other values.

    The latter is placed before the innermost loop.
    """
    own = _own_axes(program, read.loops)
    values = _unkeyed(program, need, own, read.values)
    scope = len(read.loops) + len(own)
    regular, more = _regular(values, scope, len(read.loops) - 1)
    if not more.is_empty():
        depth = len(read.loops) - 1
        outside = _without_last(more, depth) if not own and _is_first(more, values, depth) else None
        if outside is None:
            yield from (Batch(need, read.loops, own, box, (), True) for box in boxes(more, scope, more))
        else:
            own = _own_axes(program, read.loops[:-1])
            yield from (Batch(need, read.loops[:-1], own, box, (), True) for box in boxes(outside, depth, outside))
    yield from (Batch(need, read.loops, own, box, ()) for box in boxes(regular, scope, regular))


def _regular(values: isl.Set, scope: int, innermost: int) -> tuple[isl.Set, isl.Set]:
    """A split of values ``[scope coordinates, indices]``: a part that is one box per scope coordinates, and the rest.

    The box has the same form in all iterations of the `innermost` loop: the form that it has in most of them.
    """
    whole = boxes(values, scope, values)
    for piece in sets.basic_sets(values) if len(whole) > 1 else ():
        anywhere = sets.extended(sets.project_prefix(piece, scope), values.get_space())
        regular = sets.constraints_at(piece.gist(anywhere), innermost).intersect(values).coalesce()
        more = values.subtract(regular).coalesce()
        if all(len(boxes(part, scope, part)) == 1 for part in (regular, more)):
            return regular, more
    return values, sets.empty(values.get_space())


def _is_first(part: isl.Set, whole: isl.Set, axis: int) -> bool:
    """Whether a part of a set has only the least coordinate on an axis, for each point on the axes before."""
    iterations = sets.project_prefix(whole, axis + 1)
    later = sets.equal_prefix(isl.Map.lex_lt(iterations.get_space()), axis)
    return bool(sets.project_prefix(part, axis + 1).is_disjoint(iterations.apply(later)))


def _without_last(of: isl.Set, axis: int) -> isl.Set:
    """A set without one of its dimensions."""
    forms = sets.variables(of.get_space())
    kept = sets.function(of.get_space(), sets.tuple_name(of.get_space()) or None, [*forms[:axis], *forms[axis + 1 :]])
    return sets.as_set(of.apply(sets.graph(kept))).coalesce()


def _unkeyed(program: Program, need: Need, own: tuple[int, ...], moved: isl.Map) -> isl.Set:
    """``[coordinates of the loops, of the rank on its own axes, indices]`` of keyed values.

    The loops are inside the scope, and run over the other axes.
    """
    before = axes(program) + len(program.buffers[need.storage.buffer].scope)
    space = moved.get_space().range()
    forms = sets.variables(space)
    index = sets.function(space, need.storage.source, [*(forms[axis] for axis in own), *forms[before:]])
    return sets.flat_pairs(moved.apply_range(sets.graph(index)), need.storage.source)


def _groups(
    program: Program, need: Need, along: frozenset[LoopId]
) -> list[tuple[tuple[LoopId, ...], list[MemoryAccess]]]:
    found: dict[tuple[LoopId, ...], list[MemoryAccess]] = {}
    for writer in need.writers:
        loops = _around(program, need, writer, along)
        if loops is not None:
            found.setdefault(loops, []).append(writer)
    groups = [part for loops, writers in found.items() for part in _apart(program, need, loops, writers)]
    return sorted(groups, key=lambda group: not any(w.role is Role.UPDATE for w in group[1]))


def _around(program: Program, need: Need, writer: MemoryAccess, along: frozenset[LoopId]) -> tuple[LoopId, ...] | None:
    """The loops of the host in which a writer's values are moved; None if no loops are legal."""
    if writer.actor.statement is None:
        return ()
    statement = _as_scheduled(program, writer)
    together = [shared(statement, statement_of(r)) for r in need.readers if r.actor.statement is not None]
    depth = max([len(program.frame(need.storage)), depth_in(program, statement, along), *together])
    return statement.loops[:depth] if depth <= program.host_depth(statement) else None


def _as_scheduled(program: Program, access: MemoryAccess) -> Statement:
    """The statement of an access, without the loops over ranks that a program with ranks is given for the proof."""
    statement = statement_of(access)
    return program.statements.get(statement.name, statement)


def _apart(
    program: Program, need: Need, loops: tuple[LoopId, ...], writers: list[MemoryAccess]
) -> Iterator[tuple[tuple[LoopId, ...], list[MemoryAccess]]]:
    """The writers of a group together, or one by one if a reader comes between them."""
    at = {w: _position(program, w, len(loops)) for w in writers}
    readers = [
        r for r in need.readers if r.actor.statement is not None and statement_of(r).loops[: len(loops)] == loops
    ]
    between = [_position(program, r, len(loops)) for r in readers]
    if any(min(at.values()) < position < max(at.values()) for position in between):
        yield from ((loops, [writer]) for writer in writers)
    else:
        yield loops, writers


def _position(program: Program, access: MemoryAccess, depth: int) -> int:
    return program.positions[access.actor.name][depth] if access.actor.statement is not None else -1


def _moved(writers: list[MemoryAccess], depth: int, values: isl.Set) -> isl.Map:
    """``coordinates of the outermost loops -> value``: which values each iteration stores (for good, of reductions)."""
    parts = list[isl.Map]()
    for writer in writers:
        if writer.actor.statement is None:
            nowhere = sets.function(writer.domain.get_space(), None, [])
            here = sets.graph(nowhere, writer.domain).reverse().apply_range(keys(writer))
        else:
            here = writer.prefix(depth).reverse().apply_range(keys(writer))
        parts.append(here)
    found = sets.union_of(parts)
    found = found.intersect_range(values).coalesce()
    reduced = depth > 0 and any(writer.role is Role.UPDATE for writer in writers)
    return found.reverse().lexmax().reverse() if reduced else found
