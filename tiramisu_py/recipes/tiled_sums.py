"""Sums in tiles of registers, without a loop over runs of one matrix: products of rows, sums over the terms of runs."""

from __future__ import annotations

from collections.abc import Sequence

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
    """The loops of a sum: `first` is dealt out to threads, a tile has `count` of `rows`, and `last` is in vectors.

    `run` says where the runs begin whose positions are summed over, and is empty for sums over an axis.
    """

    first: str
    middle: tuple[str, ...]
    rows: str
    count: int
    last: str
    lanes: int
    run: str

    @classmethod
    def of(cls, f: Function, declared: Declared, most_lanes: int, most_vectors: int) -> SumLoops:
        """The loops of a reduction, in tiles of so many vectors, which registers hold."""
        found = run_of_positions(f.program.algorithm, declared)
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
        start = "" if found is None or found.position not in declared.over else found.start
        if not start:
            return cls(first, tuple(others), first, own, last, lanes, start)
        bounded = [name for name in others if known[name]]
        rows = bounded[-1] if bounded else ""
        count = min(own, known[rows] or 1) if rows else 1
        return cls(first, tuple(name for name in others if name != rows), rows, count, last, lanes, start)


def in_tiles(recipe: Recipe, reader: Reduction, cpu: Cpu, most_vectors: int) -> list[str]:
    """Let a sum grow in registers, a tile at a time, and be stored when it is whole; what was done, in words."""
    f, name = recipe.function, reader.name
    declared = f.program.algorithm.computations[name]
    plan = SumLoops.of(f, declared, cpu.lanes(declared.dtype.bytes), most_vectors)
    sums = reader.accumulate(free_name(f, f"{name}_sums"))
    first, last = Iter(plan.first), Iter(plan.last)
    scope, inner = [first, *map(Iter, plan.middle)], list[Iter]()
    outer = first
    if plan.rows and plan.count > 1:
        rows = Iter(plan.rows)
        block, row = (part_of(recipe, declared, f"{plan.rows}_{part}") for part in ("tile", "row"))
        reader.split(rows, plan.count, block, row)
        outer = block if rows.name == first.name else first
        scope = [outer, *map(Iter, plan.middle), *([] if outer.name == block.name else [block])]
        inner = [row]
    if plan.last:
        inner.append(last)
    if [each.name for each in (*scope, *inner)] != loops_of(f, reader):
        reader.reorder(*scope, *inner)
    sums.compute_at(reader, scope[-1])
    left = [name for name in (plan.rows, plan.last) if name and name in loops_of(f, sums.update)]
    terms = [name for name in declared.over if name in loops_of(f, sums.update)]
    if len(left) + len(terms) > 1:
        sums.update.reorder(*map(Iter, (*terms, *left)))
    for stage in (sums.init, sums.update):
        if (inner[:-1] or not plan.last) and plan.rows in loops_of(f, stage):
            stage.unroll(Iter(plan.rows))
        if plan.last:
            stage.vectorize(last, plan.lanes)
    if plan.rows and plan.count > 1:
        reader.unroll(inner[0])
    if plan.last:
        reader.vectorize(last, plan.lanes)
    if plan.run and outer.name == plan.first:
        reader.parallelize(outer, balance=f[plan.run])
    else:
        reader.parallelize(outer)
    turned = with_rows_of_weights(f, sums, declared, plan.last)
    words = [f"loops over {', '.join(loops_of(f, sums.update))}"]
    words += [f"sums of {plan.count} {plan.rows} in registers" if plan.rows and plan.count > 1 else "sums in registers"]
    return [*words, *([f"{plan.last} in vectors"] if plan.last else []), f"{outer} on threads", *turned]


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
