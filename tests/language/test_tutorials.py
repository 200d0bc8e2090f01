"""Triton's tutorials: interpreted, evaluated, on cores and in the simulator with all checks, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.language.test_masks_left_out import module_of

Arrays = tuple[np.ndarray[Any, Any], ...]
EPS, SCALE = np.float32(1e-5), np.float32(0.25)


def _random(count: int, *shape: int) -> list[np.ndarray[Any, Any]]:
    return list(np.random.default_rng(count).normal(size=(count, *shape)).astype(np.float32))


def _layer_norm(rows: int, columns: int) -> tuple[Any, list[Any], list[Any], dict[str, Any], Arrays, Any]:
    module = module_of("layer_norm")
    (x, dy), (w, _) = _random(2, rows, columns), _random(2, columns)
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + EPS)
    f, run = module.gradients()
    wanted = module.by_numpy(x, w, dy, EPS)

    def interpreted(*outputs: Any) -> None:
        launcher = module.backward.interpret[-(-rows // 8)]
        launcher(dy, x, w, mean, rstd, *outputs, ROWS=8, LANES=64, COMBINE=tm.TWO_PASS)

    return f, [run], [dy, x, w, mean, rstd], {}, wanted, interpreted


def _attention(length: int) -> tuple[Any, list[Any], list[Any], dict[str, Any], Arrays, Any]:
    module = module_of("attention_backward")
    q, k, v, do = _random(4, length, 16)
    wanted = module.by_numpy(q, k, v, do, SCALE)
    s = np.where(np.tri(length, dtype=bool), q @ k.T * SCALE, -np.inf)
    log = (s.max(1) + np.log(np.exp(s - s.max(1, keepdims=True)).sum(1))).astype(np.float32)
    o = wanted[0].astype(np.float32)
    f, runs = module.gradients()

    def interpreted(dq: Any, dk: Any, dv: Any) -> None:
        delta, tiles, grid = (o * do).sum(1), {"TM": 16, "TN": 16, "D": 16}, -(-length // 16)
        module.of_columns.interpret[grid](q, k, v, do, log, delta, dk, dv, SCALE, **tiles)
        module.of_rows.interpret[grid](q, k, v, do, log, delta, dq, SCALE, **tiles)

    return f, runs, [q, k, v, o, do, log], {"scale": SCALE}, wanted[1:], interpreted


CASES: dict[str, Callable[[], Any]] = {
    "layer norm": lambda: _layer_norm(13, 50),
    "layer norm of one row": lambda: _layer_norm(1, 1),
    "attention": lambda: _attention(33),
    "attention of one row": lambda: _attention(1),
}


@pytest.mark.parametrize("case", CASES)
def test_interpretation_and_values_are_numpys(case: str) -> None:
    f, _, given, scalars, wanted, interpreted = CASES[case]()
    outputs = [np.full(each.shape, np.nan, np.float32) for each in wanted]
    interpreted(*outputs)
    for own, value, right in zip(outputs, f.evaluate(*given, **scalars), wanted, strict=True):
        np.testing.assert_allclose(own, right, rtol=2e-3, atol=2e-4)
        np.testing.assert_allclose(value, right, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("case", CASES)
def test_cores_compute_what_numpy_does(case: str) -> None:
    f, runs, given, scalars, wanted, _ = CASES[case]()
    for run in runs:
        tm.recipes.blocks(run, on=tm.cores())
    assert str(f.check().bits) == "bits preserved"
    for found, right in zip(f.compile()(*given, **scalars), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("case", CASES)
def test_the_simulator_computes_what_numpy_does(case: str) -> None:
    f, runs, given, scalars, wanted, _ = CASES[case]()
    for run in runs:
        tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    f.derive_transfers()
    assert f.check().ok
    kernel = f.compile(device="simulator", sanitize=True)
    for each in (kernel, kernel.seeded(1, "lazy")):
        for found, right in zip(each(*given, **scalars), wanted, strict=True):
            np.testing.assert_allclose(found, right, rtol=2e-3, atol=2e-4)
