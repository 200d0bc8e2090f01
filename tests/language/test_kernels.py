"""Kernels are values: interpretation, `evaluate()`, cores as declared and as scheduled, and calls with arrays agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import CASES, Case, add, declared, numbers, product
from tiramisu_py.language.called import constant_key


def agree(case: Case, found: Any, expected: Any) -> None:
    """Equal bit for bit, but where sums of floating-point numbers or elementary functions are in them."""
    for one, other in zip(found if isinstance(found, list | tuple) else [found], expected, strict=True):
        if case.exact:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def filled(case: Case, launch: Any, read: Any, **options: Any) -> list[np.ndarray[Any, Any]]:
    """What a launch with arrays stores."""
    out = [np.full_like(each, np.nan) for each in case.expected(*read)]
    launch(*read, *out, **case.constants, **options)
    return out


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_interpretation_and_evaluation_are_numpys(case: Case) -> None:
    f, _ = declared(case)
    report = f.check()
    assert report.ok, report
    for sizes in case.sizes:
        read = case.read(*sizes)
        expected = case.expected(*read)
        grid = case.grid(*sizes)
        agree(case, filled(case, case.kernel.interpret[grid], read, seed=sum(sizes)), expected)
        agree(case, f.evaluate(*read), expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_recipe_for_cores_is_proven_and_right(case: Case) -> None:
    f, run = declared(case)
    text = tm.recipes.blocks(run, on=tm.cores())
    assert "parallelize" in text
    report = f.check()
    assert report.ok, report
    kernel = f.compile()
    for sizes in case.sizes:
        read = case.read(*sizes)
        agree(case, kernel(*read), case.expected(*read))


def test_arrays_are_proven_compiled_kept_and_their_sizes_checked() -> None:
    x, y, z = numbers(40), numbers(40), np.zeros(40, np.float32)
    add[3](x, y, z, BLOCK=16)
    np.testing.assert_array_equal(z, x + y)
    (kept,) = add.compiled.values()
    add[1](x[:5], y[:5], z[:5], BLOCK=16)
    add[lambda meta: tl.cdiv(37, meta["BLOCK"])](x[:37], y[:37], z[:37], BLOCK=16)
    assert kept in add.compiled.values() and len(kept.functions) == 1
    with pytest.raises(tm.LegalityError, match=r"no program stores Z\[32\]"):
        add[2](x, y, z, BLOCK=16)
    with pytest.raises(tm.LegalityError, match=r"reads Y\[20\], which is outside"):
        add[3](x, y[:20], z, BLOCK=16)


@tm.jit
def multiplied(X, Y, FACTOR: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y[i], tl.load(X[i], mask=i < X.shape[0], other=0) * FACTOR, mask=i < X.shape[0])


def test_constants_of_other_values_make_other_kernels() -> None:
    """A constant of 0.25 once had the kernel of 0.5, and one of -0.0 that of 0.0."""
    x = numbers(5)
    for factor in (0.5, np.float32(0.25), 0.0, -0.0):
        y = np.full_like(x, np.nan)
        for _ in range(2):
            multiplied[1](x, y, factor, B=np.int64(8))
            np.testing.assert_array_equal(y, x * np.float32(factor))
            assert np.signbit(y).all() == bool(np.signbit(factor))
    assert len(multiplied.compiled) == 4 and constant_key(True) != constant_key(1)


def test_a_call_of_the_same_kinds_goes_to_its_kernel_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @tm.jit
    def shifted(X, Y, by, count, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(Y[i], tl.load(X[i], mask=i < count, other=0) + by, mask=i < count)

    x = numbers(16)
    y = np.zeros_like(x)
    shifted[2](x, y, 1.5, 16, B=8)
    monkeypatch.setattr("tiramisu_py.language.kernel.Called.of", lambda *_: pytest.fail("it is looked at again"))
    for by in (1.5, -2.0):
        shifted[(2,)](x, y, by, 16, B=8)
        np.testing.assert_array_equal(y, x + np.float32(by))


def test_values_have_the_names_of_the_source_and_take_commands() -> None:
    f, run = declared(next(case for case in CASES if case.name == "attention"))
    assert {"q", "k", "v", "s", "p", "decay", "total", "acc", "top"} <= set(run.names)
    assert run["p"].name == "p" and run["top"].name == run["high"].name
    run["p"].vectorize(tm.iters("rn")[0], 4)
    assert f.check().ok
    with pytest.raises(tm.DeclarationError, match="has no value called 'nothing'"):
        run["nothing"]


def test_an_array_is_a_computation_for_those_who_read_it() -> None:
    (n,) = tm.params("n")
    (i,) = tm.iters("i")
    f = tm.Function("twice", params=[n])
    x = f.input("x", tm.float32, [n])
    doubled = f.computation("doubled", {i: n}, 2 * x[i])
    z = f.array("z", tm.float32, [n])
    add[tl.cdiv(n, 8)](x, doubled, z, BLOCK=8)
    f.outputs(f.computation("more", {i: n}, z[i] + 1))
    given = numbers(13)
    np.testing.assert_array_equal(f.evaluate(given), 3 * given + 1)
    np.testing.assert_array_equal(f.compile()(given), 3 * given + 1)


def test_sums_in_turn_keep_the_bits_of_one_program() -> None:
    """Values that are no integers: the order of programs is the order of the sums."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(5, 19)).astype(np.float32) for _ in range(2))
    c, d = np.zeros((5, 5), np.float32), np.zeros((5, 5), np.float32)
    constants = {"TM": 8, "TN": 8, "TK": 4}
    product.interpret[1, 1, 4](a, b, c, SPLIT=4, seed=1, **constants)
    product.interpret[1, 1, 4](a, b, d, SPLIT=4, seed=2, **constants)
    np.testing.assert_array_equal(c, d)
    product[1, 1, 4](a, b, d, SPLIT=4, **constants)
    np.testing.assert_array_equal(c, d)


