"""Reductions in the loops of others on cores: rows, columns or blocks of terms, with what is computed beside and from
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiramisu_py import Combine, Iter, Selection
from tiramisu_py.errors import CommandError
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.reductions.families import Family, has_terms_of
from tiramisu_py.recipes.reductions.reduction_form import ReductionForm
from tiramisu_py.recipes.reductions.reduction_on_cores import ReductionOnCores
from tiramisu_py.recipes.reductions.rows import MOST_LANES
from tiramisu_py.recipes.reductions.strips import StripLoops
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class SharedLoops:
    """The loops of a family of stages.

    ::

        for h on threads:                       order(s.init, t.init, s.update, y, at=h)
            for w in lanes:                     t.update.after(s.update, w)
                s[h] += x[h, w];  t[h] = max(t[h], x[h, w])
            for w in lanes: y[h, w] = x[h, w] - s[h] / t[h]
    """

    recipe: Recipe
    family: Family
    cpu: Cpu
    plan: Callable[[ReductionForm], ReductionOnCores]

    def apply(self) -> None:
        """Apply the commands; raises `CommandError` where these stages cannot share loops."""
        first = self.family.reductions[0]
        if first.is_of_columns:
            self._columns()
        elif first.values:
            self._rows()
        else:
            self._whole()

    # -- rows

    def _rows(self) -> None:
        """Each row by a thread: the reductions in vector loops, and what follows."""
        family, values = self.family, self.family.reductions[0].values
        order, groups, waiting = list[Selection](), list[SharedTerms](), list(family.producers)
        for level in family.levels():
            made = [form for form in waiting if any(form.target.name in other.chain for other in level)]
            waiting = [form for form in waiting if form not in made]
            order += [form.start for form in level if form.start is not None]
            before = len(groups)
            for form in [*made, *level]:
                self._values_outside(form)
                terms = form.joined(form.terms)
                group = next((each for each in groups[before:] if each.takes(form)), None)
                if group is not None:
                    form.update.after(group.forms[-1].update, group.term)
                    group.forms.append(form)
                    continue
                order.append(form.update)
                if terms:
                    groups.append(SharedTerms(terms[-1], [form]))
        self.recipe.function.order(*order, at=values[-1])
        family.reductions[0].update.parallelize(*values)
        for group in groups:
            self._in_lanes(group)

    def _values_outside(self, form: ReductionForm) -> None:
        """The loops of a computation over terms inside of those over values."""
        wanted = [*form.values, *form.terms]
        if form.start is None and [each.name for each in wanted] != [*form.declared.iterators]:
            form.target.reorder(*wanted)

    def _in_lanes(self, group: SharedTerms) -> None:
        """A loop over terms in vectors: with no more accumulators than half of the registers hold."""
        reductions = [form for form in group.forms if form.start is not None]
        first = group.forms[0]
        if not reductions:
            first.target.vectorize(group.term, self._lanes(first), remainder="mask")
            if first in self.family.followers and first.target.name in self.recipe.function.algorithm.outputs:
                first.target.store_nontemporal()
        elif all(form.has_one_value and not form.in_order for form in reductions):
            reductions[0].update.vectorize(group.term, self._accumulating(reductions), combine=Combine.PRIVATE)

    def _lanes(self, form: ReductionForm) -> int:
        return min(self.cpu.lanes(form.target.dtype.bytes), MOST_LANES)

    def _accumulating(self, reductions: Sequence[ReductionForm]) -> int:
        """The lanes of reductions in one loop, whose accumulators are in half of the registers."""
        lanes = min(self.plan(form).sizes.lanes for form in reductions)
        widest = max(form.target.dtype.bytes for form in reductions)
        room = max(self.cpu.registers // (2 * len(reductions)), 1) * self.cpu.lanes(widest)
        return max(min(lanes, 1 << (room.bit_length() - 1)), 2)

    # -- columns, and one value

    def _columns(self) -> None:
        """Strips of columns, with what each vector of them reads."""
        family, strips = self.family, None
        if any(self.plan(form).sizes.has_one_strip(form) for form in family.reductions):
            raise CommandError("threads share the rows of a single strip, each with results of its own")
        for form in (*family.producers, *family.reductions):
            strips = self._in_strips(form, strips)

    def _in_strips(self, form: ReductionForm, strips: StripLoops | None) -> StripLoops:
        if strips is not None and not strips.serve(form):
            raise CommandError(f"{form.target} has other strips than {strips.form.target}")
        sizes = self.plan(self.family.reductions[0]).sizes
        return ReductionOnCores(form, sizes).columns(form.values, form.terms, beside=strips)

    def _whole(self) -> None:
        """Blocks of terms, in which the partial results of all reductions are computed in one loop."""
        order, before, block, term = list[Selection](), None, None, None
        for form in self.family.reductions:
            if form.is_ordered:
                raise CommandError(f"the terms of {form.target} are combined one by one")
            partial, block, term = self.plan(form).blocks_of_terms(form.joined(form.terms))
            order.append(partial.init)
            if before is None:
                first = partial
            else:
                partial.update.after(before.update, term)
            before = partial
        assert block is not None and term is not None
        self.recipe.function.order(*order, first.update, at=block)
        for form in self.family.producers:
            form.target.compute_at(first.update, block)
            form.target.vectorize(form.terms[-1], self._lanes(form), remainder="mask")
        first.update.parallelize(block)
        if all(form.has_one_value and not form.in_order for form in self.family.reductions):
            first.update.vectorize(term, self._accumulating(self.family.reductions), combine=Combine.PRIVATE)


@dataclass(frozen=True, eq=False)
class SharedTerms:
    """Stages that share a loop over the terms of a row."""

    term: Iter
    forms: list[ReductionForm]

    def takes(self, form: ReductionForm) -> bool:
        """Whether a reduction has the same terms, and reads what the others read or make."""
        read = {each.source for each in form.reads}
        theirs = {each.source for other in self.forms for each in other.reads}
        made = any(other.target.name in form.chain for other in self.forms)
        return form.start is not None and bool(made or read & theirs) and has_terms_of(self.forms[0], form)
