"""Comparisons of the executions of leaves: pairs of iterations that agree in the loops around, and who comes first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.lower.loops.generated_leaves import AroundLoop, KnownTime, LeafPlace
from tiramisu_py.records import dataclass


class IterationPairs:
    """Pairs of iterations of a frame; `sides` are the functions from a pair to its first, and to its second."""

    def __init__(self, frame: isl.Space) -> None:
        count = sets.size(frame)
        both = sets.sized_frame(frame, None, 2 * count)
        dims = sets.variables(both)
        self.sides = sets.function(both, None, dims[:count]), sets.function(both, None, dims[count:])

    def of(self, first: isl.Set, second: isl.Set, around: Sequence[AroundLoop]) -> isl.Set:
        """The pairs of iterations, of two sets, that agree in the loops around."""
        left, right = self.sides
        pairs = sets.flat_product(first, second, None)
        for loop in around:
            pairs = pairs.intersect(left.get_at(loop.axis).eq_set(right.get_at(loop.axis)))
        return pairs


@dataclass(frozen=True, eq=False)
class LeavesApart:
    """Comparisons of executions in one iteration of the loops `around`, each made once for many leaves.

    What decides is the first dimension of the time in which two leaves differ: a constant or a form of the iterators
    around, or the iterator of a loop inside. Of a leaf's iterations, only the loops up to there are looked at, so that
    leaves of the same loops are compared once.
    """

    pairs: IterationPairs
    where: isl.Set
    around: Sequence[AroundLoop]
    told: dict[Hashable, bool | None] = field(default_factory=dict)

    def less(self, first: tuple[KnownTime, LeafPlace], second: tuple[KnownTime, LeafPlace]) -> bool:
        """Whether all executions of the first come at an earlier time: False if that is not shown here."""
        one, other = first[0], second[0]
        begin = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
        if begin is None:
            begin = min(len(one), len(other))
        elif one[begin][0] == other[begin][0]:
            return one[begin][1] < other[begin][1]
        places = first[1], second[1]
        marks = list[tuple[Hashable, Hashable]]()
        for position in range(begin, len(places[0].time)):
            here = self._mark(places[0], position), self._mark(places[1], position)
            if None in here:
                return False
            marks.append(here)
            key = begin, *marks
            if key not in self.told:
                self.told[key] = self._compared(places, begin, position)
            answer = self.told[key]
            if answer is not None:
                return answer
        return False

    def _mark(self, place: LeafPlace, position: int) -> Hashable:
        """One dimension of the time: a loop inside, or a form of the loops outside of it; None if neither."""
        loop = next((loop for loop in place.around if loop.position == position), None)
        if loop is not None:
            return loop if place.scales[position] == 1 and not place.rests[position] else None
        form = place.time[position]
        outside = {loop.axis for loop in place.around if loop.position < position}
        return form.to_str() if sets.axes_of(form) <= outside else None

    def _compared(self, places: tuple[LeafPlace, LeafPlace], begin: int, position: int) -> bool | None:
        """True if the first's time is less in a dimension, given that it is equal before; None if less or equal."""
        first, second = places
        one, other = (self._iterations(place, position) for place in places)
        if position == begin and (one is self.where or other is self.where):
            forms = [place.time[position] for place in places]
            where = one if other is self.where else other
            if where.intersect(forms[0].ge_set(forms[1])).is_empty():
                return True
        pairs = self.pairs.of(one, other, self.around)
        left, right = self.pairs.sides
        for at in range(begin, position + 1):
            here, there = first.time[at].pullback_multi_aff(left), second.time[at].pullback_multi_aff(right)
            if at < position:
                pairs = pairs.intersect(here.eq_set(there))
        if pairs.intersect(here.ge_set(there)).is_empty():
            return True
        return None if pairs.intersect(here.gt_set(there)).is_empty() else False

    def _iterations(self, place: LeafPlace, position: int) -> isl.Set:
        """The iterations of a leaf's loops up to a dimension."""
        own = [loop for loop in place.around[len(self.around) :] if loop.position <= position]
        return own[-1].inside if own else self.where
