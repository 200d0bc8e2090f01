"""The soundness of an algorithm: every read lies in a value set, and recurrences are well-founded.

This is checked before any schedule: otherwise an error of the algorithm would be blamed on a command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.declare.declared_ranges import bounded, broken_claim
from tiramisu_py.algorithm.declare.repairs_of_reads import (
    edges,
    first_values,
    from_the_end,
    mask_or_conversion,
    smaller,
)
from tiramisu_py.algorithm.declare.shared_loops import Reads, shared_loops
from tiramisu_py.algorithm.declare.stored_elements import wrong_loads, wrong_stores
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.boxes import box_in_words
from tiramisu_py.algorithm.domains.conditions import missing_condition
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.extents import extent_of
from tiramisu_py.algorithm.domains.reads import Reading, readings
from tiramisu_py.algorithm.domains.runs import is_run_of_position, start_bounds
from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.operators import argmax, argmin
from tiramisu_py.algorithm.traversal import accesses, branches, substitute, walk
from tiramisu_py.errors import DeclarationError, Violation, Witness
from tiramisu_py.sets import smallest

#: How many times the dependence relation is composed with itself, if no dimension orders it.
MOST_STEPS = 4


class ValueSets:
    """The value sets of an algorithm and the reads of each computation. Computed once, kept for one check."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self._domains: dict[str, isl.Set] = {}
        self._sources: dict[int, tuple[Expr, tuple[str, ...]]] = {}
        self._readings: dict[tuple[Any, ...], tuple[Expr, Sequence[Expr], list[Reading]]] = {}

    def domain(self, source: str) -> isl.Set:
        """The value set of a computation, or the elements of an input, in the tuple of its name."""
        if source not in self._domains:
            self._domains[source] = self._domain(source).intersect_params(self.algorithm.context.params())
        return self._domains[source]

    def filled(self, computation: Computation) -> isl.Set:
        """The elements of an array that programs fill: all of them, or of a partial one those that are values.

        An element to which no program adds is no value of a sum, but it is one of the array.
        """
        stored, shape = computation.stored, computation.shape
        if stored is None or stored.partial or shape is None:
            return self.domain(computation.name)
        whole = box(sets.sized_frame(self.algorithm.param_space, computation.name, len(shape)), shape)
        return whole.intersect_params(self.algorithm.context.params())

    def _domain(self, source: str) -> isl.Set:
        if source in self.algorithm.computations:
            return sets.named(self.algorithm.computations[source].domain, source)
        shape = self.algorithm.inputs[source].shape
        return box(sets.sized_frame(self.algorithm.param_space, source, len(shape)), shape)

    def readings(
        self, expression: Expr, computation: Computation, dims: int, guards: Sequence[Expr] = ()
    ) -> list[Reading]:
        """The reads of an expression over the first `dims` iterators of a computation, where its `guards` hold."""
        key = (id(expression), computation.name, dims, *map(id, guards))
        if key not in self._readings:
            space = self.algorithm.frame(computation.name, computation.point_iterators[:dims])
            self._readings[key] = (expression, guards, readings(self.algorithm, expression, space, guards))
        return self._readings[key][-1]

    def sources(self, expression: Expr) -> tuple[str, ...]:
        """The sources that an expression reads, without scalar inputs."""
        key = id(expression)
        if key not in self._sources:
            inputs = self.algorithm.inputs
            read = dict.fromkeys(access.source for access in accesses(expression))
            found = tuple(name for name in read if not (name in inputs and inputs[name].scalar))
            self._sources[key] = (expression, found)
        return self._sources[key][1]

    def of(self, c: Computation) -> list[Reading]:
        """The reads of a computation's expression and guards, restricted to its points."""
        points = sets.named(c.points, c.name).intersect_params(self.algorithm.context.params())
        listed = self.readings(c.expr, c, len(c.point_iterators), c.guards)
        listed = [*listed, *(r for e in c.guards for r in self.readings(e, c, len(c.point_iterators)))]
        return [reading.where(points) for reading in listed]

    def between(self, members: Sequence[Computation]) -> Reads:
        """The values that some computations read of each other and of themselves."""
        names, found = {each.name for each in members}, Reads()
        for member in members:
            for reading in self.of(member):
                pair = (member.name, reading.access.source)
                if pair[1] in names:
                    read = sets.project_domain_prefix(reading.relation, len(member.iterators), member.name)
                    found[pair] = found[pair].union(read) if pair in found else read
        return {pair: read for pair, read in found.items() if not read.is_empty()}


