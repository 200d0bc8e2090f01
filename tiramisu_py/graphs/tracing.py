"""Models as traced Python: one run of the function with symbolic edges and nodes gives the steps of the layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from math import inf
from typing import Any

from tiramisu_py.errors import DeclarationError
from tiramisu_py.graphs.values import (
    EDGES,
    NODES,
    AssignedValue,
    GivenValue,
    ModelStep,
    ModelValue,
    NodeSum,
    Number,
    OfNode,
    Shape,
    Slice,
    as_value,
    larger,
)
from tiramisu_py.records import dataclass

#: The names of graphs' arrays, and of sizes and iterators in programs: not for values of models.
OWN_NAMES = frozenset(["src", "dst", "etype", "ntype", "N", "E", "R", "T", "n", "p", "k", "i", "j", "l", "m"])


@dataclass(frozen=True)
class Weights:
    """Weights that the caller passes: one matrix (or row) for each type of an edge or a node, or one for all."""

    name: str
    types: str
    shape: Shape


@dataclass(eq=False)
class ModelTrace:
    """The values that a model has made so far: values of edges and of nodes by name, and the steps in their order."""

    node: Mapping[str, Shape]
    edge: Mapping[str, Shape]
    weights: Mapping[str, Weights]
    edges: dict[str, ModelValue] = field(default_factory=dict)
    nodes: dict[str, ModelValue] = field(default_factory=dict)
    steps: list[ModelStep] = field(default_factory=list)
    outputs: tuple[ModelStep, ...] = ()

    def take(self, value: ModelValue) -> None:
        """Add the steps that a value needs, in order."""
        for part in value.parts:
            if not isinstance(part, ModelStep) or part not in self.steps:
                self.take(part)
        if isinstance(value, ModelStep) and value not in self.steps:
            value.label = self._free(value.label)
            self.steps.append(value)

    def kept(self, name: str, value: ModelValue, loop: str) -> ModelValue:
        """A value as a step of this name: a product itself, unless it has a name already; a number stays one."""
        if isinstance(value, Number):
            return value
        if value.loop and value.loop != loop:
            raise DeclarationError(f"{name!r} of {loop} is given {value.name}, a value of {value.loop}")
        if isinstance(value, ModelStep):
            value.label = value.label if value in self.steps else name
            self.take(value)
            return value
        made = AssignedValue(name, value, value.shape, loop)
        self.take(made)
        return made

    def _free(self, name: str) -> str:
        taken = {each.label for each in self.steps} | {*self.node, *self.edge, *self.weights, *OWN_NAMES}
        found, number = name, 2
        while found in taken:
            found, number = f"{name}_{number}", number + 1
        return found


class _Bound:
    """An edge or a node of a loop, which is symbolic: it stands for all of them."""

    _trace: ModelTrace
    _what: str
    _open: bool

    def __init__(self, trace: ModelTrace, what: str) -> None:
        self.__dict__.update(_trace=trace, _what=what, _open=True)

    def _check_open(self) -> None:
        if not self._open:
            ends = ", or e.src and e.dst in a loop over edges" if self._what == "nodes" else ""
            raise DeclarationError(f"the loop over {self._what} has ended: use what it gives inside of the loop{ends}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise DeclarationError(f"what is computed for {self._what} has a name in brackets: x[{name!r}] = ..")


class TracedEdge(_Bound):
    """An edge of a loop: ``e.src``, ``e.dst``, ``e.etype``, what the caller gives, and what the model makes."""

    def __init__(self, trace: ModelTrace) -> None:
        super().__init__(trace, "edges")

    @property
    def src(self) -> TracedEnd:
        """The node where the edge begins."""
        self._check_open()
        return TracedEnd(self._trace, "src", self)

    @property
    def dst(self) -> TracedEnd:
        """The node where the edge ends."""
        self._check_open()
        return TracedEnd(self._trace, "dst", self)

    @property
    def etype(self) -> TypeOf:
        """The type of the edge, as an index of weights."""
        return TypeOf("etype", "", EDGES)

    def __getattr__(self, name: str) -> ModelValue:
        self._check_open()
        if name not in self._trace.edge:
            raise DeclarationError(
                f"edges have no {name}: layer(.., edge={{..}}) declares what is given for each, and e[{name!r}] is "
                "what the model makes"
            )
        return GivenValue(name, self._trace.edge[name], EDGES)

    def __getitem__(self, name: str) -> ModelValue:
        self._check_open()
        if name not in self._trace.edges:
            raise DeclarationError(
                f"e[{name!r}] is read before it is made: assign it in a loop over edges first"
                + (
                    f"; v[{name!r}] is of nodes, e.src[{name!r}] or e.dst[{name!r}]"
                    if name in self._trace.nodes
                    else ""
                )
            )
        return self._trace.edges[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._check_open()
        _assign(self._trace, self._trace.edges, name, as_value(value), EDGES)


class TracedEnd:
    """A node of an edge: what the caller gives, ``e.src.feature``, and what the model has made, ``e.dst["sum"]``."""

    _trace: ModelTrace
    _end: str
    _edge: TracedEdge

    def __init__(self, trace: ModelTrace, end: str, edge: TracedEdge) -> None:
        self.__dict__.update(_trace=trace, _end=end, _edge=edge)

    @property
    def ntype(self) -> TypeOf:
        """The type of the node, as an index of weights."""
        return TypeOf("ntype", self._end, EDGES)

    def __getattr__(self, name: str) -> ModelValue:
        self._edge._check_open()
        return OfNode(self._end, _given_of_node(self._trace, name))

    def __getitem__(self, name: str) -> ModelValue:
        self._edge._check_open()
        return Growing(self._end, _made_of_node(self._trace, name), name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._edge._check_open()
        if not isinstance(value, Grown) or value.name_of_sum != name or value.end != self._end:
            raise DeclarationError(
                f"e.{self._end}[{name!r}] is of a node, which has many edges: add to it, e.{self._end}[{name!r}] += .."
            )
        value.add(self._trace)


class TracedNode(_Bound):
    """A node of a loop: what the caller gives, v.feature, ``v.ntype``, and what the model makes, v["out"]."""

    _inside: str

    def __init__(self, trace: ModelTrace) -> None:
        super().__init__(trace, "nodes")
        self.__dict__.update(_inside="")

    @property
    def ntype(self) -> TypeOf:
        """The type of the node, as an index of weights."""
        return TypeOf("ntype", self._inside, EDGES if self._inside else NODES)

    def incoming_edges(self) -> Iterator[TracedEdge]:
        """The edges that end at the node."""
        return self._edges("dst")

    def outgoing_edges(self) -> Iterator[TracedEdge]:
        """The edges that begin at the node."""
        return self._edges("src")

    def _edges(self, end: str) -> Iterator[TracedEdge]:
        self._check_open()
        if self._inside:
            raise DeclarationError(
                "a loop over the edges of a node is inside of another one: they are one after the other"
            )
        edge = TracedEdge(self._trace)
        self.__dict__["_inside"] = end
        yield edge
        edge.__dict__["_open"] = False
        self.__dict__["_inside"] = ""

    def __getattr__(self, name: str) -> ModelValue:
        self._check_open()
        found = _given_of_node(self._trace, name)
        return OfNode(self._inside, found) if self._inside else found

    def __getitem__(self, name: str) -> ModelValue:
        self._check_open()
        found = _made_of_node(self._trace, name)
        return Growing(self._inside, found, name) if self._inside else found

    def __setitem__(self, name: str, value: Any) -> None:
        self._check_open()
        if isinstance(value, Grown) and value.name_of_sum == name and value.end == self._inside:
            value.add(self._trace)
        elif self._inside:
            raise DeclarationError(
                f"v[{name!r}] is assigned inside a loop over its edges, of which there are many: add to it, "
                f"v[{name!r}] += .."
            )
        else:
            _assign(self._trace, self._trace.nodes, name, as_value(value), NODES)


@dataclass(frozen=True, eq=False)
class Growing(OfNode):
    """A value of a node, read at an edge: also the left side of ``v["out"] += ..``."""

    name_of_sum: str

    def __iadd__(self, term: Any) -> Grown:  # type: ignore[override]
        return Grown(self.name_of_sum, self.end, self.of, as_value(term))

    def largest_with(self, term: ModelValue) -> Grown:
        """The right side of ``v["most"] = graphs.maximum(v["most"], ..)``."""
        return Grown(self.name_of_sum, self.end, self.of, term, largest=True)


@dataclass(frozen=True, eq=False)
class Grown:
    """A value of nodes, plus the sum of a value of their edges; or the largest of it and of these."""

    name_of_sum: str
    end: str
    before: ModelValue
    term: ModelValue
    largest: bool = False

    def add(self, trace: ModelTrace) -> None:
        """Make the sum a value of nodes."""
        if self.before.shape and self.before.shape != self.term.shape:
            raise DeclarationError(
                f"v[{self.name_of_sum!r}] has the shape {self.before.shape}, and {self.term.name} {self.term.shape}"
            )
        found: ModelValue = NodeSum(self.name_of_sum, self.end, self.term, self.term.shape, largest=self.largest)
        if not isinstance(self.before, Number) or self.before.value != (-inf if self.largest else 0):
            trace.take(found)
            found = larger(self.before, found) if self.largest else self.before + found
        trace.nodes[self.name_of_sum] = trace.kept(self.name_of_sum, found, NODES)


@dataclass(frozen=True)
class TypeOf:
    """The type of an edge, of a node, or of the node at an end of an edge."""

    types: str
    end: str
    loop: str


class TracedWeights:
    """Weights of a model: ``W[e.etype]`` are those of one type."""

    def __init__(self, declared: Weights) -> None:
        self._declared = declared

    def __repr__(self) -> str:
        own, of = self._declared, "e" if self._declared.types == "etype" else "v"
        return f"{own.name}, the weights of every {own.types}, of which {own.name}[{of}.{own.types}] are one's,"

    def __getitem__(self, index: Any) -> ModelValue:
        own = self._declared
        if not isinstance(index, TypeOf) or index.types != own.types:
            wanted = "W[e.etype]" if own.types == "etype" else "W[v.ntype], or W[e.src.ntype]"
            raise DeclarationError(f"{own.name} has weights for each {own.types}: index it by that, {wanted}")
        return Slice(own.name, own.types, index.end, own.shape, index.loop)


class TracedGraph:
    """The graph of a model while it is traced: loops over edges and nodes run once, with a symbol for all of them."""

    def __init__(self, trace: ModelTrace) -> None:
        self._trace = trace

    def edges(self) -> Iterator[TracedEdge]:
        """All edges."""
        edge = TracedEdge(self._trace)
        yield edge
        edge.__dict__["_open"] = False

    def nodes(self) -> Iterator[TracedNode]:
        """All nodes."""
        node = TracedNode(self._trace)
        yield node
        node.__dict__["_open"] = False

    #: Each node may be the end of edges, and their beginning.
    dst_nodes = src_nodes = nodes


def traced(model: Callable[..., Any], trace: ModelTrace) -> ModelTrace:
    """The trace of a model; raises `DeclarationError`."""
    weights: dict[str, Any] = {}
    for name, each in trace.weights.items():
        weights[name] = TracedWeights(each) if each.types else Slice(name, "", "", each.shape, "")
    try:
        result = model(TracedGraph(trace), **weights)
    except TypeError as error:
        if "argument" in str(error) and model.__name__ in str(error):
            raise DeclarationError(f"{error}; weights= has {', '.join(weights) or 'none'}") from None
        raise
    names = result if isinstance(result, tuple) else (result,)
    outputs: list[ModelStep] = []
    for name in names:
        found = trace.nodes.get(name) if name in trace.nodes else trace.edges.get(name)
        if not isinstance(name, str) or not isinstance(found, ModelStep):
            made = ", ".join([*trace.nodes, *trace.edges]) or "nothing"
            raise DeclarationError(
                f"{model.__name__} returns {name!r}: return the name of a value that it makes ({made})"
            )
        outputs.append(found)
    trace.outputs = tuple(outputs)
    return trace


def _given_of_node(trace: ModelTrace, name: str) -> ModelValue:
    if name not in trace.node:
        raise DeclarationError(
            f"nodes have no {name}: layer(.., node={{..}}) declares what is given for each, and v[{name!r}] is what "
            "the model makes"
        )
    return GivenValue(name, trace.node[name], NODES)


def _made_of_node(trace: ModelTrace, name: str) -> ModelValue:
    if name not in trace.nodes:
        raise DeclarationError(
            f"v[{name!r}] is read before it is made: assign it in a loop over nodes first, v[{name!r}] = 0.0 for a sum"
            + (f"; e[{name!r}] is of edges" if name in trace.edges else "")
        )
    return trace.nodes[name]


def _assign(trace: ModelTrace, values: dict[str, ModelValue], name: str, value: ModelValue, loop: str) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise DeclarationError(f"{name!r} is no name of a value: give an identifier, as in e['att']")
    known = values.get(name)
    if known is not None and not isinstance(known, Number) and known.shape != value.shape:
        raise DeclarationError(
            f"{name!r} has the shape {known.shape}, and is assigned {value.name} of {value.shape}: give that another "
            "name"
        )
    values[name] = trace.kept(name, value, loop)
