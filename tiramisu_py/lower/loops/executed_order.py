"""Condition 5: the loops that isl returned execute exactly what was asked for, in the order of the time map.

Nothing that isl says of its loops is used, only the loops themselves: their bounds, steps and guards, and the
instance and the indices that each leaf computes from the iterators, all read as sets (`ast_forms`, `generated_leaves`).
A position in the code is the number of the child in each sequence and the iterator of each loop, outermost first.
Position and time have the same order, for all sizes, by induction over the tree:

- At each leaf, the time of its instance in the dimension of each loop around is ``a * iterator + b``, with a > 0. So no
  instance is executed twice by a leaf, and in a loop time grows with the iterator, as far as earlier dimensions of the
  time are the same in all iterations.
- Children of a sequence have growing constants in the first dimension of the time in which they differ, or loops one
  behind the other; or, in general, no execution of a child comes later than one of a later child in the same
  iterations around. Constants are compared here, isl is asked for the rest.

The instances of a leaf are those whose time, as iterators, is in its loops and guards. Together they are those asked
for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.errors import CompilerDefect, UnsupportedError
from tiramisu_py.lower.loops.ast_forms import AstForms, Form
from tiramisu_py.lower.loops.generated_leaves import (
    AroundLoop,
    Asked,
    GeneratedLeaf,
    KnownTime,
    LeafPlace,
    difference,
    functions_of,
    zero_of,
)
from tiramisu_py.lower.loops.isl_ast import GuardNode, LeafNode, LoopNode, SequenceNode, Tree, loops_of
from tiramisu_py.records import dataclass

#: isl does about 2.8 million operations a second; most nests need less than a hundred thousand.
OPERATIONS = 40_000_000


class ExecutedOrder:
    """The loops of one tree: `executed()` proves their order, and returns the instances that they execute.

    `asked` has the instances by the name of their tuple, `leaves` the leaves by their numbers (None: it does nothing).
    `positions` has the dimension of the time of each iterator.
    """

    def __init__(
        self,
        context: isl.Set,
        asked: Mapping[str, Asked],
        leaves: Sequence[GeneratedLeaf | None],
        positions: Mapping[str, int],
        tree: Tree,
    ) -> None:
        self.asked, self.leaves, self.positions, self.tree = asked, leaves, positions, tree
        used = sorted({loop.iterator for loop in loops_of(tree)}, key=lambda name: positions[name])
        self.axes = {name: axis for axis, name in enumerate(used)}
        self.frame = sets.sized_frame(context.get_space(), None, len(used))
        self.context = sets.universe(self.frame).intersect_params(context.params())
        self.dims = sets.variables(self.frame)
        self.read = AstForms(self.frame, self.axes)
        self.pairs = IterationPairs(self.frame)

    def executed(self) -> dict[str, isl.Set]:
        """The instances executed, by the name of their tuple.

        Raises `CompilerDefect` if they, or their order, are not those asked for, `UnsupportedError` if isl cannot tell.
        """
        isl_context = self.frame.get_ctx()
        before = isl_context.get_max_operations()
        isl_context.reset_operations()
        isl_context.set_max_operations(OPERATIONS)
        try:
            found = self._executed(self._ordered(self.tree, self.context, ()))
            self._exactly(found)
        except isl.Error as error:
            raise UnsupportedError(self._unknown(error)) from error
        finally:
            isl_context.reset_operations()
            isl_context.set_max_operations(before)
        return found

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(each.name for each in self.asked.values()))

    def _unknown(self, error: isl.Error) -> str:
        return (
            f"whether the loops generated for {self._names()} run in the order of the schedule is unknown: "
            f"isl gave up ({error}); fewer pieces help (of separate_at, partition, or select in a body), "
            "or constants in place of parameters"
        )

    def _known(self, place: LeafPlace, around: Sequence[AroundLoop], end: int) -> KnownTime:
        """The first dimensions of the time, up to `end`, that one iteration of the loops around determines.

        In the dimension of a loop around, that is what the iterator leaves of it.
        """
        outer = {loop.position for loop in around}
        axes = {loop.axis for loop in around}
        found: list[tuple[str, int]] = []
        for position in range(end):
            form = place.time[position]
            if position in outer:
                if place.scales[position] != 1:
                    break
                found.append(("", place.rests[position]))
            elif sets.is_constant(form):
                found.append(("", sets.constant_of(form)))
            elif sets.axes_of(form) <= axes and form.get_constant_val().is_int():
                constant = sets.constant_of(form)
                found.append((sets.plus(form, -constant).to_str(), constant))
            else:
                break
        return tuple(found)

    # -- the order, node by node

    @deep
    def _ordered(self, tree: Tree, where: isl.Set, around: tuple[AroundLoop, ...]) -> list[LeafPlace]:
        """The leaves of a tree that is executed in the iterations `where`, shown to be in the order of their times."""
        match tree:
            case LeafNode():
                return self._leaf(self.leaves[tree.position], where, around)
            case GuardNode():
                holds = self.read.condition(tree.condition)
                places = self._ordered(tree.then, where.intersect(holds), around)
                if tree.otherwise is not None:
                    places += self._ordered(tree.otherwise, where.subtract(holds), around)
                return places
            case LoopNode():
                return self._loop(tree, where, around)
            case SequenceNode():
                children = [self._ordered(child, where, around) for child in tree.children]
                self._sequence(children, where, around)
                return [place for child in children for place in child]

    def _leaf(self, leaf: GeneratedLeaf | None, where: isl.Set, around: tuple[AroundLoop, ...]) -> list[LeafPlace]:
        if leaf is None:
            return []
        inside = {loop.axis for loop in around}
        for axis, dim in enumerate(self.dims):
            if axis not in inside:
                where = where.intersect(dim.zero_basic_set().to_set())
        asked = self.asked[leaf.asked]
        read = [self.read.form(e) for e in leaf.coordinates]
        forms = [self.read.form(e) for e in leaf.forms]
        return [
            self._place(asked, part, around, instance, forms)
            for part, instance in functions_of(where, read, asked.instances.get_space())
        ]

    def _place(
        self, asked: Asked, where: isl.Set, around: Sequence[AroundLoop], instance: isl.MultiAff, forms: Sequence[Form]
    ) -> LeafPlace:
        """The executions of a leaf, whose loops and forms are shown to be those of its instance."""
        time = [sets.without_floors(form, where) for form in sets.outputs(asked.time.pullback_multi_aff(instance))]
        place = LeafPlace(asked, where, around, instance, time)
        clocks = []
        for loop in around:
            own = time[loop.position]
            scale = max(sets.stride(own, loop.axis) or 1, 1)
            left = own.sub(sets.scaled(self.dims[loop.axis], scale))
            rest = sets.constant_of(left) if sets.is_constant(left) else 0
            place.scales[loop.position], place.rests[loop.position] = scale, rest
            clocks.append(sets.plus(left, -rest))
        self._require_zero(where, clocks, lambda: f"do not run {asked.name} in the order of its time")
        values = [form.align_params(self.frame.params()).pullback_multi_aff(instance) for form in asked.forms]
        wrong = [difference(form, value) for form, value in zip(forms, values, strict=True)]
        self._require_zero(where, wrong, lambda: f"use other indices than those of {asked.name}")
        return place

    def _require_zero(self, where: isl.Set, forms: Sequence[Form], told: Callable[[], str]) -> None:
        """Some forms are zero in some iterations; the others are compared without isl."""
        open_ = [form for form in forms if not (isinstance(form, isl.Aff) and form.plain_is_zero())]
        if not open_:
            return
        zero = sets.universe(self.frame)
        for form in open_:
            zero = zero.intersect(zero_of(form))
        if not where.is_subset(zero):
            raise CompilerDefect(f"the loops generated {told()}")

    def _loop(self, node: LoopNode, where: isl.Set, around: tuple[AroundLoop, ...]) -> list[LeafPlace]:
        """The leaves of a loop, in whose iterations time grows."""
        position, axis = self.positions[node.iterator], self.axes[node.iterator]
        if around and position <= around[-1].position:
            raise CompilerDefect(f"the loops generated for {self._names()} are nested in another order than asked for")
        if node.degenerate:
            inside = where.intersect(zero_of(difference(self.dims[axis], self.read.form(node.first))))
        else:
            inside = where.intersect(self.read.iterations(node.iterator, node.first, node.condition, node.step))
        loop = AroundLoop(position, axis, inside, node.step)
        places = self._ordered(node.body, inside, (*around, loop))
        if places and not node.degenerate:
            self._grows(loop, places, around)
        return places

    def _grows(self, loop: AroundLoop, places: Sequence[LeafPlace], around: Sequence[AroundLoop]) -> None:
        """Every execution in an earlier iteration of a loop comes at an earlier time."""
        scales = {place.scales[loop.position] for place in places}
        rests = [place.rests[loop.position] for place in places]
        together = len(scales) == 1 and max(rests) - min(rests) < min(scales) * loop.step
        before = {self._known(place, around, loop.position) for place in places}
        if together and len(before) == 1 and len(next(iter(before))) == loop.position:
            return
        for first in places:
            for second in places:
                self._require_order(first, second, around, loop)

    def _sequence(self, children: Sequence[Sequence[LeafPlace]], where: isl.Set, around: Sequence[AroundLoop]) -> None:
        """Every execution of a child comes at an earlier time than those of later children, in the same iterations."""
        apart = LeavesApart(self.pairs, where, around)
        earlier: list[tuple[KnownTime, LeafPlace]] = []
        for child in children:
            own = [(self._known(place, around, len(place.time)), place) for place in child]
            for before, first in earlier:
                for after, second in own:
                    if not apart.less((before, first), (after, second)):
                        self._require_order(first, second, around)
            earlier += own

    def _require_order(
        self, first: LeafPlace, second: LeafPlace, around: Sequence[AroundLoop], loop: AroundLoop | None = None
    ) -> None:
        """No execution of `first` is later than one of `second` in the same iterations around, nor the same execution.

        With a loop, only executions of `first` in earlier iterations of it are meant.
        """
        pairs = self.pairs.of(first.where, second.where, around)
        left, right = self.pairs.sides
        if loop is not None:
            (here, there) = (side.get_at(loop.axis) for side in (left, right))
            pairs = pairs.intersect(here.lt_set(there))
        same = {each.position for each in around}
        for position, (own, other) in enumerate(zip(first.time, second.time, strict=True)):
            if position in same and first.is_alike(second, position):
                continue
            if pairs.is_empty():
                return
            here, there = (form.pullback_multi_aff(side) for form, side in ((own, left), (other, right)))
            if here.plain_is_equal(there):
                continue
            if pairs.intersect(here.ge_set(there)).is_empty():
                return
            if not pairs.intersect(here.gt_set(there)).is_empty():
                raise CompilerDefect(
                    f"the loops generated run {first.asked.name} before {second.asked.name}, which has an earlier time"
                )
            pairs = pairs.intersect(here.eq_set(there))
        if first.asked is second.asked:
            self._require_distinct(first, second, pairs)

    def _require_distinct(self, first: LeafPlace, second: LeafPlace, pairs: isl.Set) -> None:
        left, right = self.pairs.sides
        for own, other in zip(sets.outputs(first.instance), sets.outputs(second.instance), strict=True):
            here, there = own.pullback_multi_aff(left), other.pullback_multi_aff(right)
            pairs = pairs.intersect(here.eq_set(there))
        if not pairs.is_empty():
            raise CompilerDefect(f"the loops generated execute an instance of {first.asked.name} twice")

    # -- the instances

    def _executed(self, places: Sequence[LeafPlace]) -> dict[str, isl.Set]:
        parts: dict[str, list[isl.Set]] = {name: [] for name in self.asked}
        for place in places:
            parts[sets.tuple_name(place.asked.instances)].append(self._instances(place))
        return {
            name: sets.union_of([sets.empty(self.asked[name].instances.get_space()), *found])
            for name, found in parts.items()
        }

    def _instances(self, place: LeafPlace) -> isl.Set:
        """The instances that a leaf executes: those at whose time, as iterators, it executes them."""
        frame = place.asked.instances.get_space()
        time = sets.outputs(place.asked.time)
        iterators = [sets.constant(frame, 0) for _ in self.dims]
        for loop in place.around:
            value, scale = sets.plus(time[loop.position], -place.rests[loop.position]), place.scales[loop.position]
            iterators[loop.axis] = value if scale == 1 else sets.floor_div(value, scale)
        clock = sets.function(frame, None, iterators)
        found = sets.preimage(place.where, clock)
        back = sets.outputs(place.instance.pullback_multi_aff(clock))
        for dim, form in zip(sets.variables(frame), back, strict=True):
            if not form.plain_is_equal(dim):
                found = found.intersect(dim.eq_set(form))
        return found

    def _exactly(self, executed: Mapping[str, isl.Set]) -> None:
        for name, asked in self.asked.items():
            if not executed[name].is_equal(asked.instances):
                raise CompilerDefect(f"the loops generated for {asked.name} do not execute its instances")


# -- comparisons of the executions of leaves: pairs of iterations that agree in the loops around, and who comes first


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
