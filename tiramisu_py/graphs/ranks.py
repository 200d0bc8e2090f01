"""Layers on ranks: each owns a block of nodes and the edges that end there; what others have arrives in messages.

Edges lie in runs by the node where they end, so that sums over the edges that come into a node need no other rank.
Values of the nodes where edges begin arrive in exchanges that are derived, and gradients by these, by weights and by
values of edges are added up by each rank over its own edges, and combined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

import tiramisu_py as tm
from tiramisu_py import queries, recipes
from tiramisu_py.errors import ArgumentError, UnsupportedError
from tiramisu_py.graphs.emitting import AXES, emitted, n
from tiramisu_py.graphs.given import LayerArguments
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.graphs.rewrites import reassociated
from tiramisu_py.graphs.values import EDGES
from tiramisu_py.recipes.rows_of_values import in_vectors

if TYPE_CHECKING:
    from tiramisu_py.graphs.layers import Layer

Array = npt.NDArray[Any]
#: The loop over ranks, and that over the nodes of one.
_RANK, _OWN = tm.iters("rank own")


class RankRun:
    """A layer on a graph that is dealt out to ranks: called by each with the values of its own nodes.

    ::

        run = layer.on_ranks(graph, 4)
        mine = run.owned(comm.rank)                               # a slice of the nodes
        out = run(feature=x[mine], norm=c, W=w, comm=comm)        # the rows of these
        d = run.gradients(d_out[mine], feature=x[mine], norm=c, W=w, comm=comm)
        whole = run.simulate(feature=x, norm=c, W=w)              # all ranks in this process, without MPI

    Values of edges, and weights, are given whole, the same on each rank, and gradients by them are whole on each. Ranks
    of `comm` beyond those of the layer call it, too, own no nodes, and get empty arrays.
    Raises `ArgumentError` on all ranks with the message of the first where an argument is wrong.
    """

    def __init__(self, layer: Layer, graph: Graph, ranks: int, fast: Collection[str] = ()) -> None:
        layer.check(graph)
        if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
            raise ArgumentError(f"{layer.name}: ranks={ranks!r}: give a number of ranks, 1 or more")
        if not graph.nodes:
            raise ArgumentError(f"{layer.name} on ranks: {graph} has no nodes to deal out")
        of_edges = next((step for step in layer.trace.outputs if step.loop == EDGES), None)
        if of_edges is not None:
            raise ArgumentError(
                f"{layer.name} returns {of_edges.label}, a value of each edge, and ranks own nodes: return values of "
                "nodes, or take layer.on(graph), without ranks"
            )
        self.layer, self.graph, self.ranks, self.fast = layer, graph, ranks, tuple(fast)
        #: How many nodes a rank has, at most.
        self.block = -(-graph.nodes // ranks)
        own = layer.chosen_for(graph)
        made = emitted(own.trace, own.name, own.dtype, graph.nodes)
        if own.rewrites.reassociate:
            reassociated(made)
        self._declared = made.f.program.algorithm.as_rewritten

    @cached_property
    def forward(self) -> tm.Function:
        """The program of the result, with its loops dealt out and its messages derived."""
        return self._dealt_out(tm.Function.of(self._declared), {})

    @cached_property
    def step(self) -> tm.Function:
        """The program of the result and its gradients."""
        g, trace = self._gradients, self.layer.trace
        cotangents = {g.adjoints.cotangents[each.label]: each.shape for each in trace.outputs}
        made = dict(zip(g.wrt, [*g.step.algorithm.outputs][len(trace.outputs) :], strict=True))
        return self._dealt_out(g.step, cotangents | {made[name]: shape for name, shape in trace.node.items()})

    @cached_property
    def _gradients(self) -> Any:
        return tm.vjp(tm.Function.of(self._declared))

    def _dealt_out(self, f: tm.Function, more: Mapping[str, Sequence[int]]) -> tm.Function:
        """Deal out what nodes are given and have, the loops over nodes, and the terms of sums over them."""
        trace, cpu = self.layer.trace, recipes.Cpu.here()
        f.grid(self.ranks)
        held = {**trace.node, **{each.label: each.shape for each in trace.outputs}, **more}
        for name, shape in held.items():
            if name in f.algorithm.inputs or name in f.algorithm.computations:
                f[name].distribute_array([n, *AXES[: len(shape)]], rank=n // self.block)
        for name, declared in f.algorithm.computations.items():
            own = dict(zip(declared.iterators, queries.extents(declared), strict=True))
            if own.get(n.name) == self.graph.nodes and not queries.chosen_by_values(declared):
                f[name].split(n, self.block, _RANK, _OWN)
                f[name].tag_distribute(_RANK)
            elif terms := [each for each in declared.over if each.partition("_")[0] == n.name]:
                f[name].update.split(tm.Iter(terms[0]), self.block, _RANK, _OWN)
                f[name].update.tag_distribute(_RANK, combine=tm.PRIVATE)
            in_vectors(recipes.Recipe("ranks", [f[name]]), f[name], cpu)
        f.derive_transfers(collectives=True)
        return f

    def owned(self, rank: int) -> slice:
        """The nodes of a rank; those after the last one that has some have none."""
        return slice(*(min(each * self.block, self.graph.nodes) for each in (rank, rank + 1)))

    def __call__(self, *, comm: Any = None, **given: Any) -> Any:
        """The rows of this rank's nodes; several results as a tuple. `comm` is ``MPI.COMM_WORLD`` by default."""
        return self._called(self._forward_kernel, self.forward, comm, lambda own: own.of_model(given))

    def gradients(self, weights: Any, *, comm: Any = None, **given: Any) -> dict[str, Array]:
        """The gradients of a sum of the result, weighed by `weights`, those of this rank's nodes.

        By values of nodes they are those of its own; by values of edges, in the caller's order, and by weights, they
        are whole, the same on each rank.
        """
        cotangents = self._gradients.adjoints.cotangents
        return self._by_name(
            self._called(
                self._step_kernel,
                self.step,
                comm,
                lambda own: own.of_model(given) | own.of_results(weights, cotangents),
            )
        )

    def simulate(self, **given: Any) -> Any:
        """The whole result from whole arrays, with all ranks and their messages in this process: slow."""
        return self.forward.simulate(**self._taken(self.forward, self._given().of_model(given)))

    def simulate_gradients(self, weights: Any, **given: Any) -> dict[str, Array]:
        """The whole gradients, as `simulate` has results."""
        own = self._given()
        named = own.of_model(given) | own.of_results(weights, self._gradients.adjoints.cotangents)
        return self._by_name(self.step.simulate(**self._taken(self.step, named)))

    def report(self) -> str:
        """The nodes and edges of each rank, and the messages of the layer and of its gradients."""
        lines = [f"{self.layer.name} on {self.graph}, on {self.ranks} ranks"]
        rows = self.graph.by_destinations.arrays["rows"]
        for rank in range(self.ranks):
            nodes = self.owned(rank)
            lines.append(
                f"  rank {rank}: {nodes.stop - nodes.start} nodes, {rows[nodes.stop] - rows[nodes.start]} edges"
            )
        for word, f in (("result", self.forward), ("gradients", self.step)):
            lines += [f"{word}:", *(f"  {line}" for line in str(f.cost("communication", **self._sizes(f))).split("\n"))]
        return "\n".join(lines)

    @cached_property
    def _forward_kernel(self) -> Any:
        return self.forward.compile(fast=self.fast)

    @cached_property
    def _step_kernel(self) -> Any:
        return self.step.compile(fast=self.fast)

    def _called(
        self, kernel: Any, f: tm.Function, comm: Any, arguments: Callable[[LayerArguments], dict[str, Any]]
    ) -> Any:
        """Call a kernel on all ranks, or raise the first one's error on all of them."""
        every = _world() if comm is None else comm
        named, fault = dict[str, Any](), ""
        if every.rank < self.ranks:
            try:
                named = self._taken(f, arguments(self._given(every.rank)))
            except ArgumentError as error:
                fault = str(error)
        first = next((each for each in every.allgather(fault) if each), "")
        if first:
            raise ArgumentError(first)
        return kernel(**named, comm=every)

    def _sizes(self, f: tm.Function) -> dict[str, int]:
        return {name: self.graph.sizes[name] for name in f.algorithm.params}

    def _taken(self, f: tm.Function, given: Mapping[str, Any]) -> dict[str, Any]:
        """What a program takes: what is given, and what comes from the graph."""
        own = {name: array for name, array in self.graph.by_destinations.arrays.items() if name in f.algorithm.inputs}
        return {**given, **own, **self._sizes(f)}

    def _given(self, rank: int | None = None) -> LayerArguments:
        own, order = self.layer, self.graph.by_destinations.order
        if rank is None:
            return LayerArguments(own.name, own.trace, own.dtype, self.graph, order, self.graph.nodes)
        nodes = self.owned(rank)
        whose = f"nodes of rank {rank}, {nodes.start} to {nodes.stop} (run.owned({rank}))"
        return LayerArguments(own.name, own.trace, own.dtype, self.graph, order, nodes.stop - nodes.start, whose)

    def _by_name(self, found: Sequence[Array]) -> dict[str, Array]:
        own, trace = self._given(), self.layer.trace
        made = found[len(trace.outputs) :]
        return {
            name: own.in_given_order(array) if name in trace.edge and len(array) == self.graph.edges else array
            for name, array in zip(self._gradients.wrt, made, strict=True)
        }


def _world() -> Any:
    """All ranks that MPI has started; raises `UnsupportedError` without mpi4py."""
    try:
        from mpi4py import MPI  # noqa: PLC0415 - MPI is needed by those alone who call this, and starts when imported
    except ImportError:
        raise UnsupportedError("mpi4py is not installed", "pip install 'tiramisu_py[mpi]'") from None
    return MPI.COMM_WORLD
