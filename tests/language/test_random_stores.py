"""Random places and masks: what `check` accepts is right at every small size, and what it refuses is wrong at one."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl


@tm.jit
def kernel(
    X, Y, B: tl.constexpr, P: tl.constexpr, S: tl.constexpr, Q: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    MORE: tl.constexpr, LESS: tl.constexpr, READ: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    N = Y.shape[0]
    p, a = tl.program_id(0), tl.arange(0, B)
    i = p * P + a * S + T
    if Q:
        i = i // Q * R + i % Q
    if TURNED:
        i = N - 1 - i
    x = tl.load(X[i + READ], mask=(i + READ < N) & (i >= LESS), other=7)
    tl.store(Y[i], x + 1, mask=(i < N + MORE) & (i >= LESS))


def drawn(rng: random.Random) -> dict[str, int]:
    """Constants near those of a right kernel."""
    constants = {"B": 4, "P": 4, "S": 1, "Q": 0, "R": 0, "T": 0, "MORE": 0, "LESS": 0, "READ": 0, "TURNED": 0}
    if rng.random() < 0.3:
        constants |= {"P": 1, "S": rng.choice([3, 4])}
    if rng.random() < 0.3:
        constants |= {"Q": 2, "R": rng.choice([2, 2, 3])}
    constants["TURNED"] = int(rng.random() < 0.3)
    for name, values in (("P", [3, 5, 8]), ("T", [1, -1]), ("MORE", [1, -1]), ("LESS", [-1, 1]), ("READ", [1, -1])):
        if rng.random() < 0.12:
            constants[name] = rng.choice(values)
    return constants


def is_right(size: int, programs: int, constants: dict[str, int]) -> bool:
    """Whether the kernel, interpreted, stays inside of its arrays and stores each element once."""
    x, y = np.arange(size, dtype=np.float32), np.full(size, np.nan, np.float32)
    try:
        kernel.interpret[programs](x, y, **constants)
    except tm.ArgumentError:
        return False
    return not np.isnan(y).any()


@pytest.mark.parametrize("seed", range(60))
def test_the_proof_judges_as_interpretation_does(seed: int) -> None:
    constants = drawn(random.Random(seed))
    (n,) = tm.params("N")
    f = tm.Function("random_store", params=[n], assume="N <= 30")
    x, y = f.input("x", tm.float32, [n]), f.array("y", tm.float32, [n])
    kernel[tl.cdiv(n, 4)](x, y, **constants)
    f.outputs(y)
    wrong = [size for size in range(31) if not is_right(size, -(-size // 4), constants)]
    report = f.check()
    assert report.ok == (not wrong), (constants, wrong[:3], str(report))
    if report.ok:
        given = np.arange(30, dtype=np.float32)
        expected = np.empty_like(given)
        kernel.interpret[8](given, expected, **constants)
        np.testing.assert_array_equal(f.evaluate(given), expected)
    else:
        assert min(violation.witness.params["N"] for violation in report.violations) == wrong[0]
