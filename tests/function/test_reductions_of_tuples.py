"""Reductions to several values, combined wherever single values are: beside NumPy, and bit for bit in their trees."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.function.test_reduction_forms import (
    EXTENTS,
    a_block_each,
    a_warp_each,
    b,
    i,
    i0,
    i1,
    k,
    k0,
    k1,
    k2,
    side_by_side,
    t,
    two_passes,
)
from tests.selection import covering
from tiramisu_py.backends import emit
from tiramisu_py.interpret import run
from tiramisu_py.toolchain import open_cache
from tiramisu_py.toolchain.compilers.mpi import mpi4py
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

N, K = tm.params("N K")
q = tm.iters("q")[0]
ZERO, ONE = np.float32(0), np.float32(1)
SEEDS = 20
Schedule = Callable[[tm.Function, Any], Any]


def _merged(a: Any, b: Any) -> Any:
    """Number, mean and squared distances of the values of both (Welford)."""
    (n, mean, squares), (m, other, others) = a, b
    share = tm.select(n + m == 0, ZERO, m / (n + m))
    apart = other - mean
    return n + m, mean + apart * share, squares + others + apart * apart * n * share


def _rescaled(a: Any, b: Any) -> Any:
    """The largest value, and the sum of powers relative to it (softmax in one pass)."""
    (x, total), (y, other) = a, b
    top = tm.max(x, y)
    mine, others = (tm.select(each == -np.inf, ZERO, tm.exp(each - top)) for each in (x, y))
    return top, total * mine + other * others


WELFORD = tm.operator("welford", _merged, (ZERO,) * 3, names=("count", "mean", "squares"))
SOFTMAX = tm.operator("softmax", _rescaled, (-np.inf, ZERO), names=("top", "total"))
#: Each operator, the type of its terms, and the tuple made of a term.
OPERATORS: dict[str, tuple[Any, tm.DType, Callable[[Any], Any]]] = {
    "argmin of floats": (tm.argmin, tm.float32, lambda x: x),
    "argmax of floats": (tm.argmax, tm.float32, lambda x: x),
    "argmin of integers": (tm.argmin, tm.int32, lambda x: (x, tm.cast(tm.int32, k))),
    "argmax of integers": (tm.argmax, tm.int32, lambda x: x),
    "welford": (WELFORD, tm.float32, lambda x: (tm.cast(tm.float32, 1), x, tm.cast(tm.float32, 0))),
    "softmax": (SOFTMAX, tm.float32, lambda x: (x, tm.cast(tm.float32, 1))),
}
FORMS = {"rows": 1, "columns": 0}
SPECIALS = ((np.nan,), (np.inf, -np.inf), (-0.0,), (-np.inf, np.nan, -0.0))


def reduced(operator: str, form: str = "rows") -> tuple[tm.Function, Any]:
    """A reduction of each row, or of each column, to a tuple."""
    op, dtype, term = OPERATORS[operator]
    f = tm.Function("reduced", params=[N, K], assume="K >= 1")
    a = f.input("a", dtype, [N, K] if form == "rows" else [K, N])
    s = f.reduction("s", {i: N}, {k: K}, op, term(a[i, k] if form == "rows" else a[k, i]))
    f.outputs(s)
    return f, s


def sample(operator: str, form: str, extent: int, values: tuple[float, ...] = ()) -> Any:
    """Three rows or columns with many ties, and these values in some places."""
    dtype, random = OPERATORS[operator][1], np.random.default_rng(extent)
    found = random.integers(-3, 4, (3, extent)).astype(dtype.numpy)
    for value in values:
        found[random.random(found.shape) < 0.1] = value
    return found if form == "rows" else np.ascontiguousarray(found.T)


def expect(operator: str, form: str, x: Any, found: tuple[Any, ...]) -> None:
    """Raise unless the components are what NumPy finds."""
    axis = FORMS[form]
    if operator.startswith("arg"):
        ends = np.argmin if operator.startswith("argmin") else np.argmax
        index = ends(x, axis=axis)
        chosen = np.take_along_axis(x, np.expand_dims(index, axis), axis).squeeze(axis)
        np.testing.assert_array_equal(found[1], index)
        np.testing.assert_array_equal(found[0], chosen)
        np.testing.assert_array_equal(np.signbit(found[0]), np.signbit(chosen))
    elif operator == "welford":
        wide = x.astype(np.float64)
        assert (found[0] == x.shape[axis]).all()
        np.testing.assert_allclose(found[1], wide.mean(axis), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found[2] / found[0], wide.var(axis), rtol=1e-4, atol=1e-5)
    else:
        top = x.max(axis, keepdims=True)
        np.testing.assert_array_equal(found[0], top.squeeze(axis))
        np.testing.assert_allclose(found[1], np.exp(x.astype(np.float64) - top).sum(axis), rtol=1e-5)


def a_few_columns(f: tm.Function, s: Any) -> None:
    """Threads share rows, and each has its own copy of all columns."""
    s.update.reorder(k, i)
    s.update.parallelize(k, combine=tm.PRIVATE)


def lanes_of_threads(f: tm.Function, s: Any) -> None:
    s.update.split(k, 32, k0, k1)
    s.update.parallelize(k0, combine=tm.PRIVATE).vectorize(k1, 8, combine=tm.PRIVATE)


def lanes_of_chunks(f: tm.Function, s: Any) -> None:
    s.update.split(k, 64, k0, k1)
    s.update.parallelize(k0, combine=tm.TREE)
    f["s_chunks"].update.vectorize(k1, 16, combine=tm.PRIVATE)


ON_CORES: dict[str, tuple[str, Schedule]] = {
    "lanes": ("rows", lambda f, s: s.update.vectorize(k, 8, combine=tm.PRIVATE)),
    "lanes of several registers": ("rows", lambda f, s: s.update.vectorize(k, 64, combine=tm.PRIVATE)),
    "copies of threads": ("rows", lambda f, s: s.update.parallelize(k, combine=tm.PRIVATE)),
    "copies of columns": ("columns", a_few_columns),
    "lanes of threads": ("rows", lanes_of_threads),
    "lanes of chunks in a tree": ("rows", lanes_of_chunks),
}  # fmt: skip


@pytest.mark.parametrize(("operator", "schedule"), covering([*OPERATORS], [*ON_CORES]))
def test_lanes_and_threads_combine_tuples(operator: str, schedule: str) -> None:
    form, scheduled = ON_CORES[schedule]
    f, s = reduced(operator, form)
    scheduled(f, s)
    assert f.check().ok, f.check()
    kernel = f.compile(threads=2)
    for extent in EXTENTS[1:]:
        expect(operator, form, sample(operator, form, extent), kernel(sample(operator, form, extent)))
    if operator.endswith("floats"):
        for values in SPECIALS:
            x = sample(operator, form, 97, values)
            expect(operator, form, x, kernel(x))
    if f.check().determinism["s"] == "everywhere" and operator != "softmax":  # exp is the C library's
        x = np.random.default_rng(0).standard_normal(sample(operator, form, 257).shape).astype(np.float32)
        for found, wanted in zip(kernel(x), f.evaluate(x, as_scheduled=True), strict=True):
            assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("schedule", ["lanes", "copies of columns", "lanes of threads"])
def test_the_machine_combines_copies_of_tuples_in_any_order(schedule: str) -> None:
    form, scheduled = ON_CORES[schedule]
    f, s = reduced("argmax of floats", form)
    scheduled(f, s)
    function = f.show("lowered")
    for seed in range(SEEDS):
        x = sample("argmax of floats", form, 33, (np.nan, -0.0))
        found = {"s_value": np.zeros(3, np.float32), "s_index": np.zeros(3, np.int64)}
        run(function, {"a": x, **found}, {"N": 3, "K": 33}, seed=seed)
        expect("argmax of floats", form, x, (found["s_value"], found["s_index"]))


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_lanes_of_tuples_are_whole_vectors(vector_bytes: int) -> None:
    f, s = reduced("argmin of integers")
    s.update.vectorize(k, 16, combine=tm.PRIVATE)
    text, vector = emit(f.show("lowered", vector_bytes))["reduced.c"], f"int32x{vector_bytes // 4}"
    assert f"{vector} s_value_partial" in text and f"{vector} s_index_partial" in text and "lane < " not in text


@pytest.mark.parametrize("rows_inside", [False, True])
def test_lanes_of_guarded_terms_and_of_several_elements_are_right(rows_inside: bool) -> None:
    f = tm.Function("f", params=[N, K], assume="K >= 1")
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.argmax, a[i, k], where=k <= 20 * i)
    f.outputs(s)
    if rows_inside:  # a lane then has terms of all rows
        s.update.reorder(k, i)
    s.update.vectorize(k, 8, combine=tm.PRIVATE)
    assert f.check().ok, f.check()
    kernel = f.compile()
    for extent in EXTENTS[1:]:
        x = sample("argmax of floats", "rows", extent, (np.nan, -0.0))
        for found, wanted in zip(kernel(x), f.evaluate(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_lanes_whose_value_is_a_half_are_combined_one_by_one() -> None:
    f = tm.Function("f", params=[N, K], assume="K >= 1")
    a = f.input("a", tm.float16, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.argmax, a[i, k])
    f.outputs(s)
    s.update.vectorize(k, 8, combine=tm.PRIVATE)
    kernel = f.compile()
    for extent in EXTENTS[1:]:
        x = sample("argmax of floats", "rows", extent, (np.nan, np.inf)).astype(np.float16)
        expect("argmax of floats", "rows", x, kernel(x))


def last_block(f: tm.Function, s: Any) -> None:
    s.update.split(k, 128, b, k1)
    s.update.split(k1, 32, k2, t)
    s.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE, across=tm.LAST_BLOCK)
    f.derive_transfers()


def columns_by_warps(f: tm.Function, s: Any) -> None:
    """8 columns a block, 32 threads each."""
    s.split(i, 8, i0, i1)
    s.update.split(k, 32, k0, t)
    s.update.reorder(i0, t, i1, k0)
    s.init.tag_gpu(blocks=[i0], threads=[i1])
    s.update.tag_gpu(blocks=[i0], threads=[t, i1], combine=tm.TREE)
    f.derive_transfers()


def half_warps(f: tm.Function, s: Any) -> None:
    s.split(i, 4, i0, i1)
    s.update.split(k, 16, k0, t)
    s.init.tag_gpu(blocks=[i0], threads=[i1])
    s.update.tag_gpu(blocks=[i0], threads=[i1, t], combine=tm.TREE)
    f.derive_transfers()


def whole_warps(f: tm.Function, s: Any) -> None:
    """Three warps: shuffles within each, and over their results."""
    s.update.split(k, 96, k0, t)
    s.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    f.derive_transfers()


def four_at_once(f: tm.Function, s: Any) -> None:
    """Each thread takes four neighbours, in lanes of its own."""
    s.update.split(k, 128, k0, k1)
    s.update.split(k1, 4, t, k2)
    s.update.vectorize(k2, 4, combine=tm.PRIVATE)
    s.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    f.derive_transfers()


ON_GPUS: dict[str, tuple[str, Schedule]] = {
    "four at once": ("rows", four_at_once),
    "48 threads a row": ("rows", a_block_each), "three warps a row": ("rows", whole_warps),
    "a warp a row": ("rows", a_warp_each), "half a warp a row": ("rows", half_warps),
    "4 threads a column": ("columns", side_by_side), "32 x 8 for columns": ("columns", columns_by_warps),
    "two passes": ("rows", two_passes), "the last block": ("rows", last_block),
}  # fmt: skip


@pytest.mark.parametrize(("operator", "schedule"), covering([*OPERATORS], [*ON_GPUS]))
def test_threads_of_a_block_combine_tuples(operator: str, schedule: str) -> None:
    form, scheduled = ON_GPUS[schedule]
    f, s = reduced(operator, form)
    scheduled(f, s)
    assert f.check().ok, f.check()
    kernel = f.compile(device="simulator", sanitize=True)
    for extent in EXTENTS[1:]:
        x = sample(operator, form, extent)
        for seed in range(SEEDS if extent == 33 else 2):
            expect(operator, form, x, kernel.seeded(seed)(x))
    if operator.endswith("floats"):
        for values in SPECIALS:
            x = sample(operator, form, 33, values)
            expect(operator, form, x, kernel(x))
    if operator != "softmax":  # exp is the C library's
        x = sample(operator, form, 97)
        for found, wanted in zip(kernel(x), f.evaluate(x, as_scheduled=True), strict=True):
            assert found.tobytes() == wanted.tobytes()


def test_the_tree_of_a_tuple_has_the_bits_of_the_schedule_everywhere() -> None:
    f, s = reduced("welford")
    whole_warps(f, s)
    assert f.check().determinism["s"] == "everywhere"
    kernel, other = f.compile(device="simulator"), False
    for seed in range(SEEDS):
        x = (np.random.default_rng(seed).standard_normal((2, 257)) * 100).astype(np.float32)
        found, wanted, serial = kernel.seeded(seed)(x), f.evaluate(x, as_scheduled=True), f.evaluate(x)
        assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted]
        other |= found[1].tobytes() != serial[1].tobytes()
    assert other  # or the test would show nothing
    f, s = reduced("argmax of floats")
    whole_warps(f, s)
    assert f.check().determinism["s"] == "ordered"


def test_a_kernel_goes_on_with_a_tuple_in_every_thread() -> None:
    f = tm.Function("softmax", params=[N, K], assume="K >= 1")
    x = f.input("x", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, SOFTMAX, (x[i, k], tm.cast(tm.float32, 1)))
    y = f.computation("y", {i: N, k: K}, tm.exp(x[i, k] - s[i]["top"]) / s[i]["total"])
    f.outputs(y)
    for each in (s, y):
        each.split(i, 4, i0, i1)
    for terms in (s.update, y):
        terms.split(k, 32, k0, t)
    f.order(s.init, s.update, y, at=i1)
    y.tag_gpu(blocks=[i0], threads=[i1, t])
    s.update.tag_gpu(threads=[i1, t], combine=tm.TREE)
    s.store_in(tm.REGISTER).store_at(y, i1)
    f.derive_transfers()
    text = f.source()["softmax.cu"]
    assert "TM_SHARED" not in text and "TM_BARRIER" not in text and text.count("TM_KERNEL") == 1
    kernel = f.compile(device="simulator", sanitize=True)
    for extent in EXTENTS[1:]:
        given = np.random.default_rng(extent).standard_normal((5, extent)).astype(np.float32)
        power = np.exp(given.astype(np.float64) - given.max(1, keepdims=True))
        np.testing.assert_allclose(kernel(given), power / power.sum(1, keepdims=True), rtol=1e-5)


def test_trees_of_tuples_and_of_single_values_share_barriers() -> None:
    f = tm.Function("both", params=[N, K], assume="K >= 1")
    x = f.input("x", tm.float32, [N, K])
    top = f.reduction("top", {i: N}, {k: K}, tm.argmax, x[i, k])
    total = f.reduction("total", {i: N}, {k: K}, tm.sum, x[i, k])
    f.outputs(top, total)
    for each in (top, total):
        each.update.split(k, 96, k0, t)
        each.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    f.order(top.init, total.init, top.update, total.update, at=i)
    f.derive_transfers()
    text = f.source()["both.cu"]
    assert text.count("TM_KERNEL") == 1 and text.count("TM_BARRIER") == 1
    kernel = f.compile(device="simulator", sanitize=True)
    for extent in EXTENTS[1:]:
        given = sample("argmax of floats", "rows", extent)
        value, index, found = kernel(given)
        expect("argmax of floats", "rows", given, (value, index))
        np.testing.assert_array_equal(found, given.sum(1))


def test_blocks_do_not_merge_several_values_into_one_element() -> None:
    f, s = reduced("argmin of floats")
    s.update.split(k, 128, b, t)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE)
    f.derive_transfers()
    (found,) = f.check().violations
    assert found.kind == "reduction" and "several blocks merge what they collect into s[0]" in found.message
    assert "each is in an array of its own" in found.message
    assert found.repair == ("give the command that runs s.update across=tm.TWO_PASS or across=tm.LAST_BLOCK")
    assert found.witness.params == {"N": 1, "K": 129}
    f.undo()
    f.undo()
    s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE, across=tm.TWO_PASS)
    f.derive_transfers()
    x = sample("argmin of floats", "rows", 1025)
    expect("argmin of floats", "rows", x, f.compile(device="simulator")(x))


FOR_NVCC = [
    ("welford", "three warps a row"), ("argmax of floats", "two passes"), ("softmax", "32 x 8 for columns"),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "schedule"), FOR_NVCC)
def test_a_cuda_compiler_takes_trees_of_tuples(operator: str, schedule: str) -> None:
    found = find_nvcc(open_cache())
    if isinstance(found, str):
        pytest.skip(found)
    form, scheduled = ON_GPUS[schedule]
    f, s = reduced(operator, form)
    scheduled(f, s)
    kernel = f.compile(device="gpu", architectures=["sm_75", "sm_80", "sm_90"])
    shared = {f"reduced_{facts.name}": facts.shared_bytes for facts in f.cost("kernels", kernel)}
    for name, by_architecture in kernel.resources.items():
        for resources in by_architecture.values():
            assert not resources.spilled_bytes and 0 <= resources.shared_bytes - shared[name] < 32


def on_ranks(operator: str, extent: int, ranks: int, threads: bool = False) -> tuple[tm.Function, int]:
    """Three rows whose columns are dealt out to ranks, and the number of columns of each."""
    op, dtype, term = OPERATORS[operator]
    share = max(-(-extent // ranks), 1)
    f = tm.Function("dealt", params=[])
    a = f.input("a", dtype, [3, extent])
    s = f.reduction("s", {i: 3}, {k: extent}, op, term(a[i, k]))
    f.outputs(s)
    a.distribute_array([i, k], rank=k // share)
    s.update.split(k, share, q, k1)
    s.update.reorder(q, i, k1)
    s.update.tag_distribute(q, combine=tm.TREE)
    if threads:
        s.update.parallelize(k1, combine=tm.PRIVATE)
    return f, share


def merged_by_halves(x: Any, share: int, ranks: int) -> list[Any]:
    """Welford of one row in float32, each rank's terms in their order, and then the ranks by halves."""

    def merged(a: Any, b: Any) -> Any:
        (n, mean, squares), (m, other, others) = a, b
        weight = ZERO if n + m == 0 else np.float32(m / (n + m))
        apart = other - mean
        return n + m, mean + apart * weight, squares + others + apart * apart * n * weight

    parts: list[Any] = [(ZERO,) * 3] * ranks
    for number, term in enumerate(x):
        parts[number // share] = merged(parts[number // share], (ONE, term, ZERO))
    step = 1
    while 2 * step < len(parts):
        step *= 2
    while len(parts) > 1:
        for low in range(len(parts) - step):
            parts[low] = merged(parts[low], parts[low + step])
        parts, step = parts[:step], step // 2
    return list(merged((ZERO,) * 3, parts[0]))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_ranks_combine_tuples_in_a_tree(ranks: int) -> None:
    for operator in OPERATORS:
        f, share = on_ranks(operator, 7 * 5, ranks, threads=operator == "softmax")
        assert f.check().ok, f.check()
        needed = -(-35 // share)
        for values in SPECIALS if operator.endswith("floats") else ((),):
            x = sample(operator, "rows", 35, values)
            expect(operator, "rows", x, f.simulate(needed, a=x))
    f, share = on_ranks("welford", 35, ranks)
    assert f.check().determinism["s"] == ("everywhere" if ranks > 1 else "ordered")
    for seed in range(SEEDS):
        x = np.random.default_rng(seed).standard_normal((3, 35)).astype(np.float32)
        found = f.simulate(needed, seed, a=x)
        for row in range(3):
            assert [each[row] for each in found] == merged_by_halves(x[row], share, needed)


def test_mpi_combines_no_tuples_in_an_order_of_its_own() -> None:
    f, _ = on_ranks("argmax of floats", 35, 4)
    f.undo()
    with pytest.raises(tm.CommandError, match="MPI does not combine several values at once"):
        f["s"].update.tag_distribute(q, combine=tm.PRIVATE)


@pytest.mark.mpi(4)
def test_real_ranks_have_the_tuples_of_simulated_ones() -> None:
    comm = mpi4py().COMM_WORLD
    for operator in OPERATORS:
        f, _ = on_ranks(operator, 97, 4)
        x = sample(operator, "rows", 97)
        found = f.compile()(f.part("a", x, comm.rank), comm=comm)
        expect(operator, "rows", x, found)
        if operator != "softmax":  # exp is the C library's
            assert [each.tobytes() for each in found] == [each.tobytes() for each in f.simulate(4, a=x)]


def test_pseudocode_names_all_components() -> None:
    f, s = reduced("welford")
    whole_warps(f, s)
    assert re.search(
        r"_count\[\], \w+_mean\[\], \w+_squares\[\] = welford of .* over threadIdx.x", f.show("pseudocode")
    )
