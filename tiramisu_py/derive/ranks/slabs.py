"""Slabs: blocks widened by the number of remaining iterations, as convex sets that ranks compute for themselves.

    B * q <= i < B * q + B     -->     B * q - n <= i < B * q + B + n,     n = iterations after this one, of k

The exact set of needed instances has steps at the ends of the domain and in corners. For stencils, a block widened by a
constant for each remaining iteration contains it, and is one slab per rank. If no slabs are found, the exact sets are
used.
"""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.derive.ranks.repeated_iterations import Ranks, Repeated
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass

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
