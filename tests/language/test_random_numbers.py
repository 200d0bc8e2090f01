"""Random numbers of kernels: those of Philox 4x32, the same on NumPy, as values, compiled, and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers

BLOCK = 16


@tm.jit
def drawn(Y, seed, first, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y[i], tl.rand(seed, first + i), mask=i < Y.shape[0])


@tm.jit
def dropout(X, Y, seed, keep, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    x = tl.load(X[i], mask=inside, other=0)
    tl.store(Y[i], tl.where(tl.rand(seed, i) < keep, x / keep, 0), mask=inside)


def philox(key: int, counter: int) -> int:
    """The first word of Philox 4x32 with ten rounds, in Python's integers, from the paper."""
    low = 0xFFFFFFFF
    c = [counter >> shift & low for shift in (0, 32, 64, 96)]
    k = [key & low, key >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & low, (p >> 32) ^ c[3] ^ k[1], p & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c[0]


def uniform(word: int) -> np.float32:
    """Triton's float of a word: that of the word with a sign, without it."""
    return np.float32(word if word < 1 << 31 else (1 << 32) - 1 - word) * np.float32(4.6566127342e-10)


def test_the_oracle_is_philox_of_its_authors() -> None:
    """The three answers that come with Random123."""
    assert philox(0, 0) == 0x6627E8D5
    assert philox((1 << 64) - 1, (1 << 128) - 1) == 0x408F276D
    assert philox(0x299F31D0A4093822, 0x0370734413198A2E85A308D3243F6A88) == 0xD16CFE09


@pytest.mark.parametrize("seed", [0, 123, -5, (1 << 40) + 3])
@pytest.mark.parametrize("first", [0, (1 << 32) - 7, -3])
def test_numbers_are_those_of_philox(seed: int, first: int) -> None:
    size = 19
    expected = [uniform(philox(seed % (1 << 64), (first + i) % (1 << 64))) for i in range(size)]
    interpreted, compiled = np.zeros(size, np.float32), np.zeros(size, np.float32)
    drawn.interpret[2](interpreted, seed, first, B=BLOCK)
    drawn[2](compiled, seed, first, B=BLOCK)
    np.testing.assert_array_equal(interpreted, expected)
    np.testing.assert_array_equal(compiled, expected)


def test_the_largest_number_is_below_1() -> None:
    assert uniform((1 << 31) - 1) < 1 and uniform(1 << 31) < 1 and uniform(0) == uniform((1 << 32) - 1) == 0


def on_gpu() -> tuple[tm.Function, Any]:
    (n,) = tm.params("N")
    f = tm.Function("dropout", params=[n])
    x, y = f.input("x", tm.float32, [n]), f.array("y", tm.float32, [n])
    run = dropout[tl.cdiv(n, BLOCK)](x, y, 7, 0.75, B=BLOCK)
    f.outputs(y)
    return f, run


def test_dropout_is_the_same_everywhere() -> None:
    f, run = on_gpu()
    assert "rand f32<16> 7, i;" in str(run.ir)
    assert str(tl.parse(str(run.ir))) == str(run.ir)
    x = numbers(37) + 1
    expected = np.zeros_like(x)
    dropout.interpret[3](x, expected, 7, 0.75, B=BLOCK)
    drawn_below = np.array([uniform(philox(7, i)) for i in range(37)]) < np.float32(0.75)
    np.testing.assert_array_equal(expected != 0, drawn_below)
    np.testing.assert_array_equal(f.evaluate(x), expected)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    f.derive_transfers()
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(x), expected)


@tm.jit
def float_as_seed(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, B)], tl.rand(0.5, tl.arange(0, B)))


@tm.jit
def float_as_offset(X, Y, B: tl.constexpr):
    tl.store(Y[tl.arange(0, B)], tl.rand(1, tl.load(X[tl.arange(0, B)])))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (float_as_seed, "the seed of tl.rand is weak float: give an integer"),
        (float_as_offset, "the offset of tl.rand is float32: give an integer"),
    ],
)
def test_seeds_and_offsets_are_integers(kernel: Any, words: str) -> None:
    with pytest.raises(tm.DeclarationError, match=words):
        kernel[1](np.zeros(8, np.float32), np.zeros(8, np.float32), B=8)
