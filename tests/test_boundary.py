"""Boundary conditions, against arrays that NumPy has padded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, k = tm.iters("r c k")
MODES = {
    "repeat_edge": "edge",
    "repeat_image": "wrap",
    "mirror_image": "symmetric",
    "mirror_interior": "reflect",
    "constant": "constant",
}
#: The least size at which each reads no further than it may, for a reach of one.
LEAST = {"mirror_interior": 2}


def extended(name: str, source: tm.Input | tm.Computation, **options: Any) -> Any:
    make = getattr(tm.boundary, name)
    return make(source, 7, **options) if name == "constant" else make(source, **options)


def padded(name: str, a: np.ndarray[Any, Any], widths: Any) -> np.ndarray[Any, Any]:
    more: dict[str, Any] = {"constant_values": 7} if name == "constant" else {}
    return np.pad(a, widths, mode=MODES[name], **more)  # type: ignore[call-overload, no-any-return]


def weighted(near: Any, reach: int) -> tm.Expr:
    around = range(-reach, reach + 1)
    terms = [near[r + y, c + x] * np.int32(1 + y + 3 * x) for y in around for x in around]
    return sum(terms[1:], start=terms[0])


@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize("name", MODES)
def test_neighbours_beyond_the_ends_are_those_of_a_padded_array(name: str, reach: int) -> None:
    least = reach + (name == "mirror_interior")
    f = tm.Function("f", params=[R, C], assume=f"R >= {least} and C >= {least}")
    a = f.input("a", tm.int32, [R, C])
    b = f.computation("b", {r: R, c: C}, weighted(extended(name, a), reach))
    f.outputs(b)
    b.parallelize(r)
    b.vectorize(c, 8)
    kernel = f.compile()
    for rows, columns in ((1, 1), (1, 9), (2, 3), (3, 3), (4, 2), (5, 21)):
        if min(rows, columns) < least:
            continue
        given = np.random.default_rng(rows).integers(-9, 9, (rows, columns), np.int32)
        wide = padded(name, given, reach)
        around = [(y, x) for y in range(-reach, reach + 1) for x in range(-reach, reach + 1)]
        parts = [wide[reach + y :, reach + x :][:rows, :columns] * (1 + y + 3 * x) for y, x in around]
        np.testing.assert_array_equal(kernel(given), sum(parts))
        np.testing.assert_array_equal(f.evaluate(given), sum(parts))


@pytest.mark.parametrize("name", MODES)
def test_only_the_dimensions_that_are_named_have_no_ends(name: str) -> None:
    f = tm.Function("f", params=[R, C], assume="R >= 2 and C >= 2")
    a = f.input("a", tm.int32, [R, C, 3])
    near = extended(name, a, dims=[1])
    f.outputs(f.computation("b", {r: R, c: C, k: 3}, near[r, c - 1, k] + near[r, c + 1, k]))
    given = np.random.default_rng(0).integers(-9, 9, (4, 5, 3), np.int32)
    wide = padded(name, given, ((0, 0), (1, 1), (0, 0)))
    np.testing.assert_array_equal(f.compile()(given), wide[:, :-2] + wide[:, 2:])
    outside = tm.Function("g", params=[R, C], assume="R >= 2 and C >= 2")
    other = extended(name, outside.input("a", tm.int32, [R, C, 3]), dims=[-2])
    outside.outputs(outside.computation("b", {r: R, c: C, k: 3}, other[r + 1, c, k]))
    assert outside.check().violations[0].kind == "bounds"


def test_a_computation_ends_where_its_values_do() -> None:
    f = tm.Function("f", params=[R], assume="R >= 3")
    a = f.input("a", tm.int32, [R])
    inside = f.computation("inside", {r: (1, R - 1)}, a[r] * 2)
    near = tm.boundary.repeat_edge(inside)
    f.outputs(f.computation("b", {r: R}, near[r - 1] + near[r + 1]))
    given = np.arange(3, 9, dtype=np.int32)
    wide = np.pad(given[1:-1] * 2, 2, mode="edge")
    np.testing.assert_array_equal(f.compile()(given), wide[:-2] + wide[2:])


def test_what_reads_further_than_one_turn_is_refused_with_the_size_to_assume() -> None:
    for name in ("mirror_image", "mirror_interior"):
        f = tm.Function("f", params=[R])
        near = extended(name, f.input("a", tm.int32, [R]))
        f.outputs(f.computation("b", {r: R}, near[r + 2]))
        (first, *_) = f.check().violations
        assert first.kind == "bounds"
        assert f"assume R >= {2 + LEAST.get(name, 1) - 1}" in first.repair


def test_illegal_uses_are_refused() -> None:
    f = tm.Function("f", params=[R])
    a = f.input("a", tm.int32, [R])
    left_open = f.computation("left_open", [r], a[r])
    triangle = f.computation("triangle", {r: R, c: (0, r + 1)}, a[r])
    for bad, message in (
        (lambda: tm.boundary.repeat_edge(3), "3 is no array: give an input or a computation"),
        (lambda: tm.boundary.repeat_edge(a, dims=[1]), r"dims of a is \[1\]: it has dimensions 0 to 0"),
        (lambda: tm.boundary.repeat_edge(a, dims=["r"]), r"dims of a is \['r'\]: give numbers of dimensions"),
        (lambda: tm.boundary.repeat_edge(a)[r, c], "a has 1"),
        (lambda: tm.boundary.repeat_edge(left_open), "the domain of left_open follows from what is read of it"),
        (lambda: tm.boundary.repeat_edge(triangle), "triangle has values on no box"),
    ):
        with pytest.raises(tm.DeclarationError, match=message):
            bad()  # type: ignore[no-untyped-call]
