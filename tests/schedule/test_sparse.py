"""Sparse formats and scatters: kernels and the adversarial machine against `evaluate()` and NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import sparse
from tests.programs.sparse import CASES, N, i, i0, i1, p, v
from tiramisu_py.interpret import run


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_computes_what_the_algorithm_says(name: str) -> None:
    case = CASES[name]
    f = case.make()
    report = f.check()
    assert report.ok, report
    assert (report.bits == "bits preserved") == case.exact
    kernel = f.compile(threads=2)
    for arguments in case.arguments():
        sparse.compare(kernel(**arguments), sparse.expected(f, arguments), case.exact)


@pytest.mark.parametrize("name", CASES)
def test_the_machine_agrees_in_any_order(name: str) -> None:
    case = CASES[name]
    f = case.make()
    function = f.show("lowered")
    for seed, arguments in enumerate(case.arguments()):
        wanted = sparse.expected(f, arguments)
        sizes = sizes_of(arguments)
        arrays = {n: np.copy(a) for n, a in arguments.items() if isinstance(a, np.ndarray)}
        (output,) = function.outputs
        arrays[output] = np.zeros(wanted.shape, wanted.dtype)
        run(function, arrays, {name: sizes[name] for name in function.params}, seed)
        sparse.compare(arrays[output], wanted, case.exact)


def sizes_of(arguments: dict[str, object]) -> dict[str, int]:
    """The sizes of the arrays, by the names that the programs give them."""
    shapes = {name: array.shape for name, array in arguments.items() if isinstance(array, np.ndarray)}
    found: dict[str, int] = {"N": arguments["N"]} if "N" in arguments else {}  # type: ignore[dict-item]
    for name, axis, param, more in (
        ("start", 0, "N", -1), ("length", 0, "N", 0), ("order", 0, "N", 0), ("column", 1, "N", 0),
        ("x", 0, "M", 0), ("value", 0, "P", 0), ("column", 0, "W", 0),
    ):  # fmt: skip
        if name in shapes and len(shapes[name]) > axis:
            found.setdefault(param, shapes[name][axis] + more)
    return found


@pytest.mark.parametrize("name", ["padded rows in strips", "padded rows with marks", "scatter, scalar"])
def test_no_vector_is_taken_apart(name: str) -> None:
    text = "".join(CASES[name].make().source().values())
    assert "for (int64_t lane" not in text


@pytest.mark.parametrize("name", ["padded rows, one by one", "rows on threads"])
def test_a_loop_ends_at_the_end_of_its_row(name: str) -> None:
    text = "".join(CASES[name].make().source().values())
    assert re.search(r"< \w+_high\)?; ", text)
    assert "if (w <" not in text


@pytest.mark.parametrize("make", [sparse.scatter, sparse.inverse])
@pytest.mark.parametrize(
    ("order", "words"),
    [([0, 2, 2], r"order\[2\] = 2, which occurs before"), ([0, 3, 1], r"order\[1\] = 3, but"), ([-1, 0, 1], "-1, but")],
)
def test_an_array_that_is_no_permutation_is_refused_when_called(make, order, words) -> None:
    f, _ = make()
    kernel = f.compile()
    arrays = {"order": np.array(order, np.int32), **({"a": np.ones(3, np.float32)} if make is sparse.scatter else {})}
    with pytest.raises(tm.ArgumentError, match=words):
        kernel(**arrays)


def test_starts_that_decrease_are_refused_when_called() -> None:
    kernel = CASES["entries of rows"].make().compile()
    with pytest.raises(tm.ArgumentError, match=r"start\[2\] = 1, which is less than the element before it"):
        kernel(start=np.array([0, 2, 1], np.int32), value=np.ones(2, np.float32), factor=np.ones(2, np.float32))


def test_the_report_says_which_facts_are_taken_on_trust() -> None:
    f = CASES["entries of rows"].make()
    assert "declared: start is monotone" in f.check().trusted
    kernel = f.compile(verify_values=False)
    start = np.array([0, 2, 2], np.int32)
    got = kernel(start=start, value=np.ones(2, np.float32), factor=np.array([3, 4], np.float32))
    np.testing.assert_array_equal(got, [3, 3])


def on_a_gpu(**facts: bool) -> tm.Function:
    f = tm.Function("inverse", params=[N])
    order = f.input("order", tm.int32, [N], values=(0, N), **facts)
    y = f.reduction("y", {v: N}, over={i: N}, op=tm.sum, expr=i, where=order[i] == v, dtype=tm.int64)
    f.outputs(y)
    y.init.split(v, 32, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    y.update.split(i, 32, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    return f


def test_threads_of_a_gpu_scatter_through_a_permutation() -> None:
    kernel = on_a_gpu(permutation=True).compile(device="simulator", sanitize=True)
    for size in (1, 31, 70):
        order = np.random.default_rng(size).permutation(size).astype(np.int32)
        np.testing.assert_array_equal(kernel(order), np.argsort(order))


def test_threads_of_a_gpu_are_refused_without_the_fact() -> None:
    violations = on_a_gpu().check().violations
    assert {each.kind for each in violations} == {"race"}
    assert all("if order is a permutation" in each.repair for each in violations)


def test_entries_of_one_row_are_not_added_at_once() -> None:
    f, y = sparse.coo()
    y.update.vectorize(p, 8)
    (found,) = f.check().violations
    assert (found.kind, found.witness.params) == ("race", {"N": 1, "M": 0, "P": 2})
    assert found.repair == "y.update.vectorize(p, 8, combine=tm.PRIVATE) keeps partial results apart and combines them"
