"""Blocks that are wider the more iterations are to come: what ranks compute for themselves, as convex sets.

    B * q <= i < B * q + B     -->     B * q - n <= i < B * q + B + n,     n = iterations after this one, of k

What is needed exactly has steps at the ends of the domain and in corners; a block that is wider by a constant for
each iteration to come contains it, for stencils, and is one slab of each rank. Where no slabs are found there are only
the exact sets.
"""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.derive.ranks.repeated_iterations import Ranks, Repeated
from tiramisu_py.program.statement import Statement

#: How many of the last iterations say by how much blocks grow.
LAST = 4

#: How far a side moves out: a constant, and so much for each iteration to come.
Growth = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Block:
    """Where a statement runs, in the frame of ``[instance, rank]``: on `sides`, forms of at least 0, and in `inside`.

    `phase` is the number of an iteration among those that are taken together, and `left` says how many are to come.
    """

    statement: Statement
    inside: isl.Set
    sides: list[isl.Aff]
    left: isl.Aff
    phase: isl.Aff

    def widened(self, by: list[Growth], phase: int | None = None) -> isl.Map:
        """``instance -> rank`` when each side is moved out; of the instances of one phase alone where it is given."""
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
    """Where each statement runs so that ranks have what they read in the same iterations; None where no slabs do."""
    blocks = {name: _block(of, statement) for name, statement in of.inside.items()}
    known = {name: block for name, block in blocks.items() if block is not None}
    if len(known) < len(blocks):
        return None
    by = _growth(of, known)
    if by is None or any(_is_far(block, by[name]) for name, block in known.items()):
        return None
    ranks = {name: block.widened(by[name]) for name, block in known.items()}
    return ranks if of.is_enough(ranks) else None


def _block(of: Repeated, statement: Statement) -> Block | None:
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
    return Block(statement, inside, sides, sets.plus(group, of.count - 1).sub(at), at.sub(group))


def _ranks(of: Repeated) -> isl.Set:
    """The ranks on which statements run."""
    return sets.union_of(own.range() for own in of.own.values()).coalesce()


def _growth(of: Repeated, blocks: dict[str, Block]) -> dict[str, list[Growth]] | None:
    """By how much each side of each block moves out; None where that has no end."""
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


def _beyond(block: Block, computed: isl.Set, phase: int, least: list[int]) -> list[int] | None:
    """How far the sides of a block must be moved for what is computed in a phase; at least as far as before."""
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


def _is_far(block: Block, by: list[Growth]) -> bool:
    """Whether a side moves by two blocks at once: what is needed is elsewhere then, not all of what is between."""
    for side, growth in zip(block.sides, by, strict=True):
        across = [form for form in map(side.add, block.sides) if sets.is_constant(form)]
        if any(sum(growth) >= 2 * (sets.constant_of(form) + 1) for form in across):
            return True
    return False


def _fitted(moved: list[list[int]]) -> list[Growth]:
    """A constant and a slope for each side, of what it is moved in the last iteration, the one before, and so on."""
    return [
        (by[0], max((-((by[0] - here) // k) for k, here in enumerate(by) if k), default=0))
        for by in zip(*moved, strict=True)
    ]
