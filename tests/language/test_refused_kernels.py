"""Kernels that are refused: by the line of the source, or by the smallest program, element and sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl

BLOCK = 8


@tm.jit
def loop_without_end(X, Y, B: tl.constexpr):
    while True:
        pass


@tm.jit
def early_end(X, Y, B: tl.constexpr):
    for _ in tl.range(0, 10):
        break


@tm.jit
def part_of_a_block(X, Y, B: tl.constexpr):
    x = tl.load(X[tl.arange(0, B)])
    tl.store(Y[tl.arange(0, 4)], x[0:4])


@tm.jit
def element_of_a_block(X, Y, B: tl.constexpr):
    x = tl.load(X[tl.arange(0, B)])
    tl.store(Y[0], x[0])


@tm.jit
def no_other(X, Y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y[i], tl.load(X[i], mask=i < X.shape[0]), mask=i < X.shape[0])


@tm.jit
def unequal_shapes(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, B)], tl.load(X[tl.arange(0, B)]) + tl.load(X[tl.arange(0, 4)]))


@tm.jit
def extent_of_a_size(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, X.shape[0])], 0)


@tm.jit
def variable_of_the_module(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, BLOCK)], 0)


@tm.jit
def unknown_name(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, B)], nothing)  # noqa: F821


@tm.jit
def unknown_word(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, B)], tl.load(X[tl.atomic_cas(X, 0, 1)]))


@tm.jit
def too_many_indices(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, B), 0], 0)


@tm.jit
def float_as_index(X, Y, B: tl.constexpr):
    tl.store(Y[tl.load(X[0])], 0)


@tm.jit
def block_as_condition(X, Y, B: tl.constexpr):
    x = tl.load(X[tl.arange(0, B)])
    if x > 0:
        tl.store(Y[tl.arange(0, B)], x)


@tm.jit
def several_elements_to_one(X, Y, B: tl.constexpr):
    tl.store(Y[tl.program_id(0)], tl.load(X[tl.arange(0, B)]))


@tm.jit
def what_it_stores(X, Y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Y[i], 0)
    tl.store(Y[i + B], tl.load(Y[i]))


@tm.jit
def an_input(X, Y, B: tl.constexpr):
    tl.store(X[tl.arange(0, B)], 0)


@tm.jit
def nothing_stored(X, Y, B: tl.constexpr):
    tl.load(X[tl.arange(0, B)])


@tm.jit
def other_type_in_a_loop(X, Y, B: tl.constexpr):
    acc = tl.zeros((B,), tl.float32)
    for k in tl.range(0, 4):
        acc = acc + k
    tl.store(Y[tl.arange(0, B)], acc)


@tm.jit
def only_in_the_loop(X, Y, B: tl.constexpr):
    for k in tl.range(0, 4):
        last = tl.load(X[k])
    tl.store(Y[0], last)


@tm.jit
def products_that_do_not_fit(X, Y, B: tl.constexpr):
    a = tl.zeros((B, 4), tl.float32)
    tl.store(Y[tl.arange(0, B)], tl.sum(tl.dot(a, a), axis=1))


@tm.jit
def functions_inside(X, Y, B: tl.constexpr):
    def inner(x):
        return x


@tm.jit
def two_outputs_in_one(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, B)], 0)
    tl.accumulate(Y[tl.arange(0, B)], 0, combine=tm.ATOMIC)


@tm.jit
def no_combine(X, Y, B: tl.constexpr):
    tl.accumulate(Y[tl.arange(0, B)], 0)


@tm.jit
def in_two_passes(X, Y, B: tl.constexpr):
    for k in tl.range(0, 4):
        tl.accumulate(Y[tl.arange(0, B)], tl.load(X[k]), combine=tm.TWO_PASS)


@tm.jit
def fewer_bits(X, Y, B: tl.constexpr):
    a = tl.zeros((B, B), tl.float16)
    tl.store(Y[tl.arange(0, B)], tl.sum(tl.dot(a, a, input_precision="tf32"), axis=1))


@tm.jit
def more_products(X, Y, B: tl.constexpr):
    a = tl.zeros((B, B), tl.float32)
    tl.store(Y[tl.arange(0, B)], tl.sum(tl.dot(a, a, input_precision="tf32x3"), axis=1))


@tm.jit
def stages(X, Y, B: tl.constexpr):
    for k in tl.range(0, 4, num_stages=3):
        tl.store(Y[k], 0)


@tm.jit
def constants_that_do_not_hold(X, Y, B: tl.constexpr):
    tl.static_assert(B % 3 == 0, "three at a time")


@tm.jit
def assumed(X, Y, B: tl.constexpr):
    tl.assume(X.shape[0] > 4)
    tl.store(Y[tl.arange(0, B)], 0)


@tm.jit
def grouped_order(X, Y, B: tl.constexpr):
    """The order of programs of Triton's tutorial of matrix products."""
    N = X.shape[0]
    rows, columns = tl.cdiv(N, B), tl.cdiv(N, 2 * B)
    in_group = 4 * columns
    first = tl.program_id(0) // in_group * 4
    size = tl.minimum(rows - first, 4)
    tl.store(Y[first + (tl.program_id(0) % in_group) % size], 0)


