"""Sums in tiles of registers, without a loop over runs of one matrix: products of rows, sums over the terms of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiramisu_py import Computation, Function, Iter, Reduction, iters
from tiramisu_py.queries import Declared, accesses, extents, run_of_positions
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.records import dataclass

#: The vectors, or numbers without them, that a tile of sums has.
ACCUMULATORS = 16
#: The rows of a tile of numbers, where values have no last axis.
NUMBERS = 8


@dataclass(frozen=True)
class TileSizes:
    """The size of a schedule on cores: the `vectors` of sums that a tile has in registers."""

    vectors: int


@dataclass(frozen=True, eq=False)
class SumLoops:
    """The loops of a sum: `first` is dealt out to threads, a tile has `count` of `rows`, and `last` is in vectors."""

    first: str
    middle: tuple[str, ...]
    rows: str
    count: int
    last: str
    lanes: int

    @classmethod
    def of(cls, f: Function, declared: Declared, most_lanes: int, most_vectors: int) -> SumLoops:
        """The loops of a reduction, in tiles of so many vectors, which registers hold."""
        known = dict(zip(declared.iterators, extents(declared), strict=True))
        first, *others = declared.iterators
        last, lanes, vectors = "", most_lanes, 1
        if others and (known[others[-1]] or 0) > 1:
            last = others.pop()
            width = known[last] or 1
            lanes = lanes_for(width, most_lanes)
            vectors = -(-width // lanes)
        if lanes < 2:
            last, lanes = "", 1
            others = list(declared.iterators[1:])
        own = max(most_vectors // vectors, 1) if last else NUMBERS
        if not _start_of_run(f, declared):
            return cls(first, tuple(others), first, own, last, lanes)
        bounded = [name for name in others if known[name]]
        rows = bounded[-1] if bounded else ""
        count = min(own, known[rows] or 1) if rows else 1
        return cls(first, tuple(name for name in others if name != rows), rows, count, last, lanes)

    @property
    def is_tiled(self) -> bool:
        """Whether a tile has several rows."""
        return bool(self.rows) and self.count > 1

    def named(self, names: Mapping[str, str]) -> SumLoops:
        """These loops with other names."""
        new = {"": "", **names}
        middle = tuple(new[each] for each in self.middle)
        return replace(self, first=new[self.first], middle=middle, rows=new[self.rows], last=new[self.last])


def in_tiles(
    recipe: Recipe, reader: Computation, cpu: Cpu, most_vectors: int, taken: Sequence[Reduction] = ()
) -> list[str]:
    """Let a sum grow in registers, a tile at a time, and be stored when it is whole; what was done, in words.

    With sums that are `taken` along, `reader` is what is made of them, at its own iterators: these grow in registers,
    and it alone is stored. Products have a tile of rows, and sums over the terms of runs one row, or a tile as well
    where there are no products.
    """
    f = recipe.function
    computed = f.program.algorithm.computations
    listed = [computed[each.name] for each in taken] or [computed[reader.name]]
    over_runs = [bool(_start_of_run(f, each)) for each in listed]
    products = over_runs.count(False)
    declared = listed[over_runs.index(False)] if products else listed[0]
    share = most_vectors // (products or len(listed)) or 1
    plan = SumLoops.of(f, declared, cpu.lanes(declared.dtype.bytes), share).named(
        dict(zip(declared.iterators, computed[reader.name].iterators, strict=True))
    )
    if not taken:
        assert isinstance(reader, Reduction)
        taken = [reader.accumulate(free_name(f, f"{reader.name}_sums"))]
    scope, inner = _tiles(recipe, reader, computed[reader.name], plan)
    turned, words = list[str](), list[str]()
    for sums, own, by_row in zip(taken, listed, over_runs, strict=True):
        deeper = by_row and products > 0 and plan.is_tiled
        names = dict(zip(computed[reader.name].iterators, own.iterators, strict=True))
        _in_tile(f, sums, own, plan.named(names), reader, inner[0] if deeper else scope[-1])
        turned += with_rows_of_weights(f, sums, own, names[plan.last] if plan.last else "")
        words.append(f"loops over {', '.join(loops_of(f, sums.update))}")
    if plan.is_tiled:
        reader.unroll(inner[0])
    if plan.last:
        reader.vectorize(Iter(plan.last), plan.lanes)
    run = next(filter(None, (_start_of_run(f, each) for each in listed)), "")
    reader.parallelize(scope[0], **({"balance": f[run]} if run else {}))
    words += [f"sums of {plan.count} {plan.rows} in registers" if plan.is_tiled else "sums in registers"]
    return [*words, *([f"{plan.last} in vectors"] if plan.last else []), f"{scope[0]} on threads", *turned]


def _tiles(recipe: Recipe, reader: Computation, declared: Declared, plan: SumLoops) -> tuple[list[Iter], list[Iter]]:
    """Cut the loops of a value into tiles: the loops around a tile, the first one for threads, and those in it."""
    scope, inner = [Iter(plan.first), *map(Iter, plan.middle)], list[Iter]()
    if plan.is_tiled:
        block, row = (part_of(recipe, declared, f"{plan.rows}_{part}") for part in ("tile", "row"))
        reader.split(Iter(plan.rows), plan.count, block, row)
        scope = [block, *scope[1:]] if plan.rows == plan.first else [*scope, block]
        inner = [row]
    if plan.last:
        inner.append(Iter(plan.last))
    if [each.name for each in (*scope, *inner)] != loops_of(recipe.function, reader):
        reader.reorder(*scope, *inner)
    return scope, inner


def _in_tile(f: Function, sums: Reduction, declared: Declared, plan: SumLoops, reader: Computation, at: Iter) -> None:
    """Compute sums in a loop of what reads them: terms outside, then the rows of a tile, unrolled, then vectors.

    The loop over a run stays in the one over runs, which says where it begins and ends.
    """
    sums.compute_at(reader, at)
    found = run_of_positions(f.program.algorithm, declared)
    if found is not None and found.row == plan.rows:
        plan = replace(plan, rows="", count=1)
    tile = (plan.rows if plan.is_tiled else "", plan.last)  # rows of a tile of one are shared with what reads them
    left = [name for name in tile if name and name in loops_of(f, sums.update)]
    terms = [name for name in declared.over if name in loops_of(f, sums.update)]
    if len(left) + len(terms) > 1:
        sums.update.reorder(*map(Iter, (*terms, *left)))
    for stage in (sums.init, sums.update):
        if (plan.is_tiled or not plan.last) and plan.rows in loops_of(f, stage):
            stage.unroll(Iter(plan.rows))
        if plan.last:
            stage.vectorize(Iter(plan.last), plan.lanes)


def _start_of_run(f: Function, declared: Declared) -> str:
    """The array that says where the runs begin whose positions a sum has as terms; empty for other sums."""
    found = run_of_positions(f.program.algorithm, declared)
    return "" if found is None or found.position not in declared.over else found.start


def with_rows_of_weights(f: Function, sums: Reduction, declared: Declared, last: str) -> list[str]:
    """Copy weights whose rows are not along the vectors, so that these are loaded at once: ``W[r, k, j]`` by k.

    Values of the positions of runs are no weights.
    """
    done, algorithm = list[str](), f.program.algorithm
    for read in accesses(declared.expr):
        names = [str(index) if isinstance(index, Iter) else "" for index in read.indices]
        if not last or last not in names[:-1] or names[-1] not in declared.over or read.source in done:
            continue
        source = algorithm.computations.get(read.source)
        if source is not None and run_of_positions(algorithm, source) is not None:
            continue
        axes = iters(" ".join(f"{read.source}_{axis}" for axis in range(len(names))))
        layout, at = list(axes), names.index(last)
        layout[at], layout[-1] = axes[-1], axes[at]
        name = free_name(f, f"{read.source}_by_columns")
        copied = sums.update.copy(f[read.source], list(axes), layout=layout, name=name)
        copied.parallelize(axes[0])
        done.append(read.source)
    return [f"{each} by columns" for each in done]


def part_of(recipe: Recipe, declared: Declared, name: str) -> Iter:
    """An iterator for a part of a loop: with this name, but where the values have that."""
    return recipe.fresh(name) if name in declared.point_iterators else Iter(name)


def lanes_for(extent: int, most: int) -> int:
    """The lanes of a vector for an axis of so many elements."""
    while most > extent:
        most //= 2
    return most


def loops_of(f: Function, of: object) -> list[str]:
    """The names of the loops of a statement, or of the last one of a computation."""
    name = str(getattr(of, "name", of))
    own = f.program.statements_of(name) if isinstance(of, Computation) else []
    return list(map(str, f.program.loop_names(own[-1] if own else f.program.statements[name])))


def free_name(f: Function, name: str) -> str:
    """A name that nothing has yet."""
    known = f.program.algorithm
    taken = {*known.computations, *known.inputs, *known.params, *f.program.statements, *f.program.buffers}
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def innermost(loops: Sequence[str], declared: Declared, last: str) -> list[str]:
    """The loops of a value in the order in which rows of it are computed: its first one, terms, the rest, the last."""
    terms = [name for name in loops[1:] if name not in declared.iterators]
    return [loops[0], *terms, *(name for name in declared.iterators if name not in (loops[0], last)), last]
