"""How a program tells its ranks apart, and all that the proof, the commands and the reports ask about that.

Most programs have a process grid: ranks have numbers, and every instance has those of its rank. Where the bounds of
blocks are known at run time only (`Function.blocks`), a program is that of one rank, whose bounds are parameters, and
messages are looked at in a window of three. `told_ranks` gives either one, and both answer the same questions.
"""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.extents import extent_of
from tiramisu_py.program.machine.distribution import Blocks
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.block_windows import window
from tiramisu_py.program.ranks.run_time_blocks import both, in_block, named_by


class NumberedRanks:
    """Ranks with numbers: those of a process grid, or none at all."""

    #: The parameters that differ by rank.
    bounds: tuple[str, ...] = ()
    #: What keeps the ranks from having numbers, in words; empty where they have some.
    unnumbered = ""

    def __init__(self, program: Program) -> None:
        self.program = program

    @property
    def agreed(self) -> str:
        """What all ranks agree on before any message, in words; empty where that is nothing."""
        return ""

    @property
    def in_words(self) -> str:
        """The existing ranks, as in "it is in the array of no rank: ranks go from 0 to 3"."""
        program = self.program
        assert program.ranks.everyone is not None
        sizes = [extent_of(program.ranks.everyone, axis, program.context) for axis in range(program.ranks.axes)]
        extents = " x ".join(str(size) for size in sizes)
        return f"the process grid is {extents}" if len(sizes) > 1 else f"ranks go from 0 to {extents} - 1"

    @property
    def varying(self) -> tuple[str, str] | None:
        """An input or computation that would depend on the rank which computes it, and the parameter that it uses."""
        return None

    def around(self) -> Program:
        """The program in which each message has both of its ends."""
        return self.program

    def held(self, source: str, values: isl.Set) -> isl.Set:
        """The values of a source in the caller's arrays, prefixed by the coordinates of each rank that holds them.

        Every rank holds an array that is not distributed.
        """
        program = self.program
        if not program.ranks.is_spread or program.ranks.everyone is None:
            return values
        distribution = program.ranks.distributions.get(source)
        if distribution is None:
            return sets.flat_product(program.ranks.everyone, values, source)
        elements = sets.graph(program.storages[source].index, sets.named(values, None))
        holders = distribution.holders(elements.range(), program.ranks.everyone)
        return sets.flat_pairs(elements.apply_range(holders).reverse(), source)

    def on_some_rank(self, source: str, values: isl.Set, seen: isl.Set) -> isl.Set:
        """Of all values of a source, those in some rank's array; `seen` are those in the arrays of the program."""
        return seen

    def places(self, source: str, elements: isl.Set, name: str) -> isl.Set | None:
        """``[rank, element]``: the elements of a caller's array on each rank; None if all ranks have all of it."""
        distribution, everyone = self.program.ranks.distributions.get(source), self.program.ranks.everyone
        if distribution is None or everyone is None:
            return None
        return sets.flat_pairs(distribution.holders(sets.named(elements, None), everyone).reverse(), name)


class RanksWithBlocks(NumberedRanks):
    """Ranks that know the bounds of their own blocks alone: the program is that of one of them."""

    unnumbered = "blocks whose bounds are known only at run time"

    def __init__(self, program: Program, blocks: Blocks) -> None:
        super().__init__(program)
        self.blocks = blocks
        self.bounds = blocks.bounds

    @property
    def agreed(self) -> str:
        return (
            f"the blocks {self.blocks.lower}..{self.blocks.upper} of ranks 0, 1, ... follow one another from 0 to "
            f"{self.blocks.extent}, and where there are several each has {self.blocks.least} at least"
        )

    @property
    def in_words(self) -> str:
        return f"blocks cover 0 to {self.blocks.extent} - 1"

    @property
    def varying(self) -> tuple[str, str] | None:
        return named_by(self.program.algorithm, self.blocks)

    def around(self) -> Program:
        return window(self.program)

    def held(self, source: str, values: isl.Set) -> isl.Set:
        form = self._dealt(source, values)
        return values if form is None else values.intersect(in_block(self.blocks, form))

    def on_some_rank(self, source: str, values: isl.Set, seen: isl.Set) -> isl.Set:
        form = self._dealt(source, values)
        if form is None:
            return values
        zero, extent = sets.constant(values.get_space(), 0), Affine(values.get_space(), {}).single(self.blocks.extent)
        return values.intersect(both(form.ge_set(zero), form.lt_set(extent)))

    def places(self, source: str, elements: isl.Set, name: str) -> isl.Set | None:
        dim = self._dim(source)
        if dim is None:
            return super().places(source, elements, name)
        return sets.named(elements.intersect(in_block(self.blocks, sets.variables(elements.get_space())[dim])), name)

    def _dim(self, source: str) -> int | None:
        """The dimension of a caller's array of which each rank has its block; None where it has all of it."""
        distribution = self.program.ranks.distributions.get(source)
        return None if distribution is None else distribution.in_blocks

    def _dealt(self, source: str, values: isl.Set) -> isl.Aff | None:
        """The index, of the element that a value is kept in, by which arrays are dealt out."""
        dim = self._dim(source)
        if dim is None:
            return None
        return sets.outputs(sets.from_frame(self.program.storages[source].index, values.get_space()))[dim]


def told_ranks(program: Program) -> NumberedRanks:
    """The ranks of a program, as it tells them apart."""
    return NumberedRanks(program) if program.ranks.blocks is None else RanksWithBlocks(program, program.ranks.blocks)
