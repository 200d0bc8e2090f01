"""Layers of graph networks: a traced model, the passes on it, and what runs it on one graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy.typing as npt

import tiramisu_py as tm
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.graphs.choices import LayerRewrites, taken
from tiramisu_py.graphs.emitting import EmittedLayer, emitted
from tiramisu_py.graphs.fusion import checked_fusion, fused
from tiramisu_py.graphs.given import LayerArguments
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.graphs.measured import MeasuredWay, checked_tiles, fastest_way
from tiramisu_py.graphs.on_torch import on_tensors
from tiramisu_py.graphs.programs import LayerMachine, LayerProgram, sizes_of, work_on
from tiramisu_py.graphs.ranks import RankRun
from tiramisu_py.graphs.rewrites import (
    Done,
    compacted,
    gathered,
    is_summed_product,
    reassociated,
    summed_first,
    text,
    with_inverses,
)
from tiramisu_py.graphs.runs_of_types import checked_runs, products_on, with_runs
from tiramisu_py.graphs.schedules import VECTORS, scheduled
from tiramisu_py.graphs.sums_of_nodes import checked_way, names_by_edges, sums_on
from tiramisu_py.graphs.tracing import OWN_NAMES, ModelTrace, Weights, traced
from tiramisu_py.torch import function as torch_function

Array = npt.NDArray[Any]
#: The vectors of a tile of sums that are tried.
TILES = (8, 16, 24)


def layer(
    model: Callable[..., Any],
    *,
    node: Mapping[str, Any] | None = None,
    edge: Mapping[str, Any] | None = None,
    weights: Mapping[str, Any] | None = None,
    dtype: tm.DType = tm.float32,
    reassociate: bool | str = True,
    compact: bool | str = True,
    sum_first: bool | str = "count",
    sums: str = "count",
    runs: bool | str = "count",
    fuse: bool | str = "count",
) -> Layer:
    """A layer from a model, a Python function of a graph and of weights, that is run once with symbols.

    ::

        def gcn(g, W):
            for v in g.dst_nodes():
                v["out"] = 0.0
                for e in v.incoming_edges():
                    v["out"] += e.norm * graphs.linear(e.src.feature, W)
            return "out"

        run = graphs.layer(gcn, node={"feature": 16}, edge={"norm": ()}, weights={"W": (16, 8)}).on(graph)
        out = run(feature=x, norm=c, W=w)
        d = run.gradients(np.ones_like(out), feature=x, norm=c, W=w)        d["W"], ...

    `node` and `edge` are what the caller gives for each node and edge, with the shape of one: ``16``, ``(4, 16)`` or
    ``()``. `weights` have a shape, too; those of ``("etype", 16, 8)`` are a matrix for each type of edges, of
    ``("ntype", ..)`` for each type of nodes. The model returns the name of its result, or a tuple of names.
    `reassociate` multiplies weights with each other before data, and `compact` computes what depends on a node and a
    type once for each pair. `sum_first` sums the rows of a node that are multiplied with one matrix before they are
    multiplied. ``"count"`` leaves any of the three to the graph: it is done where that is less work, and
    ``layer.explain(graph)`` says how much. `sums` over the edges of nodes go by ``"nodes"``, which threads share, by
    ``"edges"``, on one thread and in order, or as is less work, ``"count"``; bits are the same. With `runs`
    products with the matrices of types have a loop over the edges of each type, without them each edge says its own:
    bits are the same, too, and ``"count"``, the default, takes what is less work. With `fuse` a kernel takes along what
    it alone reads, in place: the values are in registers, and have the same bits; ``"count"`` does it where fewer bytes
    are moved and temporaries are at no time more. Raises `DeclarationError` in words of the model.
    """
    if not callable(model):
        raise DeclarationError(f"{model!r} is no model: give a function of a graph and of weights")
    of_nodes, of_edges = _shapes("node", node), _shapes("edge", edge)
    owned = {name: _weights(name, given) for name, given in _named("weights", weights).items()}
    names = [*of_nodes, *of_edges, *owned]
    own = next((name for name in names if name in OWN_NAMES), None)
    if own is not None:
        raise DeclarationError(f"{own!r} is a name of graphs' own, as {', '.join(sorted(OWN_NAMES))} are: give another")
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise DeclarationError(f"{double} is given twice: names of node=, edge= and weights= differ")
    rewrites = LayerRewrites(reassociate=reassociate, sum_first=sum_first, compact=compact)
    trace = traced(model, ModelTrace(of_nodes, of_edges, owned))
    by, runs, fuse = checked_way(sums), checked_runs(runs), checked_fusion(fuse)
    return Layer(model.__name__, trace, dtype, rewrites, sums=by, runs=runs, fuse=fuse)


class Layer:
    """A traced model after the passes that change what is computed; `on` makes a graph's own program of it."""

    def __init__(
        self,
        name: str,
        trace: ModelTrace,
        dtype: tm.DType,
        rewrites: LayerRewrites,
        decided: Collection[str] = (),
        sums: str = "nodes",
        runs: bool | str = False,
        fuse: bool | str = "count",
    ) -> None:
        #: What `tuned` has measured, the fastest way first.
        self.measured: tuple[MeasuredWay, ...] = ()
        self._measured_on = ""
        self.name, self.trace, self.dtype, self.rewrites = name, trace, dtype, rewrites
        self.sums, self.runs, self.fuse = sums, runs, fuse
        made = emitted(trace, name, dtype)
        self._passes: list[tuple[str, str]] = [("traced", text(made.f.algorithm))]
        changes = {"reassociate": reassociated, "sum_first": summed_first, "compact": compacted}
        for word, wanted in rewrites.named.items():
            pass_, why = word.replace("_", " "), "the work on a graph decides"
            if wanted == "count":
                if word in self._counted:
                    self._pass(made, pass_, [Done("nothing", why)])
                continue
            why = f"{why} against it" if word in decided else "the layer is declared without it"
            self._pass(made, pass_, changes[word](made) if wanted else [Done("nothing", why)])
        self._algorithm = with_inverses(made.f.program.algorithm.as_rewritten)

    def _pass(self, made: EmittedLayer, word: str, done: Sequence[Done]) -> None:
        heads = "".join(f"  {each}\n" for each in done) or "  nothing to do\n"
        self._passes.append((word, f"{heads}{text(made.f.program.algorithm.as_rewritten)}"))

    @property
    def function(self) -> tm.Function:
        """A function of the layer's values as the passes leave them, without any schedule."""
        return tm.Function.of(self._algorithm)

    def chosen_for(self, graph: Graph) -> Layer:
        """The layer with the rewrites that a graph asks for, of those that are declared as ``"count"``.

        Multiplications and additions of the result are counted. What is rewritten stores a row, or looks one up, once
        more, so that a tenth of them has to be saved: it is the way with the fewest rewrites within a tenth of the
        least.
        """
        return self._ways[0] if len(self._ways) == 1 else self._ways[taken(self._works(graph))]

    def _works(self, graph: Graph) -> list[tuple[LayerRewrites, int]]:
        """The ways that a graph chooses from, with the work of each."""
        return [(each.rewrites, work_on(each.function, graph)) for each in self._ways]

    @property
    def _counted(self) -> tuple[str, ...]:
        """The names of the rewrites that a graph decides, without sums before products that are none."""
        sums = any(map(is_summed_product, self.trace.steps))
        return tuple(name for name in self.rewrites.counted if sums or name != "sum_first")

    @cached_property
    def _ways(self) -> list[Layer]:
        """The layers that a graph chooses from: this one, or one for each decision."""
        counted = self._counted
        if not counted:
            return [self]
        fixed = replace(self.rewrites, **{name: False for name in self.rewrites.counted if name not in counted})
        return [
            Layer(self.name, self.trace, self.dtype, each, counted, self.sums, self.runs, self.fuse)
            for each in fixed.ways
        ]

    def tuned(
        self,
        graph: Graph,
        *,
        gradients: bool = False,
        threads: int | None = None,
        fast: Collection[str] = (),
        tiles: Sequence[int] = TILES,
        repeats: int = 7,
        database: Any = None,
    ) -> Layer:
        """The layer in the way that is fastest on a graph, measured on this machine.

        Ways are the rewrites that are declared as ``"count"``, each done or not, sums by edges and by nodes, and the
        `tiles` of sums: so many vectors of registers. Each is proven, compiled, and called with random features and
        weights: for the result, or with `gradients` for both. `tune` does it, and keeps all times in its `database`:
        they hold for the program, the edges of the graph and the machine, so that the same graph is measured once.
        ``explain(graph)`` of the layer that comes back has them, and its `on` takes any graph::

            run = layer.tuned(graph).on(graph)

        Raises `ArgumentError` for tiles that are no numbers.
        """
        self.check(graph)
        machine, listed = LayerMachine(threads, None, False, tuple(fast), fuse=self.fuse), checked_tiles(tiles)
        found = list[tuple[MeasuredWay, Layer]]()
        for way in self._ways:
            made = tm.vjp(way.function).step if gradients else way.function
            words = way.rewrites.among(self._counted)
            ways = ("nodes", "edges") if self.sums == "count" and sums_on(made, graph, threads) else (self.sums,)
            runs = (False, True) if self.runs == "count" and products_on(made, graph) else (self.runs is True,)
            best = fastest_way(made.copy, graph, machine, listed, ways, runs, words, repeats=repeats, database=database)
            found.append((best, way))
        found.sort(key=lambda each: each[0].seconds)
        best, way = found[0]
        own = (self.name, self.trace, self.dtype, way.rewrites, self._counted)
        taken_as = Layer(*own, best.sums, best.runs, self.fuse)
        taken_as.measured, taken_as._measured_on = tuple(each for each, _ in found), str(graph)
        return taken_as

    def explain(self, graph: Graph | None = None, *, threads: int | None = None) -> str:
        """The values of the layer after each pass, and the recipe and the loops of each.

        For a graph they are those of the layer that it chooses, after the work of each way that it chooses from, also
        of its sums, on so many `threads`.
        """
        if graph is None:
            return self._explained(None, None)
        own = self.chosen_for(graph)
        f = own.function
        sums = sums_on(f, graph, threads) if self.sums == "count" else []
        products = products_on(f, graph) if self.runs == "count" else []
        heads = self._choices(graph)
        for word, each in (("sums over the edges of nodes", sums), ("products with matrices of types", products)):
            heads += [f"{word}, by counted steps:", *(f"  {line}" for line in each)] if each else []
        return "\n".join([*heads, own._explained(graph, threads)])

    def _explained(self, graph: Graph | None, threads: int | None) -> str:
        """The values after each pass, and the kernels, as they are on a graph where one is given."""
        f = self.function
        by_edges = names_by_edges(f, graph, self.sums, threads) if graph is not None else ()
        canonical = [*map(str, gathered(f, by_edges)), *(f"{name} by edges" for name in by_edges)]
        by_runs = with_runs(f, graph, self.runs) if graph is not None else ()
        canonical += [f"{name} by the runs of types" for name in by_runs]
        kernels = fused(f, self.fuse, sizes_of(f, graph) if graph is not None else None, threads=threads)
        done = scheduled(f, self._tile, kernels)
        later = [("canonical loops", canonical), ("taken along", [*map(str, kernels.weighed)])]
        values, hosts = len(done.loops) + len(kernels.hosts), len(done.loops)
        later += [(f"kernels, {hosts} for {values} values", done.loops), ("typed products", done.products)]
        later += [("traversals", done.traversals), ("the rest", done.rest)]
        listed = [(word, "\n".join(f"  {line}" for line in lines) or "  none") for word, lines in later]
        return "\n".join(f"{word}:\n{body}" for word, body in (*self._passes, *listed))

    def _choices(self, graph: Graph) -> list[str]:
        """The ways that a graph chooses from, with their work, in words."""
        self.check(graph)
        if self.measured:
            first, *others = map(str, self.measured)
            return [
                f"choices, measured on {self._measured_on}:",
                f"  {first}, taken",
                *(f"  {each}" for each in others),
            ]
        if not self._counted:
            return [f"choices on {graph}:", "  none: no rewrite is declared as 'count'"]
        works = self._works(graph)
        own, lines = taken(works), [f"choices on {graph}, by multiplications and additions:"]
        for place, (rewrites, work) in enumerate(works):
            why = ", taken: the fewest rewrites within a tenth of the least" if place == own else ""
            lines.append(f"  {rewrites.among(self._counted)}: {work}{why}")
        return lines

    def on(
        self,
        graph: Graph,
        *,
        threads: int | None = None,
        device: str | None = None,
        sanitize: bool = False,
        fast: Collection[str] = (),
        launch_graph: bool = False,
    ) -> GraphRun:
        """The layer on one graph: what it needs of the graph is made here, and its program is compiled.

        It runs on cores, or on a `device`, "gpu", "gpu:1" or "simulator": the same values, in kernels, with transfers
        that are derived. ``sanitize=True`` looks for races and for accesses out of bounds in the simulator. `fast` is
        that of `Function.compile`: with ``("contract",)`` products are added at once, in half of the instructions, and
        the last bits are another rounding. With `launch_graph` a call's kernels are launched as CUDA graphs (see
        `Function.compile`), one of those between two copies of the host's arrays.
        """
        self.check(graph)
        own = (self._tile, self.sums, self.runs, self.fuse)
        machine = LayerMachine(threads, device, sanitize, tuple(fast), launch_graph, *own)
        return GraphRun(self.chosen_for(graph), graph, machine)

    def on_ranks(self, graph: Graph, ranks: int, *, fast: Collection[str] = ()) -> RankRun:
        """The layer on a graph whose nodes are dealt out to ranks, in blocks, with the edges that end there.

        Each rank has the whole graph, and the values of its own nodes. What the edges that end at its nodes read of
        others arrives in exchanges that are derived, in whole blocks. Of the rewrites, weights are
        multiplied with each other; pairs and sums before products would be shared by ranks, and are left out.
        Raises `ArgumentError` for a number of ranks that is none, and for models that return values of edges.
        """
        return RankRun(self, graph, ranks, fast)

    @property
    def _tile(self) -> int:
        """The vectors of a tile of sums: those that were the fastest, where that was measured."""
        return self.measured[0].tile if self.measured else VECTORS

    def check(self, graph: Graph) -> None:
        """Raises `ArgumentError` for a graph that lacks what the layer needs."""
        if not isinstance(graph, Graph):
            raise ArgumentError(f"{self.name} runs on a graph: give graphs.Graph(src, dst, ..), not {graph!r:.60}")
        kinds = {each.types for each in self.trace.weights.values()}
        if "etype" in kinds and not graph.has_types:
            raise ArgumentError(f"{self.name} has weights for each type of edges, and the graph none: give it etype=")
        if "ntype" in kinds and not graph.has_ntypes:
            raise ArgumentError(f"{self.name} has weights for each type of nodes, and the graph none: give it ntype=")

    def __repr__(self) -> str:
        return f"<layer {self.name}>"