@tm.jit
def through_a_table(X, Y, B: tl.constexpr):
    tl.store(Y[tl.load(X[tl.arange(0, B)]).to(tl.int64)], 0)


SOURCES: list[tuple[Any, str]] = [
    (loop_without_end, "while has no bound: write for k in tl.range"),
    (early_end, "break leaves a loop at a value"),
    (part_of_a_block, r"x\[0:4\] takes a part of a block, which belongs to other threads.*reshape and split"),
    (element_of_a_block, r"x\[0\] takes a part of a block"),
    (no_other, "the load has a mask and no other="),
    (unequal_shapes, r"blocks of shapes \[8\] and \[4\] do not fit together"),
    (extent_of_a_size, "the ends of tl.arange are constants"),
    (variable_of_the_module, "BLOCK is a variable of the module, 8: pass it as an argument, BLOCK: tl.constexpr"),
    (unknown_name, "there is nothing called nothing"),
    (unknown_word, "there is no word tl.atomic_cas"),
    (too_many_indices, "the array Y has 1 indices, 2 were given"),
    (float_as_index, "an index of Y is an integer or a block of integers, not float32"),
    (block_as_condition, r"x > 0 is a block of \[8\] conditions: choose with tl.where"),
    (several_elements_to_one, r"a block of shape \[8\] is stored at a place of shape \[\]"),
    (what_it_stores, "reads y, which programs of this launch store: a program does not see what another one stores"),
    (an_input, r"stores to x, which is no array that programs fill: declare it with f.array\('x'"),
    (nothing_stored, "nothing_stored stores nothing"),
    (other_type_in_a_loop, "the loop begins with f32<8> and goes on with f64<8>"),
    (only_in_the_loop, "last has no value here: the loop in line"),
    (products_that_do_not_fit, r"the product of blocks of shapes \[8, 4\] and \[8, 4\]: 4 is not 8"),
    (functions_inside, "a kernel has no functions inside"),
    (two_outputs_in_one, "y is accumulated to, and stored to elsewhere"),
    (no_combine, "combine=None: give tm.ORDERED, tm.TWO_PASS, tm.LAST_BLOCK, tm.LOCK or tm.ATOMIC"),
    (in_two_passes, "a program adds to an element of y several times, and with combine=tm.TWO_PASS its part is stored"),
    (fewer_bits, 'input_precision="tf32" is for factors of float32: leave it out for float16'),
    (more_products, 'input_precision=\'tf32x3\': give "ieee" or "tf32"'),
    (stages, "num_stages=3 of a loop: give num_stages= to tm.recipes.blocks"),
    (
        grouped_order,
        r"no form of the numbers of programs.*: launch a grid .* tl.swizzle2d\(\.\.\.\) numbers",
    ),
    (through_a_table, r"because of int64\(loaded\[.*: let the programs that fill an element follow from its index"),
    (constants_that_do_not_hold, "tl.static_assert does not hold: three at a time"),
    (assumed, r"assumes N > 4: say so of refused, assume=\"N > 4\""),
]


def launch(kernel: Any, programs: Any = None, **options: Any) -> tuple[tm.Function, Any]:
    """A kernel on an input x and an array y of N elements."""
    (n,) = tm.params("N")
    f = tm.Function("refused", params=[n], **options)
    x, y = f.input("x", tm.float32, [n]), f.array("y", tm.float32, [n])
    run = kernel[tl.cdiv(n, 8) if programs is None else programs](x, y, B=8)
    f.outputs(y)
    return f, run


@pytest.mark.parametrize(("kernel", "words"), SOURCES, ids=lambda each: getattr(each, "__name__", "message"))
def test_a_source_is_refused_with_its_line(kernel: Any, words: str) -> None:
    with pytest.raises(tm.DeclarationError, match=words) as found:
        launch(kernel)
    if kernel is not nothing_stored:
        assert f", in {kernel.__name__}" in str(found.value) or f" of {kernel.__name__}" in str(found.value)


def test_a_kernel_does_not_see_the_variables_around_it() -> None:
    size = 8

    @tm.jit
    def inside(X, Y, B: tl.constexpr):
        tl.store(Y[tl.arange(0, size)], 0)

    with pytest.raises(tm.DeclarationError, match="size belongs to the function around the kernel: pass it as"):
        launch(inside)


