"""Reductions on cores and the simulated GPU beside NumPy: operators, types, forms and schedules at awkward sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import covering

N, K = tm.params("N K")
i, k, k0, k1, k2, b, t, i0, i1 = tm.iters("i k k0 k1 k2 b t i0 i1")
EXTENTS = (0, 1, 31, 33, 97, 1025)
SEEDS = 20
FLOATS = (tm.float32, tm.float64, tm.float16, tm.bfloat16)
OPERATORS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "sum": (tm.sum, np.sum), "product": (tm.product, np.prod), "min": (tm.min, np.min), "max": (tm.max, np.max),
    "and": (tm.logical_and, np.bitwise_and.reduce), "or": (tm.logical_or, np.bitwise_or.reduce),
}  # fmt: skip
KINDS = [
    ("sum", tm.float32), ("max", tm.float16), ("product", tm.float64), ("min", tm.bfloat16), ("and", tm.bool),
    ("sum", tm.int64), ("max", tm.int8), ("product", tm.int32), ("or", tm.uint8), ("sum", tm.float16),
    ("min", tm.float32), ("or", tm.bool), ("sum", tm.uint16), ("max", tm.float64), ("sum", tm.float64),
    ("sum", tm.bfloat16), ("sum", tm.int32), ("sum", tm.uint8), ("min", tm.int64), ("max", tm.uint32),
    ("max", tm.float32), ("min", tm.float16), ("product", tm.float32), ("product", tm.uint8), ("and", tm.int32),
]  # fmt: skip
#: The shape of the array, and the place of its terms.
FORMS = {"all": ((1, K), 1), "rows": ((N, K), 1), "columns": ((K, N), 0)}
Schedule = Callable[[tm.Function, Any], Any]


def reduced(operator: str, dtype: tm.DType, form: str) -> tuple[tm.Function, Any]:
    """A reduction of an array."""
    shape, axis = FORMS[form]
    f = tm.Function("reduced", params=[K] if form == "all" else [N, K])
    a = f.input("a", dtype, list(shape))
    term = a[k, i] if axis == 0 else a[i, k]
    s = f.reduction("s", {i: shape[1 - axis]}, {k: K}, OPERATORS[operator][0], term, dtype=dtype)
    f.outputs(s)
    return f, s


def in_chunks(f: tm.Function, s: Any) -> None:
    s.update.split(k, 32, k0, k1)
    s.update.parallelize(k0, combine=tm.TREE)


def partial_results(f: tm.Function, s: Any) -> None:
    s.update.split(k, 32, k0, k1)
    part = s.update.rfactor(k0)
    part.update.parallelize(k0)


def a_block_each(f: tm.Function, s: Any) -> None:
    s.update.split(k, 48, k0, t)
    s.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    f.derive_transfers()


def a_warp_each(f: tm.Function, s: Any) -> None:
    s.split(i, 2, i0, i1)
    s.update.split(k, 32, k0, t)
    s.init.tag_gpu(blocks=[i0], threads=[i1])
    s.update.tag_gpu(blocks=[i0], threads=[i1, t], combine=tm.TREE)
    f.derive_transfers()


def side_by_side(f: tm.Function, s: Any) -> None:
    s.split(i, 8, i0, i1)
    s.update.split(k, 4, k0, t)
    s.update.reorder(i0, t, i1, k0)
    s.init.tag_gpu(blocks=[i0], threads=[i1])
    s.update.tag_gpu(blocks=[i0], threads=[t, i1], combine=tm.TREE)
    f.derive_transfers()


def two_passes(f: tm.Function, s: Any) -> None:
    s.update.split(k, 128, b, k1)
    s.update.split(k1, 32, k2, t)
    s.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE, across=tm.TWO_PASS)
    f.derive_transfers()


def several_blocks(f: tm.Function, s: Any) -> None:
    s.update.split(k, 128, b, k1)
    s.update.split(k1, 32, k2, t)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE)
    f.derive_transfers()


def atomic_threads(f: tm.Function, s: Any) -> None:
    s.update.split(k, 32, b, t)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.ATOMIC)
    f.derive_transfers()


ON_CORES: dict[str, Schedule] = {
    "lanes": lambda f, s: s.update.vectorize(k, 16, combine=tm.PRIVATE),
    "chunks in a tree": in_chunks,
    "private copies": lambda f, s: s.update.parallelize(k, combine=tm.PRIVATE),
    "atomic": lambda f, s: s.update.parallelize(k, combine=tm.ATOMIC),
    "partial results": partial_results,
    "recipe": lambda f, s: tm.recipes.reduction(s),
}
ON_GPUS: dict[str, Schedule] = {
    "a block each": a_block_each, "a warp each": a_warp_each, "side by side": side_by_side, "two passes": two_passes,
    "several blocks": several_blocks, "atomic threads": atomic_threads,
}  # fmt: skip


def sample(operator: str, dtype: tm.DType, form: str, extent: int) -> Any:
    """Small whole numbers, whose sums and products are exact in any order."""
    shape = {"all": (1, extent), "rows": (3, extent), "columns": (extent, 3)}[form]
    random = np.random.default_rng(extent)
    if dtype.is_bool or operator in ("and", "or"):
        return (random.random(shape) < (0.97 if operator == "and" else 0.03)).astype(dtype.numpy)
    if operator == "product":
        return random.choice([1, 3] if dtype.is_integer else [1, -1], shape).astype(dtype.numpy)
    low = 0 if dtype.kind == "u" else -1
    numbers = random.integers(low, 2, shape) if operator == "sum" else random.integers(7 * low, 8, shape)
    return numbers.astype(dtype.numpy)


def expected(operator: str, a: Any, form: str) -> Any:
    """NumPy's answer in the type of the terms, and the neutral element of no terms."""
    axis, numpys = FORMS[form][1], OPERATORS[operator][1]
    if operator in ("and", "or"):
        return numpys(a, axis=axis)
    if operator in ("min", "max"):
        wide = a.astype(np.float64 if a.dtype.kind not in "iu" else a.dtype)
        kind = np.iinfo(a.dtype) if a.dtype.kind in "iu" else None
        ends = (kind.max, kind.min) if kind is not None else (np.inf, -np.inf)
        return numpys(wide, axis=axis, initial=ends[operator == "max"]).astype(a.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        wide = a.astype(np.float64 if a.dtype.kind not in "iu" else a.dtype)
        return numpys(wide, axis=axis, dtype=wide.dtype).astype(a.dtype)


def same(found: Any, right: Any) -> None:
    """Raise unless values are equal, NaN to NaN; of 16 bits in float64, since NumPy knows no NaN of bfloat16."""
    assert found.dtype == right.dtype
    wide = found.dtype if found.dtype.kind in "iub" else np.float64
    np.testing.assert_array_equal(found.astype(wide), right.astype(wide))


def specials(a: Any) -> list[Any]:
    """The array with NaN, infinities and negative zeros in several places."""
    found = []
    for values in ([np.nan], [np.inf], [-np.inf], [np.inf, -np.inf], [-0.0], [-np.inf, np.nan]):
        changed = a.copy()
        for place, value in enumerate(values):
            changed.ravel()[changed.size * (place + 1) // (len(values) + 2)] = value
        found.append(changed)
    return [*found, np.full_like(a, -0.0)]


@pytest.mark.parametrize(("kind", "form", "schedule"), covering([*range(len(KINDS))], [*FORMS], [*ON_CORES]))
def test_on_cores(kind: int, form: str, schedule: str) -> None:
    operator, dtype = KINDS[kind]
    f, s = reduced(operator, dtype, form)
    ON_CORES[schedule](f, s)
    assert f.check().ok, f.check()
    kernel = f.compile(threads=2)
    for extent in EXTENTS:
        a = sample(operator, dtype, form, extent)
        same(kernel(a), expected(operator, a, form))
    if dtype in FLOATS:
        for a in specials(sample(operator, dtype, form, 33)):
            same(kernel(a), expected(operator, a, form))


@pytest.mark.parametrize(("kind", "form", "schedule"), covering([*range(len(KINDS))], [*FORMS], [*ON_GPUS]))
def test_on_the_simulator_with_checks(kind: int, form: str, schedule: str) -> None:
    operator, dtype = KINDS[kind]
    f, s = reduced(operator, dtype, form)
    ON_GPUS[schedule](f, s)
    assert f.check().ok, f.check()
    kernel = f.compile(device="simulator", sanitize=True)
    for extent in EXTENTS:
        a = sample(operator, dtype, form, extent)
        for seed in range(SEEDS if extent == 33 else 2):
            same(kernel.seeded(seed)(a), expected(operator, a, form))
    if dtype in FLOATS:
        for a in specials(sample(operator, dtype, form, 33)):
            same(kernel(a), expected(operator, a, form))
