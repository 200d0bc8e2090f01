"""Reductions on ranks: a block of the outermost loop on each, and its cores inside."""

from __future__ import annotations

from tiramisu_py import Combine, Iter
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes.reductions.forms import ReductionForm
from tiramisu_py.recipes.reductions.on_cores import ReductionOnCores
from tiramisu_py.records import dataclass

#: Terms of a single value that a thread takes at once.
BLOCK = 1 << 12


@dataclass(frozen=True, eq=False)
class ReductionOnRanks:
    """The schedule of one reduction on ranks: blocks of values, or of the terms of a single value."""

    form: ReductionForm
    cores: ReductionOnCores
    ranks: range
    combine: Combine

    def apply(self) -> None:
        """Apply the commands."""
        if not self.form.recipe.function.program.ranks.grid:
            self.form.recipe.function.grid(len(self.ranks))
        if self.form.values:
            self._values()
        else:
            self._terms()

    def _block(self, loop: Iter) -> int:
        """The iterations that each rank has."""
        most = self.form.most([loop.name])
        if most is None:
            raise ArgumentError(
                f"reduction: the loop {loop} of {self.form.target} has no constant size, so that the blocks of "
                f"{len(self.ranks)} ranks have none: give it a constant extent, or its largest by assume="
            )
        return max(-(-most // len(self.ranks)), 1)

    def _values(self) -> None:
        """Each rank has a block of values with all of their terms."""
        target, fresh = self.form.target, self.form.recipe.fresh
        first, *others = self.form.values
        rank, inner = fresh(f"{first.name}_rank"), fresh(f"{first.name}_part")
        block = self._block(first)
        self._distributed(first, block)
        target.distribute_array(self.form.values, rank=first // block)
        target.split(first, block, rank, inner)
        target.tag_distribute(rank)
        values = [inner, *others]
        if self.form.is_of_columns:
            self.cores.columns(values, self.form.terms, within=[rank])
        else:
            self.cores.rows(values, self.form.joined(self.form.terms))

    def _terms(self) -> None:
        """Each rank combines a block of terms, and the ranks combine their results."""
        if self.form.is_ordered:
            raise ArgumentError(
                f"reduction: {self.form.target} is one value whose terms are combined in order: one rank would have "
                "all of them: leave the ranks out, or ask for determinism='everywhere'"
            )
        if self.form.in_order:
            raise ArgumentError(
                f"reduction: {self.form.target} is one value, and its operator is not commutative: ranks combine by "
                "halves of their numbers, which are no neighbours: leave the ranks out"
            )
        target, fresh = self.form.reduction, self.form.recipe.fresh
        first, *others = self.form.terms
        rank, inner = fresh(f"{first.name}_rank"), fresh(f"{first.name}_part")
        block = self._block(first)
        self._distributed(first, block)
        target.update.split(first, block, rank, inner)
        part = inner
        if not others:
            part = fresh(f"{first.name}0")
            target.update.split(inner, BLOCK, part, fresh(f"{first.name}1"))
        partial = target.update.rfactor(rank, part)
        partial.tag_distribute(rank)
        partial.update.after(partial.init, part)
        partial.update.parallelize(part)
        target.update.tag_distribute(rank, combine=self.combine)
        partial.update.vectorize((others or [first])[-1], self.cores.sizes.lanes, combine=Combine.PRIVATE)

    def _distributed(self, loop: Iter, block: int) -> None:
        """Give each rank the part of the inputs that its block reads, where it is a block of one of their indices."""
        function = self.form.recipe.function
        read = [each for each in self.form.reads if each.source in function.algorithm.inputs and each.indices]
        for name in dict.fromkeys(each.source for each in read):
            indices = {each.indices for each in read if each.source == name}
            own = min(indices, key=str)
            if len(indices) == 1 and own.count(loop.name) == 1 and name not in function.program.ranks.distributions:
                names = [self.form.recipe.fresh(f"{name}{k}") for k in range(len(own))]
                function[name].distribute_array(names, rank=names[own.index(loop.name)] // block)
