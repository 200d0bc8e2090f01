"""The recipe for traversals: stages over the positions of runs, such as edges, in one loop over runs or positions."""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py import GPU_MEMORY, REGISTER, Combine, Computation, GpuThreads, Iter, Reduction, Target, root
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import (
    Declared,
    PositionRun,
    chosen_by_values,
    is_read_in_place,
    readers_of,
    run_of_positions,
)
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, checked_gpu, processor, untouched, with_sizes
from tiramisu_py.recipes.rows_of_values import in_rows, on_gpu
from tiramisu_py.recipes.tiled_sums import ACCUMULATORS, TileSizes, in_tiles
from tiramisu_py.records import dataclass

#: Threads of a block on a GPU.
THREADS = 256
#: How terms of a scatter may be added.
COMBINED = (Combine.ATOMIC, Combine.PRIVATE, None)
#: What a traversal may go by.
BY = ("runs", "positions")


@dataclass(frozen=True)
class TraversalSizes:
    """The sizes of a schedule on a GPU: `threads` of a block, and those that share the terms of a run, its `group`."""

    threads: int
    group: int


@own_call_of("tm.recipes")
def traversal(
    *stages: Computation,
    by: str = "runs",
    on: GpuThreads | None = None,
    cpu: Cpu | Target | str | None = None,
    sizes: Mapping[str, int] | None = None,
    combine: Combine | None = Combine.ATOMIC,
) -> AppliedCommands:
    """Schedule stages over the positions of runs in one loop: the last one, and before it what it needs.

    ::

        top = f.reduction("top", {n: N}, {p: rows[n]}, tm.max, a[p])
        e = f.computation("e", {n: N, p: rows[n]}, tm.exp(a[p] - top[n]))
        total = f.reduction("total", {n: N}, {p: rows[n]}, tm.sum, e[n, p])
        y = f.computation("y", {n: N, p: rows[n]}, e[n, p] / total[n])
        print(tm.recipes.traversal(top, e, total, y))
            -->   (n,) = tm.iters("n")
                  total.compute_at(y, n)
                  e.compute_at(y, n)
                  top.compute_at(y, n)
                  y.parallelize(n, balance=rows)

    The stages are given in the order in which they read each other. `by` says what threads share: ``"runs"``, the nodes
    of a graph with their edges, so that sums over a run are one thread's, and nothing is added atomically; or
    ``"positions"``, all edges evenly, however long the runs are. Then a stage reads what it needs of its position, and
    a scatter at the end is added atomically, or as `combine` says: ``tm.PRIVATE``, in a copy of the sums for each
    thread of cores, or None, on one thread of cores and in the order of its terms. `gather` it first, by an inverse,
    and it goes by runs. What is computed in the loop is kept for its iteration alone, in registers where it is one
    value.

    One stage alone needs no runs to go by positions: its first iterator is dealt out, be it over edges or nodes. The
    sums of one stage over runs, and over an axis such as products of two rows, grow in tiles of registers, of as many
    `vectors` as `sizes` say (of one row at least, and of no more where a run has one), and are stored once; other
    stages have no `vectors`. What is made of such sums at its own iterators, a bias or an activation, takes them along,
    be they over runs or over an axis: ``traversal(total, product, y)`` for ``y[n, d] = total[n, d] + product[n, d]``.
    They stay in registers, and y alone is stored.

    `on` is a GPU and its operation sequence, ``tm.gpu(stream=1)``, or None for cores. There each run or position has a
    thread; of a sum over a run, the last stage, as many threads have a part as `sizes` say (``{"group": 32}``, a warp)
    and bring it together in a tree.
    Transfers are left to ``f.derive_transfers()``. The last iterator of stages with features is in vectors of `cpu`
    (default: this machine's).

    Returns the commands that were applied, to be pasted and edited. Raises `ArgumentError` for stages that have no runs
    of positions, and the error of a command that is refused; nothing is applied then. Source: Wu, Hector, algorithm
    3.2.
    """
    recipe = Recipe("traversal", stages)
    if by not in BY:
        raise ArgumentError(f"traversal: by={by!r}: give {' or '.join(map(repr, BY))}")
    for stage in stages:
        if not chosen_by_values(recipe.function.program.algorithm.computations[stage.name]):
            untouched(recipe, stage, any_order=True)
    if combine not in COMBINED or (on is not None and combine is not Combine.ATOMIC):
        raise ArgumentError(
            f"traversal: combine={combine!r}: terms of a scatter are added by tm.ATOMIC, or on cores by tm.PRIVATE or "
            "None, in their order"
        )
    own = TraversalSizes(THREADS, 1) if on is not None else TileSizes(ACCUMULATORS)
    plan = with_sizes(own, "traversal", sizes or {})
    with recipe.together():
        gpu = None if on is None else checked_gpu("traversal", on)
        made = _Traversal(recipe, stages[:-1], stages[-1], by, combine, gpu)
        if "vectors" in (sizes or {}) and not made.is_tiled(plan):
            raise ArgumentError(
                f"traversal: vectors are those of a tile of sums, and {stages[-1]} is no sum over runs or an axis, "
                f"alone, by {by}: leave vectors out of sizes"
            )
        loops = made.alone(plan, cpu)
        if loops is None:
            loops = made.apply(plan if isinstance(plan, TraversalSizes) else None, cpu)
    return recipe.commands(loops=loops)