def box(space: isl.Space, extents: tuple[Expr, ...]) -> isl.Set:
    """The elements of an array: from 0 to each extent."""
    reader = Affine(space, {})
    inside = sets.universe(space)
    for variable, extent in zip(sets.variables(space), extents, strict=True):
        inside = inside.intersect(sets.as_set(variable.ge_set(sets.constant(space, 0))))
        inside = inside.intersect(sets.as_set(variable.to_pw_aff().lt_set(reader.value(extent))))
    return inside


def violations(values: ValueSets) -> list[Violation]:
    """Every reason why the algorithm itself is refused."""
    found: list[Violation] = []
    for computation in values.algorithm.computations.values():
        reads = [*_outside(values, computation), *_nonexistent(values, computation)]
        found += reads or wrong_loads(computation, values.algorithm.context, values.domain)
        found += wrong_stores(computation, values.filled(computation), values.algorithm.context)
        claim = broken_claim(values.algorithm, computation)
        found += [] if claim is None else [claim]
        found += _ends_of_nothing(values, computation)
        found += _endless(values, computation) if not computation.group else []
    groups = dict.fromkeys(each.group for each in values.algorithm.computations.values() if each.group)
    for group in groups:
        found += _endless_group(values, values.algorithm.together(group))
    return found


# -- bounds


def _outside(values: ValueSets, c: Computation) -> list[Violation]:
    found = []
    unbounded: dict[str, tuple[Reading, isl.Map]] = {}
    readings = [
        (reading, reading.relation.subtract_range(values.domain(reading.access.source))) for reading in values.of(c)
    ]
    wrong = [(reading, bad) for reading, bad in readings if not bad.is_empty()]
    for reading, bad in wrong:
        source = reading.access.source
        if reading.unbounded:  # one violation for all such indices: the same fact is missing for all of them
            first, before = unbounded.get(source, (reading, bad))
            parts = tuple(dict.fromkeys([*first.unbounded, *reading.unbounded]))
            unbounded[source] = replace(first, unbounded=parts), before
        else:
            found.append(_out_of_bounds(values, c, reading, bad, wrong))
    found += [_out_of_bounds(values, c, reading, bad, wrong) for reading, bad in unbounded.values()]
    return _one_each(found)


def _nonexistent(values: ValueSets, c: Computation) -> list[Violation]:
    """Reads of values that exist only under guards, by a computation without these guards."""
    found = []
    for reading in values.of(c):
        source = values.algorithm.computations.get(reading.access.source)
        missing = [] if source is None else _unmet(values.algorithm, source, reading, c)
        if missing and source is not None and not reading.relation.is_empty():
            params, point, element = first_pair(reading.relation)
            reader = (c.name, point[: len(c.iterators)])
            witness = Witness(params, reader=reader, element=(source.name, element))
            message = f"{indexed(*reader)} reads {indexed(source.name, element)}, which exists only where {missing[0]}"
            repair = f"give {c.name} the same condition with where=, or give {source.name} a value everywhere"
            found.append(Violation("bounds", f"{message}, {witness}", witness, repair=repair))
    return _one_each(found)


def _unmet(algorithm: Algorithm, source: Computation, reading: Reading, c: Computation) -> list[Expr]:
    """The source's guards, at the indices read, that are not guards of the reader itself."""
    at = dict(zip(source.iterators, reading.access.indices, strict=True))
    own = [g for g in source.guards if not any(isinstance(e, Iter) and e.name in source.over for e in walk(g))]
    needed = [substitute(guard, at) for guard in own]
    unmet = [guard for guard in needed if not any(guard.same_as(mine) for mine in c.guards)]
    return [g for g in unmet if not _bounds_alike(algorithm, g, c) and not is_run_of_position(algorithm, g)]


