"""Kernels to test with: each with its launch on handles, its arrays, and what NumPy says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl


@tm.jit
def add(X, Y, Z, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < X.shape[0]
    x, y = tl.load(X[i], mask=inside, other=0), tl.load(Y + i, mask=inside, other=0)
    tl.store(Z[i], x + y, mask=inside)


@tm.jit
def transposed(X, Y, TM: tl.constexpr, TN: tl.constexpr):
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    M, N = X.shape
    inside = (rm[:, None] < M) & (rn < N)
    block = tl.load(X + rm[:, None] * X.stride(0) + rn, mask=inside, other=0)
    tl.store(Y[rn[:, None], rm], tl.trans(block), mask=tl.trans(inside))


@tm.jit
def softmax(X, Y, LANES: tl.constexpr):
    """A program a row; LANES is at least the length of a row."""
    row, lane = tl.program_id(0), tl.arange(0, LANES)
    N = X.shape[1]
    x = tl.load(X[row, lane], mask=lane < N, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Y[row, lane], e / tl.sum(e, axis=0), mask=lane < N)


@tm.jit
def mean_and_square(X, Mean, Y, ROWS: tl.constexpr, LANES: tl.constexpr):
    """Layer norm's sums in blocks of rows: two outputs, a loop along the rows that carries two sums."""
    M, N = X.shape
    rm = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total, squares = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    for start in tl.range(0, N, LANES):
        rn = start + tl.arange(0, LANES)
        x = tl.load(X[rm[:, None], rn], mask=(rm[:, None] < M) & (rn < N), other=0)
        total += tl.sum(x, axis=1)
        squares += tl.sum(x * x, axis=1)
    tl.store(Mean[rm], total, mask=rm < M)
    tl.store(Y[rm], squares - total * total, mask=rm < M)


@tm.jit
def product(
    A, B, C, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, SPLIT: tl.constexpr = 1,
    PRECISION: tl.constexpr = "ieee", COMBINE: tl.constexpr = tm.ORDERED,
):  # fmt: skip
    """C = A @ B.T, with pointers that the loop moves."""
    M, K = A.shape
    N = B.shape[0]
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.program_id(2) * TK + tl.arange(0, TK)
    a_place, b_place = A + rm[:, None] * A.stride(0) + rk, B + rn[:, None] * B.stride(0) + rk
    acc = tl.zeros((TM, TN), tl.float32)
    for k in tl.range(tl.program_id(2) * TK, K, SPLIT * TK):
        left = K - k + tl.program_id(2) * TK
        a = tl.load(a_place, mask=(rm[:, None] < M) & (rk < left), other=0)
        b = tl.load(b_place, mask=(rn[:, None] < N) & (rk < left), other=0)
        acc = tl.dot(a, b.T, acc, input_precision=PRECISION)
        a_place += SPLIT * TK
        b_place += SPLIT * TK
    inside = (rm[:, None] < M) & (rn < N)
    if SPLIT > 1:
        tl.accumulate(C[rm[:, None], rn], acc, mask=inside, combine=COMBINE)
    else:
        tl.store(C[rm[:, None], rn], acc, mask=inside)


@tm.jit
def row_maximum(x, before):
    return tl.maximum(before, tl.max(x, axis=1))


@tm.jit
def attention(Q, K, V, Out, TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr = True):
    """One program a block of rows; three values are carried."""
    L = Q.shape[0]
    rm, rd = tl.program_id(0) * TM + tl.arange(0, TM), tl.arange(0, D)
    q = tl.load(Q[rm[:, None], rd], mask=rm[:, None] < L, other=0)
    top, total = tl.full((TM,), -float("inf"), tl.float32), tl.zeros((TM,), tl.float32)
    acc = tl.zeros((TM, D), tl.float32)
    for start in tl.range(0, (tl.program_id(0) + 1) * TM if CAUSAL else L, TN):
        rn = start + tl.arange(0, TN)
        k = tl.load(K[rn[:, None], rd], mask=rn[:, None] < L, other=0)
        v = tl.load(V[rn[:, None], rd], mask=rn[:, None] < L, other=0)
        kept = (rn[None, :] <= rm[:, None]) if CAUSAL else (rn[None, :] < L)
        s = tl.where(kept, tl.dot(q, tl.trans(k)), -float("inf"))
        high = row_maximum(s, top)
        p, decay = tl.exp(s - high[:, None]), tl.exp(top - high)
        total = total * decay + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * decay[:, None])
        top = high
    tl.store(Out[rm[:, None], rd], acc / total[:, None], mask=rm[:, None] < L)


