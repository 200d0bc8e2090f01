"""Reductions that the recipe schedules: the form of each, what is computed from them, and which of them go together.

The form has the loops along one run of memory, and facts on sizes. Reductions of the same values are a family;
statements that are to share their loops have the same names for these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from math import prod

from tiramisu_py import Computation, Expr, Iter, Reduction, Selection
from tiramisu_py.errors import ArgumentError, CommandError
from tiramisu_py.queries import (
    Access,
    Binary,
    Declared,
    Determinism,
    Iterations,
    Role,
    TupleType,
    accesses,
    behind,
    iterators,
    same_points,
    same_range,
    same_values,
    sources_of,
)
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class LoopNames:
    """Fresh iterators by their role, such as "block": the same one whenever a role is asked for again."""

    recipe: Recipe
    made: dict[str, Iter] = field(default_factory=dict)

    def of(self, role: str, name: str) -> Iter:
        """The iterator of a role, with this name, or a similar one, where it is new."""
        if role not in self.made:
            self.made[role] = self.recipe.fresh(name)
        return self.made[role]


@dataclass(frozen=True)
class Read:
    """The read of an array by a term: for each index, the iterator that it is, None for other indices.

    `mentions` are the iterators on which the indices depend.
    """

    source: str
    bytes: int
    indices: tuple[str | None, ...]
    mentions: frozenset[str]


@dataclass(frozen=True)
class Options:
    """The wishes of the user: terms combined one by one, `in_order`; and whether loops are joined where they can be."""

    in_order: bool = False
    coalesce: bool = True


@dataclass(frozen=True, eq=False)
class ReductionForm:
    """One reduction, scheduled as the options say.

    Or a computation with a value for each of those of reductions, or for each of their terms: then `around` are its
    iterators that are those of their values, and it is `beside` columns where they are reductions of columns.
    """

    recipe: Recipe
    target: Computation
    options: Options = Options()
    around: tuple[str, ...] | None = None
    beside: bool = False
    shared_names: LoopNames | None = None

    @property
    def declared(self) -> Declared:
        """The declaration of the reduction."""
        return self.recipe.function.algorithm.computations[self.target.name]

    @property
    def has_one_value(self) -> bool:
        """Whether an element is one value, not several at once."""
        return not isinstance(self.target.dtype, TupleType)

    @cached_property
    def names(self) -> LoopNames:
        """The names of the loops that its commands make: those of all stages that are to share them."""
        return self.shared_names or LoopNames(self.recipe)

    def joins_terms(self) -> bool:
        """Whether the loops over terms become one."""
        if not self.options.coalesce:
            return len(self.terms) == 1
        return len(self.run()) == len(self.terms) and all(self.along(name).begin_at_0 for name in self.term_names)

    @property
    def reduction(self) -> Reduction:
        """The reduction that it is."""
        assert isinstance(self.target, Reduction)
        return self.target

    @property
    def start(self) -> Selection | None:
        """The start of a reduction."""
        return self.target.init if isinstance(self.target, Reduction) else None

    @property
    def update(self) -> Selection:
        """The handle whose loops run over the terms."""
        return self.target.update if isinstance(self.target, Reduction) else self.target

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of the iterators of its values."""
        return self.declared.iterators if self.around is None else self.around

    @cached_property
    def values(self) -> list[Iter]:
        """The iterators of its values."""
        return [Iter(name) for name in self.value_names]

    @property
    def term_names(self) -> tuple[str, ...]:
        """The names of the iterators of its terms, beside those of values."""
        return tuple(name for name in self.declared.point_iterators if name not in self.value_names)

    @cached_property
    def terms(self) -> list[Iter]:
        """The iterators of its terms, beside those of values."""
        return [Iter(name) for name in self.term_names]

    @property
    def in_order(self) -> bool:
        """Whether terms are combined one by one, or as neighbours."""
        asked = self.declared.determinism is Determinism.ORDERED
        return self.options.in_order or asked or self.declared.in_order

    @property
    def is_ordered(self) -> bool:
        """Whether terms are combined one by one: neighbours are not enough."""
        return self.in_order and (self.declared.op is None or self.declared.op.commutative or self.options.in_order)

    @cached_property
    def contiguous(self) -> str:
        """The iterator along which most of what a term reads is contiguous: the last index; or the last over terms."""
        votes = dict[str, int]()
        for access in accesses(self.declared.expr):
            last = access.indices[-1] if isinstance(access, Access) and access.indices else None
            if isinstance(last, Binary) and last.op == "%":  # of a view: runs of as many elements
                last = last.left
            if isinstance(last, Iter):
                votes[last.name] = votes.get(last.name, 0) + len(access.indices)
        return max(votes, key=lambda name: votes[name], default=self.declared.point_iterators[-1])

    @property
    def is_of_columns(self) -> bool:
        """Whether memory is contiguous along the values, not along the terms."""
        if self.around is not None:
            return self.beside
        return self.contiguous in self.value_names and bool(self.terms)

    def joined(self, loops: Sequence[Iter]) -> list[Iter]:
        """Loops of terms as one where they are a box whose inner extents are constants; else as many inner ones."""
        if not self.options.coalesce or not all(self.along(name).begin_at_0 for name in self.term_names):
            return list(loops)
        for first in range(len(loops) - 1):
            if self._are_neighbours([loop.name for loop in loops[first:]]) and self._are_constant(loops[first + 1 :]):
                into = self._coalesced("term", self.update, loops[first:])
                if into is not None:
                    return [*loops[:first], into]
        return list(loops)

    def joined_values(self) -> list[Iter]:
        """The loops of values, start and terms, as one where they are a box whose inner extents are constants."""
        several = len(self.values) > 1 and self._are_constant(self.values[1:])
        return self._joined_from(0) if several else self.values

    def joined_run(self) -> list[Iter]:
        """The loops of values, start and terms, of which those of `run_of_values` are one."""
        return self._joined_from(len(self.values) - len(self.run_of_values()))

    def _joined_from(self, first: int) -> list[Iter]:
        """The loops of values, of which those from one on are joined where `coalesce` may and does."""
        several = self.options.coalesce and first < len(self.values) - 1
        into = self._coalesced("value", self.target, self.values[first:]) if several else None
        return self.values if into is None else [*self.values[:first], into]

    def _coalesced(self, role: str, statements: Selection, loops: Sequence[Iter]) -> Iter | None:
        """The loop into which `coalesce` joins others; None where it is refused."""
        into = self.names.of(role, "j")
        try:
            statements.coalesce(*loops, into=into)
        except CommandError:
            return None
        return into

    def run(self) -> Sequence[str]:
        """The innermost iterators of terms that `joined` makes one loop of."""
        over = self.term_names
        for first in range(len(over)):
            constant = all(self.along(name).are_constant for name in over[first + 1 :])
            if constant and (first == len(over) - 1 or self._are_neighbours(over[first:])):
                return over[first:]
        return over[-1:]

    def run_of_values(self) -> Sequence[str]:
        """The last iterators of values whose elements follow one another in memory, if their extents are constants."""
        over = self.value_names
        for first in range(len(over)):
            names = over[first:]
            if self._are_constant([Iter(name) for name in names]) and self._are_neighbours(names):
                return names
        return over[-1:]

    def _are_constant(self, loops: Sequence[Iter]) -> bool:
        """Whether loops have numbers of iterations that no size says: others would stay a bundle."""
        return all(self.along(loop.name).are_constant for loop in loops)

    def most(self, names: Sequence[str]) -> int | None:
        """The most iterations that these iterators have together, from facts about sizes; None if there are none."""
        found = [self.along(name).most for name in names]
        known = [each for each in found if each is not None]
        return prod(known) if len(known) == len(found) else None

    def along(self, name: str) -> Iterations:
        """The iterations of one of its iterators, at the sizes that facts allow."""
        return Iterations(self.recipe.function.program, self.declared, name)

    @cached_property
    def reads(self) -> list[Read]:
        """The reads of a term once the elementwise chain before the reduction is inlined."""
        names = {name: name for name in self.declared.point_iterators}
        return list(self._reads(self.declared.expr, names))

    def _reads(self, expression: Expr, names: Mapping[str, str]) -> Iterator[Read]:
        """The reads of an expression, whose iterators have other names in the reduction."""
        for access in accesses(expression):
            found = [names.get(each.name) if isinstance(each, Iter) else None for each in access.indices]
            if access.source in self.chain:
                made = self.recipe.function.algorithm.computations[access.source]
                pairs = zip(made.iterators, found, strict=True)
                yield from self._reads(made.expr, {own: name for own, name in pairs if name is not None})
                continue
            own = (iterators(index) for index in access.indices)
            mentioned = frozenset(names[each] for each in frozenset[str]().union(*own) if each in names)
            yield Read(access.source, access.dtype.bytes, tuple(found), mentioned)

    @cached_property
    def chain(self) -> list[str]:
        """The elementwise chain that it reads, readers first."""
        return _chain(self.recipe.function.algorithm.computations, self.declared)

    def inline_chain(self) -> None:
        """Inline the elementwise chain that the reduction reads."""
        algorithm = self.recipe.function.algorithm
        for name in self.chain:
            stage = self.recipe.function[name]
            if name not in algorithm.outputs and len(self.recipe.function.program.statements_of(name)) == 1:
                stage.inline()

    def _are_neighbours(self, names: Sequence[str]) -> bool:
        """Whether elements along some iterators are contiguous, in every access that has them."""
        places = [[str(index) for index in access.indices] for access in accesses(self.declared.expr)]
        used = [place for place in places if set(names) & set(place)]
        return all(place[len(place) - len(names) :] == [*names] for place in used)