@tm.jit
def copied(X, Y, B: tl.constexpr, READ: tl.constexpr = 0, WRITE: tl.constexpr = 0, STEP: tl.constexpr = 8):
    i = tl.program_id(0) * STEP + tl.arange(0, B)
    N = X.shape[0]
    tl.store(Y[i], tl.load(X[i], mask=i < N + READ, other=0), mask=i < N + WRITE)


VIOLATIONS: list[tuple[dict[str, int], Any, str, int, str]] = [
    ({"READ": 1}, None, "bounds", 1, r"reads x\[1\], which is outside the array x.*let mask= of line .* leave it out"),
    ({"WRITE": 1}, None, "bounds", 1, r"program \(0\) stores y\[1\], outside of y.*let its mask= leave it out"),
    ({"STEP": 4}, None, "race", 9, r"programs \(0\) and \(1\) both store y\[4\].*tl.accumulate"),
    ({"STEP": 9}, None, "algorithm", 9, r"no program stores y\[8\].*launch programs for all of y"),
    ({}, 2, "algorithm", 17, r"no program stores y\[16\]"),
]


@pytest.mark.parametrize(("constants", "programs", "kind", "size", "words"), VIOLATIONS)
def test_what_a_program_does_wrong_is_shown_at_the_smallest_sizes(
    constants: dict[str, int], programs: Any, kind: str, size: int, words: str
) -> None:
    (n,) = tm.params("N")
    f = tm.Function("wrong", params=[n])
    x, y = f.input("x", tm.float32, [n]), f.array("y", tm.float32, [n])
    copied[tl.cdiv(n, 8) if programs is None else programs](x, y, B=8, **constants)
    f.outputs(y)
    (violation, *_) = f.check().violations
    assert violation.kind == kind and violation.witness.params["N"] == size, violation
    assert re.search(words, " ".join(str(violation).split())), violation


@tm.jit
def chosen(X, Y, B: tl.constexpr, MASKED: tl.constexpr):
    """What is loaded chooses what is stored: as a block of its own, of which no lane may be outside of the array."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X[i], mask=i < X.shape[0], other=0) if MASKED else tl.load(X[i])
    tl.store(Y[i], tl.where(x > 2, x, 1), mask=i < Y.shape[0])


@pytest.mark.parametrize("masked", [True, False])
def test_integers_that_choose_are_read_for_the_whole_block(masked: bool) -> None:
    (n,) = tm.params("N")
    f = tm.Function("choosing", params=[n])
    x, y = f.input("x", tm.int32, [n]), f.array("y", tm.int32, [n])
    chosen[tl.cdiv(n, 4)](x, y, B=4, MASKED=masked)
    f.outputs(y)
    assert f.check().ok == masked
    if not masked:
        (violation, *_) = f.check().violations
        assert violation.kind == "bounds" and "reads x[1], which is outside the array x" in violation.message
    else:
        np.testing.assert_array_equal(f.evaluate(np.arange(6, dtype=np.int32)), [1, 1, 1, 3, 4, 5])


@tm.jit
def gathered(T, X, Y, B: tl.constexpr, MASKED: tl.constexpr):
    """Indices that are loaded: read where they are needed alone, and yet no lane may be outside of the table."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < Y.shape[0]
    q = tl.load(T[i], mask=inside, other=0) if MASKED else tl.load(T[i])
    tl.store(Y[i], tl.load(X[q], mask=inside, other=0), mask=inside)


@pytest.mark.parametrize("masked", [True, False])
def test_indices_are_read_for_the_whole_block(masked: bool) -> None:
    n, m = tm.params("N M")
    f = tm.Function("gathering", params=[n, m], assume="M >= 1")
    t, x = f.input("t", tm.int32, [n], values=(0, m)), f.input("x", tm.float32, [m])
    y = f.array("y", tm.float32, [n])
    gathered[tl.cdiv(n, 4)](t, x, y, B=4, MASKED=masked)
    f.outputs(y)
    assert f.check().ok == masked
    if masked:
        found = f.evaluate(np.array([2, 0, 1], np.int32), np.array([5, 6, 7], np.float32))
        np.testing.assert_array_equal(found, [7, 5, 6])
    else:
        (violation,) = f.check().violations
        assert violation.kind == "bounds" and violation.repair == "let its mask= leave it out"
        assert "program (0) reads t[1], which is outside the array t, at N = 1" in violation.message
        with pytest.raises(tm.SavedError, match=r"y cannot be saved: .*reads t\[1\]"):
            f.save("never.json")


@tm.jit
def squared(X, Y, B: tl.constexpr):
    i, j = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    x = tl.load(X[i[:, None], j], mask=i[:, None] < X.shape[0], other=0)
    tl.store(Y[i[:, None], j], tl.dot(x, tl.trans(x)), mask=i[:, None] < X.shape[0])


