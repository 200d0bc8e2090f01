"""Parallel sums with a partial result for each chunk: the same bits on any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, k, k0, k1 = tm.iters("i k k0 k1")


def total(combine: tm.Combine = tm.TREE) -> tm.Function:
    """The sum of everything, 256 terms a chunk, in lanes."""
    f = tm.Function("total", params=[N])
    a = f.input("a", tm.float32, [N])
    s = f.reduction("s", {}, {k: N}, tm.sum, a[k])
    f.outputs(s)
    s.update.split(k, 256, k0, k1)
    s.update.vectorize(k1, 16, combine=tm.PRIVATE)
    s.update.parallelize(k0, combine=combine)
    return f


def columns() -> tm.Function:
    """Sums of columns, 64 rows a chunk: the lanes have columns."""
    f = tm.Function("columns", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: M}, {k: N}, tm.sum, a[k, i])
    f.outputs(s)
    s.update.split(k, 64, k0, k1)
    s.update.reorder(k0, k1, i)
    s.update.vectorize(i, 8)
    s.parallelize(k0, combine=tm.TREE)
    return f


SHAPES = [(total, [(0,), (1,), (257,), (100_003,)]), (columns, [(0, 3), (3, 0), (1, 1), (200, 33)])]


@pytest.mark.parametrize(("make", "shapes"), SHAPES, ids=["total", "columns"])
def test_any_number_of_threads_gives_the_same_bits(
    make: Callable[[], tm.Function], shapes: list[tuple[int, ...]]
) -> None:
    f = make()
    assert f.check().ok
    kernels = [f.compile(threads=threads) for threads in (1, 2, 3, 7)]
    rng = np.random.default_rng(0)
    for shape in shapes:
        whole = rng.integers(-9, 9, shape).astype(np.float32)
        np.testing.assert_array_equal(kernels[1](whole), whole.sum(0))
        given = rng.standard_normal(shape).astype(np.float32)
        assert len({kernel(given).tobytes() for kernel in kernels}) == 1


def test_copies_of_threads_depend_on_their_number() -> None:
    """The same with a copy for each thread, so that the test above can fail."""
    f = total(tm.PRIVATE)
    given = np.random.default_rng(0).standard_normal(100_003).astype(np.float32)
    assert len({f.compile(threads=threads)(given).tobytes() for threads in (1, 2, 3, 7)}) > 1


def test_a_chunk_is_added_up_term_by_term_and_then_the_chunks_in_order() -> None:
    f = columns()
    given = np.random.default_rng(0).standard_normal((150, 4)).astype(np.float32)
    wanted = np.zeros(4, np.float32)
    for chunk in (given[:64], given[64:128], given[128:]):
        part = np.zeros(4, np.float32)
        for row in chunk:
            part += row
        wanted += part
    np.testing.assert_array_equal(f.compile()(given), wanted)


def test_it_is_undone_and_saved_like_any_command(tmp_path: Path) -> None:
    f = columns()
    f.save(tmp_path / "columns.json")
    assert tm.load(tmp_path / "columns.json").source() == f.source()
    f.undo()
    assert "s_chunks" not in f.show("pseudocode")


def test_what_it_is_not_for() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    f.outputs(s)
    with pytest.raises(tm.CommandError, match=r"each would be one term: split it, s.update.split\(k, 4096, \.\.\.\)"):
        s.update.parallelize(k, combine=tm.TREE)
    s.update.split(k, 32, k0, k1)
    with pytest.raises(tm.CommandError, match="i runs over no terms of s; leave it out"):
        s.update.parallelize(i, combine=tm.TREE)
    s.update.after(s.init, i)
    with pytest.raises(tm.CommandError, match=r"combine=tm.TREE: s.init shares loop i with s.update"):
        s.update.parallelize(k0, combine=tm.TREE)


@pytest.mark.parametrize("across", [None, tm.TWO_PASS, tm.LAST_BLOCK], ids=str)
def test_the_start_of_a_sum_may_move_to_its_blocks_afterwards(across: tm.Combine | None) -> None:
    """A start that shares the loop of the partial results is refused; the command first, as the message says."""

    def moved(first: bool) -> tuple[tm.Function, tm.Reduction]:
        f = tm.Function("total", params=[N])
        a = f.input("a", tm.int64, [N])
        s = f.reduction("s", {}, {k: N}, tm.sum, a[k])
        f.outputs(s)
        s.update.split(k, 32, k0, k1)
        if not first:
            s.init.compute_at(s.update, k0)
        if across is None:
            s.parallelize(k0, combine=tm.TREE)
        else:
            s.tag_gpu(blocks=[k0], threads=[k1], combine=tm.TREE, across=across)
        return f, s

    what = "combine=tm.TREE" if across is None else f"across=tm.{across.name}"
    with pytest.raises(
        tm.CommandError, match=rf"{what}: s.init shares loop k0 with s.update, .* or this command first"
    ):
        moved(first=False)
    f, s = moved(first=True)
    if across is None:
        s.init.compute_at(s.update, k0)
        assert f.check().ok
        kernel = f.compile(threads=2)
        for n in (0, 1, 32, 100):
            assert kernel(np.arange(n)) == sum(range(n))


def test_a_loop_that_went_to_the_partial_results_is_named_with_them() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    f.outputs(s)
    s.update.split(k, 32, k0, k1)
    s.update.parallelize(k0, combine=tm.TREE)
    with pytest.raises(tm.CommandError, match=r"no loop k1 here: .*; s_chunks.update, of its partial results, has it"):
        s.update.vectorize(k1, 8, combine=tm.PRIVATE)
    f["s_chunks"].update.vectorize(k1, 8, combine=tm.PRIVATE)
    assert f.check().determinism["s"] == "everywhere"