def _bounds_alike(algorithm: Algorithm, needed: Expr, c: Computation) -> bool:
    """Whether a guard is bounds by elements of arrays that are guards of the reader, too, written in another way."""
    space = c.points.get_space()
    reader = Affine(space, dict(zip(c.point_iterators, sets.variables(space), strict=True)))
    wanted = list(start_bounds(algorithm.inputs, reader, [needed]))
    own = list(start_bounds(algorithm.inputs, reader, c.guards)) if wanted else []
    found = [any(mine.is_same(bound) for mine in own) for bound in wanted]
    return len(found) == len(conjuncts(needed)) and all(found)


def _one_each(found: list[Violation]) -> list[Violation]:
    """The first violation of each message: the same access often occurs twice in an expression."""
    return list({str(violation): violation for violation in found}.values())


def _out_of_bounds(
    values: ValueSets, c: Computation, reading: Reading, bad: isl.Map, wrong: Sequence[tuple[Reading, isl.Map]]
) -> Violation:
    """The violation of a read; `wrong` are all reads of the computation that are out of bounds."""
    source = reading.access.source
    params, point, element = first_pair(bad)
    reader = (c.name, point[: len(c.iterators)])
    witness = Witness(params, writer=None, reader=reader, element=(source, element))
    where = f"outside {extent_in_words(values, source)}, {witness}"
    message = f"{indexed(*reader)} reads {indexed(source, element)}, which is {where}"
    if reading.unbounded:
        repair = "; ".join(dict.fromkeys(bounded(values.algorithm, part) for part in reading.unbounded))
        parts = list(dict.fromkeys(map(str, reading.unbounded)))
        noun = "index" if len(parts) == 1 else "indices"
        message += f": nothing is known of the {noun} {', '.join(parts)}"
        return Violation("bounds", message, witness, repair=repair)
    repair = _repair(values, c, reading, wrong) if c.origin is None else mask_or_conversion(c, reading.access)
    sizes_left = not reading.relation.params().subtract(bad.params()).is_empty()  # at which it reads anything
    needed = missing_condition(bad, values.algorithm.context) if sizes_left else ""
    if not needed:
        return Violation("bounds", message, witness, repair=repair)
    message += f"; the read is in bounds only where {needed}"
    return Violation("bounds", message, witness, repair=f"assume {needed}, or {repair}")


def _repair(values: ValueSets, c: Computation, reading: Reading, wrong: Sequence[tuple[Reading, isl.Map]]) -> str:
    """The index to write instead of a read that is out of bounds, or where to read."""
    algorithm, source = values.algorithm, reading.access.source
    points = sets.named(c.points, c.name).intersect_params(algorithm.context.params())
    if source == c.name:
        own = sets.union_of(bad.domain() for each, bad in wrong if each.access.source == source)
        before = ", ".join([*c.iterators[:-1], f"{c.iterators[-1]} - 1"]) if c.iterators else ""
        return first_values(c, own, points) or f"let {c.name} read values that come before, such as {c.name}[{before}]"
    counted = from_the_end(algorithm, reading.access)
    if counted:
        return counted
    every = sets.union_of(bad.domain() for _, bad in wrong)
    return f"{smaller(algorithm, c, every, points)}{edges(reading.access)}{_or_larger(values, source, c)}"


def _or_larger(values: ValueSets, source: str, c: Computation) -> str:
    """The advice to declare a source large enough: an input for all reads of a computation; "" if no shape is."""
    declared = values.algorithm.inputs.get(source)
    if declared is None and source != c.name:
        return _or_more_values(values, values.algorithm.computations[source])
    read = values.domain(source)
    for reading in values.of(c):
        read = read.union(reading.relation.range()) if reading.access.source == source else read
    if declared is None or declared.passed is not None or not read.is_subset(_from_zero(read.get_space())):
        return ""
    shape, reader = [], Affine(read.get_space(), {})
    for axis, (variable, extent) in enumerate(zip(sets.variables(read.get_space()), declared.shape, strict=True)):
        fits = sets.as_set(variable.to_pw_aff().lt_set(reader.value(extent)))
        try:
            needed = extent if read.is_subset(fits) else extent_of(read, axis, values.algorithm.context)
        except DeclarationError:
            return ""
        if branches(needed):
            return ""
        shape.append(str(needed))
    return f", or declare {source} with [{', '.join(shape)}]"


