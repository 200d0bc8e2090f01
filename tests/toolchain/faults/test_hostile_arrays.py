"""Arrays in files, arrays that change between calls, and values that are no ordinary numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

(N, M), (i, j) = tm.params("N M"), tm.iters("i j")
SHAPE = (3, 19)


def scaled(dtype: tm.DType = tm.float32, factor: float = 1) -> tm.Kernel:
    """``y[i, j] = factor * x[i, j]``, in vectors, the last of which is masked."""
    f = tm.Function("scaled", params=[N, M])
    x = f.input("x", dtype, [N, M])
    y = f.computation("y", {i: N, j: M}, x[i, j] * factor)
    f.outputs(y)
    y.vectorize(j, 16, remainder="mask")
    return f.compile()


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_arrays_in_files_are_read_and_written_as_their_mode_says(tmp_path: Path, mode: str) -> None:
    kernel, x = scaled(factor=2), np.arange(57, dtype=np.float32).reshape(SHAPE)
    x.tofile(tmp_path / "x")
    np.full(SHAPE, -1, np.float32).tofile(tmp_path / "y")
    given, out = (np.memmap(tmp_path / name, np.float32, mode, shape=SHAPE) for name in "xy")
    for _ in range(2):  # a call, and one like it
        np.testing.assert_array_equal(kernel(given), 2 * x)
    if mode == "r":
        with pytest.raises(tm.ArgumentError, match="y is read-only, and the function writes it"):
            kernel(given, y=out)
    else:
        assert kernel(given, y=out) is out
        np.testing.assert_array_equal(out, 2 * x)
        out.flush()
    in_file = np.fromfile(tmp_path / "y", np.float32).reshape(SHAPE)
    np.testing.assert_array_equal(in_file, 2 * x if mode == "r+" else np.full(SHAPE, -1))


def test_an_array_that_has_changed_since_the_last_call_is_looked_at_again() -> None:
    kernel, x = scaled(), np.arange(24, dtype=np.float32).reshape(4, 6)
    out = np.empty_like(x)
    kernel(x, y=out)
    x.shape = out.shape = (6, 4)
    assert kernel(x, y=out).shape == (6, 4) and np.array_equal(out, x)
    out.flags.writeable = False
    with pytest.raises(tm.ArgumentError, match="read-only"):
        kernel(x, y=out)
    x.dtype = np.int32
    with pytest.raises(tm.ArgumentError, match="x has dtype int32"):
        kernel(x)


@pytest.mark.parametrize("dtype", [tm.float32, tm.float64], ids=str)
def test_nan_infinities_zeros_and_denormals_pass_as_they_are(dtype: tm.DType) -> None:
    limits = np.finfo(dtype.numpy)
    odd = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, limits.max, limits.tiny, -limits.smallest_subnormal]
    x = np.resize(np.array([*odd, limits.tiny / 3], dtype.numpy), SHAPE)
    got = scaled(dtype)(x)
    assert got.tobytes() == x.tobytes()
    np.testing.assert_array_equal(scaled(dtype, 0.5)(x), (x * 0.5).astype(dtype.numpy))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (2**40, 0), (0, 2**40)])
def test_empty_arrays_give_empty_results(shape: tuple[int, int]) -> None:
    assert scaled()(np.empty(shape, np.float32)).shape == shape


@pytest.mark.parametrize("sizes", [(2**63 - 1, 2**63 - 1), (2**32, 2**32), (2**62, 4), (2**31, 2**33), (2**62, 1)])
def test_sizes_whose_product_is_too_large_are_refused(sizes: tuple[int, int]) -> None:
    f = tm.Function("ones", params=[N, M])
    f.outputs(f.computation("y", {i: N, j: M}, tm.cast(tm.int64, i * 0 + 1)))
    with pytest.raises(tm.TiramisuError, match=r"y of shape .* cannot be allocated|is too large"):
        f.compile()(N=sizes[0], M=sizes[1])