class GraphRun:
    """A layer on a graph, compiled: called with what the model is given, by name, as NumPy arrays."""

    def __init__(self, layer: Layer, graph: Graph, machine: LayerMachine, first: GraphRun | None = None) -> None:
        self.layer, self.graph, self.machine, self._first = layer, graph, machine, first
        #: The program of the result.
        self.forward: LayerProgram = (
            LayerProgram(layer.function, graph, machine) if first is None else first.forward.on(graph)
        )
        self.forward.kernel  # noqa: B018 - compiled here, not with the first call

    def on(self, graph: Graph) -> GraphRun:
        """The layer on another graph, such as that of the next mini-batch: nothing is compiled again."""
        self.layer.check(graph)
        return GraphRun(self.layer, graph, self.machine, self._first or self)

    def __call__(self, **given: Any) -> Any:
        """The result of the layer; several as a tuple. Raises `ArgumentError`, naming what does not fit the graph."""
        made = self.forward(self._given.of_model(given))
        steps = self.layer.trace.outputs
        unsorted = self.graph.in_given_order
        found = tuple(unsorted(a) if s.loop == "edges" else a for s, a in zip(steps, made, strict=True))
        return found[0] if len(found) == 1 else found

    def gradients(self, weights: Any, **given: Any) -> dict[str, Array]:
        """The gradients of a sum of the result, weighed by `weights`, of its shape, by all that the model is given.

        For several results, `weights` is a tuple with those of each.
        """
        own = self._given
        named = own.of_results(weights, self.step.cotangents)
        found = self.step({**own.of_model(given), **named})[len(self.layer.trace.outputs) :]
        return {
            name: self.graph.in_given_order(gradient) if name in self.layer.trace.edge else gradient
            for name, gradient in zip(self.step.wrt, found, strict=True)
        }

    @cached_property
    def step(self) -> LayerProgram:
        """The program of the result and its gradients."""
        if self._first is not None:
            return self._first.step.on(self.graph)
        g = tm.vjp(self.layer.function)
        made = LayerProgram(g.step, self.graph, self.machine)
        made.cotangents, made.wrt = dict(g.adjoints.cotangents), g.wrt
        return made

    def for_torch(self) -> Callable[..., Any]:
        """The layer as a function of PyTorch, on tensors by name, with gradients: ``run.for_torch()(feature=x, W=w)``.

        It is an operator of `tiramisu_py.torch.function`; tensors are in the order of the caller's edges. Raises
        `UnsupportedError` without PyTorch.
        """
        if self.machine.device is not None:
            raise ArgumentError(
                f"for_torch takes tensors of the host, and {self.layer.name} is on {self.machine.device!r}: leave "
                "device= out"
            )
        g = tm.vjp(self.layer.function)
        for part in (g.forward, g.backward):
            gathered(part, names_by_edges(part, self.graph, self.machine.sums, self.machine.threads))
            kernels = fused(part, self.machine.fuse, sizes_of(part, self.graph), threads=self.machine.threads)
            scheduled(part, self.machine.tile, kernels)
        taken = self.layer.function.algorithm.inputs
        arrays = {name: array for name, array in self.forward.arrays.items() if name in taken}  # none of runs of types
        return on_tensors(torch_function(g), self.layer.trace, self.graph, arrays)

    def report(self) -> str:
        """The kernels of the layer and of its gradients, the bytes that each has at a time, and what stays a scatter.

        The bytes are those of `f.cost("memory")`, which a call allocates.
        """
        lines = [f"{self.layer.name} on {self.graph}", *self.forward.report()]
        return "\n".join([*lines, "gradients:", *self.step.report()])

    @property
    def _given(self) -> LayerArguments:
        own = self.layer
        return LayerArguments(own.name, own.trace, own.dtype, self.graph, self.graph.order, self.graph.nodes)

    def __repr__(self) -> str:
        return f"<{self.layer.name} on {self.graph}>"


def _shapes(what: str, given: Mapping[str, Any] | None) -> dict[str, tuple[int, ...]]:
    return {name: _shape(f"{what}={name}", shape) for name, shape in _named(what, given).items()}


def _named(what: str, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise DeclarationError(f"{what}={given!r}: give names with shapes, as {what}={{'k': (16, 8)}}")
    return given or {}


def _shape(name: str, given: Any) -> tuple[int, ...]:
    listed = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not all(isinstance(each, int) and not isinstance(each, bool) and each > 0 for each in listed) or len(listed) > 3:
        raise DeclarationError(f"{name} has the shape {given!r}: give numbers, as 16, (4, 16) or (), at most three")
    return listed


def _weights(name: str, given: Any) -> Weights:
    listed = tuple(given) if isinstance(given, list | tuple) else (given,)
    types = listed[0] if listed and isinstance(listed[0], str) else ""
    if types not in ("", "etype", "ntype"):
        raise DeclarationError(
            f'{name} has weights for each {types!r}: give ("etype", ..), ("ntype", ..) or a shape alone'
        )
    return Weights(name, types, _shape(f"weights={name}", listed[1:] if types else listed))
