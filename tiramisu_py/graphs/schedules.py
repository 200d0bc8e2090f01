"""Loops of a layer: which values are typed products, which traversals of edges or nodes, and how each runs."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import tiramisu_py as tm
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
    """Give each value its loops: the outermost one to threads."""
    done = LayerLoops()
    for name, declared in f.algorithm.computations.items():
        first = declared.iterators[0] if declared.iterators else ""
        loops = ", ".join((*declared.iterators, *declared.over))
        tags = ""
        if first:
            try:
                f[name].parallelize(tm.Iter(first))
                tags = f", {first} on threads"
            except CommandError:
                pass
        done.loops.append(f"{name}: loops over {loops}{tags}")
        _kind(done, declared).append(f"{name}: {declared.expr}")
    return done


def _kind(done: LayerLoops, declared: Any) -> list[str]:
    if declared.is_reduction and len(declared.iterators) > 1:
        return done.products
    return done.traversals if declared.iterators else done.rest
