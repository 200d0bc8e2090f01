"""Programs of layers on one graph: scheduled, compiled, and called with what comes from the graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy.typing as npt

import tiramisu_py as tm
from tiramisu_py import queries
from tiramisu_py.errors import ArgumentError
from tiramisu_py.graphs.fusion import fused
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.graphs.rewrites import gathered
from tiramisu_py.graphs.runs_of_types import with_runs
from tiramisu_py.graphs.schedules import VECTORS, products_of_rows, scheduled, scheduled_on_gpu
from tiramisu_py.graphs.sums_of_nodes import names_by_edges
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class LayerMachine:
    """Where a layer runs: on so many threads of cores, or on a device, checked if that is the simulator."""

    threads: int | None = None
    device: str | None = None
    sanitize: bool = False
    fast: tuple[str, ...] = ()
    #: Whether the kernels of a call are launched as CUDA graphs.
    launch_graph: bool = False
    #: The vectors of sums in a tile of registers.
    tile: int = VECTORS
    #: How sums over the edges of nodes go: by "edges", by "nodes", or as is less work, "count".
    sums: str = "nodes"
    #: Whether products with the matrices of types go by the runs of these: True, False, or as is less work, "count".
    runs: bool | str = False
    #: Whether kernels take values along: True, False, as saves bytes on the graph, "count", or on any graph, "always".
    fuse: bool | str = "always"

    def with_choices(self, tile: int, sums: str, runs: bool) -> LayerMachine:
        """This machine with another size of tiles, and other ways of sums and of typed products."""
        return replace(self, tile=tile, sums=sums, runs=runs)

    def __post_init__(self) -> None:
        if self.launch_graph and self.device is None:
            raise ArgumentError('launch_graph=True is for kernels of a GPU: give device="gpu" or "simulator" with it')
        if self.sanitize and self.device != "simulator":
            raise ArgumentError('sanitize=True is for the simulator: give device="simulator" with it')
        if self.device is not None and not re.fullmatch(r"simulator|gpu(:\d+)?", str(self.device)):
            raise ArgumentError(f'device={self.device!r}: give "gpu", "gpu:1", "simulator", or none for cores')


class LayerProgram:
    """A scheduled function of a layer, with the arguments that come from the graph; compiled when it is called."""

    def __init__(self, f: tm.Function, graph: Graph, machine: LayerMachine) -> None:
        self.f, self.graph, self.machine = f, graph, machine
        #: The sums that go by edges; on a GPU all go by nodes, so that none is added atomically.
        self.by_edges = names_by_edges(f, graph, machine.sums, machine.threads) if machine.device is None else ()
        left = [each.command.partition(".")[0] for each in gathered(f, self.by_edges) if each.refused]
        self.scatters = [*self.by_edges, *left]
        #: The typed products that go by the runs of types, on cores.
        self.by_runs = with_runs(f, graph, machine.runs) if machine.device is None else ()
        sizes = None if machine.fuse == "always" else sizes_of(f, graph)
        #: What kernels take along.
        gpu = machine.device is not None
        apart = products_of_rows(f) if gpu else ()
        self.fused = fused(f, machine.fuse, sizes, on_gpu=gpu, threads=machine.threads, apart=apart)
        self.done = scheduled_on_gpu(f, self.fused) if gpu else scheduled(f, machine.tile, self.fused)
        self.cotangents: dict[str, str] = {}
        self.wrt: tuple[str, ...] = ()
        self.own = _arguments_of(f, graph)

    @cached_property
    def kernel(self) -> Any:
        """The compiled program."""
        on = self.machine
        return self.f.compile(
            threads=on.threads, device=on.device, sanitize=on.sanitize, fast=on.fast, graph=on.launch_graph
        )

    def on(self, graph: Graph) -> LayerProgram:
        """This program, compiled once, on another graph."""
        made = copy(self)
        made.__dict__.pop("sizes", None)
        made.__dict__["kernel"] = self.kernel
        made.graph, made.own = graph, _arguments_of(self.f, graph)
        return made

    def __call__(self, given: Mapping[str, Any]) -> tuple[Array, ...]:
        found: Any = self.kernel(**given, **self.own)
        return found if isinstance(found, tuple) else (found,)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The sizes of the program on its graph: nodes, edges, types, and distinct combinations of them."""
        return sizes_of(self.f, self.graph)

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the numbers of distinct combinations, which are at most as many as there are edges."""
        found = [each.distinct.name for each in self.f.algorithm.inputs.values() if each.distinct is not None]
        return tuple(f"{name}_count" for name in found)

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays that the program takes from the graph, one for each input."""
        found: dict[str, Any] = {}
        for name, declared in self.f.algorithm.inputs.items():
            if declared.distinct is not None:
                pairs = self.own[declared.distinct.name]
                found |= {name: pairs.of, **dict(zip(declared.distinct.columns, pairs.columns, strict=True))}
            elif declared.inverts is not None:
                start, order = self.own[declared.inverts.name]
                found |= {declared.inverts.start: start, name: order}
            elif name in self.own:
                found[name] = self.own[name]
        return {name: found[name] for name in self.f.algorithm.inputs if name in found}

    def report(self) -> list[str]:
        """Lines on loops, memory and scatters."""
        cost = self.f.cost(**self.sizes)
        kept = {each.name: each for each in cost.arrays if each.name in self.f.algorithm.computations}
        along = len(self.fused.hosts)
        more = f", which take {along} values along" if along else ""
        lines = [f"  {len(self.done.loops)} kernels{more}", *(f"    {line}" for line in self.done.loops)]
        lines += [f"  {name}: {each.elements} elements" for name, each in kept.items()]
        lines += [f"  temporaries: {line}" for line in self._temporaries()]
        return [*lines, f"  scatters: {', '.join(self.scatters) or 'none'}"]

    def _temporaries(self) -> list[str]:
        """The most bytes at a time of each memory, and what makes them."""
        found, lines = self.f.cost("memory", threads=self.machine.threads or 1, **self.sizes), list[str]()
        for place, most in found.peaks.items():
            names = [", ".join(each.arrays) for each in found.at_peak(place).held if each.place == place]
            where = "" if place == "memory" else f" on {place}"
            lines.append(f"at most {most} bytes{where} ({'; '.join(names)})")
        return lines or ["none"]