def _chain(computations: Mapping[str, Declared], declared: Declared) -> list[str]:
    """The computations that a reduction reads at its own point, and those that these read there; readers first."""
    found, waiting = list[str](), [declared]
    while waiting:
        for access in accesses(waiting.pop(0).expr):
            made = computations.get(access.source)
            if made is not None and access.source not in found and _is_elementwise(access, made):
                found.append(access.source)
                waiting.append(made)
    return found


def _is_elementwise(access: Access, made: Declared) -> bool:
    """Whether a computation that can be inlined is read at different iterators."""
    if made.is_reduction or made.group or made.guards or made.stage is not None:
        return False
    names = [index.name for index in access.indices if isinstance(index, Iter)]
    own = any(inner.source == made.name for inner in accesses(made.expr))
    return len(names) == len(access.indices) == len(set(names)) and not own


@dataclass(frozen=True, eq=False)
class Stages:
    """The reductions to schedule, each before those that read it, and the elementwise results computed from them."""

    reductions: list[Reduction]
    results: list[Computation]

    @classmethod
    def of(cls, recipe: Recipe) -> Stages:
        """The reductions that the user gives, and for other computations all stages behind them.

        Raises `ArgumentError` for a computation that depends on no reduction.
        """
        function, wanted = recipe.function, {stage.name for stage in recipe.stages}
        for stage in recipe.stages:
            if not isinstance(stage, Reduction):
                needed = {*behind(recipe.function.algorithm, stage.name)}
                if not any(isinstance(function[name], Reduction) for name in needed):
                    raise ArgumentError(
                        f"reduction: {stage} is not a reduction, and depends on none: recipes.pointwise takes such "
                        "computations"
                    )
                outputs = {name for name in needed if name in function.algorithm.outputs}
                wanted |= {name for name in needed if isinstance(function[name], Reduction)}
                wanted |= {name for name in outputs if _depends_on_a_reduction(recipe, name)}
        order = list(dict.fromkeys(name for s in recipe.stages for name in behind(recipe.function.algorithm, s.name)))
        chosen = [function[name] for name in order if name in wanted]
        reductions = [stage for stage in chosen if isinstance(stage, Reduction)]
        reductions.sort(key=lambda stage: _depth(recipe, stage.name))
        return cls(reductions, [s for s in chosen if isinstance(s, Computation) and not isinstance(s, Reduction)])


