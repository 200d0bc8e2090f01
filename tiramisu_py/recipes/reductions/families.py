"""What the recipe for reductions schedules: reductions, what is computed from them, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from tiramisu_py import Computation, Reduction
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Role, behind, same_points, same_range, same_values, sources_of
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.reductions.family_names import LoopNames
from tiramisu_py.recipes.reductions.reduction_form import Options, ReductionForm
from tiramisu_py.records import dataclass


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
