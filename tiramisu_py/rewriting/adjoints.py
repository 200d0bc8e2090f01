"""Reverse mode: the adjoint of each value, as a computation.

The adjoint of `x` is the derivative of a weighted sum of the outputs by `x`. For each read ``x[m(i)]`` of ``y[i]`` it
has the term ``d_y[i] * dy[i]/dx[m(i)]`` for all i with ``m(i) = j``:

    y[i] = x[i + 1] * w[k]   -->   d_x[j] = d_y[j - 1] * w[k]

isl inverts m. Where the inverse is a function, the term is a value like others; where m forgets iterators, it is a sum
over these; where a place is a value, a scatter. A recurrence becomes one that runs backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import TypeVar

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.declare.declare import declare_input
from tiramisu_py.algorithm.declare.shared_loops import shared_loops, upward_dims
from tiramisu_py.algorithm.declare.soundness import ValueSets, box
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.gathers import gathered, has_all_terms, is_in_runs, is_placement
from tiramisu_py.algorithm.domains.runs import element_of, is_number_of_run, runs_of_values, told_axes
from tiramisu_py.algorithm.evaluate.given_values import extents
from tiramisu_py.algorithm.expressions import Access, Binary, Call, Const, Expr, Iter, binary, select
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.traversal import accesses, iterators, mentions, rewrite, substitute, walk
from tiramisu_py.algorithm.types import DType
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.activity import active_sources, array_of, check_operators, components, flows, needed_sources
from tiramisu_py.rewriting.isl_expressions import condition_of, index_of
from tiramisu_py.rewriting.partial_derivatives import where, zero
from tiramisu_py.rewriting.read_adjoints import ReadAdjoint, Source, read_adjoints
from tiramisu_py.rewriting.read_inverses import Preimage, counted_down, preimages, turned_once
from tiramisu_py.rewriting.reading_instances import Instances, all_instances, without_chosen
from tiramisu_py.rewriting.requested import gpu_of
from tiramisu_py.rewriting.sketches import FreshNames, Sketch, read, replaced, with_sketches
from tiramisu_py.rewriting.stage_adjoints import part_adjoints
from tiramisu_py.rewriting.sums_by_parts import PartialSum, PartialTerm, sum_by_parts
from tiramisu_py.rewriting.terms_of_reductions import weight_of_terms
from tiramisu_py.rewriting.zero_borders import TermsOfAdjoint, widened


@dataclass(frozen=True, eq=False)
class Adjoints:
    """An algorithm with the adjoints of its values.

    `gradients` are the names of the adjoints of the inputs `wrt`, in their order; `cotangents` those of the
    inputs that weigh the outputs, by the outputs' arrays; `added` the computations that the original has not.
    """

    algorithm: Algorithm
    wrt: tuple[str, ...]
    gradients: tuple[str, ...]
    cotangents: Mapping[str, str]
    added: tuple[str, ...]


def with_adjoints(algorithm: Algorithm, wrt: Sequence[str], *, of_one: bool = False) -> Adjoints:
    """The algorithm with the adjoints of these inputs; `of_one` output, whose weight is 1, or of all, each weighed by
    an input. Raises `DeclarationError`, naming what has no derivative.
    """
    return _Backward(algorithm, wrt, of_one).result()


#: A term of an adjoint.
_Partial = TypeVar("_Partial", PartialTerm, PartialSum)


class _Backward:
    """The adjoints of one algorithm, while they are collected."""

    def __init__(self, algorithm: Algorithm, wrt: Sequence[str], of_one: bool) -> None:
        self.original = self.algorithm = algorithm
        self.wrt = wrt
        self.of_one = of_one
        self.names = FreshNames(algorithm)
        active = active_sources(algorithm, wrt)
        flow = flows(algorithm, active)
        results = [s for name in algorithm.outputs for s in components(algorithm.computations[name])]
        self.needed = needed_sources(flow, results)
        check_operators(algorithm, self.needed)
        self.read = {source for reader in self.needed for source in flow.get(reader, ())}
        self.outputs = [each for each in results if each in self.needed or not of_one]
        self.weights: dict[Source, Expr | None] = {}
        self.cotangents: dict[str, str] = {}
        self._give_weights(results)
        self.adjoint_names = {
            each: self.names.fresh(f"d_{array_of(algorithm, each)}")
            for each in [*((name, None) for name in wrt), *(each for each in self.needed if each[0] not in wrt)]
            if each in self.read or each[0] in wrt
        }
        self.terms: dict[Source, list[PartialTerm]] = {each: [] for each in self.adjoint_names}
        self.sums: dict[Source, list[PartialSum]] = {each: [] for each in self.adjoint_names}
        self.sketches: list[Sketch] = []
        #: Adjoints that are copies of others, which are read in their place.
        self.copies: set[Source] = set()
        self.wide: dict[str, isl.Set] = {}
        self._found_upwards: dict[str, frozenset[str]] = {}
        self._found_runs: dict[str, dict[int, tuple[int, str]]] = {}

    def _give_weights(self, results: Iterable[Source]) -> None:
        """The weight of each output: 1, or an input of its shape."""
        for source in results:
            c = self.original.computations[source[0]]
            if self.of_one:
                self.weights[source] = Const(1.0, _dtype(self.original, source))
                continue
            name = self.names.fresh(f"d_{array_of(self.original, source)}")
            self.cotangents[array_of(self.original, source)] = name
            shape = extents(self.original, c)
            dtype = _dtype(self.original, source)
            declared = declare_input(
                self.algorithm, name, dtype, shape, scalar=not shape, owner=self.original.owner, location=c.location
            )
            where = None if declared.scalar else gpu_of(self.original, self.wrt)
            self.algorithm = self.algorithm.with_input(replace(declared, device=where))
            at = element_of(self.original, c, [Iter(i) for i in c.iterators])
            self.weights[source] = read(self.original, name, at, dtype)

    def result(self) -> Adjoints:
        for c in reversed([*self.original.computations.values()]):
            if any(each in self.needed for each in components(c)):
                self._collect(c)
        self.adjoint_names = {each: name for each, name in self.adjoint_names.items() if each not in self.copies}
        self._widen()
        for source in self.adjoint_names:
            self._assemble(source)
        made = with_sketches(self.algorithm, self.sketches)
        gradients = tuple(self.adjoint_names[name, None] for name in self.wrt)
        added = tuple(name for name in made.computations if name not in self.original.computations)
        return Adjoints(made, tuple(self.wrt), gradients, self.cotangents, added)

    # -- terms

    def adjoint(self, source: Source) -> Expr:
        """The adjoint of a computation at its own iterators."""
        c = self.original.computations[source[0]]
        if source not in self.adjoint_names:
            weight = self.weights[source]
            assert weight is not None
            return weight
        at = [Iter(each) for each in c.iterators]
        same = self._same_as(c, source)
        if same is not None:
            self.copies.add(source)
            return same
        return read(self.original, self.adjoint_names[source], at, _dtype(self.original, source))

    def _same_as(self, c: Computation, source: Source) -> Expr | None:
        """The value that an adjoint is a copy of, ``d_power[i, k] = d_whole[i]``, if it is one, and no result.

        All readers of a computation have been collected before it, unless values depend on each other in a cycle.
        """
        (*terms,) = self.terms[source]
        plain = len(terms) == 1 and not self.sums[source] and source not in self.weights and source[0] not in self.wrt
        if not plain or c.group or any(isinstance(e, Access) and e.source == c.name for e in walk(c.expr)):
            return None
        (term,) = terms
        whole = sets.named(self._domain(source[0]), None).is_subset(sets.named(term.points, None))
        is_copy = whole and isinstance(term.value, Access) and term.value.dtype == _dtype(self.original, source)
        return term.value if is_copy else None

    def _collect(self, c: Computation) -> None:
        """Add what the reads of a computation contribute to the adjoints of what they read."""
        seeds: list[tuple[int | None, Expr]] = []
        for source in components(c):
            if source not in self.needed:
                continue
            by = self.adjoint(source)
            if c.is_reduction:
                weight, extra = weight_of_terms(self.original, c, self.names)
                self.sketches += extra
                by = weight(by)
            seeds.append((source[1], by))
        if c.stage is not None:
            for part in part_adjoints(self.original, c, seeds[0][1], lambda s: s in self.adjoint_names, self.names):
                self.sketches.append(part.sketch)
                own = read(self.original, part.sketch.name, map(Iter, part.sketch.iterators), part.sketch.dtype)
                self._turn(c, part.instances, ReadAdjoint(part.access, None, (), own))
            return
        space = self.original.frame(c.name, c.point_iterators)
        reader = Affine(space)
        found = read_adjoints(c.expr, seeds, lambda s: s in self.adjoint_names, lambda e: _is_affine(reader, e))
        whole, fewer = all_instances(self.original, c), without_chosen(self.original, c)
        for each in found:
            chooses = any(mentions(condition, fewer.values) for condition, _ in each.path)
            value = self._with_own(c, each.value)
            self._turn(c, whole if chooses else fewer, replace(each, value=value))

    def _with_own(self, c: Computation, value: Expr) -> Expr:
        """A factor that is the value of the computation itself is read, and not computed again.

        A quotient is read in place of the computed values that its dividend is made of: they need not be saved then.
        """
        left = c.expr.left if isinstance(c.expr, Binary) and c.expr.op == "/" else None
        is_made = left is not None and not isinstance(left, Access)
        kept = is_made and any(each.source in self.original.computations for each in accesses(c.expr))
        if c.is_reduction or not (isinstance(c.expr, Call) or kept):
            return value
        own = read(self.original, c.name, [Iter(each) for each in c.iterators], c.dtype)
        return rewrite(value, lambda e: own if e is c.expr else None)

    def _turn(self, c: Computation, instances: Instances, each: ReadAdjoint) -> None:
        """Add what one read contributes."""
        points = instances.points
        reader = Affine(points.get_space())
        for condition, truth in each.path:
            holds = reader.condition(condition)
            points = points.intersect(holds) if truth else points.subtract(holds)
        if points.is_empty():
            return
        indices = [instances.of(index) for index in each.access.indices]
        forms, places = self._forms(reader, points, indices)
        kept = [axis for axis in range(len(each.access.indices)) if axis not in places]
        if forms:
            relation = sets.map_of_forms(forms, reader.space, None).intersect_domain(points)
        else:
            relation = sets.graph(sets.function(reader.space, None, []), points)
        over = [axis for axis, name in enumerate(instances.dims) if name in c.over]
        back: list[int] = []
        if len(each.access.indices) < len(c.iterators):  # as many elements as the adjoint makes at a time, or fewer
            back = [axis for axis, name in enumerate(instances.dims) if name in self._upwards(c)]
        for found in preimages(relation, over):
            self._add(c, instances, each, counted_down(found, back), kept, places)

    def _upwards(self, c: Computation) -> frozenset[str]:
        """The iterators along which the values of a computation depend on earlier ones, so that adjoints run back.

        A sum over one of them takes its terms in the order in which the adjoint makes them.
        """
        if c.name not in self._found_upwards:
            own = self.original.together(c.group) if c.group else [c]
            reads = ValueSets(self.original).between(own)
            ranks = {each.name: len(each.iterators) for each in own}
            nests = (shared_loops([*ranks], reads, ranks) if reads else None) or []
            self._found_upwards |= {
                each.name: frozenset(each.iterators[dim] for dim in upward_dims(nests, each.name)) for each in own
            }
        return self._found_upwards[c.name]

    def _forms(
        self, reader: Affine, points: isl.Set, indices: Sequence[Expr]
    ) -> tuple[list[isl.PwAff], dict[int, Expr]]:
        """The affine indices of a read, and the others by number."""
        forms: list[isl.PwAff] = []
        places: dict[int, Expr] = {}
        for axis, index in enumerate(indices):
            try:
                forms.append(reader.value(turned_once(reader, points, index)).intersect_domain(points))
            except NotAffine:
                places[axis] = index
        return forms, places

    def _add(
        self,
        c: Computation,
        instances: Instances,
        each: ReadAdjoint,
        found: Preimage,
        kept: Sequence[int],
        places: Mapping[int, Expr],
    ) -> None:
        source = each.source
        dims = self.iterators[source[0]]
        taken = {*dims, *self.original.params}
        over: list[str] = []
        for axis in found.summed:
            over.append(_free(instances.dims[axis], taken))
            taken.add(over[-1])
        known = [*(dims[axis] for axis in kept), *over]
        instance: dict[str, Expr] = {
            name: index_of(form, known) for name, form in zip(instances.dims, found.forms, strict=True)
        }
        value = replaced(instances.of(each.value), instance)
        known_runs = {part.key() for part in self._conditions(source[0])}
        conditions = [part for guard in instances.guards for part in conjuncts(replaced(guard, instance))]
        conditions = [part for part in conditions if part.key() not in known_runs]  # each element is in its run
        guards = conditions + [
            binary("==", Iter(dims[axis]), replaced(index, instance))
            for axis, index in places.items()
            if not self._is_own_run(each.access, axis)
        ]
        points = self._placed(source, found, kept, places, over)
        if not over and not conditions:  # one instance may read each element: a choice, no place to add to
            for guard in guards:
                value = where(guard, value)
            self.terms[source].append(PartialTerm(sets.named(points, self.adjoint_names[source]), value))
            return
        value, guards = _of_scalars(guards, value)
        if not over or not all(mentions(guard, over) for guard in guards):
            over.append(_free("once", taken))
            points = sets.with_zero(points)
            value, guards = _mentioning(value, guards, over)
        name = self.adjoint_names[source]
        points = sets.with_dims(sets.named(points, name), (*dims, *over))
        if places:
            points, over, value = self._summed_first(source, c, (points, over, guards, value), places)
            points, over, guards, value = _by_inverse(self.original, points, over, guards, value)
        self.sums[source].append(PartialSum(points, tuple(over), tuple(guards), value, c))

    def _is_own_run(self, access: Access, axis: int) -> bool:
        """Whether an index of a read is the run of the position that it reads: values that exist are in no other."""
        c = self.original.computations.get(access.source)
        if c is None or not self._runs_of(c):
            return False
        position, start = self._runs_of(c).get(axis, (axis, ""))
        return is_number_of_run(self.original, access.indices[axis], start, access.indices[position])

    def _runs_of(self, c: Computation) -> dict[int, tuple[int, str]]:
        """The rows of the runs that the values of a computation, and so its adjoint's, are in."""
        if c.group or c.stage is not None or not c.guards:
            return {}
        if c.name not in self._found_runs:
            covering = {name for name, each in self.original.inputs.items() if each.covers is not None}
            told = told_axes(self.original, c)
            self._found_runs[c.name] = {row: each for row, each in told.items() if each[1] in covering}
        return self._found_runs[c.name]

    def _conditions(self, name: str) -> tuple[Expr, ...]:
        """The conditions of the runs that an adjoint is in, as those of its values."""
        c = self.original.computations.get(name)
        if c is None or not self._runs_of(c):
            return ()
        own = {each.start for each in runs_of_values(self.original, c)}
        parts = [part for guard in c.guards for part in conjuncts(guard)]
        return tuple(part for part in parts if {a.source for a in accesses(part)} <= own and not mentions(part, c.over))

    def _placed(
        self, source: Source, found: Preimage, kept: Sequence[int], places: Mapping[int, Expr], over: Sequence[str]
    ) -> isl.Set:
        """The points of a preimage over all dimensions of the source; those that are values are anywhere in it."""
        dims = (*self.iterators[source[0]], *over)
        if not places:
            return sets.with_dims(sets.named(found.points, None), dims)
        frame = self.original.frame(None, dims)
        variables, count = sets.variables(frame), len(dims) - len(over)
        own = sets.function(frame, None, [*(variables[axis] for axis in kept), *variables[count:]])
        inside = sets.extended(sets.named(self._domain(source[0]), None), frame)
        return sets.preimage(sets.named(found.points, None), own).intersect(inside)

    def _summed_first(
        self,
        source: Source,
        c: Computation,
        term: tuple[isl.Set, list[str], list[Expr], Expr],
        places: Mapping[int, Expr],
    ) -> tuple[isl.Set, list[str], Expr]:
        """The terms of a scatter whose sums, over what chooses no place, are values of their own.

        ``d_x[n, k] = sum over p, j of d_y[p, j] * w[k, j] where n == src[p]`` is a product for each p, and a sum of
        these over p: the rows of ``d_y`` meet the same weights then, whatever the places are.
        """
        points, over, guards, value = term
        dims = self.iterators[source[0]]
        kept = [each for axis, each in enumerate(dims) if axis not in places]
        inner = [each for each in over if not any(mentions(guard, [each]) for guard in guards)]
        outer = [each for each in over if each not in inner]
        dtype = _dtype(self.original, source)
        chosen = [dims[axis] for axis in places]
        if not all(mentions(guard, chosen) for guard in guards):  # a condition keeps the reads of its value in bounds
            return points, over, value
        if not inner or not outer or dtype.is_half or mentions(value, chosen):
            return points, over, value
        every = (*dims, *over)
        named = dict(zip(every, sets.variables(points.get_space()), strict=True))
        own = sets.function(points.get_space(), None, [named[each] for each in (*outer, *kept, *inner)])
        rows = sets.function(points.get_space(), None, [named[each] for each in (*dims, *outer)])
        terms, sums = points.apply(sets.graph(own)), points.apply(sets.graph(rows))
        both = sets.preimage(terms, own).intersect(sets.preimage(sums, rows))
        if not points.is_equal(both):
            return points, over, value
        name = self.names.fresh(f"{self.adjoint_names[source]}_of_{c.name}")
        whole = sets.with_dims(sets.named(terms, name), (*outer, *kept, *inner))
        domain = sets.with_dims(sets.named(sets.project_prefix(whole, len(outer) + len(kept)), name), (*outer, *kept))
        self.sketches.append(Sketch(name, dtype, (*outer, *kept), domain, value, (), tuple(inner), whole, sum_, c))
        read_back = read(self.original, name, map(Iter, (*outer, *kept)), dtype)
        sums = sets.with_dims(sets.named(sums, self.adjoint_names[source]), (*dims, *outer))
        return sums, outer, read_back

    # -- adjoints

    def _widen(self) -> None:
        """Put zeros around adjoints that stencils of many reads would read under as many conditions."""
        sources = {name: source for source, name in self.adjoint_names.items()}
        given = set(self.cotangents.values())

        def domain_of(name: str) -> isl.Set | None:
            if name in given:
                shape = self.algorithm.inputs[name].shape
                whole = box(sets.sized_frame(self.algorithm.param_space, name, len(shape)), shape)
                return whole.intersect_params(self.original.context.params())
            return self._elements(sources[name]) if name in sources and sources[name][0] not in self.wrt else None

        own = {name: TermsOfAdjoint(self._elements(source), self.iterators[source[0]], self.terms[source],
                                    self.sums[source], self._needs(source))
               for name, source in sources.items()}  # fmt: skip
        wide, found = widened(own, domain_of, given)
        for name in [each for each in wide if each in given]:
            copy, dims = self.names.fresh(f"{name}_with_zeros"), [f"d{axis}" for axis in range(sets.size(wide[name]))]
            self._copy_with_zeros(name, copy, dims, wide.pop(name), domain_of(name))
            found = {of: replace(each, terms=[_reading(term, name, copy) for term in each.terms],
                                 sums=[_reading(term, name, copy) for term in each.sums])
                     for of, each in found.items()}  # fmt: skip
        self.wide = wide
        self.terms |= {sources[name]: [*each.terms] for name, each in found.items()}
        self.sums |= {sources[name]: [*each.sums] for name, each in found.items()}

    def _assemble(self, source: Source) -> None:
        """The computation of an adjoint, and of sums that it has beside other terms."""
        name, dims, dtype = self.adjoint_names[source], self.iterators[source[0]], _dtype(self.original, source)
        domain = self._elements(source)
        wide = sets.with_dims(sets.named(self.wide[name], name), dims) if name in self.wide else domain
        terms, sums = list(self.terms[source]), _joined(self.sums[source])
        weight = self.weights.get(source)
        like = self.original.computations.get(source[0])
        own_runs = () if name in self.wide else self._conditions(source[0])
        if weight is not None:
            terms.insert(0, PartialTerm(domain, weight))
        if not terms and len(sums) == 1 and self._sum_type(sums[0], dtype) == dtype:
            only = sums[0]
            self.sketches.append(
                Sketch(
                    name, dtype, dims, wide, only.value, (*own_runs, *only.guards), only.over, only.points, sum_, like
                )
            )
            return
        for each in sums:
            part, own = self.names.fresh(f"{name}_from_{each.reader.name}"), self._sum_type(each, dtype)
            inner = sets.named(sets.project_prefix(each.points, len(dims)), name).intersect(domain).coalesce()
            inner = sets.with_dims(sets.named(inner, part), dims)
            points = sets.with_dims(sets.named(each.points, part), (*dims, *each.over))
            guards = (*own_runs, *each.guards)
            self.sketches.append(Sketch(part, own, dims, inner, each.value, guards, each.over, points, sum_, like))
            terms.append(PartialTerm(sets.named(inner, name), read(self.original, part, map(Iter, dims), own)))
        value = _with_zeros(domain, wide, sum_by_parts(domain, terms, dims, dtype), dims, dtype)
        self.sketches.append(Sketch(name, dtype, dims, wide, value, own_runs, like=like))

    def _elements(self, source: Source) -> isl.Set:
        """The elements of an adjoint, in a frame with its name and iterators."""
        dims = self.iterators[source[0]]
        return sets.with_dims(sets.named(self._domain(source[0]), self.adjoint_names[source]), dims)

    def _needs(self, source: Source) -> set[str]:
        """The adjoints that the terms of one read."""
        values = [*(each.value for each in self.terms[source]), *(each.value for each in self.sums[source])]
        return {node.source for value in values for node in walk(value) if isinstance(node, Access)}

    def _copy_with_zeros(self, name: str, copy: str, dims: Sequence[str], wide: isl.Set, inner: isl.Set | None) -> None:
        """The computation `copy` of an input, and of zeros around it."""
        assert inner is not None
        dtype = self.algorithm.inputs[name].dtype
        own, domain = (sets.with_dims(sets.named(each, copy), dims) for each in (inner, wide))
        value = read(self.original, name, map(Iter, dims), dtype)
        self.sketches.append(Sketch(copy, dtype, tuple(dims), domain, _with_zeros(own, domain, value, dims, dtype)))

    def _sum_type(self, each: PartialSum, dtype: DType) -> DType:
        """The type of a sum: that of the adjoint, or float32 if the computation itself computes in a wider type."""
        wide = any(own.is_float and not own.is_half for own in ty.component_types(each.reader.dtype))
        return ty.float32 if dtype.is_half and wide else dtype

    def _domain(self, name: str) -> isl.Set:
        """The elements of an input, or the values of a computation without its conditions on values."""
        context = self.original.context.params()
        if name in self.original.computations:
            return self.original.computations[name].domain.intersect_params(context)
        shape = self.original.inputs[name].shape
        return box(sets.sized_frame(self.original.param_space, name, len(shape)), shape).intersect_params(context)

    @cached_property
    def iterators(self) -> dict[str, tuple[str, ...]]:
        """The iterators of each adjoint: of an input, those of its first read where they are plain."""
        return {source[0]: self._iterators_of(source[0]) for source in self.adjoint_names}

    def _iterators_of(self, name: str) -> tuple[str, ...]:
        if name in self.original.computations:
            return self.original.computations[name].iterators
        rank = len(self.original.inputs[name].shape)
        reads = [
            node
            for c in self.original.computations.values()
            for node in walk(c.expr)
            if isinstance(node, Access) and node.source == name
        ]
        found: list[str] = []
        for axis in range(rank):
            wanted = [
                part.name
                for plain in (True, False)
                for node in reads
                for part in ([node.indices[axis]] if plain else walk(node.indices[axis]))
                if isinstance(part, Iter)
            ]
            free = [each for each in wanted if each not in found]
            found.append(free[0] if free else _free(f"d{axis}", {*found, *self.original.params}))
        return tuple(found)


