"""The recipe for reductions over any dimensions: joined to one loop over terms, in vectors, blocks on threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation as Declared
from tiramisu_py.algorithm.declarations import Determinism
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.build.target_processor import Target
from tiramisu_py.errors import ArgumentError, CommandError
from tiramisu_py.function import Computation, Reduction
from tiramisu_py.function.handles.computations import reductions_behind
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.statement import Role
from tiramisu_py.program.targets import Cores
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recorded import Recorded, processor
from tiramisu_py.recipes.reductions.columns import ColumnSizes, in_strips
from tiramisu_py.recipes.reductions.rows import MOST_LANES, accumulating
from tiramisu_py.schedule.instances.target_kinds import cores

#: Terms of a block of a sum of everything: enough for a thread, and small beside the array of partial results.
BLOCK = 1 << 14
#: Rows that are added at once to a strip of columns, and the vectors of a strip.
ROWS, STRIP = 8, 8
GRADES = ("ordered", "everywhere", "run_to_run", "not_guaranteed", "gpu_to_gpu")


def reduction(
    *reductions: Computation, on: Cores | None = None, determinism: str | None = None, cpu: Cpu | Target | None = None
) -> str:
    """Schedule reductions over any dimensions for the cores of a processor, and inline what they read.

    ::

        print(tm.recipes.reduction(total))          # total[h] += image[h, x, y], of 10 x 5
            -->   j, = tm.iters("j")
                  total.update.coalesce(x, y, into=j)
                  total.update.after(total.init, h)
                  total.update.parallelize(h)
                  total.update.vectorize(j, 64, combine=tm.PRIVATE)

    The loops over terms, and those over values, become one loop each where their extents allow (`coalesce`). What then
    runs along contiguous memory decides: terms of one value are added in the lanes of several vectors, values side by
    side in vectors of values. Threads share the values, or blocks of terms of a single value. The bits of the result
    depend on the sizes only (`everywhere`); with ``determinism="ordered"`` terms are added one by one. `on` is
    ``tm.cores()``. Returns the commands that were applied, to be pasted and edited, over the function `f`.

    Raises `ArgumentError` for what is no reduction, or has been scheduled, and the error of a command that is refused;
    then none of the commands is applied.
    """
    recipe = Recorded("reduction", list(reductions))
    if not isinstance(cores() if on is None else on, Cores):
        raise ArgumentError(
            f"reduction: on={on!r}: it schedules for tm.cores(); on GPUs see combine=tm.TREE of tag_gpu"
        )
    if determinism is not None and determinism not in GRADES:
        raise ArgumentError(f"reduction: determinism={determinism!r}: give one of {', '.join(GRADES)}")
    machine, checked = processor("reduction", cpu), [_checked(recipe, each) for each in reductions]
    with recipe.together():
        for each in checked:
            _Plan(recipe, each, machine, determinism == "ordered").apply()
    return recipe.text()


def _checked(recipe: Recorded, given: Computation) -> Reduction:
    """A reduction that nothing has scheduled; raises `ArgumentError` for anything else."""
    if not isinstance(given, Reduction):
        behind = [f'f["{each}"]' for each in reductions_behind(recipe.function.program, given.name)]
        raise ArgumentError(
            f"reduction: {given} is not a reduction: name those that it is computed from" + ", ".join(["", *behind])
        )
    declared = recipe.function.algorithm.computations[given.name]
    program = recipe.function.program
    loops = {statement.role: program.loop_names(statement) for statement in program.statements_of(given.name)}
    if not any(program.loops[x].tag for s in program.statements_of(given.name) for x in s.loops) and (
        declared.guards and loops.get(Role.UPDATE) == (*declared.over, *declared.iterators)
    ):
        raise ArgumentError(f"reduction: {given} is a scatter, whose terms say where they go: see f.auto_schedule()")
    tagged = any(program.loops[x].tag for s in program.statements_of(given.name) for x in s.loops)
    if tagged or loops != {Role.INIT: declared.iterators, Role.UPDATE: declared.point_iterators}:
        raise ArgumentError(f"reduction: {given} has been scheduled already, or cut: give the recipe before")
    if declared.group:
        raise ArgumentError(f"reduction: {given} was declared together with others, which share its loops")
    return given


@dataclass(frozen=True, eq=False)
class _Plan:
    """The schedule of one reduction."""

    recipe: Recorded
    target: Reduction
    cpu: Cpu
    ordered: bool

    @property
    def declared(self) -> Declared:
        return self.recipe.function.algorithm.computations[self.target.name]

    @property
    def lanes(self) -> int:
        """The lanes of a vector of values: a power of two, also of tuples."""
        lanes = min(self.cpu.lanes(self.target.dtype.bytes), MOST_LANES)
        return 1 << (lanes.bit_length() - 1)

    def apply(self) -> None:
        """Apply the commands."""
        chain = _chain(self.recipe.function.algorithm.computations, self.declared)
        values = [Iter(name) for name in self.declared.iterators]
        terms = [Iter(name) for name in self.declared.over]
        along = self._contiguous()
        in_vectors = not isinstance(self.target.dtype, TupleType)
        if along in self.declared.iterators and len(values) == len(terms) == 1 and in_vectors and not self._in_order:
            sizes = ColumnSizes.of(self.target, self.cpu)
            in_strips(self.recipe, self.target, terms[0], values[0], sizes, by_rows=False)
        elif along in self.declared.iterators and terms:
            self._columns(values, terms)
        elif values:
            self._rows(values, self._joined(terms), in_vectors)
        else:
            self._whole(self._joined(terms), in_vectors)
        self._inline(chain)

    def _inline(self, chain: Sequence[str]) -> None:
        """Inline the elementwise chain that the reduction reads."""
        algorithm = self.recipe.function.algorithm
        for name in chain:
            stage = self.recipe.function[name]
            if name not in algorithm.outputs and len(self.recipe.function.program.statements_of(name)) == 1:
                self.recipe.from_function(stage)
                stage.inline()

    def _contiguous(self) -> str:
        """The iterator along which most of what a term reads is contiguous: the last index; or the last over terms."""
        votes = dict[str, int]()
        for access in accesses(self.declared.expr):
            last = access.indices[-1] if isinstance(access, Access) and access.indices else None
            if isinstance(last, Iter):
                votes[last.name] = votes.get(last.name, 0) + len(access.indices)
        return max(votes, key=lambda name: votes[name], default=self.declared.over[-1])

    def _joined(self, loops: Sequence[Iter]) -> list[Iter]:
        """Loops as one where they are a box whose inner extents are constants; else as many of the inner ones."""
        if not all(map(self._begins_at_0, self.declared.over)):
            return list(loops)
        for first in range(len(loops) - 1):
            if not self._are_neighbours([loop.name for loop in loops[first:]]):
                continue
            into = self.recipe.fresh("j")
            try:
                self.target.update.coalesce(*loops[first:], into=into)
            except CommandError:
                continue
            return [*loops[:first], into]
        return list(loops)

    def _rows(self, values: Sequence[Iter], terms: Sequence[Iter], in_vectors: bool) -> None:
        """Each value by itself: its terms in lanes, values on threads."""
        update = self.target.update
        update.after(self.target.init, values[-1])
        update.parallelize(*values)
        if in_vectors and not self._in_order:
            update.vectorize(terms[-1], accumulating(self.lanes, self.cpu), combine=Combine.PRIVATE)

    def _columns(self, values: Sequence[Iter], terms: Sequence[Iter]) -> None:
        """Values side by side in vectors, a strip of them for all terms; threads share the strips."""
        update, fresh = self.target.update, self.recipe.fresh
        last, outer = values[-1], list(values[:-1])
        names = [fresh(f"{last.name}{k}") for k in range(3)]
        if not self._in_order:
            row = terms[-1]
            r0, r1 = fresh(f"{row.name}0"), fresh(f"{row.name}1")
            update.split(row, ROWS, r0, r1)
            terms = [*terms[:-1], r0]
        c0, c1, c2 = names
        update.split(last, self.lanes, c0, c1)
        update.split(c0, STRIP, c2, c0)
        inner = [c0, c1] if self._in_order else [c0, r1, c1]
        update.reorder(*outer, c2, *terms, *inner)
        update.parallelize(*outer, c2)
        if not self._in_order:
            update.unroll(r1, remainder="specialize")
        update.vectorize(c1, self.lanes, remainder="mask")

    def _whole(self, terms: Sequence[Iter], in_vectors: bool) -> None:
        """One value: blocks of terms on threads, whose partial results are added in order."""
        update, fresh = self.target.update, self.recipe.fresh
        if self._in_order or self.declared.op is None:
            return
        joined = len(terms) == 1 < len(self.declared.over)
        block = terms[0]
        if len(terms) == 1:
            block = fresh(f"{terms[0].name}0")
            update.split(terms[0], BLOCK, block, fresh(f"{terms[0].name}1"))
        partial = update.rfactor(block)
        self.recipe.named(partial.name)
        innermost = self._in_one_loop(partial, joined)
        partial.update.after(partial.init, block)
        partial.update.parallelize(block)
        if in_vectors:
            lanes = accumulating(self.lanes, self.cpu)
            partial.update.vectorize(innermost, lanes, combine=Combine.PRIVATE)

    def _in_one_loop(self, partial: Reduction, joined: bool) -> Iter:
        """The innermost loop of partial results, over the terms of a block by their numbers where these were joined."""
        program = self.recipe.function.program
        update = next(each for each in program.statements_of(partial.name) if each.role is Role.UPDATE)
        block, *terms = program.loop_names(update)
        if not joined:
            return Iter(terms[-1])
        extents = [self._extent(name) for name in terms[1:]]
        strides = [*reversed([*accumulate(reversed(extents), mul, initial=1)])]
        number = " + ".join(
            f"{stride}*{name}" if stride > 1 else name for stride, name in zip(strides, terms, strict=True)
        )
        term = self.recipe.fresh(f"{block}_term")
        dims = ", ".join((block, *terms))
        partial.update.set_schedule(f"{{ [{dims}] -> [{block}, {term} = {number} - {BLOCK}*{block}] }}")
        return term

    def _are_neighbours(self, names: Sequence[str]) -> bool:
        """Whether elements along some iterators are contiguous, in every access that has them."""
        places = [[str(index) for index in access.indices] for access in accesses(self.declared.expr)]
        used = [place for place in places if set(names) & set(place)]
        return all(place[len(place) - len(names) :] == [*names] for place in used)

    def _begins_at_0(self, name: str) -> bool:
        points = sets.component_of(self.declared.points, self.declared.point_iterators.index(name))
        return sets.smallest_value(points, 0) == 0

    def _extent(self, name: str) -> int:
        """The constant number of iterations of a loop over terms; they begin at 0."""
        points = sets.component_of(self.declared.points, self.declared.point_iterators.index(name))
        return (sets.largest_value(points, 0) or 0) + 1

    @property
    def _in_order(self) -> bool:
        asked = self.declared.determinism is Determinism.ORDERED
        return self.ordered or asked or self.declared.in_order


def _chain(computations: Mapping[str, Declared], declared: Declared) -> list[str]:
    """The computations that a reduction reads at its own point, and those that these read there; readers first."""
    found, waiting = list[str](), [declared]
    while waiting:
        for access in accesses(waiting.pop(0).expr):
            made = computations.get(access.source)
            if made is not None and access.source not in found and _is_elementwise(access, made):
                found.append(access.source)
                waiting.append(made)
    return found


def _is_elementwise(access: Access, made: Declared) -> bool:
    """Whether a computation that can be inlined is read at different iterators."""
    if made.is_reduction or made.group or made.guards or made.stage is not None:
        return False
    names = [index.name for index in access.indices if isinstance(index, Iter)]
    own = any(inner.source == made.name for inner in accesses(made.expr))
    return len(names) == len(access.indices) == len(set(names)) and not own
