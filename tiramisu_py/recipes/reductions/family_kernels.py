"""Reductions of the same values in one kernel of a GPU, with what is computed beside and from them."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py import Combine, Gpu, Iter, Memory, Reduction, Selection
from tiramisu_py.queries import accesses
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.reductions.families import Family, has_terms_of
from tiramisu_py.recipes.reductions.reduction_form import ReductionForm
from tiramisu_py.recipes.reductions.reduction_on_gpu import GpuReductionSizes, OnLoops, ReductionOnGpu
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class KernelOfFamily:
    """The kernel of reductions and their followers, or the two kernels where several blocks have parts of a value.

    ::

        for h0 on blocks, for h1, t on threads:     order(top.init, top.update, total.init, total.update, y, at=h1)
            top, total: trees, results in registers
            y: each thread its terms

    Reductions over the same terms, of which none reads another, share the loop over terms: what both read is loaded
    once. The results of one that only the kernel reads are in registers of all threads.
    """

    recipe: Recipe
    family: Family
    on: Gpu
    sizes: GpuReductionSizes
    across: Combine

    def apply(self) -> None:
        """Apply the commands."""
        family = self.family
        if len(family.reductions) == 1 and not family.producers and not family.followers:
            commands = self._commands(family.reductions[0], alone=True)
            commands.tag(commands.placed())
            return
        reductions = {form: self._commands(form).placed() for form in family.reductions}
        producers = {form: self._commands(form).placed() for form in family.producers}
        if any(placed.several for placed in reductions.values()):
            self._in_parts(reductions, producers)
        else:
            self._in_one(reductions, producers)

    def _commands(self, form: ReductionForm, alone: bool = False) -> ReductionOnGpu:
        return ReductionOnGpu(form, self.on, self.sizes, self.across, alone)

    # -- one block has all terms of a value

    def _in_one(self, reductions: dict[ReductionForm, OnLoops], producers: dict[ReductionForm, OnLoops]) -> None:
        followers = {form: self._commands(form).placed() for form in self.family.followers}
        shared = next(iter(reductions.values())).shared
        order = list[Selection]()
        for level in self.family.levels():
            order += [form.start for form in level if form.start is not None]
            order += self._sharing_terms([reductions[form] for form in level if form in reductions], producers)
            order += [form.target for form in level if form in followers]
        self.recipe.function.order(*order, at=shared)
        around = True
        over_terms = [(form, placed) for form, placed in followers.items() if form.terms]
        for form, placed in [*over_terms, *reductions.items()]:
            self._tag(form, placed, around)
            around = False
        self._in_registers([*followers, *reductions], shared)

    def _tag(self, form: ReductionForm, placed: OnLoops, around: bool) -> None:
        """Run the loops of one statement on the GPU; those `around` the terms are those of all."""
        combine = self._commands(form).combine
        if around:
            form.target.tag_gpu(
                blocks=placed.blocks, threads=placed.threads, stream=self.on.stream, device=self.on.device,
                combine=combine,
            )  # fmt: skip
        elif placed.threads:
            form.update.tag_gpu(threads=placed.threads, combine=combine)

    def _in_registers(self, forms: Sequence[ReductionForm], shared: Iter) -> None:
        """Keep the results that nothing but this kernel reads in registers of its threads."""
        algorithm = self.recipe.function.algorithm
        own = {form.target.name for form in forms}
        inlined = {name for form in forms for name in form.chain if name not in algorithm.outputs}
        for form in self.family.reductions:
            name = form.target.name
            readers = [
                each for each, made in algorithm.computations.items()
                if each != name and any(access.source == name for access in accesses(made.expr))
            ]  # fmt: skip
            if name not in algorithm.outputs and readers and {*readers} <= own | inlined:
                last = self.family.followers[-1].target if self.family.followers else self.family.reductions[-1].target
                if last is not form.target:
                    form.target.store_in(Memory.REGISTER)
                    form.target.store_at(last, shared)

    # -- several blocks have parts

    def _in_parts(self, reductions: dict[ReductionForm, OnLoops], producers: dict[ReductionForm, OnLoops]) -> None:
        for form, placed in reductions.items():
            self._commands(form).tag(placed)
        if self.family.producers or len(reductions) > 1:
            parts = [self._part(form) for form in reductions]
            starts = [part.init for part in parts]
            shared = next(iter(reductions.values())).shared
            updates = self._sharing_terms([*reductions.values()], {}, [part.update for part in parts])
            for form, placed in producers.items():
                reader = next(k for k, each in enumerate(reductions) if has_terms_of(each, form))
                assert placed.innermost is not None
                form.target.before(parts[reader].update, placed.innermost)
            self.recipe.function.order(*starts, *updates, at=shared)
        if len(reductions) > 1 or self.family.followers:
            last = self.across is Combine.LAST_BLOCK
            self._second(next(iter(reductions.values())).of_values if last else None)

    def _part(self, form: ReductionForm) -> Reduction:
        """The results of blocks."""
        part = self.recipe.function[f"{form.target.name}_blocks"]
        assert isinstance(part, Reduction)
        return part

    def _second(self, of_last: Iter | None) -> None:
        """The combinations of the results of blocks, and what is computed from them, in one kernel, or in the last
        block, in the loop over values that this has.
        """
        names = self.family.reductions[0].value_names
        shared = of_last
        if shared is None:
            shared = Iter(names[-1]) if names else Iter("once")
        order: list[Selection] = [form.reduction.init for form in self.family.reductions]
        order += [form.reduction.update for form in self.family.reductions]
        for form in self.family.followers:
            if of_last is not None:
                self._commands(form).placed()
            elif not names:
                form.target.set_schedule({shared: 0})
            order.append(form.target)
        self.recipe.function.order(*order, at=shared)

    # -- order

    def _sharing_terms(
        self,
        level: Sequence[OnLoops],
        producers: dict[ReductionForm, OnLoops],
        updates: Sequence[Selection] = (),
    ) -> list[Selection]:
        """The updates of reductions, and what they read, of which those over the same terms share the loop."""
        found, leads = list[Selection](), list[tuple[OnLoops, Selection]]()
        read = [form for form in producers if _read_by(form, level)]
        made = [(producers.pop(form), form.target) for form in read]
        updated = zip(level, updates or [placed.form.update for placed in level], strict=True)
        for placed, statement in [*made, *updated]:
            lead = next((k for k, (other, _) in enumerate(leads) if has_terms_of(other.form, placed.form)), None)
            if lead is None or placed.innermost is None:
                leads.append((placed, statement))
                found.append(statement)
            else:
                statement.after(leads[lead][1], placed.innermost)
                leads[lead] = (placed, statement)
        return found


def _read_by(producer: ReductionForm, level: Sequence[OnLoops]) -> bool:
    return any(producer.target.name in placed.form.chain for placed in level)