def _by_inverse(
    algorithm: Algorithm, points: isl.Set, over: Sequence[str], guards: Sequence[Expr], value: Expr
) -> tuple[isl.Set, list[str], list[Expr], Expr]:
    """The terms of a scatter by the positions of an inverse of its index, if one is declared."""
    dims = [name or "" for name in sets.dim_names(points.get_space())]
    rows = dims[: len(dims) - len(over)]
    every = [condition for guard in guards for condition in conjuncts(guard)]
    for order in algorithm.inputs.values():
        about = order.inverts
        if about is None:
            continue
        count = algorithm.inputs[about.of].values
        for term, row in product(over, rows):
            placed = any(is_placement(each, row, term, about) for each in every)
            if not placed or count is None or not is_in_runs(points, dims.index(row), row, count[1]):
                continue
            if has_all_terms(points, dims.index(term), term, order.shape[0]):
                position = _free(f"{term}_in", {*dims, *algorithm.params})
                changed = [position if each == term else each for each in over]
                moved, bounds = gathered(algorithm, order, (row, term, position), value, guards)
                return sets.with_dims(points, (*rows, *changed)), changed, [*bounds], moved
    return points, [*over], [*guards], value


def _with_zeros(inner: isl.Set, wide: isl.Set, value: Expr, dims: Sequence[str], dtype: DType) -> Expr:
    """A value, and 0 around the elements that have it."""
    condition = condition_of(inner, wide, dims)
    return value if condition is None else select(condition, value, zero(dtype))