@dataclass(frozen=True, eq=False)
class _Traversal:
    """The stages of a traversal: the last one, whose loop the others move into."""

    recipe: Recipe
    before: tuple[Computation, ...]
    last: Computation
    by: str
    combine: Combine | None
    gpu: GpuThreads | None

    def alone(self, plan: TraversalSizes | TileSizes, cpu: Cpu | Target | str | None) -> list[str] | None:
        """Schedule one stage whose values are rows; in words, or None for other stages."""
        if not self._is_alone(plan):
            return None
        combine = self.combine if self._places else None
        if isinstance(plan, TraversalSizes):
            assert self.gpu is not None
            return on_gpu(self.recipe, self.last, self.gpu, plan.threads, combine, taken=self._taken)
        if isinstance(plan, TileSizes) and self.is_tiled(plan):
            return in_tiles(self.recipe, self.last, processor("traversal", cpu), plan.vectors, self._taken)
        return in_rows(self.recipe, self.last, processor("traversal", cpu), combine)

    def is_tiled(self, plan: TraversalSizes | TileSizes) -> bool:
        """Whether the traversal is one stage of sums on cores, which grow in tiles, or takes sums along."""
        is_sum = bool(self._taken) or (isinstance(self.last, Reduction) and not self._places)
        return isinstance(plan, TileSizes) and is_sum and self._is_alone(plan)

    def _is_alone(self, plan: TraversalSizes | TileSizes) -> bool:
        """Whether there is one stage, whose values are rows, but for sums that it takes along."""
        declared, found = self._declared(self.last), self._run()
        over_runs = found is not None and found.position in declared.over
        if not declared.iterators or (found is not None and not over_runs) or self._is_grouped(plan):
            return False
        if self.before:
            return bool(self._taken)
        if self._places:
            return self.by != "runs" and found is None
        return over_runs == (self.by == "runs")

    @property
    def _taken(self) -> list[Reduction]:
        """The stages before the last one, where they are all sums that it reads at its own iterators alone."""
        algorithm, last = self.recipe.function.program.algorithm, self.last.name
        found = [stage for stage in self.before if isinstance(stage, Reduction)]
        if isinstance(self.last, Reduction) or len(found) < len(self.before) or self._run() is not None:
            return []
        kept = any(readers_of(algorithm, stage.name) != [last] or stage.name in algorithm.outputs for stage in found)
        in_place = all(is_read_in_place(algorithm, stage.name, last) for stage in found)
        return [] if kept or not in_place or any(map(self._has_places, found)) else found

    def _has_places(self, stage: Computation) -> bool:
        """Whether a stage is a scatter, or has values of the positions of runs."""
        declared = self._declared(stage)
        found = run_of_positions(self.recipe.function.program.algorithm, declared)
        return bool(chosen_by_values(declared)) or (found is not None and found.position in declared.iterators)

    def _is_grouped(self, plan: TraversalSizes | TileSizes) -> bool:
        return isinstance(plan, TraversalSizes) and (plan.group > 1 or plan.threads % plan.group != 0)

    def apply(self, plan: TraversalSizes | None, cpu: Cpu | Target | str | None) -> list[str]:
        """Schedule all stages in the loop of the last one; in words."""
        level = self._runs() if self.by == "runs" else self._positions()
        for stage in reversed(self.before):
            stage.compute_at(self.last, level)
            self._keep(stage, on_gpu=plan is not None)
        if plan is None or self.gpu is None:
            self._vectors(processor("traversal", cpu))
            self._on_threads(level)
        else:
            self._on_gpu(level, plan, self.gpu)
        return [f"{', '.join(each.name for each in (*self.before, self.last))} in one loop by {self.by}"]

    def _keep(self, stage: Computation, on_gpu: bool) -> None:
        """Values of a run's positions stay in an array by position; one value of a run or position is in registers."""
        declared, algorithm = self._declared(stage), self.recipe.function.program.algorithm
        found = run_of_positions(algorithm, declared)
        if self.by == "positions" or found is None or found.position not in declared.iterators:
            if on_gpu:
                stage.store_in(REGISTER)
            return
        stage.store_at(self.last, root)
        if on_gpu:
            stage.store_in(GPU_MEMORY)

    def _declared(self, stage: Computation) -> Declared:
        return self.recipe.function.program.algorithm.computations[stage.name]

    def _run(self) -> PositionRun | None:
        return run_of_positions(self.recipe.function.program.algorithm, self._declared(self.last))

    @property
    def _places(self) -> set[str]:
        """The iterators of values that terms of the last stage choose, where it is a scatter."""
        return set(chosen_by_values(self._declared(self.last))) if isinstance(self.last, Reduction) else set()

    def _runs(self) -> Iter:
        """The loop over runs of the last stage."""
        found = self._run()
        if found is None or self._places:
            raise ArgumentError(
                f"traversal: {self.last} has no values of runs: declare rows = f.segments(..), {{n: N, p: rows[n]}}, "
                'or gather what it scatters by an inverse; by="positions" takes a scatter as it is'
            )
        if isinstance(self.last, Reduction):
            self.last.update.after(self.last.init, Iter(found.row))
        return Iter(found.row)

    def _positions(self) -> Iter:
        """The loop over all positions of the last stage."""
        found, declared = self._run(), self._declared(self.last)
        if found is not None and not self._sums_runs():
            edge = self.recipe.fresh(f"{found.position}0")
            stage = self.last.update if isinstance(self.last, Reduction) and self._places else self.last
            stage.coalesce(Iter(found.row), Iter(found.position), into=edge)
            return edge
        if len(declared.over) == 1 and self._places:
            return Iter(declared.over[0])
        raise ArgumentError(
            f"traversal: {self.last} has no value of each position: it takes what is over {{n: N, p: rows[n]}}, or a "
            'scatter of positions; by="runs" takes sums over runs'
        )

    def _sums_runs(self) -> bool:
        """Whether the last stage is a sum over each run."""
        found = self._run()
        return found is not None and found.position in self._declared(self.last).over and not self._places

    def _vectors(self, cpu: Cpu) -> None:
        for stage in (*self.before, self.last):
            declared = self._declared(stage)
            found = run_of_positions(self.recipe.function.program.algorithm, declared)
            taken = {*((found.row, found.position) if found is not None else ()), *chosen_by_values(declared)}
            if len(declared.iterators) > 1 and declared.iterators[-1] not in taken:
                stage.vectorize(Iter(declared.iterators[-1]), cpu.lanes(stage.dtype.bytes), remainder="mask")

    def _on_threads(self, level: Iter) -> None:
        found = self._run()
        if isinstance(self.last, Reduction) and self._places:
            self.last.init.parallelize(Iter(self._declared(self.last).iterators[0]))
            if self.combine is not None:
                self.last.update.parallelize(level, combine=self.combine)
        elif self.by == "runs" and found is not None:
            self.last.parallelize(level, balance=self.recipe.function[found.start])
        else:
            self.last.parallelize(level)

    def _on_gpu(self, level: Iter, plan: TraversalSizes, on: GpuThreads) -> None:
        if plan.threads % plan.group:
            raise ArgumentError(
                f"traversal: {plan.threads} threads are no multiple of a group of {plan.group}: give whole groups"
            )
        block, thread = self.recipe.fresh(f"{level.name}0"), self.recipe.fresh(f"{level.name}1")
        self.last.split(level, plan.threads // plan.group, block, thread)
        found = self._run()
        if plan.group > 1:
            self._grouped(found, block, thread, plan.group, on)
        elif isinstance(self.last, Reduction) and self._places:
            first = Iter(self._declared(self.last).iterators[0])
            of_values = self.recipe.fresh(f"{first.name}0"), self.recipe.fresh(f"{first.name}1")
            self.last.init.split(first, plan.threads, *of_values)
            self.last.init.tag_gpu([of_values[0]], [of_values[1]], stream=on.stream, device=on.device)
            self.last.update.tag_gpu([block], [thread], stream=on.stream, device=on.device, combine=Combine.ATOMIC)
        else:
            self.last.tag_gpu([block], [thread], stream=on.stream, device=on.device)

    def _grouped(self, found: PositionRun | None, block: Iter, thread: Iter, group: int, on: GpuThreads) -> None:
        """A group of threads for each run, which bring their parts of a sum together in a tree."""
        if self.before or found is None or not self._sums_runs() or not isinstance(self.last, Reduction):
            raise ArgumentError(
                f"traversal: a group of {group} threads is for one sum over each run, the only stage: leave group out"
            )
        terms, own = self.recipe.fresh(f"{found.position}0"), self.recipe.fresh(f"{found.position}1")
        self.last.update.split(Iter(found.position), group, terms, own)
        self.last.init.tag_gpu([block], [thread], stream=on.stream, device=on.device)
        self.last.update.tag_gpu([block], [thread, own], stream=on.stream, device=on.device, combine=Combine.TREE)
