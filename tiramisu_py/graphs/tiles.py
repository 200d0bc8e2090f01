"""Sums in tiles of registers: products of rows and weights, and sums over the edges of nodes and of types."""

from __future__ import annotations

from typing import Any

import tiramisu_py as tm
from tiramisu_py import queries
from tiramisu_py.records import dataclass

#: The vectors, or numbers without them, that a tile of sums has.
ACCUMULATORS = 16
#: The rows of a tile of numbers, where values have no last axis.
NUMBERS = 8


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
    def of(cls, f: tm.Function, declared: Any, most_lanes: int, most_vectors: int = ACCUMULATORS) -> SumLoops:
        """The loops of a reduction, in tiles of so many vectors, which registers hold."""
        found = queries.run_of_positions(f.program.algorithm, declared)
        extents = dict(zip(declared.iterators, queries.extents(declared), strict=True))
        first, *others = declared.iterators
        last, lanes, vectors = "", most_lanes, 1
        if others and (extents[others[-1]] or 0) > 1:
            last = others.pop()
            lanes = _lanes(extents[last], most_lanes)
            vectors = -(-extents[last] // lanes)
        if lanes < 2:
            last, lanes = "", 1
            others = list(declared.iterators[1:])
        own = max(most_vectors // vectors, 1) if last else NUMBERS
        start = "" if found is None or found.position not in declared.over else found.start
        if not start:
            return cls(first, tuple(others), first, own, last, lanes, start)
        known = [name for name in others if extents[name]]
        rows = known[-1] if known else ""
        count = min(own, extents[rows]) if rows else 1
        return cls(first, tuple(name for name in others if name != rows), rows, count, last, lanes, start)


def in_tiles(f: tm.Function, name: str, declared: Any, most_lanes: int, most_vectors: int = ACCUMULATORS) -> list[str]:
    """Let a sum grow in registers, a tile at a time, and be stored when it is whole; what was done, in words."""
    plan = SumLoops.of(f, declared, most_lanes, most_vectors)
    reader = f[name]
    sums = reader.accumulate(_free(f, f"{name}_sums"))
    first, last = tm.Iter(plan.first), tm.Iter(plan.last)
    scope, inner = [first, *map(tm.Iter, plan.middle)], []
    outer = first
    if plan.rows and plan.count > 1:
        rows = tm.Iter(plan.rows)
        block, row = tm.iters(f"{plan.rows}_tile {plan.rows}_row")
        reader.split(rows, plan.count, block, row)
        outer = block if rows.name == first.name else first
        scope = [outer, *map(tm.Iter, plan.middle), *([] if outer.name == block.name else [block])]
        inner = [row]
    if plan.last:
        inner.append(last)
    if [each.name for each in (*scope, *inner)] != list(_loops(f, reader)):
        reader.reorder(*scope, *inner)
    sums.compute_at(reader, scope[-1])
    left = [name for name in (plan.rows, plan.last) if name and name in _loops(f, sums.update)]
    terms = [name for name in declared.over if name in _loops(f, sums.update)]
    if len(left) + len(terms) > 1:
        sums.update.reorder(*map(tm.Iter, (*terms, *left)))
    for stage in (sums.init, sums.update):
        if (inner[:-1] or not plan.last) and plan.rows in _loops(f, stage):
            stage.unroll(tm.Iter(plan.rows))
        if plan.last:
            stage.vectorize(last, plan.lanes)
    if plan.rows and plan.count > 1:
        reader.unroll(inner[0])
    if plan.last:
        reader.vectorize(last, plan.lanes)
    reader.parallelize(outer, **({"balance": f[plan.run]} if plan.run and outer.name == plan.first else {}))
    turned = _with_rows_of_weights(f, sums, declared, plan)
    words = [f"loops over {', '.join(map(str, _loops(f, sums.update)))}"]
    words += [f"sums of {plan.count} {plan.rows} in registers" if plan.rows and plan.count > 1 else "sums in registers"]
    return [*words, *([f"{plan.last} in vectors"] if plan.last else []), f"{outer} on threads", *turned]


def _with_rows_of_weights(f: tm.Function, sums: Any, declared: Any, plan: SumLoops) -> list[str]:
    """Copy weights whose rows are not along the vectors, so that these are loaded at once: ``W[r, k, j]`` by k."""
    done: list[str] = []
    for read in queries.accesses(declared.expr):
        names = [str(index) if isinstance(index, tm.Iter) else "" for index in read.indices]
        if not plan.last or plan.last not in names[:-1] or names[-1] not in declared.over or read.source in done:
            continue
        axes = tm.iters(" ".join(f"{read.source}_{axis}" for axis in range(len(names))))
        layout, at = list(axes), names.index(plan.last)
        layout[at], layout[-1] = axes[-1], axes[at]
        copied = sums.update.copy(f[read.source], list(axes), layout=layout, name=_free(f, f"{read.source}_by_columns"))
        copied.parallelize(axes[0])
        done.append(read.source)
    return [f"{each} by columns" for each in done]


def _loops(f: tm.Function, of: Any) -> tuple[str, ...]:
    """The names of the loops of a statement."""
    statements = f.program.statements_of(of.name) if isinstance(of, tm.Computation) else []
    return tuple(f.program.loop_names(statements[-1] if statements else f.program.statements[of.name]))


def _lanes(extent: int, most: int) -> int:
    """The lanes of a vector for an axis."""
    while most > extent:
        most //= 2
    return most


def _free(f: tm.Function, name: str) -> str:
    """A name that nothing has yet."""
    known = f.program.algorithm
    taken = {*known.computations, *known.inputs, *known.params, *f.program.statements, *f.program.buffers}
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found
