"""Memory of layers on all eight graphs: counted, with and without compact rows, and what a process takes that runs one.

Hector's figure 3.10, and whether the graphs of table 3.3 fit. Run by itself, ``python scripts/benchmarks graphs.memory
MODEL GRAPH`` calls one layer, forward and with gradients, and prints its bytes.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from benchmarks.common.rounds import START
from benchmarks.common.tables import table
from benchmarks.graphs.layers import arguments, layer
from benchmarks.graphs.rewritten import FAST, PLAIN, WAYS
from benchmarks.graphs.shapes import ALL_SHAPES, Shape, whole_graph
from tiramisu_py import graphs
from tiramisu_py.graphs.programs import LayerProgram

#: The bytes in which all eight are to fit, and what a process has besides: Python, NumPy and the graph's own sorting.
LIMIT, BESIDES = 16 * 2**30, 2**30
RULES_OF_MEMORY = """\
Memory of HGT, counted: arrays that are given and returned, those of the graph, and the most temporaries at a time, in
MB; a "step" is the result with all gradients. "compact" is the part of it that is left with compact rows. Pairs are
those of a source and a type, as a part of the edges: the printed 0.26 of fb15k and 0.57 of am are given to the graphs,
others are what skewed degrees give. Of Hector, figure 3.10 is a picture; its text says that the part that is left is
above the ratio of pairs, and nears it where degrees are high."""
RULES_OF_LARGEST = """\
Each layer on each graph of table 3.3, with its numbers of nodes, edges and types, 64 wide, float32, one thread, a
process each: "counted" is what a step has at a time, temporaries and results, as counted before it runs; "allocated" is
by how much the most memory of the process during the step is above what it had before. "process" is the most that it
has had in all, with the graph and what is given. Cells that say "not run" did not fit the memory that was free here;
counted are they all, and "fits" says whether all arrays and the process itself fit 16 GB by that count."""


@dataclass(frozen=True)
class CountedBytes:
    """Bytes of a layer on a graph: what is given, of the graph, and returned; and temporaries at a time."""

    given: int
    own: int
    results: int
    gradients: int
    temporaries: int
    temporaries_of_step: int

    @property
    def forward(self) -> int:
        """All of a result."""
        return self.given + self.own + self.results + self.temporaries

    @property
    def call(self) -> int:
        """What a step adds to the arrays that are there before it."""
        return self.results + self.gradients + self.temporaries_of_step

    @property
    def step(self) -> int:
        """All of a step; the gradients of the result are given, too."""
        return self.given + self.results + self.own + self.call


def counted(run: graphs.GraphRun) -> CountedBytes:
    """What is known of a layer on a graph before it runs."""
    trace, graph = run.layer.trace, run.graph
    sizes = {"nodes": graph.nodes, "edges": graph.edges, "etype": graph.etypes, "ntype": graph.ntypes, "": 1}
    item = run.layer.dtype.bytes
    nodes = sum(graph.nodes * prod(shape) for shape in trace.node.values())
    weights = sum(sizes[each.types] * prod(each.shape) for each in trace.weights.values())
    given = nodes + weights + sum(graph.edges * prod(shape) for shape in trace.edge.values())
    results = sum(sizes[step.loop] * prod(step.shape) for step in trace.outputs)
    own = sum(array.nbytes for array in {**run.forward.arrays, **run.step.arrays}.values())
    temporaries = (_temporaries(program) for program in (run.forward, run.step))
    return CountedBytes(given * item, own, results * item, given * item, *temporaries)


def _temporaries(program: LayerProgram) -> int:
    """The most bytes at a time."""
    return int(program.f.cost("memory", threads=1, **program.sizes).peaks.get("memory", 0))


def table_of_memory(shapes: Sequence[Shape]) -> str:
    """A row for each graph: HGT, with and without compact rows."""
    heads = ["graph", "nodes", "edges", "degree", "pairs", "result, MB", "step, MB", "compact", "compact, step"]
    rows = []
    for shape in shapes:
        graph = whole_graph(shape)
        plain, compact = (
            counted(layer("hgt", **how).on(graph, threads=1, fast=FAST)) for how in (PLAIN, WAYS["compact"])
        )
        pairs = len(graph.distinct("src", "etype")) / graph.edges
        megabytes = [f"{each / 1e6:.0f}" for each in (plain.forward, plain.step)]
        parts = [f"{compact.forward / plain.forward:.2f}", f"{compact.step / plain.step:.2f}"]
        about = [str(graph.nodes), str(graph.edges), f"{graph.edges / graph.nodes:.1f}", f"{pairs:.2f}"]
        rows.append([shape.name, *about, *megabytes, *parts])
    return table(heads, rows)


def table_of_largest(models: Sequence[str], shapes: Sequence[Shape]) -> str:
    """A row for each layer and graph, a process each."""
    heads = ["layer", "graph", "result, counted", "step, counted", "step, allocated", "process", "fits"]
    rows = []
    for shape in shapes:
        for model in models:
            command = [*START, "graphs.memory", model, shape.name]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found = json.loads(told.splitlines()[-1])
            fits = "yes" if found["all"] + BESIDES <= LIMIT else "no"
            sizes = [found["forward"], found["call"], found["allocated"], found["process"]]
            rows.append(
                [model, shape.name, *("not run" if size is None else f"{size / 2**30:.2f}" for size in sizes), fits]
            )
    return table([*heads[:2], *(f"{head}, GiB" for head in heads[2:6]), heads[6]], rows)


def main(model: str, name: str) -> None:
    """Call a layer, and print its bytes."""
    graph = whole_graph(next(shape for shape in ALL_SHAPES if shape.name == name))
    run = layer(model).on(graph, threads=1, fast=FAST)
    known = counted(run)
    found: dict[str, int | None] = {"forward": known.forward, "call": known.call, "all": known.step}
    found |= {"allocated": None, "process": None}
    if known.step + BESIDES < _status("/proc/meminfo", "MemAvailable"):
        given = arguments(model, graph)
        out = run(**given)
        run.step.kernel  # noqa: B018 - compiled before
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("/proc/self/status", "VmRSS")
        run.gradients(out, **given)
        most = _status("/proc/self/status", "VmHWM")
        found |= {"allocated": most - before, "process": most}
    print(json.dumps(found))


def _status(file: str, name: str) -> int:
    """Bytes that the kernel says."""
    lines = Path(file).read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main(*sys.argv[1:])
