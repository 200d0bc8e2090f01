"""The workloads of `scripts/bench blocks`: block programs at one size, with the same of others, and the goal."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl
from benchmarks.common.stories import EXAMPLES, imported

Array = np.ndarray[Any, np.dtype[Any]]
Given = Mapping[str, Array]
Run = Callable[[], Any]
OURS, VALUES, NUMPY, TORCH, DENSE = "tiramisu_py", "an algorithm", "NumPy", "PyTorch", "all blocks"
DEPTH, SCALE = 64, 0.125
#: Blocks of attention, of the rows that see all columns and of others, and the share of blocks that the sparse one has.
ROWS, COLUMNS, DENSITY = 128, 64, 8


@dataclass(frozen=True)
class Workload:
    """One kernel at one size.

    `made` schedules our programs by name, `others` are calls of libraries; `beside` names whose speed is compared with
    which goal. `work` is what a call computes, in multiplications and additions, or in bytes that it moves.
    """

    name: str
    given: Callable[[], dict[str, Array]]
    wanted: Callable[[Given], Array]
    made: Mapping[str, Callable[[], tm.Function]]
    others: Mapping[str, Callable[[Given], Run]]
    beside: Mapping[str, float]
    work: int
    unit: str = "GFLOP/s"
    scalars: Mapping[str, float] = field(default_factory=dict)


def _blocks() -> Any:
    return EXAMPLES / "blocks"


def on_cores(f: tm.Function, run: Any) -> tm.Function:
    """A function whose programs the recipe has scheduled."""
    tm.recipes.blocks(run, on=tm.cores())
    return f


def _normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def torch() -> Any:
    """PyTorch with as many threads as this process has."""
    found = importlib.import_module("torch")
    found.set_num_threads(threads())
    found.set_grad_enabled(False)
    return found


def threads() -> int:
    """The number of threads of this process."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


def missing() -> list[str]:
    """The programs that are not installed here."""
    return [] if importlib.util.find_spec("torch") else [TORCH]


def _first_of(call: Callable[..., Any], *arguments: Any, **named: Any) -> Array:
    """The first result, or matrix, of a call as an array."""
    found: Array = call(*arguments, **named)[0].numpy()
    return found


# -- products


