"""The recipe for GPUs: proven, and right in the simulator, which looks for races and unset memory."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import CASES, Case, add, declared
from tests.language.test_kernels import agree


@tm.jit
def less_their_sum(X, Y, A: tl.constexpr, B: tl.constexpr):
    r, c = tl.program_id(0) * A + tl.arange(0, A), tl.arange(0, B)
    inside = (r[:, None] < X.shape[0]) & (c < X.shape[1])
    x = tl.load(X[r[:, None], c], mask=inside, other=0)
    tl.store(Y[r[:, None], c], x - tl.sum(x, axis=1)[:, None], mask=inside)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_programs_are_blocks_of_threads(case: Case) -> None:
    f, run = declared(case)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    assert "tag_gpu(blocks=[p0" in text
    f.derive_transfers()
    report = f.check()
    assert report.ok, report
    kernel = f.compile(device="simulator", sanitize=True)
    read = case.read(*case.sizes[-1])
    for each in (kernel, kernel.seeded(1, "lazy")):
        agree(case, each(*read), case.expected(*read))


def test_what_the_user_has_chosen_stays() -> None:
    _, run = declared(next(case for case in CASES if case.name == "attention"))
    run["p"].store_in(tm.SHARED)
    commands = tm.recipes.blocks(run, on=tm.gpu()).splitlines()
    assert "s.store_in(tm.SHARED)" in commands and "p.store_in(tm.SHARED)" not in commands


@pytest.mark.parametrize("stages", [2, 3])
def test_blocks_are_loaded_some_iterations_early(stages: int) -> None:
    case = next(each for each in CASES if each.name == "product_1")
    f, run = declared(case)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=1, num_stages=stages)
    assert f"a.pipeline(k_step, {stages})" in text and f"b.pipeline(k_step, {stages})" in text
    f.derive_transfers()
    report = f.check()
    assert report.ok, report
    kernel = f.compile(device="simulator", sanitize=True)
    for sizes in case.sizes[:2]:
        read = case.read(*sizes)
        for each in (kernel, kernel.seeded(1, "lazy")):
            agree(case, each(*read), case.expected(*read))


def test_one_program_is_no_grid_of_blocks() -> None:
    f = tm.Function("one", params=[])
    x, y = f.input("x", tm.float32, [4]), f.input("y", tm.float32, [4])
    run = add[1](x, y, f.array("z", tm.float32, [4]), BLOCK=4)
    with pytest.raises(tm.UnsupportedError, match="the programs of add are no box of blocks of a GPU"):
        tm.recipes.blocks(run, on=tm.gpu())
    assert not f.commands


@pytest.mark.parametrize(("rows", "columns", "warps"), [(6, 10, 1), (5, 24, 2), (3, 7, 1)])
def test_extents_of_blocks_need_not_be_powers_of_two(rows: int, columns: int, warps: int) -> None:
    """In Triton they must be; here threads share what there is."""
    n, m = tm.params("N M")
    f = tm.Function("less", params=[n, m], assume=f"M <= {columns}")
    x, y = f.input("x", tm.float32, [n, m]), f.array("y", tm.float32, [n, m])
    run = less_their_sum[tl.cdiv(n, rows)](x, y, A=rows, B=columns)
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=warps)
    f.derive_transfers()
    given = np.random.default_rng(0).integers(-9, 9, (13, columns)).astype(np.float32)
    found = f.compile(device="simulator", sanitize=True)(given)
    np.testing.assert_array_equal(found, given - given.sum(1)[:, None])
