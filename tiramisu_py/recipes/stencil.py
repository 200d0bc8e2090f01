"""The recipe for stages of stencils: several rows at once, in vectors kept in registers."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py import Computation, Iter, Memory, Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Access, Const, offsets, value_names, walk
from tiramisu_py.queries import statement_sources as sources
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor

#: Narrower elements are computed in wider types: rows are kept in the first-level cache instead of registers.
WIDE = 4
#: The number of rows computed at once if they are kept in the cache, and the most that are kept in registers: more rows
#: save little of what neighbouring bands load or compute twice.
ROWS = 8
#: Registers for partial results, beside those for operands and constants.
PARTIAL = 2


@own_call_of("tm.recipes")
def stencil(*stages: Computation, rows: int | None = None, cpu: Cpu | Target | str | None = None) -> AppliedCommands:
    """Schedule the stages of a stencil over two dimensions, given in order; the last one is the output.

    ::

        print(tm.recipes.stencil(down, across))
            -->   r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
                  across = f["across"]
                  across.tile(r, c, 8, 16, r0, c0, r1, c1)
                  across.parallelize(r0)
                  across.vectorize(c1, 16, remainder="mask")
                  down = f["down"]
                  down.compute_at(across, c0)
                  down.slide(c0, c, 16)
                  down.vectorize(c, 16, remainder="mask")
                  down.store_in(tm.REGISTER)
                  across.store_nontemporal()

    The last stage is computed in blocks of `rows` rows by a vector; earlier stages for each block, in registers.
    A stage that is read at neighbouring columns is computed a vector ahead and kept for the next block, so that an
    operand across two vectors is a shift of lanes and not a load across cache lines. Stages of narrow types
    (under 4 bytes) are computed for `rows` rows at a time into rows that stay in the first-level cache. Rows are not
    cut into tiles: contiguous access over whole rows suits the prefetchers; where masks are dear, as without AVX-512,
    they end with a vector that overlaps the one before (as in `pointwise`). Returns the commands that were applied, to
    be pasted and edited, over the function `f`. `rows` defaults to the number that fits in the registers of `cpu`
    (default: this machine's).

    Raises `ArgumentError` if the stages are not computations of one function with two loops, and the error of a command
    that is refused; then none of the commands is applied.
    """
    recipe = Recipe("stencil", stages)
    plan = Plan(recipe, processor("stencil", cpu), rows)
    with recipe.together():
        plan.apply()
    return recipe.commands()


class Plan:
    """The schedule of the stages of one recipe."""

    def __init__(self, recipe: Recipe, cpu: Cpu, rows: int | None) -> None:
        self.recipe = recipe
        self.cpu = cpu
        *self.earlier, self.last = recipe.stages
        self.loops = [_two_loops(recipe, stage) for stage in recipe.stages]
        narrowest = min(stage.dtype.bytes for stage in recipe.stages)
        self.lanes = min(cpu.lanes(narrowest), 64)
        self.in_registers = narrowest >= WIDE
        self.remainder = recipe.remainder(cpu)
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
            raise ArgumentError(f"stencil: rows is {rows!r}: give an integer of at least 1")
        self._check_order()
        self.rows = rows or (self._fitting() if self.in_registers else ROWS)

    def apply(self) -> None:
        """Apply the commands."""
        if self.in_registers:
            self._registers()
        else:
            self._rows()
        self.last.store_nontemporal()

    def _check_order(self) -> None:
        """Refuse a stage that no later one reads."""
        reads = [set(sources(self.recipe.statement(stage))) for stage in self.recipe.stages]
        for number, stage in enumerate(self.earlier, 1):
            if not any(stage.name in later for later in reads[number:]):
                after = ", ".join(later.name for later in self.recipe.stages[number:])
                raise ArgumentError(
                    f"stencil: {stage} is not read by a later stage ({after}): give the stages from the first to "
                    "the last, which is the output"
                )

    def _fitting(self) -> int:
        """The most rows, an even number up to `ROWS`, whose vectors fit in the registers beside the operands of a sum.

        What is read at several columns keeps two vectors in each row, other stages one.
        """
        kept = [(2 if self._across(stage) else 1, self._reach(stage.name)) for stage in self.earlier]
        for stage, (_, column) in zip(self.recipe.stages, self.loops, strict=True):
            kept += [(2, self._reach(source)) for source in self._inputs_across(stage, column)]
        statements = [self.recipe.statement(stage) for stage in self.recipe.stages]
        operands = max(
            len({part.key() for part in walk(each.body) if isinstance(part, Access | Const)}) for each in statements
        )
        room = self.cpu.registers - operands - PARTIAL - sum(vectors * reach for vectors, reach in kept)
        rows = room // max(sum(vectors for vectors, _ in kept), 1)
        return min(max(rows // 2 * 2, 2), ROWS)

    def _reach(self, source: str) -> int:
        """How many rows farther than its own a stage reads a source."""
        found = [0]
        for reader, (row, _) in zip(self.recipe.stages, self.loops, strict=True):
            distances = offsets(self.recipe.statement(reader), source, 0, row)
            found += [distances[-1] - distances[0]] if distances else []
        return max(found)

    def _registers(self) -> None:
        r, c = self.loops[-1]
        fresh = self.recipe.fresh
        r0, c0, r1, c1 = fresh(f"{r.name}0"), fresh(f"{c.name}0"), fresh(f"{r.name}1"), fresh(f"{c.name}1")
        self.last.tile(r, c, self.rows, self.lanes, r0, c0, r1, c1)
        self.last.parallelize(r0)
        self.last.vectorize(c1, self.lanes, remainder="mask")
        for stage, (_, column) in self._backwards():
            slides = self._across(stage)
            stage.compute_at(self.last, c0)
            if slides:
                stage.slide(c0, column, self.lanes)
            stage.vectorize(column, self.lanes, remainder="mask")
            stage.store_in(Memory.REGISTER)
        for stage, (row, column) in zip(self.recipe.stages, self.loops, strict=True):
            for source in self._inputs_across(stage, column):
                self._window(stage, source, c0, row, column)

    def _window(self, stage: Computation, source: str, level: Iter, row: Iter, column: Iter) -> None:
        """Load each vector of an input once, and keep it for the next block."""
        y, x = self.recipe.fresh(f"{row.name}_{source}"), self.recipe.fresh(f"{column.name}_{source}")
        window = stage.copy(self.recipe.function[source], [y, x], at=level)
        window.slide(level, x, self.lanes)
        window.vectorize(x, self.lanes, remainder="mask")
        window.store_in(Memory.REGISTER)

    def _inputs_across(self, stage: Computation, column: Iter) -> list[str]:
        """The inputs of two dimensions that a stage reads at several columns."""
        function, found = self.recipe.function, []
        (statement,) = function.program.statements_of(stage.name)
        for source in sources(statement):
            declared = function.algorithm.inputs.get(source)
            if declared is None or len(declared.shape) != 2 or declared.dtype.bytes != stage.dtype.bytes:
                continue
            if len(offsets(statement, source, 1, column) or ()) > 1:
                found.append(source)
        return found

    def _rows(self) -> None:
        r, c = self.loops[-1]
        r0, r1 = self.recipe.fresh(f"{r.name}0"), self.recipe.fresh(f"{r.name}1")
        self.last.split(r, self.rows, r0, r1)
        self.last.parallelize(r0)
        self.last.vectorize(c, self.lanes, remainder=self.remainder)
        for stage, (row, column) in self._backwards():
            stage.compute_at(self.last, r0)
            stage.reorder(column, row)
            stage.vectorize(column, self.lanes, remainder=self.remainder)
            stage.unroll(row)

    def _backwards(self) -> Sequence[tuple[Computation, tuple[Iter, Iter]]]:
        return list(zip(self.earlier, self.loops, strict=False))[::-1]

    def _across(self, stage: Computation) -> bool:
        """Whether a later stage reads this one at several columns."""
        for reader, (_, column) in zip(self.recipe.stages, self.loops, strict=True):
            statement = self.recipe.function.program.statements_of(reader.name)[0]
            if stage.name in sources(statement):
                distances = offsets(statement, stage.name, 1, column)
                if distances is None or len(distances) > 1:
                    return True
        return False


def _two_loops(recipe: Recipe, stage: Computation) -> tuple[Iter, Iter]:
    loops = recipe.loops(stage)
    if len(loops) != 2:
        known = value_names(recipe.function.algorithm.computations[stage.name])
        why = ": give the recipe before other commands" if len(known) == 2 else ""
        shown = ", ".join(loop.name for loop in loops)
        raise ArgumentError(f"{recipe.name}: {stage} has the loops {shown}, and needs two: rows and columns{why}")
    return loops[0], loops[1]