def test_a_function_with_programs_is_saved_with_its_commands(tmp_path: Path) -> None:
    f, run = declared(CASES[0])
    tm.recipes.blocks(run, on=tm.cores())
    f.save(tmp_path / "add.json")
    g = tm.load(tmp_path / "add.json")
    x, y = numbers(21), numbers(21)
    assert g.check().ok and len(g.commands) == len(f.commands)
    np.testing.assert_array_equal(g.evaluate(x, y), x + y)
    wrong = tm.Function("wrong", params=[])
    a, b = wrong.input("a", tm.float32, [20]), wrong.array("b", tm.float32, [20])
    add[1](a, a, b, BLOCK=16)
    with pytest.raises(tm.SavedError, match=r"b cannot be saved: algorithm: no program stores b\[16\]"):
        wrong.save(tmp_path / "wrong.json")


@tm.jit
def row_sums_and_blocks(X, Y, TN: tl.constexpr):
    rm, rn = tl.program_id(0) + tl.arange(0, 1), tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (rm[:, None] < X.shape[0]) & (rn < X.shape[1])
    x = tl.load(X[rm[:, None], rn], mask=inside, other=0)
    half = tl.abs(x)
    total = half + tl.sum(tl.abs(x), axis=1)[:, None]
    tl.store(Y[rm[:, None], rn], total + x, mask=inside)


def test_c_names_nothing_that_it_does_not_use() -> None:
    """Counts of lanes are not there where a block in variables is computed in all of them."""
    m, n = tm.params("m n")
    f = tm.Function("named", params=[m, n])
    x, y = f.input("x", tm.float32, [m, n]), f.array("y", tm.float32, [m, n])
    run = row_sums_and_blocks[m, tl.cdiv(n, 4)](x, y, TN=4)
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.cores())
    text = f.source("x86-64-v3")["named.c"]
    counts = re.findall(r"const int64_t (\w+_left\w*) =", text)
    assert counts
    for _, scope in ((name, part) for name in set(counts) for part in text.split(f"const int64_t {name} =")[1:]):
        assert _ in scope.split("\n", 1)[1].split("const int64_t " + _, 1)[0]


def test_columns_of_products_lie_side_by_side() -> None:
    """k of ``tl.dot(q, tl.trans(k))`` is copied with its axes exchanged, and vectors of it are whole."""
    f, run = declared(next(case for case in CASES if case.name == "attention"))
    text = tm.recipes.blocks(run, on=tm.cores())
    assert "\nk.store_in([rd, rn])" in text and "\nk.reorder(rd, rn)" in text and "\nv.store_in" not in text
    (product,) = (line for line in text.splitlines() if line.startswith("product.update.reorder"))
    assert product == "product.update.reorder(rd, rm, rn)"
    updates = re.findall(r"// product\[.*\] \+= .*\n((?:.*\n){2})", f.source("x86-64-v4")["attention.c"])
    assert updates and not any("TM_STRIDED" in update or "gather" in update for update in updates)


def test_long_rows_have_several_vectors_of_partial_results() -> None:
    @tm.jit
    def totals(X, Y, LANES: tl.constexpr):
        row, lane = tl.program_id(0), tl.arange(0, LANES)
        tl.store(Y[row], tl.sum(tl.load(X[row, lane], mask=lane < X.shape[1], other=0), axis=0))

    m, n = tm.params("m n")
    for lanes, width in ((16, 16), (32, 16), (256, 64)):
        f = tm.Function("totals", params=[m, n], assume=f"1 <= n <= {lanes}")
        x, y = f.input("x", tm.float32, [m, n]), f.array("y", tm.float32, [m])
        run = totals[m](x, y, LANES=lanes)
        f.outputs(y)
        assert f"x0, {width}, combine=tm.PRIVATE" in tm.recipes.blocks(run, on=tm.cores(vector=16)).replace(
            "lane", "x0"
        )
        given = numbers(3, lanes - 3)
        np.testing.assert_array_equal(f.compile()(given), given.sum(1))
