"""Reductions over several blocks in one kernel: the last block combines the results of all, and goes on with them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.gpu.changed_kernels import with_changed_text
from tests.programs.gpu.sums_over_blocks import M, N, T, columns, mean_of_all, means, rows, steps, total
from tiramisu_py.toolchain import open_cache
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

i, k, q, i0, i1, b, m, t, once = tm.iters("i k q i0 i1 b m t once")
TREE = {"combine": tm.TREE, "across": tm.LAST_BLOCK}


@pytest.mark.parametrize(
    ("make", "shapes"),
    [(total, [(0,), (1,), (1025,), (140_001,)]), (rows, [(0, 3), (3, 0), (1, 1), (9, 1001)])],
    ids=["total", "rows"],
)
def test_one_kernel_has_the_bits_of_two(make: Callable[[object], tm.Function], shapes: list[tuple[int, ...]]) -> None:
    """The same tree: 128 threads take the results of 1024 terms each; a warp those of a row."""
    f = make(tm.LAST_BLOCK)
    report = f.check()
    assert report.ok and str(report.determinism["s"]) == "everywhere"
    text = f.source()[f"{f.name}.cu"]
    assert text.count("TM_KERNEL") == 1 and "tm_atomic" not in text
    one, two = (g.compile(device="simulator", sanitize=True) for g in (f, make(tm.TWO_PASS)))
    for shape in shapes:
        given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        found = {one.seeded(seed)(given).tobytes() for seed in range(6)}
        if make is total:
            assert found == {two(given).tobytes()}
        np.testing.assert_allclose(one(given), given.sum(-1, dtype=np.float64), rtol=1e-3, atol=1e-3)
        assert len(found) == 1
        if given.size < 2000:
            assert found == {f.evaluate(a=given, as_scheduled=True).tobytes()}


def test_tickets_of_a_kernel_that_is_not_launched_have_no_memory() -> None:
    """Nobody would wait until they are zero, before the memory is given back."""
    f = tm.Function("bands", params=[N, M], assume="N >= 0 and M >= 1")
    a = f.input("a", tm.int64, [M])
    s = f.reduction("s", {i: (1, N + 1), k: (i, i + 3)}, {m: M}, tm.sum, a[m])
    f.outputs(s)
    s.update.split(m, 3, i0, i1).tag_gpu(blocks=[k, i0], threads=[i1], **TREE)
    f.derive_transfers()
    assert "TM_BYTES(uint32_t, N >= 1 ? 3 : 0)" in f.source()["bands.c"]
    kernel = f.compile(device="simulator", sanitize=True)
    given = np.arange(7)
    for seed in range(6):
        assert kernel.seeded(seed)(given, N=0, M=7).shape == f.evaluate(given, N=0, M=7).shape
        found, wanted = kernel.seeded(seed)(given, N=2, M=7), f.evaluate(given, N=2, M=7)
        for row in (1, 2):
            np.testing.assert_array_equal(found[row, row : row + 3], wanted[row, row : row + 3])


def test_columns_of_planes_and_launches_one_after_another() -> None:
    rng = np.random.default_rng(1)
    f, g = columns(), steps()
    assert f.check().ok and g.check().ok
    kernel = f.compile(device="simulator", sanitize=True)
    for shape in ((2, 70, 9), (1, 0, 3), (3, 25, 1), (0, 4, 4)):
        given = rng.integers(-9, 9, shape).astype(np.float32)
        np.testing.assert_array_equal(kernel.seeded(shape[1])(given), given.sum(1))
    given = rng.standard_normal((3, 11, 70))
    kernel = g.compile(device="simulator", sanitize=True)
    assert "for (int64_t q" in g.source()["steps.c"]
    for seed in range(6):
        np.testing.assert_array_equal(kernel.seeded(seed, "lazy")(given), given.max((1, 2)))
    np.testing.assert_array_equal(g.evaluate(given, as_scheduled=True), given.max((1, 2)))
    assert (kernel(np.zeros((2, 0, 70))) == -np.inf).all()  # no terms: the neutral element


def test_calls_at_once_have_tickets_of_their_own() -> None:
    """Calls from several threads of the host do not count each other's blocks."""
    kernel = rows(tm.LAST_BLOCK).compile(device="simulator")
    given = [np.random.default_rng(seed).integers(-9, 9, (40, 2000)).astype(np.float32) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for x, found in zip(given * 5, pool.map(kernel, given * 5), strict=True):
            np.testing.assert_array_equal(found, x.sum(1))


@pytest.mark.parametrize("make", [means, lambda: means(in_registers=True), mean_of_all], ids=["rows", "own", "all"])
def test_the_last_block_goes_on_with_the_result(make: Callable[[], tm.Function]) -> None:
    f = make()
    assert f.check().ok and f.source()[f"{f.name}.cu"].count("TM_KERNEL") == 1
    kernel = f.compile(device="simulator", sanitize=True)
    given = np.random.default_rng(2).random((7, 500) if f.name == "means" else (3001,), dtype=np.float32)
    wanted = f.evaluate(a=given)
    for seed in range(4):
        np.testing.assert_allclose(kernel.seeded(seed)(given), wanted, rtol=1e-5)


def test_something_without_loops_goes_on_in_the_second_kernel_too() -> None:
    f = mean_of_all(tm.TWO_PASS)
    assert f.check().ok and f.source()["mean_of_all.cu"].count("TM_KERNEL") == 2
    assert f.compile(device="simulator", sanitize=True)(np.arange(9, dtype=np.float32)) == 4


def test_a_saved_function_has_its_one_kernel(tmp_path: Path) -> None:
    f = mean_of_all()
    f.save(tmp_path / "mean.json")
    assert tm.load(tmp_path / "mean.json").source() == f.source()
    for _ in ("derive_transfers", "after", "tag_gpu"):
        assert "s_blocks" in f.show("pseudocode")
        f.undo()
    assert "s_blocks" not in f.show("pseudocode")


# -- what is refused


def divided(again: bool) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Rows, and each element divided by the sum of its row, read where the blocks have not ended (or `again`)."""
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    share = f.computation("share", {i: N, k: M}, a[i, k] / s[i])
    f.outputs(share)
    for stage in (s.update, share):
        stage.split(i, 4, i0, i1)
        stage.split(k, 96, b, k)
        stage.split(k, 32, m, t)
        stage.reorder(i0, b, i1, m, t)
    s.update.tag_gpu(blocks=[i0, b], threads=[i1, t], **TREE)
    if not again:
        share.after(f["s_blocks"].update, b)
    return f, s, share


def test_a_read_before_the_last_block_is_refused() -> None:
    f, _, share = divided(False)
    share.tag_gpu(threads=[i1, t])
    found = next(v for v in f.check().violations if v.kind == "order")
    assert "share[0, 0] reads s[0] before it is computed, at N = 1, M = 1" in found.message
    assert "share.after(s.update, i0)" in found.repair


def test_its_repair_works() -> None:
    f, s, share = divided(True)
    share.after(s.update, i0)
    share.tag_gpu(threads=[i1, t])
    f.derive_transfers()
    assert f.check().ok
    given = np.random.default_rng(3).random((6, 200), dtype=np.float32)
    kernel = f.compile(device="simulator", sanitize=True)
    np.testing.assert_allclose(kernel.seeded(5)(given), f.evaluate(a=given), rtol=1e-5)


def test_a_last_block_has_counted_the_blocks_of_its_group_alone() -> None:
    """The neighbouring row's sum may be that of another group, whose blocks are still running."""
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    both = f.computation("both", {i: (1, N)}, s[i] + s[i - 1])
    f.outputs(both)
    s.update.split(k, 32, b, t)
    s.update.tag_gpu(blocks=[i, b], threads=[t], **TREE)
    both.after(s.update, i)
    found = f.check().violations
    assert any(v.kind == "race" and "both[1] reads s[0]" in v.message for v in found), found


def test_shared_memory_does_not_reach_the_last_block() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    f.outputs(s)
    s.update.split(k, 32, b, t)
    s.update.tag_gpu(blocks=[i, b], threads=[t], **TREE)
    f["s_blocks"].store_in(tm.SHARED)
    (violation,) = f.check().violations
    assert "in the shared memory of each block of loop b, in the last one" in violation.message
    assert violation.repair == "keep it in memory=tm.GPU_MEMORY, where all blocks reach it"


def test_what_a_last_block_is_not_for() -> None:
    f = tm.Function("f", params=[N, M, T])
    a = f.input("a", tm.float32, [N, M, T])
    s = f.reduction("s", {i: N}, {k: M, q: T}, tm.sum, a[i, k, q])
    f.outputs(s)
    update = s.update
    update.split(k, 32, m, t)
    with pytest.raises(tm.CommandError, match="no block loop runs over terms of s, so that one block has all of them"):
        update.tag_gpu(blocks=[i], threads=[t], **TREE)
    with pytest.raises(tm.CommandError, match=r"with grid= a block goes on as another one: leave grid= out"):
        update.tag_gpu(blocks=[i, m], threads=[t], grid=4, **TREE)
    with pytest.raises(tm.CommandError, match=r"across=tm.LAST_BLOCK says what becomes of the results of trees"):
        update.tag_gpu(blocks=[i, m], threads=[t], combine=tm.ATOMIC, across=tm.LAST_BLOCK)
    update.reorder(m, i, t)
    with pytest.raises(tm.CommandError, match=r"the blocks of loop m are counted .* s.update.reorder\(i, m\) first"):
        update.tag_gpu(blocks=[m, i], threads=[t], **TREE)
    update.reorder(q, i, m, t)
    with pytest.raises(tm.CommandError, match=r"loop q of the host runs over terms of s, .* or use across=tm.TWO_PASS"):
        update.tag_gpu(blocks=[i, m], threads=[t], **TREE)


def test_both_parts_share_the_memory_of_a_block() -> None:
    f = total(tm.LAST_BLOCK)
    f.gpu_target(tm.GpuTarget("small", most_threads=256, most_shared=40))
    (violation,) = f.check().violations
    assert "needs 48 bytes of shared memory in each block (the tree of s_blocks.update 16, " in violation.message


@pytest.mark.parametrize("across", [tm.TWO_PASS, tm.LAST_BLOCK])
@pytest.mark.parametrize("again", [{"across": tm.TWO_PASS}, {"across": tm.LAST_BLOCK}, {}])
def test_a_second_command_says_what_the_first_has_made(across: object, again: dict[str, object]) -> None:
    f = total(across)
    with pytest.raises(tm.CommandError) as refusal:
        f["s"].tag_gpu(blocks=[b], threads=[t], combine=tm.TREE, **again)
    assert "the blocks of s have results of their own, s_blocks, since s.tag_gpu(blocks=[b]" in str(refusal.value)
    assert "total.undo() to before that command" in str(refusal.value)
    f.undo()
    f.undo()
    f["s"].tag_gpu(blocks=[b], threads=[t], combine=tm.TREE, **again)
    f.derive_transfers()
    assert f.check().ok


# -- the text


MUTATIONS = [
    (r"\n  TM_BARRIER\(\);(?=\n  if \(threadIdx)", ""),  # all threads of the block have stored
    (r"TM_FENCE\(\);(?=\n    tm_last)", ""),  # who takes a later ticket sees what they stored
    (r"TM_FENCE\(\);(?=\n  \})", ""),  # and this block what others stored
    (r"\n  TM_BARRIER\(\);(?=\n  if \(tm_last)", ""),  # all threads know whether the block goes on
    (r"tm_reset_tickets\([^;]*;", ""),  # the next launch counts anew
    (r"== grid_x - 1", "== grid_x - 2"),  # which block is the last
    (r"== grid_x - 1", "== 0"),
    (r"if \(tm_last\[0\]\) \{(?=\n    const)", "{"),  # every block goes on
    (r"s_blocks_update_partial = -0.0f", "s_blocks_update_partial = 1.0f"),  # the start of a thread's terms
    (r"s_blocks\[([^]]*)\] = 0.0f", r"s_blocks[\1] = 1.0f"),  # that of a block's result
    (r" s_update_partial = -0.0f", " s_update_partial = 1.0f"),
    (r" s\[([^]]*)\] = 0.0f", r" s[\1] = 1.0f"),
    (r"if \(96\*b \+ 32\*m \+ t < M\)", ""),  # the guard of the last terms
    (r"int64_t m = 0; m < 3", "int64_t m = 0; m < (M - 96*b + 31)/32"),  # the paper's loop: on through later chunks
    (r"for \(int64_t b = 0", "for (int64_t b = 1"),  # the results of the first blocks
    (r"tm_shuffle_down\(tm_part, tm_step\)", "tm_shuffle_down(tm_part, 1)"),
    (r"t == 0 && 4\*i0 \+ i1 < N\)(?= \{\n      // the result of the tree goes into s_blocks)", "4*i0 + i1 < N)"),
]


@pytest.mark.parametrize("mutation", range(len(MUTATIONS)))
def test_each_line_of_the_kernel_is_missed_when_it_is_changed(mutation: int) -> None:
    line, other = MUTATIONS[mutation]
    f = rows(tm.LAST_BLOCK)
    kernel = with_changed_text(f, "rows.cu", line, other)
    given = np.random.default_rng(1).integers(1, 9, (6, 1001)).astype(np.float32)
    assert not all(agrees(kernel.seeded(seed), given) for seed in range(3))


def agrees(kernel: tm.Kernel, given: np.ndarray) -> bool:
    """Whether a call succeeds with the sums of the rows."""
    try:
        return bool(np.array_equal(kernel(given), given.sum(1)))
    except tm.TiramisuError:
        return False


def test_the_checks_name_a_forgotten_fence_and_a_forgotten_reset() -> None:
    f = total(tm.LAST_BLOCK)
    for line, words in ((r"TM_FENCE\(\);", "race, read after write"), (r"tm_reset_tickets\([^;]*;", "is 3 at its end")):
        kernel = with_changed_text(f, "total.cu", line, "")
        with pytest.raises(tm.KernelError, match=words):
            kernel(np.ones(3000, dtype=np.float32))


def test_a_cuda_compiler_takes_it() -> None:
    found = find_nvcc(open_cache())
    if isinstance(found, str):
        pytest.skip(found)
    f = total(tm.LAST_BLOCK)
    kernel = f.compile(device="gpu", architectures=["sm_75", "sm_80", "sm_90"])
    (facts,), (resources,) = f.cost("kernels", kernel), kernel.resources.values()
    assert facts.threads == (128, 1, 1) and set(facts.registers) == {75, 80, 90}
    assert all(each.shared_bytes == facts.shared_bytes and not each.spilled_bytes for each in resources.values())


def test_two_reductions_of_nothing_in_one_block_loop_have_one_block() -> None:
    N, M, L = tm.params("N M L")
    i, k, b, m, t = tm.iters("i k b m t")
    f = tm.Function("f", params=[N, M, L])
    x, y = f.input("x", tm.float64, [N, M]), f.input("y", tm.float64, [N, L])
    total = f.reduction("total", {i: N}, {k: L}, tm.sum, y[i, k])
    largest = f.reduction("largest", {i: N}, {k: M}, tm.max, x[i, k])
    f.outputs(total, largest)
    for s, (block, group) in ((total, (16, 8)), (largest, (8, 4))):
        s.update.split(k, block, b, k)
        s.update.split(k, group, m, t)
        s.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE, across=tm.LAST_BLOCK)
    f.order(f["total_blocks"].update, f["largest_blocks"].update, at=b)
    f.derive_transfers()
    kernel = f.compile(device="simulator", sanitize=True)
    for n, m0, l0 in ((2, 0, 0), (2, 0, 17), (2, 9, 0), (0, 3, 3), (1, 33, 40)):
        given = np.ones((n, m0)), np.full((n, l0), 2.0)
        for found, expected in zip(kernel(*given), f.evaluate(*given), strict=True):
            np.testing.assert_array_equal(found, expected)
