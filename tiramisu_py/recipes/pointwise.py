"""The recipe for pointwise computations: each value reads only the elements at its own indices."""

from __future__ import annotations

from itertools import pairwise

from tiramisu_py import Computation, Target
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.recipes.cpu import MOST_LANES, Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor

#: The block size of a computation with a single loop: threads share the blocks.
BLOCK = 1 << 16


@own_call_of("tm.recipes")
def pointwise(*stages: Computation, cpu: Cpu | Target | str | None = None) -> AppliedCommands:
    """One loop nest for computations over the same domain: whole vectors of the narrowest type, stored past the caches.

    ::

        print(tm.recipes.pointwise(negative, bright))
            -->   c, r = tm.iters("c r")
                  bright = f["bright"]
                  negative = f["negative"]
                  bright.after(negative, c)
                  negative.parallelize(r)
                  negative.vectorize(c, 64, remainder="mask")
                  negative.store_nontemporal()
                  bright.store_nontemporal()

    Stages that are not outputs are computed for each vector of the last one, in registers. Where masks are dear, for
    bytes without AVX-512 say, rows end with a vector that overlaps the one before, ``remainder="overlap"``, unless a
    stage has been stored in place (`store_in` comes before the recipe) or reads its own values. Returns the commands
    that were applied, to be pasted and edited. `cpu` is the processor that determines the vector size (default: this
    machine's). Raises `ArgumentError` if the stages are not computations of one function, and the error of a command
    that is refused; then none of the commands is applied.
    """
    recipe = Recipe("pointwise", stages)
    cpu = processor("pointwise", cpu)
    outputs = set(recipe.function.algorithm.outputs)
    stored = [stage for stage in recipe.stages if stage.name in outputs] or recipe.stages[-1:]
    kept = [stage for stage in recipe.stages if stage not in stored]
    first, last = stored[0], stored[-1]
    remainder = recipe.remainder(cpu)
    with recipe.together():
        loops = recipe.loops(first)
        if len(loops) == 1:
            outer, inner = recipe.fresh(f"{loops[0].name}0"), recipe.fresh(f"{loops[0].name}1")
            for stage in stored:
                stage.split(loops[0], BLOCK, outer, inner)
            loops = [outer, inner]
        for before, after in pairwise(stored):
            after.after(before, loops[-1])
        first.parallelize(loops[0])
        first.vectorize(loops[-1], min(cpu.lanes(_narrowest(recipe)), MOST_LANES), remainder=remainder)
        for stage in reversed(kept):
            stage.compute_at(last, loops[-1])
        for stage in stored:
            stage.store_nontemporal()
    return recipe.commands()


def _narrowest(recipe: Recipe) -> int:
    """The size of the narrowest stored values, in bytes."""
    return min(stage.dtype.bytes for stage in recipe.stages)
