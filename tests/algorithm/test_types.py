"""Scalar types promote as NumPy 2 promotes them."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.errors import DTypeError

WITHOUT_BFLOAT16 = [dtype for dtype in ty.STRONG if dtype is not ty.bfloat16]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(WITHOUT_BFLOAT16, repeat=2)), ids=str)
def test_two_types_promote_as_in_numpy(a: ty.DType, b: ty.DType) -> None:
    assert ty.promote(a, b).numpy == np.promote_types(a.numpy, b.numpy)


@pytest.mark.parametrize("dtype", WITHOUT_BFLOAT16, ids=str)
@pytest.mark.parametrize(("weak", "literal"), [(ty.weak_int, 3), (ty.weak_float, 3.0)], ids=["int", "float"])
def test_a_literal_takes_the_type_it_meets_as_in_numpy(dtype: ty.DType, weak: ty.DType, literal: float) -> None:
    expected = (np.ones(2, dtype.numpy) + literal).dtype
    assert ty.promote(dtype, weak).numpy == expected
    assert ty.promote(weak, dtype).numpy == expected


@pytest.mark.parametrize("other", [ty.bool_, ty.int8, ty.uint8, ty.float16, ty.float32, ty.float64, ty.int16], ids=str)
def test_bfloat16_loses_nothing_that_the_other_type_holds(other: ty.DType) -> None:
    common = ty.promote(ty.bfloat16, other).numpy
    for value in (1.0, 2.0**7 - 1, 255.0 if other is ty.uint8 else 1.0):
        held = np.asarray(value, other.numpy)
        assert held.astype(common).astype(np.float64) == held.astype(np.float64)
    assert ty.promote(other, ty.bfloat16).numpy == common


@pytest.mark.parametrize("dtype", ty.STRONG, ids=str)
def test_a_division_of_integers_is_of_float64_as_in_numpy(dtype: ty.DType) -> None:
    expected = (np.ones(1, dtype.numpy) / np.ones(1, dtype.numpy)).dtype
    assert ty.divided(dtype).numpy == (np.dtype(np.float64) if dtype.kind in "biu" else expected)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float32, ty.float32),
        ("uint8", ty.uint8),
        (float, ty.float64),
        (int, ty.int64),
        (bool, ty.bool_),
        (np.dtype("int16"), ty.int16),
        (ml_dtypes.bfloat16, ty.bfloat16),
        (ty.float16, ty.float16),
    ],
    ids=str,
)
def test_a_type_may_be_given_as_numpy_or_python_name_it(given: Any, expected: ty.DType) -> None:
    assert ty.as_dtype(given) == expected


@pytest.mark.parametrize("given", ["complex64", np.complex128, "str", "M8[s]", "nonsense", object], ids=str)
def test_what_is_no_scalar_type_is_refused_by_name(given: Any) -> None:
    with pytest.raises(DTypeError, match="is not a scalar type"):
        ty.as_dtype(given)


def test_sizes_in_memory_are_those_of_numpy() -> None:
    assert [dtype.bytes for dtype in ty.STRONG] == [dtype.numpy.itemsize for dtype in ty.STRONG]
