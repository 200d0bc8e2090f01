"""Results of the kind of the arguments: another library's arrays go in and come out by DLPack, without copies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.toolchain.calls.result_kinds import in_kind_of
from tiramisu_py.toolchain.gpu.dlpack import capsule_of
from tiramisu_py.toolchain.gpu.foreign import _from_dlpack, _Lender

_CPU = 1


class Tensor:
    """An array of another library, whose elements only DLPack shows."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **asked: object) -> object:
        array = self.array
        if asked and array.dtype == ml_dtypes.bfloat16:  # by NumPy, which has no such type
            raise BufferError("NumPy has no bfloat16")
        return capsule_of(array, array.ctypes.data, array.shape, array.dtype, (_CPU, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=from_dlpack)


def from_dlpack(given: Any) -> Tensor:
    """The library's own import, which copies nothing."""
    found = _from_dlpack(given)
    return Tensor(np.asarray(_Lender(found)).view(found.dtype))


(N,) = tm.params("N")
i, j = tm.iters("i j")


def twice(dtype: tm.DType) -> tm.Kernel:
    """Twice each element of a square."""
    f = tm.Function("twice", params=[N])
    a = f.input("a", dtype, [N, N])
    f.outputs(f.computation("b", {i: N, j: N}, a[i, j] + a[i, j]))
    return f.compile()


@pytest.mark.parametrize("dtype", [tm.float32, tm.int8, tm.bool, tm.bfloat16, tm.float16])
def test_a_tensor_goes_in_and_comes_out(dtype: tm.DType) -> None:
    given = np.array([[0, 1], [1, 1]]).astype(dtype.numpy)
    if dtype is tm.bool:
        f = tm.Function("negated", params=[N])
        a = f.input("a", dtype, [N, N])
        f.outputs(f.computation("b", {i: N, j: N}, ~a[i, j]))
        kernel, expected = f.compile(), ~given
    else:
        kernel, expected = twice(dtype), given + given
    result = kernel(Tensor(given))
    assert isinstance(result, Tensor)
    np.testing.assert_array_equal(result.array, expected)
    assert isinstance(kernel(given), np.ndarray)


def test_an_output_that_is_passed_is_returned_as_it_is() -> None:
    kernel, out = twice(tm.bfloat16), Tensor(np.zeros((2, 2), ml_dtypes.bfloat16))
    assert kernel(Tensor(np.ones((2, 2), ml_dtypes.bfloat16)), b=out) is out
    assert (out.array == 2).all()


def test_a_bound_call_and_an_empty_one_return_tensors_too() -> None:
    kernel = twice(tm.float32)
    given = np.ones((3, 3), np.float32)
    step = kernel.bound(Tensor(given))
    first = step()
    assert isinstance(first, Tensor)
    given[:] = 4
    assert step() is first
    assert (first.array == 8).all()
    empty: Any = kernel(Tensor(np.zeros((0, 0), np.float32)))
    assert isinstance(empty, Tensor)
    assert empty.array.shape == (0, 0)


def test_a_library_that_takes_no_dlpack_gets_numpy() -> None:
    class Other:
        __dlpack__ = Tensor.__dlpack__
        __dlpack_device__ = Tensor.__dlpack_device__

    result = np.zeros(3)
    assert in_kind_of([Other()], (result,))[0] is result


def test_results_outlive_what_made_them() -> None:
    result: Any = twice(tm.float32)(Tensor(np.ones((64, 64), np.float32)))
    others = [np.full((64, 64), 7, np.float32) for _ in range(50)]
    assert (result.array == 2).all()
    assert len(others) == 50
