"""Layers on a GPU, in the simulator with its checks on: forwards and backwards, beside dense NumPy and cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import MODELS
from tests.graphs.test_models import GRAPHS, arguments, graph_of, layer
from tiramisu_py import graphs
from tiramisu_py.graphs import schedules
from tiramisu_py.graphs.sequences import sequences_of

(N,), (n,) = tm.params("N"), tm.iters("n")
SIMULATED: dict[str, Any] = {"device": "simulator", "sanitize": True}


def test_relational_convolution_runs_in_kernels() -> None:
    edges = GRAPHS["a hub"]
    given = arguments("rgcn", edges)
    run = layer("rgcn").on(graph_of(edges), **SIMULATED)
    np.testing.assert_allclose(run(**given), MODELS["rgcn"].reference(edges, **given), rtol=1e-10, atol=1e-12)
    assert run.forward.f.check().bits == "bits preserved"
    report = "\n".join(run.forward.report())
    assert "out: traversal, takes along sum, n, i on threads" in report and "on GPU 0" in report, report


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_its_dense_form_in_kernels(name: str, kind: str) -> None:
    edges = GRAPHS[kind]
    given = arguments(name, edges)
    run = layer(name).on(graph_of(edges), **SIMULATED)
    np.testing.assert_allclose(run(**given), MODELS[name].reference(edges, **given), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_in_kernels_are_those_of_cores(name: str) -> None:
    edges, made = GRAPHS["a hub"], layer(name)
    given = arguments(name, edges)
    weights = np.random.default_rng(3).standard_normal(MODELS[name].reference(edges, **given).shape)
    on_cores, simulated = made.on(graph_of(edges)), made.on(graph_of(edges), **SIMULATED)
    wanted = on_cores.gradients(weights, **given)
    for each, found in simulated.gradients(weights, **given).items():
        np.testing.assert_allclose(found, wanted[each], rtol=1e-12, atol=1e-14)


def scaled(g: Any, K: Any, s: Any) -> str:
    """Weights of the type of an edge's node, and a number for all: places of two indices, and a sum of everything."""
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += s * (e.src.a * K[e.src.ntype])
    return "out"


@pytest.mark.parametrize("on", [{}, SIMULATED], ids=["cores", "simulator"])
def test_sums_at_places_of_two_indices_and_of_everything(on: dict[str, Any]) -> None:
    edges, draw = GRAPHS["a hub"], np.random.default_rng(1)
    made = graphs.layer(scaled, node={"a": 2}, weights={"K": ("ntype", 2), "s": ()}, dtype=tm.float64)
    run = made.on(graph_of(edges), **on)
    a, k = draw.standard_normal((9, 2)), draw.standard_normal((2, 2))
    given = {"a": a, "K": k, "s": np.array(3.0)}
    terms = (a * k[edges.ntype])[edges.src]
    wanted = np.zeros((9, 2))
    np.add.at(wanted, edges.dst, 3.0 * terms)
    np.testing.assert_allclose(run(**given), wanted, rtol=1e-12)
    found = run.gradients(np.ones((9, 2)), **given)
    np.testing.assert_allclose(found["s"], terms.sum(), rtol=1e-12)
    of_types = np.zeros((2, 2))
    np.add.at(of_types, edges.ntype[edges.src], 3.0 * a[edges.src])
    np.testing.assert_allclose(found["K"], of_types, rtol=1e-12)


def test_devices_are_refused_by_name() -> None:
    def doubled(g: Any) -> str:
        for e in g.edges():
            e["out"] = 2.0 * e.length
        return "out"

    made, graph = graphs.layer(doubled, edge={"length": ()}), graphs.Graph([0], [0])
    with pytest.raises(tm.ArgumentError, match='device=\'cuda\': give "gpu", "gpu:1", "simulator", or none'):
        made.on(graph, device="cuda")
    with pytest.raises(tm.ArgumentError, match='sanitize=True is for the simulator: give device="simulator" with it'):
        made.on(graph, sanitize=True)
    with pytest.raises(tm.ArgumentError, match="launch_graph=True is for kernels of a GPU"):
        made.on(graph, launch_graph=True)
    with pytest.raises(tm.ArgumentError, match="for_torch takes tensors of the host, and doubled is on 'simulator'"):
        made.on(graph, device="simulator").for_torch()


def test_the_kernels_of_a_call_are_launched_as_graphs() -> None:
    edges, draw = GRAPHS["a hub"], np.random.default_rng(1)
    made = graphs.layer(scaled, node={"a": 2}, weights={"K": ("ntype", 2), "s": ()}, dtype=tm.float64)
    given = {"a": draw.standard_normal((9, 2)), "K": draw.standard_normal((2, 2)), "s": np.array(3.0)}
    plain = made.on(graph_of(edges), device="simulator")
    run = made.on(graph_of(edges), **SIMULATED, launch_graph=True)
    np.testing.assert_array_equal(run(**given), plain(**given))
    assert 1 <= run.forward.kernel.launches.graphs <= run.forward.kernel.launches.kernels
    found, wanted = (each.gradients(np.ones((9, 2)), **given) for each in (run, plain))
    for name, gradient in wanted.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-12)
    assert run.step.kernel.launches.kernels > run.step.kernel.launches.graphs


def test_independent_values_are_on_sequences_of_their_own() -> None:
    f = tm.Function("values", params=[N])
    x = f.input("x", tm.float32, [N])
    left, right = (f.computation(name, {n: N}, x[n] + number) for number, name in enumerate(("left", "right")))
    more = f.computation("more", {n: N}, right[n] * 2)
    both = f.computation("both", {n: N}, left[n] + more[n])
    alone, last = f.computation("alone", {n: N}, 3 * x[n]), f.computation("last", {n: N}, x[n] - 1)
    f.outputs(both, alone, last)
    assert sequences_of(f, 3) == {"left": 0, "right": 1, "more": 1, "both": 1, "alone": 2, "last": 0}
    assert set(sequences_of(f, 1).values()) == {0}


def kernels_of(run: graphs.GraphRun) -> set[Any]:
    """The GPU and the operation sequence of each kernel of a step."""
    program = run.step.f.program
    return {program.queue_of(each) for each in program.storing if program.kernel_of(each) is not None}


@pytest.mark.parametrize("launch_graph", [False, True])
@pytest.mark.parametrize("name", ["rgat", "rgcn"])
def test_sequences_change_no_bit(name: str, launch_graph: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = GRAPHS["a hub"]
    given, made = arguments(name, edges), layer(name)
    run = made.on(graph_of(edges), **SIMULATED, launch_graph=launch_graph)
    assert kernels_of(run) == {(0, 0), (0, 1), (0, 2), (0, 3)}
    assert run.step.f.check().bits == "bits preserved"
    weights = np.random.default_rng(3).standard_normal(MODELS[name].reference(edges, **given).shape)
    found = [run.gradients(weights, **given)]
    kernel = run.step.kernel
    for seed in range(1, 11):
        run.step.__dict__["kernel"] = kernel.seeded(seed, "lazy" if seed % 2 else "shuffled")
        found.append(run.gradients(weights, **given))
    monkeypatch.setattr(schedules, "sequences_of", lambda f, **_: dict.fromkeys(f.program.algorithm.computations, 0))
    alone = made.on(graph_of(edges), device="simulator")
    assert kernels_of(alone) == {(0, 0)}
    wanted = alone.gradients(weights, **given)
    for gradients in found:
        for each, gradient in gradients.items():
            np.testing.assert_array_equal(gradient, wanted[each])
