"""Several reductions on cores: those of the same values in one parallel loop, with what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tiramisu_py import Computation, Reduction
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.pointwise import BLOCK
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.reductions.families import (
    Family,
    Stages,
    follower,
    has_terms_of,
    is_fresh,
    values_alone,
    with_producers,
)
from tiramisu_py.recipes.reductions.family_loops import SharedLoops
from tiramisu_py.recipes.reductions.family_names import LoopNames
from tiramisu_py.recipes.reductions.reduction_form import Options, ReductionForm
from tiramisu_py.recipes.reductions.reduction_on_cores import CoreReductionSizes, ReductionOnCores
from tiramisu_py.recipes.reductions.rows import MOST_LANES, Chain, in_rows
from tiramisu_py.recipes.reductions.strips import StripLoops
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class ReductionsOnCores:
    """The schedule of reductions and of what is computed from them."""

    recipe: Recipe
    cpu: Cpu
    options: Options
    given: Mapping[str, int]

    def apply(self, stages: Stages) -> None:
        """Apply the commands."""
        families = self._families(stages)
        apart = [result for result in stages.results if not self._follows(result, families)]
        strips: StripLoops | None = None
        for family in families:
            forms = family.stages
            done = len(forms) > 1 and self.recipe.tried(partial(self._together, family))
            if not done:
                apart += [form.target for form in (*family.producers, *family.followers)]
                for form in family.reductions:
                    strips = self._plan(replace(form, shared_names=None)).apply(strips)
            for form in forms:
                form.inline_chain()
        for result in apart:
            self._elementwise(result)

    def _plan(self, form: ReductionForm) -> ReductionOnCores:
        return ReductionOnCores(form, CoreReductionSizes.of(form, self.cpu).replaced(self.given))

    # -- what goes together

    def _families(self, stages: Stages) -> list[Family]:
        found = list[Family]()
        for target in stages.reductions:
            form = ReductionForm(self.recipe, target, self.options)
            family = found[-1] if found and self._goes_with(form, found[-1]) else None
            if family is None:
                family = Family(LoopNames(self.recipe), [])
                found.append(family)
            form = replace(form, shared_names=family.names)
            family.reductions.append(form)
            with_producers(form, family)
        return found

    def _goes_with(self, form: ReductionForm, family: Family) -> bool:
        """Whether a reduction may share loops: those over rows, or over the same terms, if it reads none of these."""
        if not family.takes(form, self._alike):
            return False
        rows = form.values and not form.is_of_columns
        return bool(rows) or not any(each.source in family.sources for each in form.reads)

    def _alike(self, one: ReductionForm, other: ReductionForm) -> bool:
        """Whether two reductions have loops of one form, and read the same unless these are over rows."""
        kinds = [(bool(form.values), form.is_of_columns, form.in_order) for form in (one, other)]
        read, its = ({each.source for each in form.reads} for form in (one, other))
        rows = one.values and not one.is_of_columns
        return kinds[0] == kinds[1] and (bool(rows) or (bool(read & its) and has_terms_of(one, other)))

    def _follows(self, result: Computation, families: Sequence[Family]) -> bool:
        """Whether what is computed from reductions runs in their loop over rows."""
        found = follower(values_alone(self.recipe, result, self.options), families)
        if found is None or found[1].beside or not found[1].values:
            return False
        found[0].followers.append(found[1])
        return True

    # -- how

    def _together(self, family: Family) -> None:
        """The stages of a family in loops that they share."""
        first = family.reductions[0]
        if first.values and not first.is_of_columns:
            chain = None if self.given or first.in_order else self._chain(family)
            if chain is not None:
                in_rows(self.recipe, chain, self.cpu)
                return
        SharedLoops(self.recipe, family, self.cpu, self._plan).apply()

    def _chain(self, family: Family) -> Chain | None:
        """All stages as rows of one result; None where they have another form."""
        if len(family.followers) != 1 or family.producers:
            return None
        try:
            chain = Chain.of(self.recipe, family.followers[0].target)
        except ArgumentError:
            return None
        names = {stage.name for stage in chain.stages if isinstance(stage, Reduction)}
        return chain if names == family.sources else None

    def _elementwise(self, result: Computation) -> None:
        """Loops of its own for a computation: threads share the outermost one, or blocks of the only one."""
        if not is_fresh(self.recipe, result.name):
            return
        form = values_alone(self.recipe, result, self.options)
        if form.values:
            outer, *others = form.values
            if not others:
                outer, inner = self.recipe.fresh(f"{outer.name}0"), self.recipe.fresh(f"{outer.name}1")
                result.split(form.values[0], BLOCK, outer, inner)
                others = [inner]
            result.parallelize(outer)
            result.vectorize(others[-1], min(self.cpu.lanes(result.dtype.bytes), MOST_LANES), remainder="mask")
        form.inline_chain()