def test_blocks_that_do_not_fit_into_shared_memory_are_named() -> None:
    (n,) = tm.params("N")
    f = tm.Function("squares", params=[n])
    x, y = f.input("x", tm.float32, [n, 256]), f.array("y", tm.float32, [n, 256])
    run = squared[tl.cdiv(n, 256)](x, y, B=256)
    f.outputs(y)
    with pytest.raises(tm.CommandError, match=r"needs 524288 bytes of shared memory .*\(product 262144, x_2 262144\)"):
        tm.recipes.blocks(run, on=tm.gpu())
    assert not f.commands


CALLS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: copied(1), tm.CallError, "copied is a kernel: launch it on a grid"),
    (lambda: copied[1](), tm.CallError, "copied lacks X, Y, B"),
    (lambda: copied[1](1, 2, 3, A=4), tm.CallError, "copied has no argument A: it takes X, Y, B"),
    (lambda: copied[1, 1, 1, 1](np.zeros(3), np.zeros(3), B=8), tm.CallError, "has 4 axes; it has 1 to 3"),
    (lambda: copied[-1](np.zeros(3), np.zeros(3), B=8), tm.CallError, "the extent -1; extents are at least 0"),
    (lambda: copied[1.5](np.zeros(3), np.zeros(3), B=8), tm.CallError, "the extent 1.5: give integers"),
    (lambda: tl.program_id(0), tm.CallError, "the words of tiramisu_py.language are for kernels"),
    (
        lambda: copied[2](np.zeros(9), np.zeros(9), B=8, device="simulator", num_stages=3),
        tm.UnsupportedError,
        "num_stages=3 of copied: no iteration of a loop loads a block into shared memory",
    ),
    (lambda: copied[1](np.zeros(3), np.zeros(3), B=8, num_warps=0), tm.ArgumentError, "num_warps=0: give a number"),
    (lambda: tm.recipes.blocks(copied, on=tm.cores()), tm.ArgumentError, "takes the run of a kernel"),
]


@pytest.mark.parametrize(("call", "error", "words"), CALLS)
def test_a_call_is_refused_with_what_to_write(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_an_array_is_filled_once_and_read_afterwards() -> None:
    (n,) = tm.params("N")
    f = tm.Function("twice", params=[n])
    x, y = f.input("x", tm.float32, [n]), f.array("y", tm.float32, [n])
    with pytest.raises(tm.DeclarationError, match="no program stores to y: call a kernel with it first"):
        f.outputs(y)
    with pytest.raises(tm.DeclarationError, match="no program stores to y"):
        y[0]
    copied[tl.cdiv(n, 8)](x, y, B=8)
    with pytest.raises(tm.DeclarationError, match="stores to y, which another launch fills already"):
        copied[tl.cdiv(n, 8)](x, y, B=8)
    with pytest.raises(tm.DeclarationError, match="'y' cannot be the name of an array"):
        f.array("y", tm.float32, [n])


def test_interpretation_finds_what_the_proof_finds() -> None:
    x, y = np.zeros(9, np.float32), np.zeros(9, np.float32)
    with pytest.raises(tm.ArgumentError, match=r"touches X\[9\], outside of the array X.*a mask is missing"):
        copied.interpret[2](x, y, B=8, READ=1)
    with pytest.raises(tm.ArgumentError, match="has an element that is stored twice"):
        copied.interpret[2](x, y, B=8, STEP=4)
    with pytest.raises(tm.ArgumentError, match="has a mask and no other="):
        no_other.interpret[2](x, y, B=8)


@tm.jit
def up_to(X, Y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y[i], tl.load(X[i], mask=i < n, other=0), mask=i < Y.shape[0])


@tm.jit
def stored_up_to(X, Y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y[i], tl.load(X[i], mask=i < X.shape[0], other=0), mask=i < n)


def test_a_mask_of_a_number_that_is_no_size_says_what_to_compare_with() -> None:
    N = tm.params("N")[0]
    f = tm.Function("up_to", params=[N])
    n, x, y = f.scalar("n", tm.int32), f.input("x", tm.float32, [N]), f.array("y", tm.float32, [N])
    up_to[tl.cdiv(N, 8)](x, y, n, B=8)
    f.outputs(y)
    (found, *_) = f.check().violations
    assert "n in it is no size" in found.repair and "& (.. < x.shape[0])" in found.repair, found
    g = tm.Function("stored_up_to", params=[N])
    n, x, y = g.scalar("n", tm.int32), g.input("x", tm.float32, [N]), g.array("y", tm.float32, [N], partial=True)
    with pytest.raises(tm.DeclarationError, match=r"follows from n, a number .* parameter of the function"):
        stored_up_to[tl.cdiv(N, 8)](x, y, n, B=8)
