"""No transfer writes the caller's array of an input."""

from __future__ import annotations

import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
(i,) = tm.iters("i")


def test_an_input_is_not_copied_back_into_the_callers_array() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int64, [N])
    f.outputs(f.computation("p", {i: N}, 2 * a[i]))
    f.create_xfer({i: N}, a[i], tm.CPU2GPU)
    with pytest.raises(tm.CommandError, match="a is an input in host memory"):
        f.create_xfer({i: N}, a[i], tm.GPU2CPU)


def test_an_input_in_gpu_memory_is_copied_to_the_host_and_not_over_itself() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int64, [N], memory=tm.GPU_MEMORY)
    f.outputs(f.computation("p", {i: N}, 2 * a[i]))
    with pytest.raises(tm.CommandError, match="a is an input in the memory of GPU 0"):
        f.create_xfer({i: N}, a[i], tm.CPU2GPU)