def by_blocks(n: int) -> tm.Function:
    M, N, K = tm.params("M N K")
    f = tm.Function("product", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    c = f.array("c", tm.float32, [M, N])
    gemm = imported(_blocks(), "gemm", "blocks_")
    rows, columns, terms = (min(each, n) for each in gemm.sizes_on_cores(n, threads()))
    run = gemm.matmul[tl.cdiv(M, rows), tl.cdiv(N, columns), 1](a, b, c, TM=rows, TN=columns, TK=terms)
    f.outputs(c)
    return on_cores(f, run)


def by_recipe() -> tm.Function:
    M, N, K = tm.params("M N K")
    i, j, k = tm.iters("i j k")
    f = tm.Function("product", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    c = f.reduction("c", {i: M, j: N}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    tm.recipes.matmul(c)
    return f


def product(n: int) -> Workload:
    """A product of square matrices."""

    def numpy(given: Given) -> Run:
        out = np.empty((n, n), np.float32)
        return lambda: np.matmul(given["a"], given["b"], out=out)

    return Workload(
        f"product {n}", lambda: {"a": _normal(n, n), "b": _normal(n, n) + 1},
        lambda given: given["a"].astype(np.float64) @ given["b"], {OURS: lambda: by_blocks(n), VALUES: by_recipe},
        {NUMPY: numpy}, {NUMPY: 0.85, VALUES: 0.9}, 2 * n**3,
    )  # fmt: skip


# -- rows


def rows_softmax(lanes: int, once: bool) -> tm.Function:
    M, N = tm.params("M N")
    f = tm.Function("softmax", params=[M, N], assume=f"1 <= N <= {lanes}")
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [M, N])
    run = imported(_blocks(), "softmax", "blocks_").softmax[M](x, y, LANES=lanes, ONCE=once)
    f.outputs(y)
    return on_cores(f, run)


def softmax(m: int, n: int, once: bool) -> Workload:
    """Softmax of the rows of a matrix, with a division for each element, or for each row as the algorithm has it."""

    def by_torch(given: Given) -> Run:
        library, x = torch(), given["x"]
        tensor, out = library.from_numpy(x), library.empty(x.shape)
        return lambda: library.softmax(tensor, 1, out=out).numpy()

    def wanted(given: Given) -> Array:
        e = np.exp(given["x"] - given["x"].max(1, keepdims=True).astype(np.float64))
        return np.asarray(e / e.sum(1, keepdims=True))

    story = lambda: imported(EXAMPLES / "linear", "softmax", "linear_").scheduled()  # noqa: E731
    return Workload(
        f"softmax {m} x {n}{', divided once' if once else ''}", lambda: {"x": _normal(m, n)}, wanted,
        {OURS: lambda: rows_softmax(n, once), **({VALUES: story} if once else {})}, {TORCH: by_torch},
        {TORCH: 1.3, **({VALUES: 0.9} if once else {})}, 8 * m * n, "GB/s",
    )  # fmt: skip


def rows_layer_norm(lanes: int) -> tm.Function:
    M, N = tm.params("M N")
    f = tm.Function("normalised", params=[M, N], assume=f"1 <= N <= {lanes}")
    x, w, b = f.input("x", tm.float32, [M, N]), f.input("w", tm.float32, [N]), f.input("b", tm.float32, [N])
    y = f.array("y", tm.float32, [M, N])
    mean, rstd = f.array("mean", tm.float32, [M]), f.array("rstd", tm.float32, [M])
    forward = imported(_blocks(), "layer_norm", "blocks_").forward
    run = forward[M](x, w, b, y, mean, rstd, f.scalar("eps", tm.float32), LANES=lanes)
    f.outputs(y, mean, rstd)
    return on_cores(f, run)


def layer_norm(m: int, n: int) -> Workload:
    """Layer norm of the rows of a matrix, with the mean and the spread of each row."""

    def by_torch(given: Given) -> Run:
        library = torch()
        x, w, b = (library.from_numpy(given[name]) for name in "xwb")
        return partial(_first_of, library.native_layer_norm, x, [n], w, b, 1e-5)

    def wanted(given: Given) -> Array:
        x = given["x"].astype(np.float64)
        return np.asarray((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * given["w"]
                          + given["b"])  # fmt: skip

    return Workload(
        f"layer norm {m} x {n}", lambda: {"x": _normal(m, n), "w": _normal(n), "b": _normal(n)}, wanted,
        {OURS: lambda: rows_layer_norm(n)}, {TORCH: by_torch}, {TORCH: 1.3}, 8 * m * n, "GB/s", {"eps": 1e-5},
    )  # fmt: skip


# -- attention


def _attended(q: Array, k: Array, v: Array, seen: Array) -> Array:
    s = np.where(seen, q.astype(np.float64) @ k.T * SCALE, -np.inf)
    e = np.exp(s - s.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True) @ v)


def attention(length: int, causal: bool) -> Workload:
    """Attention of one head."""

    def by_torch(given: Given) -> Run:
        library = torch()
        q, k, v = (
            library.from_numpy(given[name])[None, None] for name in "qkv"
        )  # its fused kernel takes four dimensions
        call = library.nn.functional.scaled_dot_product_attention
        return partial(_first_of, call, q, k, v, is_causal=causal)

    def made() -> tm.Function:
        rows = COLUMNS if causal else ROWS  # of a block on the diagonal half is computed in vain
        return on_cores(*imported(_blocks(), "attention", "blocks_").attended(rows, DEPTH, causal, COLUMNS))

    return Workload(
        f"attention {length}{', causal' if causal else ''}",
        lambda: {name: _normal(length, DEPTH + k)[:, :DEPTH].copy() for k, name in enumerate("qkv")},
        lambda given: _attended(*given.values(), np.tri(length, dtype=bool) if causal else np.array(True)),
        {OURS: made}, {TORCH: by_torch}, {TORCH: 0.8}, 4 * DEPTH * length**2 // (2 if causal else 1),
        scalars={"scale": SCALE},
    )  # fmt: skip


def sparse_attention(length: int) -> Workload:
    """Attention to an eighth of the blocks, beside our dense kernel."""
    rows = length // COLUMNS

    def given() -> dict[str, Array]:
        rng = np.random.default_rng(0)
        column = np.stack([np.sort(rng.permutation(rows)[: rows // DENSITY]) for _ in range(rows)]).astype(np.int32)
        return {
            "column": column, **{name: _normal(rows, COLUMNS, DEPTH + k)[..., :DEPTH].copy()
                                 for k, name in enumerate("qkv")},
        }  # fmt: skip

    def wanted(given: Given) -> Array:
        seen = np.zeros((rows, rows), bool)
        seen[np.arange(rows)[:, None], given["column"]] = True
        whole = np.kron(seen, np.ones((COLUMNS, COLUMNS))) > 0
        found = _attended(*(given[name].reshape(length, DEPTH) for name in "qkv"), whole)
        return found.reshape(rows, COLUMNS, DEPTH)

    def made() -> tm.Function:
        return on_cores(*imported(_blocks(), "block_sparse", "blocks_").attended(COLUMNS, DEPTH))

    work = 4 * DEPTH * length**2 // DENSITY
    goals = {DENSE: 3.0}
    return Workload(
        f"sparse attention {length}", given, wanted, {OURS: made}, {}, goals, work, scalars={"scale": SCALE}
    )


def workloads() -> dict[str, Workload]:
    """All workloads by name."""
    every: Sequence[Workload] = (
        *map(product, (256, 512, 1024, 2048)), softmax(4096, 1024, False),
        softmax(4096, 1024, True), layer_norm(4096, 1024),
        *(attention(length, causal) for length in (1024, 2048, 4096) for causal in (False, True)),
        sparse_attention(2048), sparse_attention(4096),
    )  # fmt: skip
    return {each.name: each for each in every}
