"""Unified tensors of PyTorch: in memory that GPUs address, on the CPU as any tensor, gathered where they lie."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")

from tiramisu_py.torch import register_unified_device, unified  # noqa: E402


def features(rows: int = 50, width: int = 33, dtype: Any = None) -> Any:
    made = torch.arange(rows * width).reshape(rows, width) % 113
    return made.to(torch.float32 if dtype is None else dtype)


def made(tensor: Any) -> Any:
    return unified(tensor, device="simulator")


def test_a_copy_in_unified_memory_has_the_same_elements() -> None:
    for dtype in (torch.float32, torch.float64, torch.int8, torch.bfloat16, torch.bool, torch.complex64):
        plain = features(dtype=dtype)
        u = made(plain)
        assert u.is_unified and u.shape == plain.shape and u.dtype == plain.dtype
        assert torch.equal(u, plain) and u.data_ptr() != plain.data_ptr()
    assert tm.is_unified(made(features()).numpy()) and not tm.is_unified(features().numpy())
    assert made(torch.tensor(3.5)).item() == 3.5 and made(torch.empty(0, 4)).shape == (0, 4)


def test_results_on_the_cpu_are_unified_and_right() -> None:
    plain = features()
    u = made(plain)
    for found, expected in (
        (u + 1, plain + 1),
        (u * u, plain * plain),
        (u @ u.T, plain @ plain.T),
        (torch.relu(u - 50), torch.relu(plain - 50)),
        (u + plain, plain + plain),
        (torch.cat([u, u]), torch.cat([plain, plain])),
        (u[torch.tensor([3, 1])], plain[torch.tensor([3, 1])]),
    ):
        assert found.is_unified and torch.equal(found, expected)
        assert tm.is_unified(found.numpy())
    assert float(u.sum()) == float(plain.sum())


def test_views_share_memory_and_stay_unified() -> None:
    u = made(features())
    for view in (u[3:7], u.T, u.view(-1), u.unsqueeze(0), u[2]):
        assert view.is_unified and tm.is_unified(view.numpy())
    u[3:7].fill_(5)
    assert float(u[4, 4]) == 5
    before = u.data_ptr()
    assert u.add_(1) is u and u.data_ptr() == before and float(u[4, 4]) == 6


def test_the_affinity_changes_without_a_copy() -> None:
    u = made(features())
    v = u.affinity("gpu")
    assert (u.affinity(), v.affinity()) == ("host", "gpu") and v.data_ptr() == u.data_ptr() and v.is_unified
    assert v.T.affinity() == "gpu" and v.shape == u.shape
    with pytest.raises(tm.ArgumentError, match=r"affinity\('cuda'\): give 'host' or 'gpu'"):
        u.affinity("cuda")
    plain = v + features()  # a CPU tensor beside it leaves the CPU alone
    assert not getattr(plain, "is_unified", False)
    if not torch.cuda.is_available():
        with pytest.raises(tm.ArgumentError, match="has the affinity of a GPU, and PyTorch sees none here"):
            v + 1


@pytest.mark.parametrize("width", [32, 33, 7, 1100])
def test_rows_are_gathered_by_a_gpu_from_where_they_lie(width: int) -> None:
    plain = features(40, width)
    index = np.array([3, 39, 0, 3], dtype=np.int64)
    found = made(plain).affinity("gpu")[tm.to_gpu(index, device="simulator")]
    assert isinstance(found, tm.DeviceArray)
    np.testing.assert_array_equal(found.get(), plain.numpy()[index])


def test_rows_that_there_are_not_are_refused() -> None:
    u = made(features()).affinity("gpu")
    for wrong in (50, -1):
        with pytest.raises(tm.ArgumentError, match=f"the index has row {wrong}, and there are 50, counted from 0"):
            u[tm.to_gpu(np.array([2, wrong], dtype=np.int64), device="simulator")]


def test_gradients_go_through() -> None:
    weight = features().requires_grad_()
    (made(features()) * weight).sum().backward()
    assert torch.equal(weight.grad, features())


def test_what_is_no_tensor_on_the_cpu_is_refused() -> None:
    with pytest.raises(tm.ArgumentError, match=r"unified takes a tensor, not \[1, 2\]"):
        unified([1, 2])
    with pytest.raises(tm.ArgumentError, match="takes a dense tensor on the CPU, not one on cpu"):
        unified(torch.eye(3).to_sparse())


DEVICE = """
import torch, tiramisu_py as tm
from tiramisu_py.torch import register_unified_device
register_unified_device(device="simulator")
register_unified_device(device="simulator")
ones = torch.ones(16, device="unified")
assert ones.is_unified and float(ones.sum()) == 16, ones
moved = torch.arange(6.0).to("unified")
assert moved.is_unified and torch.equal(moved + 1, torch.arange(1.0, 7.0))
assert not torch.ones(3).is_unified
print("ok")
"""
TAKEN = """
import torch, tiramisu_py as tm
torch.utils.rename_privateuse1_backend("npu")
from tiramisu_py.torch import register_unified_device
try:
    register_unified_device()
except tm.ArgumentError as error:
    assert "'npu' has it" in str(error), error
    print("ok")
"""


@pytest.mark.parametrize("script", [DEVICE, TAKEN])
def test_the_device_is_registered_once_for_a_process(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stderr
    assert register_unified_device.__doc__
