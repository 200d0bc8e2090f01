"""Loops of a layer: which values are typed products, which traversals of edges or nodes, and how each runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any

import tiramisu_py as tm
from tiramisu_py import queries, recipes
from tiramisu_py.errors import CommandError
from tiramisu_py.records import dataclass


@dataclass(eq=False)
class LayerLoops:
    """What was made of a layer, as lines of text: its loops, and the values by kind."""

    loops: list[str] = field(default_factory=list)
    products: list[str] = field(default_factory=list)
    traversals: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def scheduled(f: tm.Function) -> LayerLoops:
    """Give each value its loops: the first of edges, nodes or types to threads, the last one to vectors.

    Terms of a sum are added in their order, so that bits stay: where the last axis is that of a row, it becomes the
    innermost loop, and lanes are elements of the row.
    """
    done = LayerLoops()
    cpu = recipes.Cpu.here()
    for name, declared in f.algorithm.computations.items():
        tags: list[str] = []
        statements = [f[name].init, f[name].update] if declared.is_reduction else [f[name]]
        for statement in statements:
            tags = _row(f, statement, declared, cpu.lanes(declared.dtype.bytes))
        first = declared.iterators[0]
        if _tried(partial(f[name].parallelize, tm.Iter(first))):
            tags.append(f"{first} on threads")
        loops = map(str, f.program.loop_names(f.program.statements_of(name)[-1]))
        done.loops.append("; ".join([f"{name}: loops over {', '.join(loops)}", *tags]))
        _kind(done, declared).append(f"{name}: {declared.expr}")
    return done


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


def _kind(done: LayerLoops, declared: Any) -> list[str]:
    """The lines of a value: a typed product has weights, a row of data, and a sum over it."""
    if not declared.is_reduction and not declared.iterators:
        return done.rest
    return done.products if declared.is_reduction and len(declared.iterators) > 1 else done.traversals
