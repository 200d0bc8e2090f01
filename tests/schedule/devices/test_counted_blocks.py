"""Block loops that are counted by hand: what follows them is run by the block that ends last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, k, b, t = tm.iters("i k b t")


def parts_of_rows() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Sums of four elements each, and of these the sum of a row, in one nest over rows."""
    f = tm.Function("rows", params=[N, M])
    a = f.input("a", tm.float32, [N, 4 * M])
    part = f.reduction("part", {i: N, b: M}, {t: 4}, tm.sum, a[i, 4 * b + t])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, part[i, k])
    f.outputs(s)
    part.init.compute_at(part.update, b)
    s.init.compute_at(s.update, i)
    s.update.fuse(part.update, i)
    return f, part, s


def test_the_last_block_runs_what_follows_the_counted_loop() -> None:
    f, part, _ = parts_of_rows()
    part.update.tag_gpu(blocks=[i, b], counted=[b])
    f.derive_transfers()
    assert f.check().ok, f.check()
    assert f.source()["rows.cu"].count("TM_KERNEL") == 1
    kernel = f.compile(device="simulator", sanitize=True)
    given = np.random.default_rng(0).integers(-9, 9, (5, 12)).astype(np.float32)
    for seed in range(4):
        np.testing.assert_array_equal(kernel.seeded(seed)(given), given.sum(1))


def test_rows_may_have_no_blocks_or_fewer_than_others() -> None:
    f, part, _ = parts_of_rows()
    part.update.tag_gpu(blocks=[i, b], counted=[b])
    f.derive_transfers()
    kernel = f.compile(device="simulator", sanitize=True)
    np.testing.assert_array_equal(kernel(np.zeros((5, 0), np.float32)), np.zeros(5))
    f = tm.Function("rows_below", params=[N])
    a = f.input("a", tm.float32, [N, 4 * N])
    part = f.reduction("part", {i: N, b: (0, i)}, {t: 4}, tm.sum, a[i, 4 * b + t])
    s = f.reduction("s", {i: N}, {k: (0, i)}, tm.sum, part[i, k])
    f.outputs(s)
    part.init.compute_at(part.update, b)
    s.init.compute_at(s.update, i)
    s.update.fuse(part.update, i)
    part.update.tag_gpu(blocks=[i, b], counted=[b])
    f.derive_transfers()
    given = np.random.default_rng(1).integers(-9, 9, (5, 20)).astype(np.float32)
    right = [given[row, : 4 * row].sum() for row in range(5)]
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(given), right)


def test_without_the_count_it_is_refused() -> None:
    _, part, _ = parts_of_rows()
    with pytest.raises(tm.CommandError, match="s_init and part_init share the block loop i, but not b"):
        part.update.tag_gpu(blocks=[i, b])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"counted": [k]}, r"counted=\[k\]: k is none of the block loops, i, b"),
        ({"counted": [i, b]}, r"counted=\[i, b\]: the last block goes on .* leave one of the block loops uncounted"),
        ({"counted": [b], "grid": 4}, "with grid= a block goes on as another"),
        (
            {"counted": [b], "combine": tm.TREE, "across": tm.TWO_PASS},
            "across=tm.TWO_PASS says which blocks are counted: leave counted= out",
        ),
    ],
)
def test_what_cannot_be_counted(options: dict[str, Any], words: str) -> None:
    _, part, _ = parts_of_rows()
    with pytest.raises(tm.CommandError, match=words):
        part.update.tag_gpu(blocks=[i, b], **options)