def _depth(recipe: Recipe, name: str) -> int:
    """The most reductions that follow one another up to a computation."""
    computations, depth = recipe.function.algorithm.computations, dict[str, int]()
    for each in behind(recipe.function.algorithm, name):
        made = computations[each]
        read = [depth[source] for source in sources_of(made) if source in depth]
        depth[each] = max(read, default=0) + made.is_reduction
    return depth[name]


def _depends_on_a_reduction(recipe: Recipe, name: str) -> bool:
    computations = recipe.function.algorithm.computations
    return any(computations[each].is_reduction for each in behind(recipe.function.algorithm, name))


@dataclass(frozen=True, eq=False)
class Family:
    """Reductions of the same values, each before those that read it, with what is computed beside and from them.

    `producers` are outputs that they read point by point.
    """

    names: LoopNames
    reductions: list[ReductionForm]
    producers: list[ReductionForm] = field(default_factory=list)
    followers: list[ReductionForm] = field(default_factory=list)

    @property
    def stages(self) -> list[ReductionForm]:
        """All of its stages."""
        return [*self.producers, *self.reductions, *self.followers]

    @property
    def sources(self) -> set[str]:
        """The names of the reductions."""
        return {form.target.name for form in self.reductions}

    def takes(self, form: ReductionForm, alike: Callable[[ReductionForm, ReductionForm], bool]) -> bool:
        """Whether a reduction has the same values and the form of the others, and reads of them those at its own."""
        first = self.reductions[0]
        same = same_values(first.declared, form.declared)
        named = first.value_names == form.value_names
        return bool(named and same and alike(first, form) and self.is_read_at_its_values(form))

    def is_read_at_its_values(self, form: ReductionForm) -> bool:
        """Whether a stage reads of these reductions the values at its own iterators alone."""
        names = self.reductions[0].value_names
        return all(each.indices == names for each in form.reads if each.source in self.sources)

    def levels(self) -> list[list[ReductionForm]]:
        """The reductions and what follows: first those that read none of them, then those that read these, and on."""
        stages, depth = [*self.reductions, *self.followers], dict[str, int]()
        by_name = {form.target.name: form for form in stages}

        def deep(name: str) -> int:
            if name not in depth:
                form = by_name[name]
                read = {*form.chain, *(each.source for each in form.reads)} & by_name.keys() - {name}
                depth[name] = max(map(deep, sorted(read)), default=-1) + 1
            return depth[name]

        last = max(map(deep, by_name))
        return [[form for form in stages if depth[form.target.name] == k] for k in range(last + 1)]

    def has_dependences(self) -> bool:
        """Whether one of the reductions reads another."""
        return any(each.source in self.sources for form in self.reductions for each in form.reads)


