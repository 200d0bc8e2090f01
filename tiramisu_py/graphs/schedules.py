"""Kernels of a layer: which values are typed products, which traversals of edges or nodes, and the recipe of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import tiramisu_py as tm
from tiramisu_py import queries, recipes
from tiramisu_py.graphs.fusion import FusedKernels
from tiramisu_py.graphs.sequences import sequences_of
from tiramisu_py.records import dataclass

#: The vectors of sums that a tile has.
VECTORS = 16


@dataclass(eq=False)
class LayerLoops:
    """The program of a layer, as lines of text: its loops, and the values by kind."""

    loops: list[str] = field(default_factory=list)
    products: list[str] = field(default_factory=list)
    traversals: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def scheduled(f: tm.Function, tile: int, kernels: FusedKernels | None = None) -> LayerLoops:
    """Give each value its recipe on cores: `recipes.typed_matmul` for products of rows, `recipes.traversal` for others.

    Edges, nodes or types are dealt out to threads, rows are in vectors. Sums grow in registers, in tiles of a few rows,
    `tile` vectors in all, and are stored once. Terms of a sum are added in their order, so that bits stay. `kernels`
    says which values are taken along by others, and are not stored.
    """
    return _scheduled(f, tile, None, kernels or FusedKernels())


def scheduled_on_gpu(f: tm.Function, kernels: FusedKernels | None = None) -> LayerLoops:
    """Give each value a kernel: a thread has one edge, node or type, and one element of the last axis where that fits.

    A sum begins and has all of its terms in one thread, in their order, so that bits stay. Places that are chosen by
    more than an index are added to atomically; a sum of everything is the host's. `kernels` says which values are taken
    along by others, in registers. Values that are independent of each other, such as products of nodes beside
    traversals of edges, or gradients by X beside those by W, are on operation sequences of their own. Transfers and
    waits are derived for all.
    """
    kernels = kernels or FusedKernels()
    done = _scheduled(f, None, sequences_of(f, taken=kernels.hosts), kernels)
    f.derive_transfers()
    return done


def _scheduled(
    f: tm.Function, tile: int | None, sequences: Mapping[str, int] | None, kernels: FusedKernels
) -> LayerLoops:
    """Give each value its recipe, on cores in tiles of so many vectors, or on these sequences of a GPU."""
    done, hosts = LayerLoops(), kernels.hosts
    algorithm = f.program.algorithm
    for name, declared in [*algorithm.computations.items()]:
        if name in hosts:
            continue
        line, along = f"{name}: {declared.expr}", kernels.along(name)
        if not declared.iterators:
            done.rest.append(line)
            done.loops.append(f"{name}: one sum of everything" if sequences is None else f"{name}: on the host")
            continue
        on = None if sequences is None else tm.gpu(stream=sequences[name])
        in_runs = queries.run_of_positions(algorithm, declared)
        own_sizes = in_runs is not None and in_runs.position in declared.iterators  # of tiles in runs, by registers
        sizes = {"vectors": tile} if tile is not None and not own_sizes else {}
        taken = kernels.sums.get(name, [])
        products = [is_typed_product(f, algorithm.computations[each]) for each in taken or [name]]
        (done.products if any(products) else done.traversals).append(line)
        if products == [True] and _read_sums(f, declared) <= {*taken}:
            recipe, made = "typed_matmul", recipes.typed_matmul(f[name], on=on, sizes=sizes)
        else:
            by = "positions" if _of_positions(f, declared) else "runs"
            combine = None if on is None else tm.ATOMIC
            sums = bool(taken) or (declared.is_reduction and not queries.chosen_by_values(declared))
            stages, sizes = [*(f[each] for each in taken), f[name]], sizes if sums else {}
            made = recipes.traversal(*stages, by=by, on=on, sizes=sizes, combine=combine)
            recipe = "traversal"
        words = [recipe, *([f"takes along {' and '.join(along)}"] if along else []), *made.loops]
        there = f"; sequence {on.stream}" if on is not None and on.stream else ""
        done.loops.append(f"{name}: {', '.join(words)}{there}")
    for names in kernels.values.values():
        for name in names:
            f[name].inline()
    return done


def products_of_rows(f: tm.Function) -> list[str]:
    """The typed products of a layer, whose rows the threads of a block share on a GPU, in kernels of their own."""
    computed = f.program.algorithm.computations
    return [name for name, declared in computed.items() if declared.iterators and is_typed_product(f, declared)]


def is_typed_product(f: tm.Function, declared: Any) -> bool:
    """Whether a value is a row times a matrix: a sum over an axis, and not over edges, with columns of its own.

    A product of two rows has its last axis in both of them, and is none.
    """
    if not declared.is_reduction or queries.chosen_by_values(declared):
        return False
    found = queries.run_of_positions(f.program.algorithm, declared)
    if found is not None and found.position not in declared.iterators:
        return False
    named = [{name for index in read.indices for name in _named(index)} for read in queries.accesses(declared.expr)]
    has_column = [declared.iterators[-1] in names for names in named if names >= {*declared.over}]
    return any(has_column) and not all(has_column)


def _named(index: Any) -> tuple[str, ...]:
    return (index.name,) if isinstance(index, tm.Iter) else ()


def _of_positions(f: tm.Function, declared: Any) -> bool:
    """Whether a value goes by positions: it sums over no runs."""
    found = queries.run_of_positions(f.program.algorithm, declared)
    return found is None or found.position not in declared.over


def _read_sums(f: tm.Function, declared: Any) -> set[str]:
    """The sums that a value reads which is none itself."""
    known = f.program.algorithm.computations
    read = [each for each in queries.sources_of(declared) if each in known and not declared.is_reduction]
    return {each for each in read if known[each].is_reduction}