def _reading(term: _Partial, name: str, copy: str) -> _Partial:
    """A term that reads a copy of an array."""

    def copied(e: Expr) -> Expr | None:
        return replace(e, source=copy) if isinstance(e, Access) and e.source == name else None

    return replace(term, value=rewrite(term.value, copied))


def _joined(sums: Sequence[PartialSum]) -> list[PartialSum]:
    """Sums over the same points and under the same conditions as one."""
    found: list[PartialSum] = []
    for new in sums:
        for k, each in enumerate(found):
            alike = len(each.guards) == len(new.guards) and all(map(Expr.same_as, each.guards, new.guards))
            if alike and each.over == new.over and each.points.is_equal(new.points):
                found[k] = replace(each, value=binary("+", each.value, new.value))
                break
        else:
            found.append(new)
    return found


def _of_scalars(guards: Sequence[Expr], value: Expr) -> tuple[Expr, list[Expr]]:
    """A term and its conditions, of which those without iterators are a factor of it."""
    for guard in guards:
        if not iterators(guard):
            value = where(guard, value)
    return value, [guard for guard in guards if iterators(guard)]


def _mentioning(value: Expr, guards: Sequence[Expr], over: Sequence[str]) -> tuple[Expr, list[Expr]]:
    """A term and its conditions, of which those on its element alone mention the last iterator of `over`, too.

    It has one iteration, 0. So a condition is one of the term, and the sum of no terms is 0.
    """
    moved = dict.fromkeys(min(iterators(guard)) for guard in guards if not mentions(guard, over))
    later = {name: binary("+", Iter(name), Iter(over[-1])) for name in moved}
    return substitute(value, later), [substitute(guard, later) for guard in guards]


def _is_affine(reader: Affine, condition: Expr) -> bool:
    try:
        reader.condition(condition)
    except NotAffine:
        return False
    return True


def _dtype(algorithm: Algorithm, source: Source) -> DType:
    name, part = source
    return ty.component_types(algorithm.source(name).dtype)[part or 0]


def _free(wanted: str, taken: set[str]) -> str:
    found, number = wanted, 2
    while found in taken:
        found, number = f"{wanted}_{number}", number + 1
    return found
