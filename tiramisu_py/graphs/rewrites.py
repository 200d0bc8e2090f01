"""The passes on a layer, in Hector's order, as commands: what is rewritten, how it is scheduled, and the text of each.

Weights are multiplied with each other first (`reassociate`), products of a source and a type are computed once for each
distinct pair (`compact`); then loops are made over the nodes of sums (`gather`), typed products, traversals of edges
and nodes, and the rest are told apart, and each gets its loops. Source: Wu, Code generation and runtime techniques for
enabling data-efficient deep learning training on GPUs, 3.3 and 3.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import tiramisu_py as tm
from tiramisu_py import queries
from tiramisu_py.errors import CommandError
from tiramisu_py.graphs.emitting import EmittedLayer, p
from tiramisu_py.graphs.values import EDGES, Elementwise, ModelStep, ModelValue, NodeSum, RowProduct
from tiramisu_py.records import dataclass

#: What products may depend on to be computed once for each combination of it.
_KEYS = (("src", "etype"), ("dst", "etype"))


@dataclass(frozen=True)
class Done:
    """One rewrite: the command as the user would write it, and why it was left out, if it was."""

    command: str
    refused: str = ""

    def __str__(self) -> str:
        return f"{self.command}: left out, {self.refused}" if self.refused else self.command


def reassociated(made: EmittedLayer) -> list[Done]:
    """Multiply weights first, wherever a product of data and weights is multiplied with weights of the same loop."""
    found: list[Done] = []
    for outer, inner in _chains(made):
        try:
            made.steps[outer].reassociate(made.steps[inner])
        except CommandError as error:
            found.append(Done(f"{outer.label}.reassociate({inner.label})", str(error).partition(": ")[2]))
        else:
            found.append(Done(f"{outer.label}.reassociate({inner.label})"))
    return found


def _chains(made: EmittedLayer) -> Iterator[tuple[ModelStep, ModelStep]]:
    for outer in made.steps:
        if isinstance(outer, RowProduct):
            for part in (outer.left, outer.right):
                if isinstance(part, RowProduct) and part.kind == "linear" and part.loop == outer.loop:
                    yield outer, part


def summed_first(made: EmittedLayer) -> list[Done]:
    """Sum rows of a node and a type before they are multiplied with the weights of the type."""
    found: list[Done] = []
    for outer in made.steps:
        for inner in _products(outer):
            declared = made.f.program.algorithm.as_rewritten.computations.get(inner.label)
            if declared is None or not isinstance(outer, NodeSum):
                continue
            keys = (outer.end, *(["etype"] if "etype" in _read_at_edges(declared) else []))
            name = f"summed_by_{'_'.join(keys)}"
            command = f"{outer.label}.sum_first({inner.label}, {', '.join(f'{k}[p]' for k in keys)}, name={name!r})"
            try:
                made.steps[outer].sum_first(made.steps[inner], *(made.index(key)[p] for key in keys), name=name)
            except CommandError as error:
                found.append(Done(command, str(error).partition(": ")[2]))
            else:
                found.append(Done(command))
    return found


def is_summed_product(step: ModelStep) -> bool:
    """Whether a step sums products with weights over the edges of nodes, so that rows may be summed first."""
    return bool(_products(step))


def _products(outer: ModelStep) -> list[RowProduct]:
    """The products of edges with weights that a sum over the edges of nodes has as factors of its terms."""
    found: list[RowProduct] = []
    waiting: list[ModelValue] = [outer.term] if isinstance(outer, NodeSum) else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, RowProduct) and value.kind == "linear" and value.loop == EDGES:
            found.append(value)
        elif isinstance(value, Elementwise) and value.op == "*":
            waiting += value.parts
    return found


def compacted(made: EmittedLayer) -> list[Done]:
    """Compute products once for each distinct pair of a node and a type that they depend on."""
    found: list[Done] = []
    outputs = made.f.program.algorithm.outputs
    for step in made.steps:
        declared = made.f.program.algorithm.as_rewritten.computations.get(step.label)
        if not isinstance(step, RowProduct) or step.loop != EDGES or declared is None or step.label in outputs:
            continue
        read = _read_at_edges(declared)
        keys = next((tuple(key for key in keys if key in read) for keys in _KEYS if read <= {*keys}), ())
        if keys and keys != ("etype",):
            name = f"by_{'_'.join(keys)}"
            made.steps[step].compact(*(made.index(key)[p] for key in keys), name=name)
            found.append(Done(f"{step.label}.compact({', '.join(f'{key}[p]' for key in keys)}, name={name!r})"))
    return found


def _read_at_edges(declared: Any) -> set[str]:
    """The arrays that are read at the edge itself."""
    found: set[str] = set()
    for access in queries.accesses(declared.expr):
        for index in access.indices:
            bare = index
            while isinstance(bare, queries.Cast):
                bare = bare.operand
            if isinstance(bare, tm.Iter) and bare.name == p.name:
                found.add(access.source)
    return found


def with_inverses(algorithm: Any) -> Any:
    """The algorithm with an inverse of each index, for its own sums over edges and for those of its gradients."""
    f = tm.Function.of(algorithm)
    for name, declared in algorithm.inputs.items():
        if declared.dtype.is_integer:
            f.inverse(f"into_{name}", f[name])
    return f.algorithm


def gathered(f: tm.Function, by_edges: Collection[str] = ()) -> list[Done]:
    """Let each sum over a scatter take its terms through the inverse of its index; those that stay, with the reason."""
    found: list[Done] = []
    for name, declared in [*f.algorithm.computations.items()]:
        if not declared.is_reduction or name in by_edges:
            continue
        places = queries.chosen_by_values(declared)
        index = index_of_places(declared)
        if index in f.algorithm.inputs:
            command = f"{name}.gather(into_{index})"
            try:
                f[name].gather(f[f"into_{index}"])
            except CommandError as error:
                found.append(Done(command, str(error).partition(": ")[2]))
            else:
                found.append(Done(command))
        elif places:
            found.append(Done(f"{name}.gather", "its places are of more than one index"))
    return found


def index_of_places(declared: queries.Declared) -> str:
    """The index that says where the terms of a scatter go; empty for what is none, or goes by more than an index."""
    places = queries.chosen_by_values(declared) if declared.is_reduction else {}
    return next((index for index in map(_index, places.values()) if index), "")


def _index(value: Any) -> str:
    """The index that a place is read from, at one position."""
    while isinstance(value, queries.Cast):
        value = value.operand
    if not isinstance(value, queries.Access) or len(value.indices) != 1:
        return ""
    at = value.indices[0]
    while isinstance(at, queries.Cast):
        at = at.operand
    return value.source if isinstance(at, tm.Iter) else ""


def text(algorithm: Any) -> str:
    """The values of a layer, one a line."""
    lines: list[str] = []
    for declared in algorithm.computations.values():
        head = f"{declared.name}[{', '.join(declared.iterators)}]"
        over = f"{declared.op.name} over {', '.join(declared.over)} of " if declared.over else ""
        where = f" where {' and '.join(map(str, declared.guards))}" if declared.guards else ""
        lines.append(f"  {head} = {over}{declared.expr}{where}")
    return "\n".join(lines)
