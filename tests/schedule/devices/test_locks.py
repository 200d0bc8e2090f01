"""combine=tm.LOCK: blocks that add to one element have a lock, one after another; each step of it is needed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm
from tests.gpu.test_stories import listed
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.changed_kernels import with_changed_text
from tiramisu_py import ir
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.lower.kernels.kernel_function import Tickets
from tiramisu_py.toolchain import open_cache
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

N, K = tm.params("N K")
i, k, i0, i1, k0, k1 = tm.iters("i k i0 i1 k0 k1")
ROWS = np.random.default_rng(0).integers(0, 9, (19, 23)).astype(np.float32)


def sums(op: object = tm.sum, **tagged: object) -> tm.Function:
    """Sums of rows: a block has eight rows and four terms of each."""
    f = tm.Function("sums", params=[N, K], assume="K >= 1" if op is tm.argmax else None)
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, op, a[i, k])
    f.outputs(s)
    s.init.split(i, 8, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    s.update.split(i, 8, i0, i1).split(k, 4, k0, k1).reorder(i0, k0, i1, k1)
    s.update.tag_gpu(blocks=[i0, k0], threads=[i1], **{"combine": tm.LOCK, **tagged})
    f.derive_transfers()
    return f


def test_blocks_with_the_same_rows_share_a_lock() -> None:
    f = sums()
    report = f.check()
    assert report.ok and str(report.determinism["s"]) == "not_guaranteed"
    text = f.source()["sums.cu"]
    assert "tm_take_lock(&s_update_locks[block_y]);" in text and "tm_atomic" not in text
    assert "with the lock s_update_locks[blockIdx.y]:" in f.show("pseudocode")
    f.validate(ROWS[:9, :9].copy())


@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_sums_are_those_of_numpy_in_any_order_of_blocks() -> None:
    f = sums()
    checked, plain = f.compile(device="simulator", sanitize=True), f.compile(device="simulator")
    for shape in ((0, 3), (3, 0), (1, 1), (19, 23)):
        given = ROWS[: shape[0], : shape[1]].copy()
        for each in (plain, *(checked.seeded(seed) for seed in range(4))):
            np.testing.assert_array_equal(each(given), given.sum(1))


@pytest.mark.skipif(without_cxx(), reason=CXX)
@pytest.mark.parametrize("op", [tm.product, tm.argmax], ids=["product", "argmax"])
def test_a_lock_is_for_operators_that_no_instruction_has(op: object) -> None:
    """A product; and the first place of the largest element, which has two components."""
    f = sums(op)
    kernel = f.compile(device="simulator", sanitize=True)
    for seed in range(3):
        for found, wanted in zip(
            listed(kernel.seeded(seed)(ROWS[:9, :7].copy())), listed(f.evaluate(ROWS[:9, :7].copy())), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)


MUTATIONS = {
    "the lock is not taken": (r"tm_take_lock\([^;]*;", ""),
    "no fence after it": (r"(?<=;\n)    TM_FENCE\(\);\n(?=  \})", ""),
    "others do not wait for it": (r"(?<=\}\n)  TM_BARRIER\(\);\n(?=  \{)", ""),
    "given back before others have added": (r"  TM_BARRIER\(\);\n(?=  if \(threadIdx)", ""),
    "no fence before that": (r"TM_FENCE\(\);\n(?=    tm_give)", ""),
    "it is not given back": (r"tm_give_lock\([^;]*;", ""),
    "another lock for each block": (r"_locks\[block_y\]", "_locks[blockIdx.x % 2]"),
}


@pytest.mark.skipif(without_cxx(), reason=CXX)
@pytest.mark.parametrize("mutation", list(MUTATIONS))
def test_a_step_of_the_lock_that_is_left_out_is_found(mutation: str) -> None:
    f = sums()
    kernel = with_changed_text(f, "sums.cu", *MUTATIONS[mutation])
    with pytest.raises(tm.KernelError, match=r"race|waits for a lock that no block gives back|still taken at its end"):
        kernel.seeded(1)(ROWS)


def test_without_the_lock_the_loops_have_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tickets, "locked", lambda self, body: body)
    with pytest.raises(CompilerDefect, match="race: s_update"):
        sums().validate(ROWS[:9, :9].copy())


def test_a_lock_that_is_kept_is_named_by_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(self: Tickets, body: ir.Node) -> ir.Node:
        return ir.Block((locked(self, ir.Block(())), body))

    locked = Tickets.locked
    monkeypatch.setattr(Tickets, "locked", kept)
    with pytest.raises(CompilerDefect, match="race: s_update"):  # what is outside of the lock is not ordered by it
        sums().validate(ROWS[:9, :9].copy())


def test_threads_of_one_block_have_no_lock_of_their_own() -> None:
    f = tm.Function("sums", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.split(k, 4, k0, k1).tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.LOCK)
    f.derive_transfers()
    (violation,) = f.check().violations
    assert violation.kind == "race" and "thread 0" in violation.message and "thread 1" in violation.message
    assert "combine=tm.ATOMIC), or tm.TREE" in violation.repair


def of_threads(*commands: dict[str, object], **declared: object) -> tm.Function:
    """Sums of rows, four terms of one in each block, on as many threads; the terms are tagged by several commands."""
    f = tm.Function("sums", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k], **declared)
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.split(k, 4, k0, k1)
    for command in commands:
        s.update.tag_gpu(**command)
    f.derive_transfers()
    return f


@pytest.mark.parametrize("lock", [tm.LOCK, tm.ORDERED])
@pytest.mark.parametrize("first", [0, 1])
def test_threads_of_a_block_add_atomically_inside_of_the_lock(lock: object, first: int) -> None:
    """Another block waits for the lock, and another thread of the block has it as well, in either order of commands."""
    blocks = {"blocks": [i, k0], "combine": lock}
    atomic = {"threads": [k1], "combine": tm.ATOMIC}
    f = of_threads(blocks, atomic) if first else of_threads({**atomic, "blocks": [i, k0]}, blocks)
    report = f.check()
    assert report.ok and str(report.determinism["s"]) == "not_guaranteed"
    steps = r"tm_(?:take_lock|await_turn)\(.*tm_atomic_add\(&s\[i\].*tm_(?:give_lock|pass_turn)\("
    assert re.search(steps, f.source()["sums.cu"], re.DOTALL)
    f.validate(ROWS[:3, :7].copy())


def test_two_reductions_of_one_kernel_have_locks_along_different_loops() -> None:
    """The lock of the first command stays, and all blocks have one lock: along each loop some add to one element."""
    f = tm.Function("two", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    t = f.reduction("t", {k: K}, {i: N}, tm.sum, a[i, k])
    f.outputs(s, t)
    s.init.tag_gpu(blocks=[i])
    t.init.tag_gpu(blocks=[k])
    t.update.interchange(k, i)
    t.update.after(s.update, k)
    for update in (s.update, t.update):
        update.tag_gpu(blocks=[i, k], combine=tm.LOCK)
    f.derive_transfers()
    assert f.check().ok and f.source()["two.cu"].count("tm_take_lock(") == 1
    f.validate(ROWS[:4, :3].copy())
    s.update.tag_gpu(blocks=[i, k], combine=tm.ORDERED)  # it has an order along k, and t none along i
    (violation, *_) = f.check().violations
    assert violation.kind == "race" and "t[0]" in violation.message


def test_what_a_tree_collects_is_added_inside_of_the_lock() -> None:
    f = of_threads({"blocks": [i, k0], "combine": tm.LOCK}, {"threads": [k1], "combine": tm.TREE})
    assert f.check().ok
    steps = r"tm_parts\[.*tm_take_lock\(.*tm_atomic_add\(&s\[i\], s_update_partial\).*tm_give_lock\("
    assert re.search(steps, f.source()["sums.cu"], re.DOTALL)
    f.validate(ROWS[:3, :7].copy())


def test_blocks_that_are_counted_do_not_wait_for_each_other() -> None:
    """The lock of a later command, for a statement of the last block, is for all blocks of its loop."""
    f = tm.Function("sums", params=[N, K], assume="K >= 1")
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {}, {i: N, k: K}, tm.sum, a[i, k])
    t = f.reduction("t", {}, {i: N}, tm.sum, a[i, 0])
    f.outputs(s, t)
    s.init.tag_gpu()
    t.init.tag_gpu()
    t.update.after(s.update, i)
    s.update.tag_gpu(blocks=[k, i], counted=[k], combine=tm.ATOMIC)
    t.update.tag_gpu(blocks=[i], combine=tm.LOCK)
    f.derive_transfers()
    (violation,) = f.check().violations
    assert violation.kind == "reach" and "the blocks of loop i add one after another (t.update.tag_gpu(" in str(
        violation
    )
    assert "the last block of loop k goes on with t.update" in violation.message
    assert violation.repair == "use combine=tm.ATOMIC for loop i, or give t.update a kernel of its own"


@pytest.mark.parametrize(
    ("tagged", "words"),
    [
        ({"grid": 4}, r"combine=tm.LOCK lets blocks add one after another, and grid= and counted= say"),
        ({"counted": [k0]}, r"combine=tm.LOCK lets blocks add one after another"),
        ({"combine": tm.PRIVATE}, r"on a GPU, choose tm.ATOMIC, tm.LOCK, tm.ORDERED or tm.TREE"),
    ],
)
def test_what_does_not_go_with_a_lock_is_refused(tagged: dict[str, object], words: str) -> None:
    with pytest.raises(tm.CommandError, match=words):
        sums(**tagged)


def test_a_lock_that_nobody_needs_is_refused() -> None:
    f = tm.Function("sums", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    f.outputs(s)
    s.update.split(i, 8, i0, i1)
    with pytest.raises(tm.CommandError, match=r"combine=tm.LOCK: no two blocks add to one value of s"):
        s.update.tag_gpu(blocks=[i0], threads=[i1], combine=tm.LOCK)


def test_a_cuda_compiler_takes_it() -> None:
    found = find_nvcc(open_cache())
    if isinstance(found, str):
        pytest.skip(found)
    (resources,) = [
        each
        for name, each in sums().compile(device="gpu", architectures=["sm_90"]).resources.items()
        if "update" in name
    ]
    assert resources
