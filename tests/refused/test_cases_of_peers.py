"""Programs at which peers failed, as their users reported them: each is right here, or refused with a counterexample.

A test names the thread: the project, and the number of its issue.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M, T = tm.params("N M T")
i, j, k, t = tm.iters("i j k t")
i0, i1, j0, j1, q = tm.iters("i0 i1 j0 j1 q")


def agrees(f: tm.Function, **given: Any) -> None:
    """The compiled program computes what the algorithm says."""
    expected = f.evaluate(**{name: np.copy(each) for name, each in given.items()})
    np.testing.assert_array_equal(f.compile()(**given), expected)


def line(count: int) -> Any:
    return np.arange(count, dtype=np.int32)


def doubled(is_output: bool = True) -> tuple[tm.Function, Any, Any]:
    f = tm.Function("doubled", params=[N])
    a = f.input("a", tm.int32, [N])
    b = f.computation("b", {i: N}, 2 * a[i])
    if is_output:
        f.outputs(b)
    return f, a, b


def grid() -> tuple[tm.Function, Any, Any]:
    f = tm.Function("grid", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    b = f.computation("b", {i: N, j: M}, a[i, j] + 1)
    f.outputs(b)
    return f, a, b


def witness_of(f: tm.Function, kind: str) -> tm.Violation:
    (found,) = [v for v in f.check().violations if v.kind == kind]
    return found


# -- TIRAMISU


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_tiramisu_197_a_vector_loop_has_fewer_iterations_than_lanes(count: int) -> None:
    f, _, b = doubled()
    b.vectorize(i, 8)
    agrees(f, a=line(count))


def test_tiramisu_257_a_tag_stays_on_its_loop_when_others_move() -> None:
    f, _, b = grid()
    b.unroll(j, 4)
    b.split(i, 8, i0, i1)
    text = str(f.show("pseudocode"))
    assert "unroll" in next(part for part in text.splitlines() if " j" in part)
    agrees(f, a=line(13 * 9).reshape(13, 9))


def test_tiramisu_169_tiles_vectors_and_unrolling_together() -> None:
    f, _, b = grid()
    b.tile(i, j, 4, 16, i0, j0, i1, j1).vectorize(j1, 8).unroll(i1)
    for rows, columns in ((1, 1), (4, 16), (5, 17), (13, 31)):
        agrees(f, a=line(rows * columns).reshape(rows, columns))


def test_tiramisu_344_a_loop_of_one_iteration_stays() -> None:
    """A batch of one image, tiled along the batch."""
    f = tm.Function("batch", params=[N])
    a = f.input("a", tm.int32, [1, N])
    b = f.computation("b", {i: 1, j: N}, a[i, j] * 3)
    f.outputs(b)
    b.split(i, 4, i0, i1).parallelize(i0).vectorize(j, 4)
    agrees(f, a=line(6).reshape(1, 6))


def test_tiramisu_111_a_vector_loop_leaves_the_loop_over_ranks() -> None:
    f = tm.Function("parts")
    a = f.input("a", tm.int32, [4, 20])
    b = f.computation("b", {i: 4, j: 20}, a[i, j] + 1)
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([i, j], rank=i)
    b.tag_distribute(i)
    b.vectorize(j, 8)
    whole = line(80).reshape(4, 20)
    assert "rank" in str(f.show("pseudocode"))
    np.testing.assert_array_equal(f.simulate(4, a=whole), whole + 1)


def test_tiramisu_300_an_order_against_a_dependence_is_refused() -> None:
    f, _, b = doubled(is_output=False)
    c = f.computation("c", {i: N}, b[i] + 1)
    f.outputs(c)
    b.after(c, tm.root)
    found = witness_of(f, "order")
    assert found.witness.params == {"N": 1} and found.witness.reader == ("c", (0,))


def test_tiramisu_421_computations_without_an_order_are_not_fused() -> None:
    """Two stages that nobody orders run as they are declared, whatever loops they have."""
    f, a, b = doubled(is_output=False)
    c = f.computation("c", {i: N}, a[i] - b[N - 1 - i])
    f.outputs(b, c)
    agrees(f, a=line(5))
    assert str(f.show("pseudocode")).count("for i") == 2


def test_tiramisu_422_a_parallel_loop_that_another_command_makes_wrong_is_refused() -> None:
    f = tm.Function("sweep", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    b = f.computation("b", {i: N, j: M}, lambda b: tm.select(i == 0, a[i, j], b[i - 1, j] + a[i, j]))
    f.outputs(b)
    b.interchange(i, j).parallelize(j)
    assert f.check().ok
    b.interchange(j, i)
    assert f.check().ok  # the tag is on j, wherever j is
    agrees(f, a=line(12).reshape(4, 3))
    f.undo()
    f.undo()
    b.parallelize(i)
    assert f.check().violations[0].witness.params == {"N": 2, "M": 1}


# -- loopy, DaCe


def test_loopy_724_a_product_whose_terms_precede_their_start_is_refused() -> None:
    f = tm.Function("product", params=[N])
    a, b = f.input("a", tm.int32, [N, N]), f.input("b", tm.int32, [N, N])
    c = f.reduction("c", {i: N, j: N}, {k: N}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    c.update.split(k, 4, i0, i1)
    c.init.after(c.update, tm.root)
    assert not f.check().ok
    assert f.check().violations[0].witness.params == {"N": 1}


def test_dace_2247_a_parallel_loop_that_stores_twice_to_an_element_is_refused() -> None:
    f, _, b = doubled()
    b.store_in([i % 2])
    b.parallelize(i)
    assert not f.check().ok
    assert f.check().violations[0].witness.params == {"N": 3}


# -- TVM


def test_tvm_15911_a_reader_computed_in_tiles_of_its_producer_computes_all() -> None:
    f = tm.Function("chain", params=[N])
    a, b = f.input("a", tm.float32, [N]), f.input("b", tm.float32, [N])
    c = f.computation("c", {i: N}, a[i] + b[i])
    d = f.computation("d", {i: N}, c[i] + c[i])
    e = f.computation("e", {i: N}, d[i] + a[i])
    f.outputs(e)
    d.split(i, 32, i0, i1)
    c.compute_at(d, i0)
    e.reverse_compute_at(d, i0)
    values = np.arange(1000, dtype=np.float32)
    agrees(f, a=values, b=values[::-1].copy())


# -- Halide


def test_halide_8607_an_output_that_is_computed_at_a_loop_of_another_is_not_ignored() -> None:
    """The command does what it says, or is refused; it is not dropped."""
    f, _, b = doubled(is_output=False)
    c = f.computation("c", {i: N}, b[i] + 1)
    f.outputs(b, c)
    try:
        b.compute_at(c, i)
    except tm.CommandError as refused:
        assert "b" in str(refused)
    else:
        assert str(f.show("pseudocode")).count("for i") == 1
        agrees(f, a=line(5))


def test_halide_6808_a_condition_does_not_hide_a_race() -> None:
    """Halide took a loop with a condition for one without races."""
    f = tm.Function("some", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k], where=a[i, k] > 2)
    f.outputs(s)
    s.update.interchange(i, k).parallelize(k)
    found = witness_of(f, "race")
    assert found.witness.params == {"N": 1, "M": 2}
    assert "combine=tm.PRIVATE" in found.repair


# -- Exo


def test_exo_779_the_remainder_of_a_negative_number_is_that_of_the_language() -> None:
    f = tm.Function("wrap", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    b = f.computation("b", {i: N}, a[(i - 3) % N] + (i - 3) // 2 + (i - 3) % 4)
    f.outputs(b)
    values = line(5)
    expected = [values[(x - 3) % 5] + (x - 3) // 2 + (x - 3) % 4 for x in range(5)]
    np.testing.assert_array_equal(f.compile()(a=values), expected)


def test_exo_314_loops_of_a_triangle_are_interchanged() -> None:
    """Bounds follow: no iterator is used outside of its loop."""
    f = tm.Function("triangle", params=[N])
    a = f.input("a", tm.int32, [N, N])
    b = f.computation("b", {i: N, j: i + 1}, a[i, j] * 2)
    f.outputs(b)
    b.interchange(i, j)
    agrees(f, a=line(25).reshape(5, 5))


def test_exo_287_fusing_a_stencil_with_its_producer_needs_a_shift_that_is_found() -> None:
    f, _, b = doubled(is_output=False)
    c = f.computation("c", {i: N - 1}, b[i] + b[i + 1])
    f.outputs(c)
    b.fuse(c, i)
    assert witness_of(f, "order").witness.reader == ("c", (0,))
    f.undo()
    b.fuse(c, i, shift=True)
    agrees(f, a=line(9))


# -- Devito: ranks whose part is smaller than a stencil reaches


@pytest.mark.parametrize("reach", [1, 3, 4])
def test_devito_836_1331_1896_a_halo_wider_than_a_part_takes_values_of_several_ranks(reach: int) -> None:
    f = tm.Function("wide")
    a = f.input("a", tm.int32, [12])
    b = f.computation("b", {i: 12 - reach}, a[i] + a[i + reach])
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([i], rank=i // 2)
    b.split(i, 2, q, i1)
    b.tag_distribute(q)
    f.derive_transfers()
    whole = line(12) ** 2
    np.testing.assert_array_equal(f.simulate(6, a=whole), whole[:-reach] + whole[reach:])


def test_devito_1459_a_halo_is_exchanged_after_the_last_change_of_its_values() -> None:
    """Two stages a step; the second reads across ranks what the first has just changed."""
    f = tm.Function("steps")
    a = f.input("a", tm.int32, [8])
    with f.together() as both:
        u = both.computation("u", {t: 4, i: 8}, lambda: tm.select(t == 0, a[i], v[t - 1, i] + 1))
        v = both.computation("v", {t: 4, i: 8}, lambda: u[t, tm.clip(i - 1, 0, 7)] + u[t, tm.clip(i + 1, 0, 7)])
    f.outputs(v)
    for stage in (u, v):
        stage.split(i, 2, q, i1)
        stage.tag_distribute(q)
    v.distribute_array([t, i], rank=i // 2)
    a.distribute_array([i], rank=i // 2)
    f.derive_transfers()
    whole = line(8) ** 2
    np.testing.assert_array_equal(f.simulate(4, a=whole), f.evaluate(a=whole))
