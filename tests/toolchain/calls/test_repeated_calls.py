"""Calls like earlier ones: they skip what is known, and refuse what an earlier one would have refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Param
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.ir import ArrayArgument, ScalarArgument
from tiramisu_py.toolchain.calls.arguments import Arguments

N = Param("N")


def vectors(count: int, size: int = 5) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(count)
    return [rng.random(size, dtype=np.float32) for _ in range(count)]


def right(a: float, x: Any, y: Any) -> Any:
    return np.float32(a) * x + y


def test_a_call_like_an_earlier_one_is_not_bound_again(saxpy, monkeypatch):
    kernel, (x, y, z) = saxpy.compile(), vectors(3)
    kernel(2.0, x, y), kernel(2.0, x, y=y, z=z), kernel(2, x, y, N=5)
    monkeypatch.setattr(Arguments, "bind", None)
    x, y, z = vectors(3, 5)
    np.testing.assert_array_equal(kernel(-3.5, x, y), right(-3.5, x, y))
    assert kernel(0.5, x, y=y, z=z) is z
    np.testing.assert_array_equal(z, right(0.5, x, y))
    np.testing.assert_array_equal(kernel(7, x, y, N=5), right(7, x, y))
    with pytest.raises(TypeError):
        kernel(2.0, *vectors(2, 6))  # other shapes are looked at


def test_each_call_makes_its_own_results(saxpy):
    kernel, (x, y) = saxpy.compile(), vectors(2)
    found = [kernel(float(a), x, y) for a in range(4)]
    for a, each in enumerate(found):
        np.testing.assert_array_equal(each, right(a, x, y))
        assert each.ctypes.data % 64 == 0


def test_what_nothing_writes_is_zero_in_every_call(make):
    z = ArrayArgument("z", ty.float64, (N,), is_input=False, is_output=True, covered=False)
    kernel = make("if (N) z[0] = 1;", z).compile()
    for _ in range(20):
        np.testing.assert_array_equal(kernel(N=300), np.eye(1, 300)[0])


def wrong() -> list[Any]:
    x, y, z = vectors(3)
    memory = np.zeros(64, np.uint8)
    fixed = z.copy()
    fixed.flags.writeable = False
    return [
        ((2.0, x, y), {"z": x}, "z is written, and shares memory with x"),
        ((2.0, memory[:20].view(np.float32), y), {"z": memory[16:36].view(np.float32)}, "shares memory with x"),
        ((2.0, x, y), {"z": memory[1:21].view(np.float32)}, "not aligned"),
        ((2.0, memory[2:22].view(np.float32), y), {"z": z}, "x is not aligned"),
        ((2.0, x, y), {"z": fixed}, "z is read-only"),
        ((2.0, x.astype(np.float64), y), {"z": z}, "x has dtype float64"),
        ((2.0, x, np.ones(10, np.float32)[::2]), {"z": z}, "y is not contiguous"),
        ((1e39, x, y), {"z": z}, "a is a scalar of float32"),
        ((True, x, y), {"z": z}, "a is a scalar of float32"),
        ((2.0, x, y), {"z": z, "N": 6}, "N"),
        ((2.0, x, y), {"z": z, "N": True}, "N is a size"),
        ((2.0, x), {"z": z}, "y is missing"),
        ((2.0, x, y[:4]), {"z": z}, "4"),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(13))
def test_what_does_not_fit_is_refused_in_later_calls_too(saxpy, case):
    kernel, (x, y, z) = saxpy.compile(), vectors(3)
    for _ in range(2):
        kernel(2.0, x, y, z=z), kernel(2.0, x, y=y, z=z, N=5), kernel(True + 1, x, y, z=z)
    inputs, named, says = wrong()[case]
    before = {name: np.array(value) for name, value in named.items()}
    for _ in range(2):
        with pytest.raises(ArgumentError, match=says):
            kernel(*inputs, **named)
    for name, value in named.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("size", [0, 1, 7])
def test_scalars_are_those_of_the_call(make, size):
    z = ArrayArgument("z", ty.float64, (N,), is_input=False, is_output=True)
    kernel = make("for (int64_t i = 0; i < N; i++) z[i] = a + k;", ScalarArgument("a", ty.float64),
                  ScalarArgument("k", ty.int16), z).compile()  # fmt: skip
    for a, k in [(1.5, 2), (-0.0, -0), (1e300, 1), (np.inf, 32767), (np.nan, -32768), (3, 4), (np.float32(2), 5)]:
        np.testing.assert_array_equal(kernel(a, k, N=size), np.full(size, float(a) + k))
    for a, k in [(1.0, 32768), (1.0, 2.0), (10**400, 1), ("1", 1), (1.0, True), (2.0, -32769)]:
        with pytest.raises(ArgumentError, match=r"^[ak] is a scalar"):
            kernel(a, k, N=size)


def test_an_error_code_of_a_later_call_raises(mix, make):
    kernel = make(
        "if (a > 1) return 5; *z = N;", ScalarArgument("a", ty.float64), ArrayArgument("z", ty.int64, (), False, True)
    ).compile()
    assert kernel(0.0, N=4) == 4 and kernel(1.0, N=4) == 4
    with pytest.raises(KernelError, match="failed with code 5"):
        kernel(2.0, N=4)
    assert kernel(1.0, N=4) == 4


def test_kinds_of_calls_are_forgotten_after_many(saxpy):
    kernel = saxpy.compile()
    for size in [*range(200), *range(200)]:
        x, y = vectors(2, size)
        np.testing.assert_array_equal(kernel(2.0, x, y), right(2.0, x, y))


def test_views_of_read_only_and_other_memory_are_read_where_they_are(saxpy):
    kernel = saxpy.compile()
    held = np.frombuffer(np.arange(6, dtype=np.float32).tobytes(), np.float32)
    for start in (0, 1):
        x, y = held[start : start + 5], held[1 - start : 6 - start]
        for _ in range(2):
            np.testing.assert_array_equal(kernel(3.0, x, y), right(3.0, x, y))
