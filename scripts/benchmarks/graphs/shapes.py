"""Graphs of the sizes of Hector's table 3.3, with types of skewed sizes: made, since the data sets are not here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shape:
    """A graph by its numbers of nodes, edges and types of edges."""

    name: str
    nodes: int
    edges: int
    types: int


#: Those that a small machine holds, with features of 64 numbers.
SHAPES = (
    Shape("aifb", 7_262, 48_810, 104),
    Shape("mutag", 27_163, 148_100, 50),
    Shape("bgs", 94_806, 672_884, 122),
    Shape("fb15k", 14_541, 620_232, 474),
)


def edges(shape: Shape) -> dict[str, Any]:
    """The edges of a graph, sorted by type: where each type begins, and the sources; sizes fall as 1 / rank."""
    draw = np.random.default_rng(len(shape.name))
    weights = 1 / np.arange(1, shape.types + 1)
    types = np.sort(draw.choice(shape.types, shape.edges, p=draw.permutation(weights / weights.sum())))
    return {
        "types": np.searchsorted(types, np.arange(shape.types + 1)).astype(np.int32),
        "src": draw.integers(0, shape.nodes, shape.edges).astype(np.int32),
    }