@dataclass(frozen=True)
class Case:
    """A kernel with arrays: how it is launched, the arrays that it reads, and those that it fills, from NumPy."""

    name: str
    kernel: Any
    grid: Callable[..., tuple[Any, ...]]
    constants: dict[str, int]
    read: Callable[..., list[np.ndarray[Any, Any]]]
    expected: Callable[..., list[np.ndarray[Any, Any]]]
    sizes: tuple[tuple[int, ...], ...]
    exact: bool = True
    assume: str | None = None


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Small whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(len(shape) + sum(shape)).integers(0, 7, shape).astype(dtype)


def tensor_product(dtype: tm.DType = tm.float16, assume: str = "", **constants: Any) -> tuple[tm.Function, Any]:
    """The product of two matrices of a type of tensor cores, and its run."""
    M, N, K = tm.params("M N K")
    f = tm.Function("half", params=[M, N, K], assume=assume or None)
    A, B, C = f.input("A", dtype, [M, K]), f.input("B", dtype, [N, K]), f.array("C", tm.float32, [M, N])
    sizes = {"TM": 32, "TN": 16, "TK": 16, **constants}
    run = product[tl.cdiv(M, sizes["TM"]), tl.cdiv(N, sizes["TN"]), constants.get("SPLIT", 1)](A, B, C, **sizes)
    f.outputs(C)
    return f, run


def _softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return e / e.sum(1, keepdims=True)


def _attended(q: Any, k: Any, v: Any, causal: bool) -> np.ndarray[Any, Any]:
    s = q @ k.T
    return _softmax(np.where(np.tri(len(q), dtype=bool), s, -np.inf) if causal else s) @ v


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def attention_case(name: str, **constants: Any) -> Case:
    """Attention, causal or not."""
    return Case(
        name, attention, lambda n: (tl.cdiv(n, 8),), {"TM": 8, "TN": 4, "D": 8, **constants},
        lambda n: list(_normal(3, n, 8)), lambda q, k, v: [_attended(q, k, v, constants.get("CAUSAL", True))],
        ((1,), (13,), (17,)), exact=False, assume="M >= 1",
    )  # fmt: skip


def product_case(split: int) -> Case:
    """The product, with its sums split among programs."""
    return Case(
        f"product_{split}", product, lambda m, n, k: (tl.cdiv(m, 8), tl.cdiv(n, 4), split),
        {"TM": 8, "TN": 4, "TK": 4, "SPLIT": split},
        lambda m, n, k: [numbers(m, k), numbers(n, k)], lambda a, b: [a @ b.T], ((1, 1, 0), (9, 5, 17), (8, 3, 8)),
    )  # fmt: skip


CASES = (
    Case("add", add, lambda n: (tl.cdiv(n, 16),), {"BLOCK": 16}, lambda n: [numbers(n), numbers(n)],
         lambda x, y: [x + y], ((0,), (1,), (17,), (47,))),
    Case("transposed", transposed, lambda m, n: (tl.cdiv(m, 8), tl.cdiv(n, 4)), {"TM": 8, "TN": 4},
         lambda m, n: [numbers(m, n)], lambda x: [x.T.copy()], ((1, 1), (9, 5), (7, 13))),
    Case("softmax", softmax, lambda m, n: (m,), {"LANES": 16}, lambda m, n: [_normal(m, n)],
         lambda x: [_softmax(x)], ((1, 1), (5, 13), (3, 16)), exact=False, assume="1 <= N <= 16"),
    Case("mean_and_square", mean_and_square, lambda m, n: (tl.cdiv(m, 4),), {"ROWS": 4, "LANES": 8},
         lambda m, n: [numbers(m, n)], lambda x: [x.sum(1), (x * x).sum(1) - x.sum(1) ** 2], ((1, 0), (5, 17), (4, 8))),
    product_case(1),
    product_case(4),
    attention_case("attention"),
    attention_case("attention_all", CAUSAL=False),
)  # fmt: skip


def declared(case: Case) -> tuple[tm.Function, Any]:
    """The function of a case over symbolic sizes, and the run in it."""
    count = len(case.sizes[0])
    sizes = tm.params("M N K")[:count]
    f = tm.Function(case.name, params=list(sizes), assume=case.assume)
    concrete = [11, 12, 13][:count]
    shapes = dict(zip(concrete, sizes, strict=True))

    def symbolic(array: np.ndarray[Any, Any]) -> list[Any]:
        return [shapes.get(extent, extent) for extent in array.shape]

    read = case.read(*concrete)
    handles = [f.input(f"in{k}", tm.float32, symbolic(array)) for k, array in enumerate(read)]
    filled = [f.array(f"out{k}", tm.float32, symbolic(array)) for k, array in enumerate(case.expected(*read))]
    run = case.kernel[case.grid(*sizes)](*handles, *filled, **case.constants)
    f.outputs(*filled)
    return f, run