def work_on(f: tm.Function, graph: Graph) -> int:
    """The multiplications and additions of the sums of a function on a graph: a term of a scatter goes to one place."""
    sizes, total = sizes_of(f, graph), 0
    for declared in f.algorithm.computations.values():
        if declared.is_reduction:
            placed = queries.chosen_by_values(declared)
            loops = [name for name in declared.point_iterators if name not in placed]
            points = prod(queries.extent_at(declared, name, sizes) for name in loops)
            reads = queries.accesses(declared.expr)
            of_indices = {id(inner) for read in reads for index in read.indices for inner in queries.accesses(index)}
            total += points * sum(id(read) not in of_indices for read in reads)
    return total


def sizes_of(f: tm.Function, graph: Graph) -> dict[str, int]:
    """The sizes of a function on a graph: nodes, edges, types, and distinct combinations of them."""
    known = {**graph.sizes}
    for declared in f.algorithm.inputs.values():
        if declared.distinct is not None:
            known[f"{declared.distinct.name}_count"] = len(graph.distinct(*declared.distinct.keys))
    return {name: known[name] for name in f.algorithm.params}


def _arguments_of(f: tm.Function, graph: Graph) -> dict[str, Any]:
    """The arguments that a function takes from the graph, by name: indices, distinct pairs, inverses, sizes."""
    inputs, found, keys = f.algorithm.inputs, dict[str, Any](), dict[str, tuple[str, tuple[str, ...]]]()
    for name, declared in inputs.items():
        if declared.distinct is not None:
            about = declared.distinct
            found[about.name] = graph.distinct(*about.keys)
            keys[name] = ("of", about.keys)
            keys |= {column: (key, about.keys) for key, column in zip(about.keys, about.columns, strict=True)}
    found |= {name: graph.array(name) for name in ("src", "dst", "etype", "ntype") if name in inputs}
    for declared in inputs.values():
        if declared.inverts is not None:
            index = declared.inverts.of
            found[declared.inverts.name] = graph.inverse(*keys.get(index, (index, ())))
    for declared in inputs.values():
        if declared.run_of:
            found[declared.run_of] = graph.runs(keys.get(declared.name, ("", ()))[1])
    return found | {name: graph.sizes[name] for name in f.algorithm.params if name in graph.sizes}
