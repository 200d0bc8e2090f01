"""Products with the matrices of types: each position says its own (COO), or a loop has the run of a type (CSR).

Edges, and pairs of a node and a type, are sorted by types, so that both are the same products with the same bits. In
tiles within a run a matrix is read once for all rows; tiles that a run ends in are not whole, and take longer.
"""

from __future__ import annotations

from math import prod

import numpy as np

import tiramisu_py as tm
from tiramisu_py import queries
from tiramisu_py.errors import DeclarationError
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.graphs.schedules import is_typed_product
from tiramisu_py.records import dataclass

#: Rows of a tile, as they are counted.
ROWS = 8
#: The work of a row in a whole tile of one type, in another one, and of the begin of a run, as parts of that of a row
#: by index; as measured on two processors, see docs/results/graphs.md.
WHOLE, PART, BEGIN = 0.65, 1.45, 1.7
#: The part of the work by index that runs have at most, to be taken.
LESS = 0.9
#: The index whose positions are sorted by it.
TYPES = "etype"


@dataclass(frozen=True)
class ProductOfTypes:
    """One typed product on a graph: its positions, how many are in whole tiles of one type, and the work of one."""

    name: str
    index: str
    positions: int
    whole: int
    types: int
    work: int

    @property
    def by_index(self) -> int:
        """Multiplications and additions."""
        return self.positions * self.work

    @property
    def by_runs(self) -> int:
        """As many by index as would take as long."""
        rows = WHOLE * self.whole + PART * (self.positions - self.whole) + BEGIN * self.types
        return round(rows * self.work)

    @property
    def goes_by_runs(self) -> bool:
        """Whether a tenth is saved by runs."""
        return self.positions > 0 and self.by_runs <= LESS * self.by_index

    def __str__(self) -> str:
        way, other = ("runs", "index") if self.goes_by_runs else ("index", "runs")
        steps = {"index": self.by_index, "runs": self.by_runs}
        return (
            f"{self.name} by {way}: {steps[way]} steps, by {other} {steps[other]} ({self.whole} of {self.positions} "
            f"rows in whole tiles, {self.types} runs)"
        )


def products_on(f: tm.Function, graph: Graph) -> list[ProductOfTypes]:
    """The products of a function with matrices of types, over positions that are sorted by these."""
    sorted_by = {name: graph.sorted_types(keys) for name, keys in _sorted_indices(f).items()}
    found: list[ProductOfTypes] = []
    for name, declared in f.program.algorithm.computations.items():
        index = _index_of_matrices(f, declared) if name not in f.algorithm.outputs else ""
        if index not in sorted_by:
            continue
        types = sorted_by[index]
        extents = queries.extents(declared, terms=True)
        work = 2 * prod(each or 1 for each in extents)
        whole = types[: len(types) // ROWS * ROWS].reshape(-1, ROWS)
        same = int((whole[:, 0] == whole[:, -1]).sum()) * ROWS
        found.append(ProductOfTypes(name, index, len(types), same, len(np.unique(types)), work))
    return found


def _sorted_indices(f: tm.Function) -> dict[str, tuple[str, ...]]:
    """The inputs of a function that have the type of each position, by name: of edges, or of distinct keys."""
    inputs = f.algorithm.inputs
    found: dict[str, tuple[str, ...]] = {TYPES: ()} if TYPES in inputs else {}
    for declared in inputs.values():
        if declared.distinct is not None and declared.distinct.keys[-1] == TYPES:
            found[declared.distinct.columns[-1]] = declared.distinct.keys
    return found


def _index_of_matrices(f: tm.Function, declared: queries.Declared) -> str:
    """The input that says which matrix each position of a product has; empty for others."""
    if not is_typed_product(f, declared) or queries.run_of_positions(f.program.algorithm, declared) is not None:
        return ""
    if len(declared.over) != 1:
        return ""
    for read in queries.accesses(declared.expr):
        inner = [each for index in read.indices for each in queries.accesses(index)]
        names = {index.name for index in read.indices if isinstance(index, tm.Iter)}
        if inner and names >= {*declared.over, declared.iterators[-1]}:
            at = {str(index) for index in inner[0].indices}
            return inner[0].source if at == {declared.iterators[0]} else ""
    return ""


def with_runs(f: tm.Function, graph: Graph, way: bool | str) -> tuple[str, ...]:
    """Let products go by the runs of types, where `way` is True, or "count" and that is less work; their names."""
    done: list[str] = []
    for each in products_on(f, graph) if way else []:
        if way == "count" and not each.goes_by_runs:
            continue
        name = f"{each.index}_runs"
        if name not in f.algorithm.inputs:
            index = f.algorithm.inputs[each.index]
            f.segments(name, tm.Param("R"), of=index.shape[0], at=f[each.index])
        f[each.name].in_runs(f[name], tm.Iter("r"))
        done.append(each.name)
    return tuple(done)


def checked_runs(way: object) -> bool | str:
    """How typed products go; raises `DeclarationError`."""
    if way is True or way is False or way == "count":
        return way
    raise DeclarationError(f"runs={way!r}: give True, False, or 'count', which leaves it to the graph")
