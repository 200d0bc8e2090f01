"""Several reductions on a GPU: those of the same values in one kernel, with what is computed beside and from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial

from tiramisu_py import Combine, Computation, Gpu, Iter
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.reductions.families import (
    Family,
    Stages,
    follower,
    is_fresh,
    values_alone,
    with_producers,
)
from tiramisu_py.recipes.reductions.family_kernels import KernelOfFamily
from tiramisu_py.recipes.reductions.family_names import LoopNames
from tiramisu_py.recipes.reductions.reduction_form import Options, ReductionForm
from tiramisu_py.recipes.reductions.reduction_on_gpu import THREADS, GpuReductionSizes, ReductionOnGpu, sizes_on_gpu
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class ReductionsOnGpu:
    """The schedule of reductions and of what is computed from them."""

    recipe: Recipe
    on: Gpu
    gpu: str | int
    across: Combine
    options: Options
    given: Mapping[str, int]
    sizes: dict[str, GpuReductionSizes] = field(default_factory=dict)

    def apply(self, stages: Stages) -> None:
        """Apply the commands, kernel by kernel."""
        families, apart = self._families(stages), list[Computation]()
        for result in stages.results:
            if not self._follows(result, families):
                apart.append(result)
        for family in families:
            forms = family.stages
            if not (len(forms) > 1 and self.recipe.tried(partial(self._kernel, family))):
                apart += self._one_by_one(family)
            for form in forms:
                form.inline_chain()
        for result in dict.fromkeys(apart):
            self._elementwise(result)

    def _kernel(self, family: Family) -> None:
        KernelOfFamily(self.recipe, family, self.on, self._joint(family), self.across).apply()

    def _one_by_one(self, family: Family) -> list[Computation]:
        """A kernel for each reduction; what is computed from them is left."""
        for form in family.reductions:
            alone = Family(LoopNames(self.recipe), [replace(form, shared_names=None)])
            self._kernel(alone)
        return [form.target for form in (*family.producers, *family.followers)]

    def _joint(self, family: Family) -> GpuReductionSizes:
        """The sizes of a kernel."""
        first, *others = [self.sizes[form.target.name] for form in family.reductions]
        for each in others:
            first = first.joint(each)
        return first

    # -- what goes together

    def _families(self, stages: Stages) -> list[Family]:
        found = list[Family]()
        for target in stages.reductions:
            form = ReductionForm(self.recipe, target, self.options)
            self.sizes[target.name] = sizes_on_gpu(form, self.gpu).replaced(self.given)
            family = found[-1] if found and self._goes_with(form, found[-1]) else None
            if family is None:
                family = Family(LoopNames(self.recipe), [])
                found.append(family)
            form = replace(form, shared_names=family.names)
            family.reductions.append(form)
            if self.across is not Combine.ATOMIC or not self.sizes[target.name].has_parts(form):
                with_producers(form, family)
        return found

    def _goes_with(self, form: ReductionForm, family: Family) -> bool:
        """Whether a reduction may share a kernel: one that reads others there, if a block has all terms of each."""
        if not family.takes(form, self._alike):
            return False
        both = [*family.reductions, form]
        apart = not any(each.source in family.sources for each in form.reads) and not family.has_dependences()
        parts = any(self.sizes[each.target.name].has_parts(each) for each in both)
        return not parts or (apart and self.across is not Combine.ATOMIC)

    def _alike(self, one: ReductionForm, other: ReductionForm) -> bool:
        a, b = self.sizes[one.target.name], self.sizes[other.target.name]
        return one.is_of_columns == other.is_of_columns and (a.group == 1) == (b.group == 1) and a.threads == b.threads

    def _follows(self, result: Computation, families: list[Family]) -> bool:
        """Whether what is computed from reductions runs in the kernel of the last of them."""
        found = follower(values_alone(self.recipe, result, self.options), families)
        if found is None:
            return False
        family, form = found
        parts = any(self._joint(family).has_parts(each) for each in family.reductions)
        if parts and (form.terms or self.across is Combine.ATOMIC):
            return False
        family.followers.append(form)
        return True

    # -- the others

    def _elementwise(self, result: Computation) -> None:
        """A kernel for a computation: a thread for each value, or one thread."""
        if not is_fresh(self.recipe, result.name):
            return
        form = values_alone(self.recipe, result, self.options)
        if form.values:
            commands = ReductionOnGpu(form, self.on, GpuReductionSizes(THREADS, 1, 1, 0), self.across)
            commands.tag(commands.placed())
        else:
            once = Iter("once")
            result.set_schedule({once: 0})
            result.tag_gpu(blocks=[once], stream=self.on.stream, device=self.on.device)
        form.inline_chain()