def has_terms_of(one: ReductionForm, other: ReductionForm) -> bool:
    """Whether two stages have the same values, and for each the same terms, so that they may share all loops."""
    if (one.value_names, one.term_names) != (other.value_names, other.term_names):
        return False
    names = (*one.value_names, *one.term_names)
    return same_points(one.declared, names, other.declared, names)


def has_values_of(follower: ReductionForm, leader: ReductionForm) -> bool:
    """Whether a computation is over the same values: then their loops become one in the same way."""
    return all(same_range(leader.declared, follower.declared, name) for name in leader.value_names)


def is_fresh(recipe: Recipe, name: str) -> bool:
    """Whether nothing has scheduled a computation that is no reduction."""
    program = recipe.function.program
    statements = program.statements_of(name)
    loops = [program.loop_names(each) for each in statements if each.role is Role.VALUE]
    tagged = any(program.loops[loop].tag for each in statements for loop in each.loops)
    return loops == [program.algorithm.computations[name].iterators] and len(statements) == 1 and not tagged


def with_producers(form: ReductionForm, family: Family) -> None:
    """Let the outputs that a reduction reads point by point go with it."""
    recipe, taken = form.recipe, {each.target.name for each in family.producers}
    for name in reversed(form.chain):
        target = recipe.function[name]
        assert isinstance(target, Computation)
        made = replace(form, target=target, around=form.value_names, beside=form.is_of_columns)
        output = name in recipe.function.algorithm.outputs and name not in taken
        if output and has_terms_of(made, form) and is_fresh(recipe, name):
            family.producers.append(made)


def values_alone(recipe: Recipe, result: Computation, options: Options) -> ReductionForm:
    """A computation whose iterators are those of values."""
    return ReductionForm(recipe, result, options, recipe.function.algorithm.computations[result.name].iterators)


def follower(result: ReductionForm, families: Sequence[Family]) -> tuple[Family, ReductionForm] | None:
    """The reductions in whose loops over values a computation may run: the last ones that it reads, if it does so at
    its own iterators.
    """
    read = {each.source for each in result.reads}
    leaders = [family for family in families if family.sources & read]
    if not leaders or not is_fresh(result.recipe, result.target.name):
        return None
    family = leaders[-1]
    leader = family.reductions[0]
    if not {*leader.value_names} <= {*result.value_names} or not family.is_read_at_its_values(result):
        return None
    form = replace(result, around=leader.value_names, beside=leader.is_of_columns, shared_names=family.names)
    return (family, form) if has_values_of(form, leader) else None
