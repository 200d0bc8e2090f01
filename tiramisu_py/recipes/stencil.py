"""The recipe for stages of stencils: several rows at once, in vectors kept in registers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tiramisu_py import Computation, Iter, Memory, Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Access, Const, Statement, offsets, value_names, walk
from tiramisu_py.queries import statement_sources as sources
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor

#: Narrower elements are computed in wider types: their bands have `ROWS` rows, in registers or the first-level cache.
WIDE = 4
#: The least vectors of a strip of columns whose rows are kept in the first-level cache.
STRIP = 4
#: The number of rows computed at once if they are kept in the cache, and the most that are kept in registers: more rows
#: save little of what neighbouring bands load or compute twice.
ROWS = 8
#: The rows of a band through which a window of rows goes down: the next band computes few of them again.
BAND = 12
#: The bytes of a cache line, which is stored at once where registers hold as many vectors.
LINE = 64
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
    operand across two vectors is a shift of lanes and not a load across cache lines. Rows are not cut into tiles:
    contiguous access over whole rows suits the prefetchers.

    Where sliding is dear (`costs.prefers_rows`), a stage that is read at one column is a window of rows that goes down
    through a band, a cache line at a time.

    Stages of narrow types (under 4 bytes) are computed for `rows` rows at a time, unrolled; one that is read at a
    single column is inlined, since unrolled rows compute it once. The others stay in registers if their windows find
    room there and sliding is cheap (`costs.keeps_window`); if not, in strips of columns whose rows stay in the
    first-level cache. Where masks are dear, as without AVX-512, strips end with a vector that overlaps the one before
    (as in `pointwise`). Returns the commands that were applied, to
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
        self.goes_down = self.in_registers and self._prefers_rows(rows or BAND)
        self.rows = rows or (BAND if self.goes_down else self._fitting() if self.in_registers else ROWS)

    def apply(self) -> None:
        """Apply the commands."""
        if self.goes_down:
            self._downwards()
        elif self.in_registers:
            self._registers()
        elif self.earlier:
            self._narrow()
        else:
            self._alone()

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
        self.last.store_nontemporal()

    def _prefers_rows(self, band: int) -> bool:
        """Whether a window of rows of the one earlier stage, read at one column, costs less than sliding vectors."""
        if len(self.earlier) != 1 or not self._is_of_one_column(self.earlier[0]):
            return False
        stage, (_, column) = self.earlier[0], self.loops[0]
        rows = (self._span(stage.name, 0) or 0) + 1
        beside = self._inputs_across(stage, column) and not self._inputs_across(self.last, self.loops[-1][1])
        return rows > 1 and bool(beside) and self.cpu.costs.prefers_rows(rows, band)

    def _downwards(self) -> None:
        """A window of rows of the earlier stage goes down through a band, a cache line wide if registers hold it.

        There are the window and its next row, constants and a sum, and what is loaded where that is no operand of
        arithmetic.
        """
        (stage,), (r, c), (row, column) = self.earlier, self.loops[-1], self.loops[0]
        rows = (self._span(stage.name, 0) or 0) + 1
        constants = {
            part.key() for body, *_ in self._statements() for part in walk(body.body) if isinstance(part, Const)
        }
        vectors = max(LINE // (self.lanes * self.last.dtype.bytes), 1)
        loaded = 0 if self.cpu.costs.memory_operands else rows
        if (rows + 1) * vectors + len(constants) + 1 + loaded > self.cpu.registers:
            vectors = 1
        lanes = self.lanes * vectors
        r0, r1, c0, c1 = (self.recipe.fresh(f"{at.name}{n}") for at in (r, c) for n in (0, 1))
        self.last.tile(r, c, self.rows, lanes, r0, c0, r1, c1)
        self.last.parallelize(r0)
        self.last.unroll(r1)
        self.last.vectorize(c1, lanes, remainder="mask")
        stage.compute_at(self.last, r1)
        stage.slide(r1, row, 1)
        stage.vectorize(column, lanes, remainder="mask")
        stage.store_in(Memory.REGISTER)
        self.last.store_nontemporal()

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

    def _alone(self) -> None:
        """Bands of whole rows; the last rows of one are the first of the next, in the first-level cache."""
        r, c = self.loops[-1]
        r0, r1 = self.recipe.fresh(f"{r.name}0"), self.recipe.fresh(f"{r.name}1")
        self.last.split(r, self.rows, r0, r1)
        self.last.parallelize(r0)
        self.last.vectorize(c, self.lanes, remainder=self.remainder)
        self.last.store_nontemporal()

    def _narrow(self) -> None:
        """Bands of rows whose earlier stages are kept in registers, if these hold them, or in the first-level cache."""
        self._inline()
        keeps, (r, c) = self._keeps_windows(), self.loops[-1]
        remainder = "mask" if keeps else self.remainder
        r0, r1, c0, c1 = (self.recipe.fresh(f"{at.name}{n}") for at in (r, c) for n in (0, 1))
        if self.earlier:
            self.last.tile(r, c, self.rows, self.lanes if keeps else self._strip(), r0, c0, r1, c1)
        else:
            c1 = c
            self.last.split(r, self.rows, r0, r1)
        if not keeps:
            self.last.reorder(c1, r1)
        self.last.parallelize(r0)
        self.last.unroll(r1)
        self.last.vectorize(c1, self.lanes, remainder=remainder)
        for stage, (row, column) in self._backwards():
            stage.compute_at(self.last, c0)
            if not keeps:
                stage.reorder(column, row)
            elif self._across(stage):
                stage.slide(c0, column, self.lanes)
            stage.unroll(row)
            stage.vectorize(column, self.lanes, remainder=remainder)
            if keeps:
                stage.store_in(Memory.REGISTER)
            self._prefetch(stage, row)
        if keeps:
            self.last.store_nontemporal()

    def _inline(self) -> None:
        """Substitute each earlier stage that one stage reads, at one column: rows that are unrolled compute it once."""
        for stage, _ in self._backwards():
            if self._is_of_one_column(stage) and self.recipe.tried(partial(_inline, stage)):
                at = self.recipe.stages.index(stage)
                del self.recipe.stages[at], self.loops[at]
                self.earlier.remove(stage)

    def _is_of_one_column(self, stage: Computation) -> bool:
        """Whether a single stage reads another one, a few rows away at a single column."""
        spans = [
            (offsets(statement, stage.name, 0, row), offsets(statement, stage.name, 1, column))
            for statement, row, column in self._statements()
            if stage.name in sources(statement)
        ]
        return len(spans) == 1 and bool(spans[0][0]) and len(spans[0][1] or ()) == 1

    def _keeps_windows(self) -> bool:
        """Whether vectors of all rows of the earlier stages slide along a band in registers."""
        heights = self._heights()
        others = 2 * sum(heights[stage.name] for stage in self.earlier)
        taps = [self._span(stage.name, 1) for stage in self.earlier]
        costs = self.cpu.costs
        return bool(taps) and all(each is not None and costs.keeps_window(each + 1, others) for each in taps)

    def _strip(self) -> int:
        """The columns of a band for which its rows, also those of inputs, are half of the first-level cache.

        Earlier stages have columns beside them, and are whole vectors.
        """
        algorithm = self.recipe.function.algorithm
        sizes = {name: each.dtype.bytes for name, each in algorithm.inputs.items()}
        sizes |= {name: each.dtype.bytes for name, each in algorithm.computations.items()}
        column = sum(height * sizes[name] for name, height in self._heights().items())
        wide = max(self.cpu.first // 2 // column, STRIP * self.lanes)
        beside = max((self._span(stage.name, 1) or 0 for stage in self.earlier), default=0)
        return max((1 << wide.bit_length() - 1) - beside, self.lanes)

    def _heights(self) -> dict[str, int]:
        """By stage and input, the rows of it that a band reads or writes."""
        found = {self.last.name: self.rows}
        for reader, (statement, row, _) in list(zip(self.recipe.stages, self._statements(), strict=True))[::-1]:
            for source in sources(statement):
                distances = offsets(statement, source, 0, row)
                span = distances[-1] - distances[0] if distances else 0
                found[source] = max(found.get(source, 0), found[reader.name] + span)
        return found

    def _span(self, source: str, axis: int) -> int | None:
        """How far apart rows (axis 0) or columns (1) of a stage are that one value reads; None if it is not known."""
        found = 0
        for statement, *loops in self._statements():
            if source in sources(statement):
                distances = offsets(statement, source, axis, loops[axis])
                if distances is None:
                    return None
                found = max(found, distances[-1] - distances[0])
        return found

    def _statements(self) -> list[tuple[Statement, Iter, Iter]]:
        """The statement of each stage as it is now, with the iterators of its rows and columns."""
        zipped = zip(self.recipe.stages, self.loops, strict=True)
        return [(self.recipe.statement(stage), row, column) for stage, (row, column) in zipped]

    def _prefetch(self, stage: Computation, row: Iter) -> None:
        """Fetch the rows of inputs that the next band reads, and this one does not."""
        function, statement = self.recipe.function, self.recipe.statement(stage)
        height = self._heights()[stage.name]
        for source in sources(statement):
            declared = function.algorithm.inputs.get(source)
            if declared is not None and len(declared.shape) == 2 and offsets(statement, source, 0, row):
                stage.prefetch(function[source], row, height)

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


def _inline(stage: Computation) -> None:
    stage.inline()


def _two_loops(recipe: Recipe, stage: Computation) -> tuple[Iter, Iter]:
    loops = recipe.loops(stage)
    if len(loops) != 2:
        known = value_names(recipe.function.algorithm.computations[stage.name])
        why = ": give the recipe before other commands" if len(known) == 2 else ""
        shown = ", ".join(loop.name for loop in loops)
        raise ArgumentError(f"{recipe.name}: {stage} has the loops {shown}, and needs two: rows and columns{why}")
    return loops[0], loops[1]
