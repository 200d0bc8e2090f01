"""Loops of a layer: which values are typed products, which traversals of edges or nodes, and how each runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any

import tiramisu_py as tm
from tiramisu_py import queries, recipes
from tiramisu_py.errors import CommandError
from tiramisu_py.graphs.tiles import ACCUMULATORS, in_tiles
from tiramisu_py.records import dataclass

#: Threads of a block on a GPU.
THREADS = 256


@dataclass(eq=False)
class LayerLoops:
    """The program of a layer, as lines of text: its loops, and the values by kind."""

    loops: list[str] = field(default_factory=list)
    products: list[str] = field(default_factory=list)
    traversals: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def scheduled(f: tm.Function, tile: int = ACCUMULATORS) -> LayerLoops:
    """Give each value its loops on cores: edges, nodes or types are dealt out to threads, rows are in vectors.

    Sums grow in registers, in tiles of a few rows, `tile` vectors in all, and are stored once. Terms of a sum are added
    in their order, so that bits stay.
    """
    done = LayerLoops()
    cpu = recipes.Cpu.here()
    for name, declared in [*f.program.algorithm.computations.items()]:
        if not declared.iterators:
            _kind(f, done, declared).append(f"{name}: {declared.expr}")
            done.loops.append(f"{name}: one sum of everything")
            continue
        lanes = cpu.lanes(declared.dtype.bytes)
        if declared.is_reduction and not queries.chosen_by_values(declared):
            done.loops.append(f"{name}: {', '.join(in_tiles(f, name, declared, lanes, tile))}")
        else:
            done.loops.append(f"{name}: {', '.join(_in_rows(f, name, declared, lanes))}")
        _kind(f, done, declared).append(f"{name}: {declared.expr}")
    return done


def _in_rows(f: tm.Function, name: str, declared: Any, lanes: int) -> list[str]:
    """Run the first loop of a value on threads and its last axis in vectors; what was done, in words."""
    tags: list[str] = []
    for statement in [f[name].init, f[name].update] if declared.is_reduction else [f[name]]:
        tags = _row(f, statement, declared, lanes)
    first = declared.iterators[0]
    if _tried(partial(f[name].parallelize, tm.Iter(first))):
        tags.append(f"{first} on threads")
    loops = map(str, f.program.loop_names(f.program.statements_of(name)[-1]))
    return [f"loops over {', '.join(loops)}", *tags]


def scheduled_on_gpu(f: tm.Function) -> LayerLoops:
    """Give each value a kernel: a thread has one edge, node or type, and one element of the last axis where that fits.

    A sum begins and has all of its terms in one thread, in their order, so that bits stay. Places that are chosen by
    more than an index are added to atomically; a sum of everything is the host's. Transfers are derived for all.
    """
    done = LayerLoops()
    for name, declared in f.algorithm.computations.items():
        _kind(f, done, declared).append(f"{name}: {declared.expr}")
        if not declared.iterators:
            done.loops.append(f"{name}: on the host")
        elif queries.chosen_by_values(declared):
            _tag(f, f[name].init, declared)
            edges = _tag(f, f[name].update, declared, combine=tm.Combine.ATOMIC)
            done.loops.append(f"{name}: {', '.join(edges)} on threads, added atomically")
        else:
            done.loops.append(f"{name}: {', '.join(_tag(f, f[name], declared))} on threads")
    f.derive_transfers()
    return done


def _tag(f: tm.Function, of: Any, declared: Any, **combine: Any) -> list[str]:
    """Run the first loop of statements, and their last axis, on blocks of threads; the loops that threads have."""
    whole = declared.is_reduction and of.name == declared.name
    changed = of.update if whole else of
    loops = [str(name) for name in f.program.loop_names(f.program.statements[changed.name])]
    first, width = loops[0], queries.extents(declared)[-1] or THREADS + 1
    last = [declared.iterators[-1]] if declared.iterators[-1] in loops[1:] and width <= THREADS else []
    others = [name for name in declared.iterators if name in loops[1:] and name not in last]
    ordered = [first, *last, *others, *(name for name in loops[1:] if name not in (*last, *others))]
    if ordered != loops:
        changed.reorder(*map(tm.Iter, ordered))
    if whole:
        if last and others:
            of.init.reorder(*map(tm.Iter, (first, *last, *others)))
        of.update.after(of.init, tm.Iter([first, *last][-1]))
    block, thread = tm.iters(f"{first}_block {first}_thread")
    of.split(tm.Iter(first), THREADS // width if last else THREADS, block, thread)
    of.tag_gpu([block], [thread, *map(tm.Iter, last)], **combine)
    return [first, *last]


def _row(f: tm.Function, statement: Any, declared: Any, widest: int) -> list[str]:
    """Run the last axis of a value in vectors, as the innermost loop; what was done, in words."""
    extent = queries.extents(declared)[-1]
    if len(declared.iterators) < 2 or extent is None or extent < 2:
        return []
    last, lanes = declared.iterators[-1], widest
    while lanes > extent:
        lanes //= 2
    loops = [str(name) for name in f.program.loop_names(f.program.statements[statement.name])]
    if last not in loops or lanes < 2:
        return []
    terms = [name for name in loops if name not in declared.iterators]
    ordered = [loops[0], *terms, *(name for name in declared.iterators if name not in (loops[0], last)), last]
    if loops != ordered and not _tried(partial(statement.reorder, *map(tm.Iter, ordered))):
        return []
    remainder = {} if extent % lanes == 0 else {"remainder": "mask"}
    return [f"{last} in vectors"] if _tried(partial(statement.vectorize, tm.Iter(last), lanes, **remainder)) else []


def _tried(command: Callable[[], Any]) -> bool:
    """Whether a command could be given."""
    try:
        command()
    except CommandError:
        return False
    return True


def _kind(f: tm.Function, done: LayerLoops, declared: Any) -> list[str]:
    """The lines of a value: a product sums over an axis, a traversal goes through edges or nodes."""
    if not declared.iterators:
        return done.rest
    of_edges = queries.chosen_by_values(declared) or queries.run_of_positions(f.algorithm, declared)
    return done.products if declared.is_reduction and not of_edges else done.traversals
