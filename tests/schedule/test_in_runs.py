"""Values of positions in a loop over the runs that these are in: the same values, whose matrices are read by runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.stage_stories import gemm

N, E, R = tm.params("N E R")
r, p, h, d, k = tm.iters("r p h d k")
DRAW = np.random.default_rng(0)


def products() -> tuple[tm.Function, tm.Reduction, Any]:
    """``out[p] = 2 x[src[p]] W[etype[p]]``, and the runs of types."""
    f = tm.Function("products", params=[N, E, R])
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    src = f.input("src", tm.int32, [E], values=(0, N))
    x, w = f.input("x", tm.float64, [N, 3]), f.input("w", tm.float64, [R, 2, 3, 4])
    msg = f.reduction("msg", {p: E, h: 2, d: 4}, {k: 3}, tm.sum, x[src[p], k] * w[etype[p], h, k, d])
    f.outputs(f.computation("out", {p: E, h: 2, d: 4}, 2 * msg[p, h, d] + etype[p]))
    return f, msg, f.segments("types", R, of=E, at=etype)


def arguments(lengths: list[int]) -> tuple[dict[str, Any], Any]:
    etype = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    given = {"etype": etype, "src": DRAW.integers(0, 9, len(etype)).astype(np.int32)}
    given |= {"x": DRAW.standard_normal((9, 3)), "w": DRAW.standard_normal((len(lengths), 2, 3, 4))}
    given["types"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    right = 2 * np.einsum("pk,phkd->phd", given["x"][given["src"]], given["w"][etype]) + etype[:, None, None]
    return given, right


@pytest.mark.parametrize("lengths", [[], [0, 0], [1], [3, 0, 40, 2], [5, 5, 0]], ids=str)
def test_values_in_runs_are_those_of_positions(lengths: list[int]) -> None:
    f, msg, types = products()
    msg.in_runs(types, r)
    report = f.check()
    assert report.ok and report.bits == "bits preserved"
    given, right = arguments(lengths)
    np.testing.assert_allclose(f.compile()(**given), right, rtol=1e-12)
    np.testing.assert_allclose(f.evaluate(**given), right, rtol=1e-12)


def test_loops_go_through_each_run_once_and_values_stay_by_position() -> None:
    f, msg, types = products()
    msg.in_runs(types)
    text = f.show("pseudocode")
    assert "for run in 0 .. R:" in text and "w[run, h, k, d]" in text, text
    assert "out[p, h, d] = 2.0 * msg[p, h, d]" in text, "readers do not look for the run"
    sizes: dict[str, int] = {"N": 9, "E": 45, "R": 4}
    assert next(each for each in f.cost(**sizes).arrays if each.name == "msg").elements == 45 * 8


def test_what_is_in_no_runs_is_refused_with_its_reason() -> None:
    def outputs(f: tm.Function, msg: Any, types: Any) -> None:
        f["out"].in_runs(types)

    def others(f: tm.Function, msg: Any, types: Any) -> None:
        other = f.computation("other", {p: E}, tm.cast(tm.float64, f["src"][p]))
        last = f.computation("last", {p: E}, other[p])
        f.outputs(f["out"], last, replace=True)
        other.in_runs(types)

    def inputs(f: tm.Function, msg: Any, types: Any) -> None:
        msg.in_runs(f["src"])

    def scheduled(f: tm.Function, msg: Any, types: Any) -> None:
        msg.update.reorder(k, p, h, d)
        msg.update.parallelize(p, combine=tm.PRIVATE)
        msg.in_runs(types)

    def by_search(f: tm.Function, msg: Any, types: Any) -> None:
        msg.in_runs(f.segments("found", R, of=E, found="search"))

    def nothing(f: tm.Function, msg: Any, types: Any) -> None:
        msg.in_runs(3)

    cases: list[tuple[Callable[..., None], str]] = [
        (outputs, "out is an output, or gathered: let another computation be it"),
        (others, r"other does not read etype\[p\], the run of one of its iterators: it is in no runs"),
        (inputs, r"src has no input with the run of each position: declare src = f\.segments"),
        (scheduled, "give in_runs first"),
        (by_search, r"found has no input with the run of each position: declare found = f\.segments"),
        (nothing, r"3 are no runs: declare types = f\.segments"),
    ]
    for wrong, words in cases:
        with pytest.raises(tm.CommandError, match=words):
            wrong(*products())


def test_positions_beyond_all_runs_are_refused() -> None:
    f = tm.Function("few", params=[E, R], assume="E >= 9")
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    first = f.computation("first", {p: (0, 9)}, etype[p] + 1)
    f.outputs(f.computation("out", {p: (0, 9)}, first[p]))
    first.in_runs(f.segments("types", R, of=E, at=etype), r)
    given = {"etype": np.repeat([0, 2], [4, 8]).astype(np.int32), "types": np.array([0, 4, 4, 12], np.int32)}
    np.testing.assert_array_equal(f.compile()(**given), given["etype"][:9] + 1)
    g = tm.Function("more", params=[E, R])
    etype = g.input("etype", tm.int32, [E], values=(0, R))
    more = g.computation("more", {p: E + 2}, tm.select(p < E, etype[p], 0))
    g.outputs(g.computation("out", {p: E + 2}, more[p]))
    with pytest.raises(tm.CommandError, match="more has values at p that are no positions of types, from 0 to E"):
        more.in_runs(g.segments("types", R, of=E, at=etype))


@pytest.mark.parametrize(
    "number",
    [
        lambda etype: tm.cast(tm.int64, etype[p]),
        lambda etype: etype[tm.cast(tm.int64, p)],
        lambda etype: etype[tm.cast(tm.int32, p)],
        lambda etype: tm.minimum(etype[p] + 1, R - 1),
        lambda etype: tm.minimum(tm.cast(tm.int64, etype[p]) + 1, R - 1),
        lambda etype: R - 1 - etype[p],
        lambda etype: tm.select(etype[p] > 1, etype[p] - 1, etype[p]),
    ],
    ids=["int64", "of int64", "of int32", "next", "next of int64", "from the end", "chosen"],
)
def test_conversions_and_arithmetic_of_the_run_are_as_they_were(number: Callable[[Any], Any]) -> None:
    """What is proven of values by position is proven of them by runs, and the values are the same."""
    f = tm.Function("converted", params=[E, R], assume="1 <= E <= 1000 and R >= 1")
    etype, w = f.input("etype", tm.int32, [E], values=(0, R)), f.input("w", tm.float64, [R])
    msg = f.computation("msg", {p: E}, w[number(etype)] + etype[p])
    f.outputs(f.computation("out", {p: E}, 2.0 * msg[p]))
    given = {"etype": np.repeat(np.arange(4), [3, 0, 4, 2]).astype(np.int32), "w": DRAW.standard_normal(4)}
    assert f.check().ok
    right = f.evaluate(**given)
    msg.in_runs(f.segments("types", R, of=E, at=etype), r)
    given["types"] = np.array([0, 3, 3, 7, 9], np.int32)
    assert f.check().bits == "bits preserved"
    np.testing.assert_array_equal(f.compile()(**given), right)


def test_a_position_that_a_conversion_may_change_is_no_position() -> None:
    f = tm.Function("wrapped", params=[E, R], assume="300 <= E and R >= 1")
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    msg = f.computation("msg", {p: 300}, tm.cast(tm.float64, etype[tm.cast(tm.uint8, p)]))
    f.outputs(f.computation("out", {p: 300}, msg[p]))
    with pytest.raises(tm.CommandError, match=r"msg does not read etype\[p\]"):
        msg.in_runs(f.segments("types", R, of=E, at=etype))


def test_integers_that_are_read_as_indices_keep_what_is_known_of_them() -> None:
    f = tm.Function("places", params=[E, R], assume="R >= 1")
    etype, w = f.input("etype", tm.int32, [E], values=(0, R)), f.input("w", tm.float64, [R])
    place = f.computation("place", {p: E}, tm.maximum(etype[p] - 1, 0))
    f.outputs(f.computation("out", {p: E}, w[place[p]]))
    place.in_runs(f.segments("types", R, of=E, at=etype))
    given = {"etype": np.array([0, 2, 2], np.int32), "types": np.array([0, 1, 1, 3], np.int32), "w": np.arange(3.0)}
    np.testing.assert_array_equal(f.compile()(**given), [0.0, 1.0, 1.0])


def test_gradients_of_values_in_runs_are_those_of_positions() -> None:
    given, right = arguments([3, 0, 12, 2])
    found = []
    for in_runs in (False, True):
        f, msg, types = products()
        if in_runs:
            msg.in_runs(types, r)
        g = tm.vjp(f, wrt=["x", "w"])
        needed = {name: value for name, value in given.items() if name in g.step.algorithm.inputs}
        sizes = {"N": 9, "E": 17, "R": 4}
        needed |= {name: value for name, value in sizes.items() if name in g.step.algorithm.params}
        cotangent = {name: np.ones_like(right) for name in g.step.algorithm.inputs if name not in given}
        found.append(g.step.evaluate(**needed, **cotangent))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_values_that_a_stage_reads_stay_by_position() -> None:
    f = tm.Function("staged", params=[E, R])
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    a, w = f.input("a", tm.float32, [E, 4]), f.input("w", tm.float32, [R])
    msg = f.computation("msg", {p: E, k: 4}, a[p, k] * w[etype[p]])
    b = f.input("b", tm.float32, [4, 3])
    f.outputs(f.stage("c", {p: E, d: 3}, gemm(E, 3, 4, msg[p, k], b[k, d]), over={k: 4}))
    with pytest.raises(tm.CommandError, match="c is a call of a stage that reads msg: its values stay by position"):
        msg.in_runs(f.segments("types", R, of=E, at=etype))