def _or_more_values(values: ValueSets, source: Computation) -> str:
    """The advice to declare all values of a computation that are read, or to leave that to their readers."""
    readings = [r for c in values.algorithm.computations.values() for r in values.of(c)]
    read = sets.union_of(sets.as_set(r.relation.range()) for r in readings if r.access.source == source.name)
    if not read.is_bounded() or any(r.unbounded for r in readings if r.access.source == source.name):
        return ""
    needed = box_in_words(read, source.iterators, values.algorithm.context)
    return f", or declare {source.name} for {needed}, or leave its domain open: [{', '.join(source.iterators)}]"


def _from_zero(space: isl.Space) -> isl.Set:
    """The indices without a negative coordinate."""
    found, zero = sets.universe(space), sets.constant(space, 0)
    for variable in sets.variables(space):
        found = found.intersect(sets.as_set(variable.ge_set(zero)))
    return found


def extent_in_words(values: ValueSets, source: str) -> str:
    """The elements of an array, or the values of a computation, described for a message."""
    if source in values.algorithm.inputs:
        declared = values.algorithm.inputs[source]
        passed, shape = (f"[{', '.join(map(str, each))}]" for each in (declared.passed_shape, declared.shape))
        return f"the array {source} of shape {passed}{'' if declared.passed is None else f', read as {shape}'}"
    return f"the values of {source}"


def _ends_of_nothing(values: ValueSets, c: Computation) -> list[Violation]:
    """A value of an argmin or argmax that has no terms, whatever the inputs are: nothing has no place, as in NumPy.

    Conditions on values may leave out all terms, too; the index is then the largest of its type.
    """
    algorithm = values.algorithm
    declared = algorithm.as_declared.computations.get(c.name)  # none for partial results
    if c.op not in (argmin, argmax) or declared is None or declared.guards:
        return []
    terms = sets.named(sets.project_prefix(declared.points, len(c.iterators)), c.name)
    empty = values.domain(c.name).subtract(terms)
    if empty.is_empty():
        return []
    params = smallest.smallest_params(empty)
    at = smallest.first(sets.fixed(empty, params))
    witness = Witness(params, reader=(c.name, at))
    message = (
        f"{indexed(c.name, at)} is {c.op} over no {', '.join(declared.over)}, and among nothing no place is an end"
    )
    needed = missing_condition(empty, algorithm.context.intersect(values.domain(c.name).params()))
    repair = f"leave values without terms out of the domain of {c.name}"
    repair = f"assume {needed}, or {repair}" if needed else repair
    return [Violation("reduction", f"{message}, {witness}", witness, repair=repair)]


# -- recurrences

#: What helps where no order of the values of recurrences is found.
_IN_ORDER = "let each value read only values that are less in one iterator, or in a sum of multiples of iterators"


def _endless(values: ValueSets, c: Computation) -> list[Violation]:
    depends = values.between([c]).get((c.name, c.name))
    if depends is None:
        return []
    if _falls(depends) or _ranked(depends):
        return []
    cycle = _cycle(depends)
    if cycle is None:
        params, value, needed = first_pair(depends)
        message = f"{c.name} may not end: no order of its values was found in which each comes after those it reads"
        witness = Witness(params, reader=(c.name, value), writer=(c.name, needed))
        return [Violation("unknown", message, witness, repair=_IN_ORDER)]
    params, value, needed = first_pair(cycle)
    witness = Witness(params, writer=(c.name, needed), reader=(c.name, value))
    message = f"{indexed(c.name, value)} depends on itself, {witness}: its reads lead back to it"
    return [Violation("algorithm", message, witness, repair=f"let {c.name} read only values that come before")]


