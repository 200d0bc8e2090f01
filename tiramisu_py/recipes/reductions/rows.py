"""The recipe for reductions of rows, and chains of them: each row while it is in the cache."""

from __future__ import annotations

from tiramisu_py import Combine, Computation, Iter, Reduction, Selection, Target
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Declared
from tiramisu_py.recipes.cpu import MOST_LANES, Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor
from tiramisu_py.recipes.reductions.chain_of_rows import Chain, axes, is_of_columns, reads

#: Additions that a core has under way: a latency of four cycles, two of them begun in each.
UNDER_WAY = 8


@own_call_of("tm.recipes")
def rows(*results: Computation, cpu: Cpu | Target | str | None = None) -> AppliedCommands:
    """Schedule reductions over the last dimension, and what is computed from them, one row at a time.

    ::

        print(tm.recipes.rows(y))           # softmax: y[r, c] = power[r, c] * inverse[r]
            -->   r, c = tm.iters("r c")
                  y = f["y"]
                  y.parallelize(r)
                  y.vectorize(c, 16, remainder="mask")
                  y.store_nontemporal()
                  inverse = f["inverse"]
                  inverse.compute_at(y, r)
                  total = f["total"]
                  total.compute_at(y, r)
                  total.update.vectorize(c, 64, combine=tm.PRIVATE)
                  power = f["power"]
                  power.compute_at(y, r)
                  power.vectorize(c, 16, remainder="mask")
                  x = f["x"]
                  power.prefetch(x, r, 1)
                  top = f["top"]
                  top.compute_at(y, r)
                  top.update.vectorize(c, 64, combine=tm.PRIVATE)

    A result is a value of each row (a reduction, a norm, logsumexp) or of each element (softmax, layer normalisation);
    several results of the same rows share one loop, such as a loss and its gradient, and sums over all rows, one for
    each column, such as the gradient of a scale. The stages are the computations on which they depend, but for those
    that others read, too, which keep their arrays and loops. A row of each stage is kept until the next row. Threads
    share the rows, and add to columns of their own. A reduction has as many partial results as additions may be under
    way (a latency of four cycles, two in each), in at most 64 lanes and half of the registers of `cpu` (default: this
    machine's); its terms are added in another order. If a row is read more than once, the last stage that reads it
    prefetches the next one, and the results of all elements go past the caches in calls whose arrays are too large for
    them. Returns the commands that were applied, to be pasted and edited, over the function `f`.

    Raises `ArgumentError` for stages of another form, with the reason, and the error of a command that is refused; then
    none of the commands is applied.
    """
    recipe = Recipe("rows", results)
    cpu = processor("rows", cpu)
    chain = Chain.of(recipe)
    with recipe.together():
        in_rows(recipe, chain, cpu)
    return recipe.commands()


def in_rows(recipe: Recipe, chain: Chain, cpu: Cpu) -> None:
    """Apply the commands: all stages of a row before the next one."""
    _in_one_loop(recipe, chain)
    ends, reader = (*chain.results, *chain.columns), chain.columns[-1].update if chain.columns else chain.results[-1]
    algorithm, ahead = recipe.function.algorithm, _prefetching(recipe, chain)
    at = Iter(axes(algorithm.computations[ends[-1].name])[chain.count - 1])
    read = {access.source for each in ends for access in reads(algorithm.computations[each.name])}
    for stage in (*reversed(ends), *reversed(chain.stages)):
        declared = algorithm.computations[stage.name]
        if stage not in ends:
            stage.compute_at(reader, at)
        _in_vectors(stage, declared, cpu, chain.count)
        of_elements = stage in chain.results and len(declared.iterators) > chain.count
        if of_elements and stage.name in algorithm.outputs and stage.name not in read:
            stage.store_nontemporal()
        for source in ahead.get(stage.name, ()):
            _terms(stage).prefetch(recipe.function[source], Iter(axes(declared)[chain.count - 1]), 1)


def _in_one_loop(recipe: Recipe, chain: Chain) -> None:
    """Put results in one loop over rows, which threads share, and sums of columns last."""
    before: Selection | None = None
    for result in (*chain.results, *chain.columns):
        declared = recipe.function.algorithm.computations[result.name]
        outer, first = [Iter(name) for name in axes(declared)[: chain.count]], _terms(result)
        if result in chain.columns:
            first.reorder(*map(Iter, axes(declared)))
            first.parallelize(*outer, combine=Combine.PRIVATE)
        else:
            if isinstance(result, Reduction):
                first.after(result.init, outer[-1])
            first.parallelize(*outer)
            first = result.init if isinstance(result, Reduction) else first
        if before is not None:
            first.after(before, outer[-1])
        before = _terms(result)


def _terms(stage: Computation) -> Selection:
    """The statement with the values of a stage: of a reduction, the one of its terms."""
    return stage.update if isinstance(stage, Reduction) else stage


def _in_vectors(stage: Computation, declared: Declared, cpu: Cpu, count: int) -> None:
    """The loop of a stage over the elements of a row, in vectors; a reduction of a row has several accumulators."""
    lanes = 1 << (min(cpu.lanes(stage.dtype.bytes), MOST_LANES).bit_length() - 1)  # a power of two, also of tuples
    if isinstance(stage, Reduction) and not is_of_columns(declared):
        stage.update.vectorize(Iter(declared.over[0]), accumulating(lanes, cpu), combine=Combine.PRIVATE)
    elif isinstance(stage, Reduction) or len(declared.iterators) > count:
        stage.vectorize(Iter(declared.iterators[-1]), lanes, remainder="mask")


def accumulating(lanes: int, cpu: Cpu) -> int:
    """The lanes of the partial results of a reduction: enough vectors to keep the adders busy."""
    vectors = min(UNDER_WAY, cpu.registers // 2)
    return min(lanes * vectors, MOST_LANES)


def _prefetching(recipe: Recipe, chain: Chain) -> dict[str, list[str]]:
    """By stage, the inputs of whose rows it is the last reader, of those that are read more than once."""
    algorithm = recipe.function.algorithm
    readers = dict[str, list[str]]()
    for stage in (*chain.stages, *chain.results, *chain.columns):
        declared = algorithm.computations[stage.name]
        own = axes(declared)
        for access in reads(declared):
            plain = tuple(index.name for index in access.indices if isinstance(index, Iter))
            if access.source in algorithm.inputs and plain == own and len(own) > chain.count:
                readers.setdefault(access.source, []).append(stage.name)
    found = dict[str, list[str]]()
    for source, names in readers.items():
        if len(set(names)) > 1:
            found.setdefault(names[-1], []).append(source)
    return found
