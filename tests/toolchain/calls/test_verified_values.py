"""Declared facts about the values of arrays: each call verifies them, and those of an array that cannot change once."""

from __future__ import annotations

import gc

import numpy as np
import numpy.typing as npt
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.declare import assumptions
from tiramisu_py.toolchain.calls import arguments
from tiramisu_py.toolchain.calls.frozen_arrays import is_frozen

N, M = tm.params("N M")
i, j = tm.iters("i j")


def facts(dtype: tm.DType, dims: int = 1, **declared: object) -> tm.Input:
    f = tm.Function("facts", params=[N])
    f.input("a", dtype, [N] * dims, **declared)
    return f.algorithm.inputs["a"]


def verified(declared: tm.Input, array: npt.NDArray[np.int32]) -> str:
    """The words of the refusal; "" for an array whose facts hold."""
    try:
        assumptions.verify_facts(declared, array, {"N": len(array)})
    except tm.ArgumentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("dtype", [tm.int8, tm.uint8, tm.int32, tm.int64, tm.uint64], ids=str)
@pytest.mark.parametrize("bounds", [(0, 100), (0, 1 << 40), (-3, 5), (2, 90)])
def test_each_array_is_accepted_exactly_if_all_its_values_are_in_the_range(
    dtype: tm.DType, bounds: tuple[int, int]
) -> None:
    declared, info = facts(dtype, values=bounds), np.iinfo(dtype.numpy)
    low, high = bounds
    for wanted in (info.min, info.max, low - 1, low, high - 1, high, 0):
        if info.min <= wanted <= info.max:
            usual = max(low, 0, int(info.min))
            array = np.full(7, usual, dtype.numpy)
            array[4] = wanted
            right = all(low <= int(each) < high for each in array)
            assert (verified(declared, array) == "") is right
            assert right or verified(declared, array).startswith(f"a[{0 if not low <= usual < high else 4}] = ")


@pytest.mark.parametrize("at", [1, 100, assumptions._BLOCK - 1, assumptions._BLOCK, assumptions._BLOCK + 1, 2**17 + 4])
def test_a_fall_anywhere_in_a_long_array_is_found_and_the_ends_say_its_range(at: int) -> None:
    declared = facts(tm.int32, values=(0, 10**6), monotone=True)
    array = np.arange(2**17 + 5, dtype=np.int32)
    assert verified(declared, array) == ""
    array[at] = array[at - 1] - 1
    assert (f"a[{at}]" in verified(declared, array) and "monotone" in verified(declared, array)) or at == 1
    rising = np.arange(2**17 + 5, dtype=np.int32) + 10**6 - at
    assert f"a[{at}] = 1000000" in verified(declared, rising)
    assert "a[0] = -1" in verified(declared, np.arange(5, dtype=np.int32) - 1)


def test_each_row_of_an_array_is_monotone_and_a_permutation_is_of_all() -> None:
    declared = facts(tm.int32, dims=2, monotone=True, values=(0, 9))
    assert verified(declared, np.array([[1, 5], [0, 8]], np.int32)) == ""
    assert "a[1, 1]" in verified(declared, np.array([[1, 5], [0, 9]], np.int32))
    assert "a[1, 1]" in verified(declared, np.array([[1, 5], [4, 3]], np.int32))
    order = facts(tm.int32, values=(0, N), permutation=True)
    assert verified(order, np.array([2, 0, 1], np.int32)) == ""
    assert "a[2] = 2, which occurs before" in verified(order, np.array([2, 0, 2], np.int32))


def picking() -> tm.Kernel:
    f = tm.Function("picking", params=[N, M])
    at, x = f.input("at", tm.int32, [N], values=(0, M)), f.input("x", tm.float32, [M])
    f.outputs(f.computation("y", {i: N}, x[at[i]]))
    return f.compile()


def test_facts_of_a_frozen_array_are_verified_once_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counting(declared: tm.Input, array: npt.NDArray[np.int32], params: dict[str, int]) -> None:
        calls.append(declared.name)
        assumptions.verify_facts(declared, array, params)

    monkeypatch.setattr(arguments, "verify_facts", counting)
    kernel, x = picking(), np.arange(5, dtype=np.float32)
    own = np.array([4, 0], np.int32)
    at = tm.frozen(own)
    own[0] = 77  # it is a copy
    for _ in range(3):
        np.testing.assert_array_equal(kernel(at, x), [4, 0])
    assert calls == ["at"]
    with pytest.raises(tm.ArgumentError, match=r"at\[0\] = 4"):
        kernel(at, x[:4].copy())
    del at
    gc.collect()
    assert len(kernel.arguments._verified._arrays) == 0
    calls.clear()
    changing = np.array([4, 0], np.int32)
    for _ in range(2):
        kernel(changing, x)
    assert calls == ["at", "at"]
    changing[1] = 5
    with pytest.raises(tm.ArgumentError, match=r"at\[1\] = 5"):
        kernel(changing, x)


def test_an_array_that_its_owner_may_change_again_is_not_frozen() -> None:
    owned = np.zeros(3, np.int32)
    owned.flags.writeable = False
    assert not is_frozen(owned) and not is_frozen(owned[1:])
    written = np.zeros(3, np.int32)
    view = written[:]
    view.flags.writeable = False
    assert not is_frozen(view) and not is_frozen(np.frombuffer(bytearray(12), np.int32))
    frozen = tm.frozen(written)
    assert is_frozen(frozen) and is_frozen(frozen[1:])
    with pytest.raises(ValueError, match="WRITEABLE"):
        frozen.flags.writeable = True
    assert tm.frozen(np.zeros((0, 3))).shape == (0, 3)
    np.testing.assert_array_equal(tm.frozen(np.arange(6).reshape(2, 3).T), np.arange(6).reshape(2, 3).T)
