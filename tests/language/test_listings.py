"""The listings of the thesis in `examples/blocks`: interpreted, evaluated, on cores and in the simulator, beside NumPy.

Sizes are 0, 1, a prime, and a tile and one more. Values are small whole numbers, so that sums are exact in every order;
where exponentials are in them the numbers are close.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.language.test_masks_left_out import module_of

Array = np.ndarray[Any, Any]
SEEDS = range(20)
listings, convolution, sparse = (module_of(name) for name in ("listings", "convolution", "block_sparse"))


@dataclass(frozen=True)
class Call:
    """The arguments of one call, what NumPy says, and the same programs interpreted, which fill an array."""

    read: Sequence[Array]
    wanted: Array
    interpret: Callable[..., None]
    scalars: Mapping[str, Any] = field(default_factory=dict)


def whole(*shape: int, seed: int = 0) -> Array:
    """Small whole numbers."""
    return np.random.default_rng(seed + sum(shape)).integers(-3, 4, shape).astype(np.float32)


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def relu_calls() -> list[Call]:
    def call(n: int) -> Call:
        x = whole(n)
        return Call([x], np.maximum(x, 0), lambda y, **o: listings.relu.interpret[cdiv(n, 64)](x, y, BLOCK=64, **o))

    return [call(n) for n in (0, 1, 47, 65)]


def transpose_calls() -> list[Call]:
    def call(m: int, n: int) -> Call:
        x, tiles = whole(n, m), {"TM": 16, "TN": 32}
        launch = listings.transpose.interpret[cdiv(m, 16), cdiv(n, 32)]
        return Call([x], x.T.copy(), lambda y, **o: launch(x, y, **tiles, **o))

    return [call(m, n) for m, n in ((0, 3), (1, 1), (13, 47), (17, 33))]


def product_calls(split: int, first: bool, second: bool) -> list[Call]:
    def call(m: int, n: int, k: int) -> Call:
        a, b = whole(m, k), whole(k, n, seed=1)
        given = [a.T.copy() if first else a, b.T.copy() if second else b]
        constants = {"TM": 8, "TN": 8, "TK": 4, "TZ": split, "AT": first, "BT": second}
        launch = listings.matmul.interpret[cdiv(m, 8), cdiv(n, 8), split]
        return Call(given, a @ b / 2, lambda y, **o: launch(*given, y, 0.5, **constants, **o), {"alpha": 0.5})

    return [call(*sizes) for sizes in ((0, 3, 2), (1, 1, 0), (1, 1, 1), (7, 11, 13), (9, 9, 5), (8, 16, 33))]


def convolution_calls(pad: int, stride: int) -> list[Call]:
    def call(images: int, channels: int, results: int) -> Call:
        a, b = whole(images, channels, 5, 6), whole(channels, 3, 2, results)
        wanted = convolution.by_numpy(a, b, pad, stride)
        P, Q = ((extent + 2 * pad - weights) // stride + 1 for extent, weights in ((5, 3), (6, 2)))
        constants = {"P": P, "Q": Q, "R": 3, "S": 2, "PAD": pad, "STRIDE": stride, "TM": 16, "TN": 8, "TK": 8}
        launch = convolution.conv.interpret[cdiv(images * P * Q, 16), cdiv(results, 8)]
        return Call([a, b], wanted, lambda y, **o: launch(a, b, y, **constants, **o))

    return [call(*sizes) for sizes in ((0, 1, 1), (1, 0, 2), (1, 1, 1), (2, 3, 9))]


def attention_calls(kernel: str, split: int = 1) -> list[Call]:
    """The kernels over sparse blocks: one or two heads, some rows of blocks, of which some have no block."""

    def call(heads: int, rows: int, depth: int) -> Call:
        given, z = sparse.pattern(heads, rows, heads + rows), 2
        q, k, v = (whole(z, heads, rows, 8, depth, seed=each) for each in range(3))
        p, m = whole(z, heads, rows, 8, rows, 8), (whole(rows, 8, rows, 8) > -2).astype(np.float32)
        s, y, _ = sparse.by_numpy(given, q, k, v, p, m, 0.25)
        count, tables = len(given["head"]), given
        if kernel == "sddmm":
            read = [tables["head"], tables["row"], tables["column"], q, k]
            launch = sparse.sddmm.interpret[count, z, split]
            return Call(read, s, lambda o, **k: launch(*read, o, B=8, TK=8, TZ=split, **k))
        if kernel == "softmax":
            read, scale = [*tables.values(), s, p, m], np.float32(0.25)
            launch = sparse.softmax.interpret[heads * rows * 8, z]
            return Call(read, y, lambda o, **k: launch(*read, o, scale, B=8, LANES=32, **k), {"scale": scale})
        read = [tables["start"], tables["head"], tables["column"], s, v]
        wanted = (sparse.dense(tables, s, rows, heads) @ v.reshape(z, heads, rows * 8, depth)).reshape(z, -1, 8, depth)
        launch = sparse.dsd.interpret[heads * rows, z, cdiv(depth, 16)]
        return Call(read, wanted, lambda o, **k: launch(*read, o, B=8, TD=16, **k))

    return [call(*sizes) for sizes in ((1, 1, 1), (2, 4, 11), (1, 3, 17))]


@dataclass(frozen=True)
class Case:
    """A listing: its function, its calls, and whether its values are exact."""

    make: Callable[[], tuple[tm.Function, Any]]
    calls: Callable[[], list[Call]]
    exact: bool = True
    on_gpu: bool = True


def product_case(split: int, first: bool, second: bool, combine: Any = tm.TWO_PASS) -> Case:
    return Case(
        lambda: listings.product((8, 8, 4), split, first, second, combine),
        lambda: product_calls(split, first, second),
    )


CASES = {
    "2.1": Case(listings.rectified, relu_calls),
    "5.7": product_case(1, False, False),
    "6.1": Case(sparse.scores, lambda: attention_calls("sddmm")),
    "6.2": Case(sparse.shares, lambda: attention_calls("softmax"), exact=False, on_gpu=False),
    "DSD": Case(sparse.sums, lambda: attention_calls("dsd")),
    "5.1": Case(listings.transposed, transpose_calls),
    "5.8": Case(convolution.convolved, lambda: convolution_calls(1, 1)),
    "5.8, no border": Case(lambda: convolution.convolved(pad=0), lambda: convolution_calls(0, 1)),
    "5.8, every other pixel": Case(lambda: convolution.convolved(stride=2), lambda: convolution_calls(1, 2)),
    "5.7, first transposed": product_case(1, True, False),
    "5.7, second transposed": product_case(1, False, True),
    "5.7, both transposed": product_case(1, True, True),
    "5.7, split 2": product_case(2, False, True),
    "5.7, split 4": product_case(4, True, False),
    "5.7, split 8": product_case(8, False, False),
    "5.7, split 2, any order": product_case(2, False, False, tm.ATOMIC),
    "5.7, split 4, any order": product_case(4, False, True, tm.ATOMIC),
    "5.7, split 8, last block": product_case(8, True, True, tm.LAST_BLOCK),
    "5.7, split 4, in turn": product_case(4, False, False, tm.ORDERED),
    "6.1, split 2": Case(lambda: sparse.scores(split=2, combine=tm.ATOMIC), lambda: attention_calls("sddmm", 2)),
    "6.1, split 8": Case(lambda: sparse.scores(split=8, combine=tm.ATOMIC), lambda: attention_calls("sddmm", 8)),
}


def agree(case: Case, found: Any, wanted: Array) -> None:
    """Equal bit for bit, but where there are exponentials."""
    if case.exact:
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_listing_is_what_numpy_says(name: str) -> None:
    case = CASES[name]
    f, _ = case.make()
    report = f.check()
    assert report.ok, report
    for seed, call in enumerate(case.calls()):
        out = np.full_like(call.wanted, np.nan)
        call.interpret(out, seed=seed)
        agree(case, out, call.wanted)
        agree(case, f.evaluate(*call.read, **call.scalars), call.wanted)


@pytest.mark.parametrize("name", CASES)
def test_a_listing_on_cores_is_what_numpy_says(name: str) -> None:
    case = CASES[name]
    f, run = case.make()
    tm.recipes.blocks(run, on=tm.cores())
    report = f.check()
    assert report.ok, report
    kernel = f.compile()
    for call in case.calls():
        agree(case, kernel(*call.read, **call.scalars), call.wanted)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.on_gpu])
def test_a_listing_in_the_simulator_is_what_numpy_says_whatever_comes_first(name: str) -> None:
    case = CASES[name]
    f, run = case.make()
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    f.derive_transfers()
    report = f.check()
    assert report.ok, report
    kernel, (*_, last) = f.compile(device="simulator", sanitize=True), case.calls()
    for call in case.calls():
        agree(case, kernel(*call.read, **call.scalars), call.wanted)
    for seed in SEEDS:
        agree(case, kernel.seeded(seed, "lazy")(*last.read, **last.scalars), last.wanted)


def test_a_row_of_scores_longer_than_the_lanes_is_no_matter_of_the_proof() -> None:
    """Sums through tables are of programs on cores: a GPU is refused with what would be one."""
    _, run = sparse.shares()
    with pytest.raises(tm.TiramisuError, match="no box of blocks of a GPU"):
        tm.recipes.blocks(run, on=tm.gpu())
