"""combine=tm.ORDERED: blocks add in the order of the numbers that they draw when they start; bits hold."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.changed_kernels import with_changed_text
from tests.schedule.devices.test_locks import K, N, i, i0, i1, k, k0, k1, of_threads, sums
from tiramisu_py import ir
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.lower.kernels.kernel_function import Tickets

#: Sums of floats, whose bits tell the order of their terms.
ROWS = np.random.default_rng(1).standard_normal((19, 23)).astype(np.float32)


def ordered() -> tm.Function:
    return sums(combine=tm.ORDERED)


def test_bits_hold_and_each_block_draws_its_number() -> None:
    f = ordered()
    report = f.check()
    assert report.ok and str(report.bits) == "bits preserved"
    text = f.source()["sums.cu"]
    assert "tm_number[0] = tm_draw_number(&s_update_locks[2*block_y], gridDim.x);" in text
    assert "const int64_t k0 = block_x;" in text and "blockIdx.x" not in text.split("s_update_kernel")[1]
    assert "in turn, as number blockIdx.x, by s_update_locks[2 * blockIdx.y + 1]:" in f.show("pseudocode")
    f.validate(ROWS[:9, :9].copy())


@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_bits_are_those_of_one_thread_that_adds_all() -> None:
    f = ordered()
    checked, plain = f.compile(device="simulator", sanitize=True), f.compile(device="simulator")
    wanted = np.zeros(19, np.float32)
    for column in range(23):
        wanted += ROWS[:, column]
    for each in (plain, *(checked.seeded(seed) for seed in range(5))):
        np.testing.assert_array_equal(each(ROWS), wanted)
    for shape in ((0, 3), (3, 0), (1, 1)):
        given = ROWS[: shape[0], : shape[1]].copy()
        np.testing.assert_array_equal(checked(given), given.sum(1))


@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_what_trees_collect_is_added_in_turn() -> None:
    """Terms of a block in a tree, the blocks in their order: the same bits whichever block runs first."""
    f = of_threads(
        {"blocks": [i, k0], "combine": tm.ORDERED}, {"threads": [k1], "combine": tm.TREE}, determinism="everywhere"
    )
    report = f.check()
    assert report.ok and str(report.determinism["s"]) == "everywhere"
    f.validate(ROWS[:3, :7].copy())
    wanted, terms = np.zeros(19, np.float32), np.pad(ROWS, ((0, 0), (0, 1)))
    for first in range(0, 24, 4):
        a, b, c, d = terms[:, first : first + 4].T
        wanted += (a + c) + (b + d)
    kernel = f.compile(device="simulator", sanitize=True)
    for seed in range(4):
        np.testing.assert_array_equal(kernel.seeded(seed)(ROWS), wanted)


MUTATIONS = {
    "the number of the grid, of blocks that may not have started": (r"= tm_number\[0\];", "= blockIdx.x;"),
    "numbers are not counted anew": (r"tm_draw_number\(&s_update_locks\[2\*block_y\], gridDim.x\)",
                                     "tm_draw_number(&s_update_locks[2*block_y], gridDim.x + 1)"),
    "others do not wait for the number": (r"  TM_BARRIER\(\);\n(?=  const int64_t block_x)", ""),
    "no block waits for its turn": (r"tm_await_turn\([^;]*;", ""),
    "no fence after it": (r"(?<=;\n)    TM_FENCE\(\);\n(?=  \})", ""),
    "others do not wait for it": (r"(?<=\}\n)  TM_BARRIER\(\);\n(?=  \{)", ""),
    "given on before others have added": (r"  TM_BARRIER\(\);\n(?=  if \(threadIdx.x == 0\) \{\n    TM_FENCE)", ""),
    "no fence before that": (r"TM_FENCE\(\);\n(?=    tm_pass)", ""),
    "it is not given on": (r"tm_pass_turn\([^;]*;", ""),
    "the turn does not go back to the first": (r"block_x, grid_x\)", "block_x, grid_x + 1)"),
}  # fmt: skip


@pytest.mark.skipif(without_cxx(), reason=CXX)
@pytest.mark.parametrize("mutation", list(MUTATIONS))
def test_a_step_that_is_left_out_is_found(mutation: str) -> None:
    f = ordered()
    kernel = with_changed_text(f, "sums.cu", *MUTATIONS[mutation])
    known = r"race|waits for a lock that no block gives back|still taken at its end|still drawn at its end"
    with pytest.raises(tm.KernelError, match=known):
        for seed in range(3):
            kernel.seeded(seed)(ROWS)


def test_blocks_that_wait_for_one_that_has_not_started_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without drawn numbers, in the interpreter; and without turns."""
    with monkeypatch.context() as patch:
        patch.setattr(Tickets, "drawn", None)
        with pytest.raises(CompilerDefect, match="waits for a lock that no block gives back"):
            for _ in range(3):
                ordered().validate(ROWS[:9, :20].copy())
    monkeypatch.setattr(Tickets, "locked", lambda self, body: ir.Block((body,)))
    with pytest.raises(CompilerDefect, match="race: s_update"):
        ordered().validate(ROWS[:9, :9].copy())


def test_one_loop_has_an_order() -> None:
    f = tm.Function("total", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {}, {i: N, k: K}, tm.sum, a[i, k])
    f.outputs(s)
    s.update.split(i, 8, i0, i1).split(k, 4, k0, k1).reorder(i0, k0, i1, k1)
    with pytest.raises(tm.CommandError, match=r"combine=tm.ORDERED: blocks of the loops i0, k0 add to one value of s"):
        s.update.tag_gpu(blocks=[i0, k0], combine=tm.ORDERED)


def test_another_order_of_terms_in_a_block_gives_bits_up() -> None:
    f = tm.Function("sums", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.split(k, 4, k0, k1).reorder(i, k1, k0)
    s.update.tag_gpu(blocks=[i, k1], combine=tm.ORDERED)  # every fourth term
    f.derive_transfers()
    report = f.check()
    assert report.ok and str(report.determinism["s"]) == "everywhere"
