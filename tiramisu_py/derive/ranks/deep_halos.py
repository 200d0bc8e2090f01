"""Deep halos: fewer but larger messages, at the price of redundant computation.

    for t: exchange h rows        -->   for t: every k-th time: exchange k * h rows
           S[t, own rows]                      S[t, own rows, and what is left of the halo]

The iterations of a loop are grouped by ``t // k``. A rank computes itself, in its own memory, all values that it reads
and that are computed in the same group; values computed before come in messages, as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.derive.ranks.repeated_iterations import Ranks, Repeated, on_ranks, rank_depths, ranks_of, repeated
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, size


def deepened(program: Program, depth: Mapping[object, object]) -> Program:
    """The program in which ranks compute for themselves the values that they read, in groups of `depth` iterations."""
    if not isinstance(depth, Mapping):
        raise CommandError(f"depth={depth!r}: give a dict of a loop to the number of its iterations, as in {{t: 4}}")
    for given, number in depth.items():
        name, count = loop_name(given), size(number, "depth", 1)
        loops = [loop.id for loop in program.loops.values() if loop.name == name]
        shared = [loop for loop in loops if on_ranks(program, loop)]
        if not shared:
            raise CommandError(f"no loop {name} has statements inside that run on ranks")
        for loop in shared:
            program = _deepened(program, loop, count)
    return program


def _deepened(program: Program, loop: LoopId, count: int) -> Program:
    of = repeated(program, loop, count)
    if of.is_enough(of.own):
        return program
    ranks = slabs(of) or _exact(of)
    for name, statement in of.inside.items():
        if not ranks[name].is_equal(of.own[name]):
            program = program.with_statement(_on_more(program, statement, ranks[name]))
    return program


def _exact(of: Repeated) -> Ranks:
    """The ranks of each instance such that ranks compute exactly the values that they read in the same iterations."""
    ranks, changed = dict(of.own), set(of.inside)
    for _ in range(of.count * len(of.inside)):
        if not changed:
            break
        grown: set[str] = set()
        for reader, writer in of.pairs():
            needed = of.needed(reader, writer, ranks[reader.name]) if reader.name in changed else None
            if needed is not None and not needed.is_subset(of.having(writer, ranks[writer.name])):
                ranks[writer.name] = ranks[writer.name].union(of.computing(writer, needed)).coalesce()
                grown.add(writer.name)
        changed = grown
    return ranks


def _on_more(program: Program, statement: Statement, ranks: isl.Map) -> Statement:
    """A statement with the executing rank in its instances: ``S[dims, ranks]``."""
    own = _coordinates(program, statement)
    names = [program.loops[statement.loops[d]].name for d in rank_depths(program, statement)]
    dims = distinct([*statement.dims, *names])
    instances = sets.with_dims(sets.plain(sets.flat_pairs(ranks, statement.name)), dims)
    frame = instances.get_space()
    before = sets.function(frame, statement.name, sets.variables(frame)[: len(statement.dims)])
    found = replace(
        statement,
        dims=tuple(dims),
        instances=instances,
        point=sets.compose(before, statement.point),
        coords=sets.renamed(sets.from_frame(own, frame), None),
    )
    if not found.coords_map.is_injective():
        loops = ", ".join(program.loop_names(statement))
        raise CommandError(
            f"the loops {loops} of {statement.name} do not distinguish the instances that a rank computes beyond its "
            "block: blocks of one iteration have no room for them; make the blocks larger"
        )
    return found


def _coordinates(program: Program, statement: Statement) -> isl.MultiAff:
    """``[dims, rank] -> iterations`` of a statement's loops, extended beyond the rank's own block."""
    ranks = ranks_of(program, statement)
    own = sets.flat_pairs(ranks, statement.name)
    space, count = own.get_space(), sets.in_size(ranks)
    before = sets.function(space, statement.name, sets.variables(space)[:count])
    relation = sets.affine_hull(sets.graph(sets.compose(before, statement.coords), own))
    found = sets.as_single_function(relation) if relation.is_single_valued() else None
    if found is None:
        loops = ", ".join(program.loop_names(statement))
        raise CommandError(f"the loops {loops} of {statement.name} cannot be extended beyond the block of a rank")
    return _with_room(program, statement, found, relation.domain())


def _with_room(program: Program, statement: Statement, coords: isl.MultiAff, block: isl.Set) -> isl.MultiAff:
    """The coordinates for blocks of one iteration: the distance from the block, 0 inside it."""
    apart = [form for form, is_equal in sets.constraints(block) if is_equal]
    forms, ranks = sets.outputs(coords), rank_depths(program, statement)
    single = [d for d, form in enumerate(forms) if d not in ranks and sets.is_constant(form)]
    for d, away in zip(single, apart, strict=False):
        forms[d] = forms[d].add(away)
    return sets.function(coords.get_space().domain(), None, forms)


# -- slabs: the values beside a block that ranks exchange at once
#
#     B * q <= i < B * q + B     -->     B * q - n <= i < B * q + B + n,     n = iterations after this one, of k
#
# The exact set of needed instances has steps at the ends of the domain and in corners. For stencils, a block widened by
# a constant for each remaining iteration contains it, and is one slab per rank. If no slabs are found, the exact sets
# are used.


#: The number of last iterations from which the growth of blocks is determined.
LAST = 4

#: The outward move of a side: a constant, and a slope for each remaining iteration.
Growth = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Slab:
    """The block of a statement in the frame ``[instance, rank]``: `sides` are forms >= 0; `inside` are other bounds.

    `phase` is the number of an iteration in its group, and `left` the number of remaining iterations.
    """

    statement: Statement
    inside: isl.Set
    sides: list[isl.Aff]
    left: isl.Aff
    phase: isl.Aff

    def widened(self, by: list[Growth], phase: int | None = None) -> isl.Map:
        """``instance -> rank`` with each side moved out; restricted to one phase if it is given."""
        whole = self.inside if phase is None else self.inside.intersect(self.at(phase))
        for side, (base, slope) in zip(self.sides, by, strict=True):
            form = sets.plus(side.add(sets.scaled(self.left, slope)), base)
            whole = whole.intersect(sets.as_set(form.to_pw_aff().nonneg_set()))
        return self._instance(whole).reverse().apply_range(self._rank(whole))

    def at(self, phase: int) -> isl.Set:
        """The instances of one phase."""
        return sets.within(self.phase, phase, phase + 1)

    def flat(self, ranks: isl.Map) -> isl.Set:
        """``instance -> rank`` in the frame of the block."""
        return sets.plain(sets.named(sets.flat_pairs(ranks, self.statement.name), None))

    def _instance(self, whole: isl.Set) -> isl.Map:
        forms = sets.variables(whole.get_space())[: sets.size(self.statement.frame)]
        return sets.graph(sets.function(whole.get_space(), self.statement.name, forms), whole)

    def _rank(self, whole: isl.Set) -> isl.Map:
        forms = sets.variables(whole.get_space())[sets.size(self.statement.frame) :]
        return sets.graph(sets.function(whole.get_space(), None, forms), whole)


def slabs(of: Repeated) -> Ranks | None:
    """Slabs for each statement such that ranks compute the values that they read in the same group; None if none do."""
    blocks = {name: _block(of, statement) for name, statement in of.inside.items()}
    known = {name: block for name, block in blocks.items() if block is not None}
    if len(known) < len(blocks):
        return None
    by = _growth(of, known)
    if by is None or any(_is_far(block, by[name]) for name, block in known.items()):
        return None
    ranks = {name: block.widened(by[name]) for name, block in known.items()}
    return ranks if of.is_enough(ranks) else None


def _block(of: Repeated, statement: Statement) -> Slab | None:
    """The block of a statement as sides that can be moved, within its instances on the ranks that there are."""
    own = of.own[statement.name].coalesce()
    flat = sets.named(sets.flat_pairs(own, statement.name), None)
    frame, count = flat.get_space(), sets.size(statement.frame)
    instance = sets.function(frame, statement.name, sets.variables(frame)[:count])
    rank = sets.function(frame, None, sets.variables(frame)[count:])
    there = sets.preimage(_ranks(of), rank)
    inside = sets.preimage(own.domain(), instance).intersect(there).coalesce()
    block = flat.gist(inside).coalesce()
    if len(block.get_basic_sets()) != 1 or len(inside.get_basic_sets()) != 1:
        return None
    sides = []
    for side, both in sets.constraints(block):
        if sets.has_floors(side):
            return None
        sides += [side, side.neg()] if both else [side]
    at = sets.outputs(sets.compose(instance, sets.function(statement.frame, None, [of.iteration(statement)])))[0]
    group = sets.scaled(sets.floor_div(at, of.count), of.count)
    return Slab(statement, inside, sides, sets.plus(group, of.count - 1).sub(at), at.sub(group))


def _ranks(of: Repeated) -> isl.Set:
    """The ranks on which statements run."""
    return sets.union_of(own.range() for own in of.own.values()).coalesce()


def _growth(of: Repeated, blocks: dict[str, Slab]) -> dict[str, list[Growth]] | None:
    """The growth of each side of each block; None if it is unbounded."""
    phases = range(of.count - 1, max(-1, of.count - 1 - LAST), -1)
    moved = {(name, phase): [0] * len(block.sides) for name, block in blocks.items() for phase in phases}
    changed = set(moved)
    for _ in range(2 * LAST * len(blocks)):
        grown: set[tuple[str, int]] = set()
        for reader, writer in of.pairs():
            for phase in phases:
                if (reader.name, phase) in changed:
                    by = [(base, 0) for base in moved[reader.name, phase]]
                    needed = of.needed(reader, writer, blocks[reader.name].widened(by, phase))
                    if needed is None or needed.is_empty():
                        continue
                    computed = blocks[writer.name].flat(of.computing(writer, needed))
                    for earlier in phases:
                        before = moved[writer.name, earlier]
                        after = _beyond(blocks[writer.name], computed, earlier, before)
                        if after is None:
                            return None
                        if after != before:
                            moved[writer.name, earlier] = after
                            grown.add((writer.name, earlier))
        changed = grown
        if not changed:
            return {name: _fitted([moved[name, phase] for phase in phases]) for name in blocks}
    return None


def _beyond(block: Slab, computed: isl.Set, phase: int, least: list[int]) -> list[int] | None:
    """The moves of a block's sides that cover the instances `computed` in a phase, and at least `least`."""
    here = computed.intersect(block.at(phase))
    if here.is_empty():
        return least
    found = []
    for side, before in zip(block.sides, least, strict=True):
        outside = sets.graph(sets.function(here.get_space(), None, [side.neg()]))
        most = sets.largest_value(sets.at_any_params(sets.as_set(here.apply(outside))), 0)
        if most is None:
            return None
        found.append(max(most, before))
    return found


def _is_far(block: Slab, by: list[Growth]) -> bool:
    """Whether a side moves by two blocks or more: the needed instances are then far away, not all in between."""
    for side, growth in zip(block.sides, by, strict=True):
        across = [form for form in map(side.add, block.sides) if sets.is_constant(form)]
        if any(sum(growth) >= 2 * (sets.constant_of(form) + 1) for form in across):
            return True
    return False


def _fitted(moved: list[list[int]]) -> list[Growth]:
    """A constant and a slope for each side, fitted to its moves in the last iteration, the one before, and so on."""
    return [
        (by[0], max((-((by[0] - here) // k) for k, here in enumerate(by) if k), default=0))
        for by in zip(*moved, strict=True)
    ]
