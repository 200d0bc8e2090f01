"""Adjoints of gathers where an inverse of the index is declared: sums over its runs, on threads, without atomics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.rewriting.judging import listed

(N, M, E, K), (n, p, k) = tm.params("N M E K"), tm.iters("n p k")


def messages(rows: Any = N, first: Any = 0, inverse: bool = True) -> tm.Function:
    """Messages of edges: a row of their source, weighed."""
    f = tm.Function("messages", params=[N, M, E, K], assume="N >= 1 and M >= N and E >= 1 and K >= 1")
    src = f.input("src", tm.int32, [E], values=(0, N))
    if inverse:
        f.inverse("into", src)
    h, w = f.input("h", tm.float64, [rows, K]), f.input("w", tm.float64, [E])
    f.outputs(f.computation("m", {p: (first, E), k: K}, h[src[p], k] * w[p]))
    return f


def given(edges: int = 9, rows: int = 4) -> dict[str, Any]:
    numbers = np.random.default_rng(0)
    src = numbers.integers(0, 4, edges).astype(np.int32)
    return {"src": src, "h": numbers.random((rows, 3)), "w": numbers.random(edges), "d_m": numbers.random((edges, 3))}


def expected(arguments: dict[str, Any], rows: int = 4) -> Any:
    found = np.zeros((rows, 3))
    np.add.at(found, arguments["src"], arguments["d_m"] * arguments["w"][:, None])
    return found


def gathers(f: tm.Function) -> bool:
    return "into_order" in str(tm.vjp(f, wrt=["h"]).step.algorithm.computations["d_h"].expr)


def test_rows_take_their_terms_on_threads_and_no_bit_changes() -> None:
    step = tm.vjp(messages(), wrt=["h"]).step
    step["d_h"].parallelize(tm.iters(step.algorithm.computations["d_h"].iterators[0])[0])
    report = step.check()
    assert report.ok and report.bits == "bits preserved"
    assert "atomic" not in step.source()["messages_step.c"]
    arguments = given()
    found = step.compile(threads=2)(**arguments, into=tm.inverse(arguments["src"], 4), M=4)[-1]
    np.testing.assert_array_equal(found, expected(arguments))


def test_both_functions_take_the_inverse_and_verify_it() -> None:
    g, arguments = tm.vjp(messages(), wrt=["h"]), given()
    into, weight = tm.inverse(arguments["src"], 4), arguments.pop("d_m")
    assert tm.check_gradient(g, **arguments, into=into, M=4).ok
    backward = g.backward
    own = {name: each for name, each in arguments.items() if name in backward.algorithm.inputs}
    assert "src" in own  # verified with the index of which it is the inverse
    (found,) = listed(backward.compile()(**own, into=into, d_m=weight, N=4, M=4))
    np.testing.assert_array_equal(found, expected({**arguments, "d_m": weight}))
    wrong = tm.inverse(np.roll(arguments["src"], 1), 4)
    with pytest.raises(tm.ArgumentError, match="into is not the inverse of src"):
        backward.compile()(**own, into=wrong, d_m=weight, N=4, M=4)


@pytest.mark.parametrize("changed", [{"rows": M}, {"first": 1}, {"inverse": False}])
def test_rows_without_runs_and_edges_left_out_are_scattered(changed: dict[str, Any]) -> None:
    f, rows = messages(**changed), 6 if "rows" in changed else 4
    assert gathers(messages()) and not gathers(f)
    step, arguments = tm.vjp(f, wrt=["h"]).step, given(rows=rows)
    found = step.compile()(**arguments_of(f, arguments), d_m=arguments["d_m"])[-1]
    if "first" in changed:
        arguments["d_m"][0] = 0
    np.testing.assert_array_equal(found, expected(arguments, rows))


def arguments_of(f: tm.Function, arguments: dict[str, Any]) -> dict[str, Any]:
    kept = {name: each for name, each in arguments.items() if name in f.algorithm.inputs}
    into = {"into": tm.inverse(arguments["src"], 4)} if "into_order" in f.algorithm.inputs else {}
    return {**kept, **into, "N": 4, "M": arguments["h"].shape[0]}


def test_rows_that_are_gathered_meet_their_weights_before_they_are_added_at_their_places() -> None:
    (d,), R, draw = tm.iters("d"), tm.params("R")[0], np.random.default_rng(7)
    f = tm.Function("typed", params=[N, E, R])
    src, types = f.input("src", tm.int32, [E], values=(0, N)), f.input("types", tm.int32, [E], values=(0, R))
    x, w = f.input("x", tm.float64, [N, 3]), f.input("w", tm.float64, [R, 3, 5])
    f.outputs(f.reduction("y", {p: E, d: 5}, {k: 3}, tm.sum, x[src[p], k] * w[types[p], k, d]))
    given = {
        "src": draw.integers(0, 6, 40).astype(np.int32), "types": draw.integers(0, 2, 40).astype(np.int32),
        "x": draw.standard_normal((6, 3)), "w": draw.standard_normal((2, 3, 5)),
    }  # fmt: skip
    weights = draw.standard_normal((40, 5))
    g = tm.vjp(f)
    work = {each.name: each.instances for each in g.step.cost(N=6, E=40, R=2).statements}
    assert work["d_x_of_y.update"] == 40 * 5 * 3, work
    rows = np.einsum("ed,ekd->ek", weights, given["w"][given["types"]])
    right = np.zeros((6, 3))
    np.add.at(right, given["src"], rows)
    for has_inverse in (False, True):
        if has_inverse:
            f.inverse("into", f["src"])
            g, given["into"] = tm.vjp(f), tm.inverse(given["src"], 6)
        found = dict(zip(g.wrt, g.step.compile()(**given, d_y=weights)[1:], strict=True))
        np.testing.assert_allclose(found["x"], right, rtol=1e-12, atol=1e-12)
        assert g.step.check().ok


def test_a_condition_under_which_weights_are_read_stays_with_them() -> None:
    f = tm.Function("chosen", params=[N, E], assume="N >= 1 and E >= 1")
    src, kinds = f.input("src", tm.int32, [E], values=(0, N)), f.input("kinds", tm.int32, [E], values=(0, E + 1))
    x, w = f.input("x", tm.float64, [N, 3]), f.input("w", tm.float64, [E, 3])
    f.outputs(f.reduction("y", {p: E}, {k: 3}, tm.sum, x[src[p], k] * w[kinds[p], k], where=kinds[p] < E))
    g = tm.vjp(f, wrt=["x"])
    assert g.step.check().ok
    draw = np.random.default_rng(3)
    given = {"src": np.array([0, 2, 2, 1], np.int32), "kinds": np.array([4, 0, 2, 4], np.int32)}
    assert tm.check_gradient(g, x=draw.random((3, 3)), w=draw.random((4, 3)), **given).ok