def _endless_group(values: ValueSets, members: Sequence[Computation]) -> list[Violation]:
    """The fault in the order of values of a group: values that wait for each other."""
    reads, names = values.between(members), [each.name for each in members]
    if shared_loops(names, reads, {each.name: len(each.iterators) for each in members}) is not None:
        return []
    if _ranked(*reads.values()):
        return []
    steps = reads
    for _ in range(2 * len(names)):
        for name in names:
            back = steps.get((name, name))
            cycle = None if back is None else back.intersect(isl.Map.identity(back.get_space()))
            if cycle is not None and not cycle.is_empty():
                return [_on_cycle(cycle, reads, name)]
        steps = _composed(steps, reads)
    (reader, source), read = next(iter(reads.items()))
    params, value, needed = first_pair(read)
    message = f"{', '.join(names)} may not end: in no order that was found does each value come after those it reads"
    witness = Witness(params, reader=(reader, value), writer=(source, needed))
    return [Violation("unknown", message, witness, repair=_IN_ORDER)]


def _composed(steps: Reads, reads: Reads) -> Reads:
    """The relation composed with itself once more: reads of reads."""
    found = Reads()
    for (reader, between), first in steps.items():
        for (source, needed), second in reads.items():
            if source == between:
                pair, both = (reader, needed), first.apply_range(second)
                found[pair] = found[pair].union(both) if pair in found else both
    return {pair: read for pair, read in found.items() if not read.is_empty()}


def _on_cycle(cycle: isl.Map, reads: Reads, name: str) -> Violation:
    params, value, _ = first_pair(cycle)
    others = ", ".join(dict.fromkeys(source for reader, source in reads if reader == name))
    witness = Witness(params, writer=(name, value), reader=(name, value))
    message = (
        f"{indexed(name, value)} depends on itself, {witness}: the values of {others} that it reads lead back to it"
    )
    return Violation("algorithm", message, witness, repair=f"let {name} read only values that come before")


def _falls(depends: isl.Map) -> bool:
    """Whether the value read always precedes lexicographically, with each dimension ascending or descending.

    Pairs that agree in these dimensions are accepted if their chains end after a few steps: ghost cells that are
    copies of other cells, such as ``h[t, -1]`` of ``h[t, 0]`` and ``h[t, N]`` of ``h[t, N - 1]``.
    """
    rest = depends
    for position in range(sets.in_size(depends)):
        up, down = sets.less_at(rest, position), sets.greater_at(rest, position)
        if not up.is_empty() and not down.is_empty():
            return _is_over(rest)
        rest = sets.equal_at(rest, position)
        if rest.is_empty():
            return True
    return False


def _is_over(depends: isl.Map) -> bool:
    """Whether all chains of reads end after a few steps (a power of the relation is empty)."""
    steps = depends
    for _ in range(MOST_STEPS):
        steps = steps.apply_range(depends)
        if steps.is_empty():
            return True
    return False


def _ranked(*depends: isl.Map) -> bool:
    """Whether isl's scheduler finds an order in which every value follows the values it reads; the order is checked."""
    whole = sets.union_of(each.to_union_map() for each in depends)
    earlier = whole.reverse()
    try:
        constraints = isl.ScheduleConstraints.on_domain(whole.domain().union(whole.range())).set_validity(earlier)
        order = constraints.compute_schedule().get_map()
        times = isl.Map.from_union_map(earlier.apply_domain(order).apply_range(order))
    except isl.Error:
        return False
    return times.intersect(isl.Map.lex_ge(times.get_space().domain())).is_empty()


def _cycle(depends: isl.Map) -> isl.Map | None:
    """The reads ``value -> value read`` on a cycle of at most four reads; None if there are none."""
    back, steps = depends.intersect(isl.Map.identity(depends.get_space())), depends
    for _ in range(3):
        if not back.is_empty():
            return back
        back, steps = depends.intersect(steps.reverse()), steps.apply_range(depends)
    return None if back.is_empty() else back


def first_pair(bad: isl.Map) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]]:
    """The smallest pair of a relation: parameters of least sum, then its input, then its output."""
    params = smallest.smallest_params(bad)
    pair = smallest.first(sets.fixed(sets.flat_pairs(bad, "pair"), params))
    return params, pair[: sets.in_size(bad)], pair[sets.in_size(bad) :]


def indexed(name: str, index: tuple[int, ...]) -> str:
    """``name[i, j]``, or the name alone where there is no index."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name
