"""Reductions over several blocks: their results stored, and combined by a second kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.gpu.sums_over_blocks import rows, total

N, M = tm.params("N M")
i, k, i0, i1, b, m, t = tm.iters("i k i0 i1 b m t")


@pytest.mark.parametrize(
    ("make", "shapes"),
    [(total, [(0,), (1,), (1025,), (140_001,)]), (rows, [(0, 3), (3, 0), (1, 1), (9, 1001)])],
    ids=["total", "rows"],
)
def test_the_results_of_blocks_are_combined_the_same_way_in_each_call(make: object, shapes: object) -> None:
    f = make()  # type: ignore[operator]
    assert f.check().ok
    text = f.source()[f"{f.name}.cu"]
    assert text.count("TM_KERNEL") == 2 and "tm_atomic" not in text
    kernel = f.compile(device="simulator", sanitize=True)
    rng = np.random.default_rng(0)
    for shape in shapes:  # type: ignore[attr-defined]
        whole = rng.integers(-9, 9, shape).astype(np.float32)
        np.testing.assert_array_equal(kernel(whole), whole.sum(-1))
        given = rng.standard_normal(shape).astype(np.float32)
        assert len({kernel.seeded(seed)(given).tobytes() for seed in range(4)}) == 1
        np.testing.assert_allclose(kernel(given), given.sum(-1, dtype=np.float64), rtol=1e-3, atol=1e-3)


def test_atomic_additions_of_blocks_depend_on_their_order() -> None:
    """The same terms, added atomically: two orders of blocks give other bits, so that the test above can fail."""
    kernel = total(tm.ATOMIC).compile(device="simulator")
    given = np.random.default_rng(0).standard_normal(140_001).astype(np.float32)
    assert len({kernel.seeded(seed)(given).tobytes() for seed in range(8)}) > 1


def test_a_state_before_the_command_has_the_algorithm_as_it_was() -> None:
    f = rows()
    f.undo()
    f.undo()
    assert "s_blocks" not in f.show("pseudocode")


def test_a_saved_function_has_both_kernels(tmp_path: Path) -> None:
    f = rows()
    f.save(tmp_path / "rows.json")
    assert tm.load(tmp_path / "rows.json").source() == f.source()


def test_what_two_passes_are_not_for() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    f.outputs(s)
    s.update.split(k, 32, m, t)
    with pytest.raises(tm.CommandError, match="no block loop runs over terms of s, so that one block has all of them"):
        s.update.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE, across=tm.TWO_PASS)
    with pytest.raises(tm.CommandError, match=r"across=tm.TWO_PASS says what becomes of the results of trees"):
        s.update.tag_gpu(blocks=[i, m], threads=[t], combine=tm.ATOMIC, across=tm.TWO_PASS)
    with pytest.raises(tm.CommandError, match=r"choose tm.ATOMIC, tm.TWO_PASS or tm.LAST_BLOCK"):
        s.update.tag_gpu(blocks=[i, m], threads=[t], combine=tm.TREE, across=tm.PRIVATE)
    s.update.after(s.init, i)
    with pytest.raises(tm.CommandError, match=r"s.init shares loop i with s.update, and partial results are"):
        s.update.tag_gpu(blocks=[i, m], threads=[t], combine=tm.TREE, across=tm.TWO_PASS)
