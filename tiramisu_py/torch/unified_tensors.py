"""Unified tensors for PyTorch: in page-locked memory of the host, which CPU and GPUs read where it is.

::

    features = tiramisu_py.torch.unified(features).affinity("gpu")
    picked = features[neighbors]            # neighbors on the GPU: rows are gathered by its threads, and stay there

`placement` says where an operation is computed and what its result is. The class is made when PyTorch is there; it is a
subclass of `torch.Tensor` that intercepts functions (``__torch_function__``), so nothing in PyTorch is changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.toolchain import is_unified, pinned_empty
from tiramisu_py.torch.functions import _torch
from tiramisu_py.torch.host_gathers import picked_rows
from tiramisu_py.torch.placement import TensorKind, placement

#: Functions that compute nothing: they run on the tensor as it is, and what shares its memory stays unified.
_AS_IT_IS = frozenset((
    "__get__", "__set__", "__delete__", "__repr__", "__format__", "__len__", "__hash__", "__bool__", "__int__",
    "__float__", "__reduce_ex__", "__array__", "__deepcopy__", "__setstate__", "size", "stride", "dim",
    "ndimension", "numel", "nelement", "element_size", "storage_offset", "data_ptr", "untyped_storage", "storage",
    "is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_pinned", "is_shared", "get_device",
    "requires_grad_", "detach", "view", "reshape", "view_as", "permute", "transpose", "t", "unsqueeze", "squeeze",
    "flatten", "expand", "expand_as", "narrow", "select", "unbind", "split", "chunk", "contiguous", "as_subclass",
    "backward", "register_hook", "retain_grad", "numpy", "tolist", "item", "cpu", "cuda", "to", "copy_", "type",
))  # fmt: skip
#: The affinities of a unified tensor.
AFFINITIES = ("host", "gpu")


def unified(tensor: Any, *, device: str = "gpu") -> Any:
    """A copy of a tensor in page-locked memory of the host, which CPU and GPUs address: a unified tensor.

    ::

        features = tiramisu_py.torch.unified(torch.load("features.pt"))
        features.is_unified
        -->    True

    Its affinity is that of the host at first: operations run on the CPU, and have unified results. With
    ``features.affinity("gpu")``, which moves nothing, they run on the GPU and have results there, and
    ``features[index]`` gathers rows by threads that begin at cache lines. `device` is "gpu", or "simulator" where there
    is none. Raises `ArgumentError` for what is no tensor on the CPU, `KernelError` without a driver.
    """
    torch = _torch()
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(f"tiramisu_py.torch.unified takes a tensor, not {tensor!r:.60}")
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise ArgumentError(
            f"tiramisu_py.torch.unified takes a dense tensor on the CPU, not one on {tensor.device} ({tensor.layout}): "
            "give .cpu() first"
        )
    return _held(tensor.detach(), "host", device)


def _held(tensor: Any, mode: str, device: str) -> Any:
    """A tensor on the CPU as a unified one: as it is if its memory is unified, else copied."""
    torch = _torch()
    plain = tensor.as_subclass(torch.Tensor)
    if not _is_in_unified_memory(plain):
        kind = np.dtype(f"u{plain.element_size()}") if plain.element_size() in (1, 2, 4, 8) else np.dtype("u8")
        count = plain.numel() * plain.element_size() // kind.itemsize
        memory = torch.from_numpy(pinned_empty(count, kind, device)).view(plain.dtype).reshape(plain.shape)
        memory.copy_(plain)
        plain = memory
    made = plain.as_subclass(tensor_class())
    made.gpu_affinity, made.unified_on = mode == "gpu", device
    return made


def _is_in_unified_memory(plain: Any) -> bool:
    """Whether a plain tensor's memory is unified; one without elements needs none."""
    if plain.numel() == 0:
        return False
    storage = plain.untyped_storage()
    held = np.ctypeslib.as_array(_bytes_at(storage.data_ptr(), storage.nbytes()))
    return is_unified(held)


def _bytes_at(address: int, count: int) -> Any:
    return (ctypes.c_uint8 * count).from_address(address)


@cache
def tensor_class() -> Any:
    """The class of unified tensors."""
    torch = _torch()

    class UnifiedTensor(torch.Tensor):  # type: ignore[misc, name-defined, unused-ignore]
        """A tensor in unified memory."""

        gpu_affinity = False
        unified_on = "gpu"
        is_unified = True

        def affinity(self, mode: str | None = None) -> Any:
            """The affinity, "host" or "gpu"; with `mode` the same tensor with this one: nothing is moved."""
            if mode is None:
                return "gpu" if self.gpu_affinity else "host"
            if mode not in AFFINITIES:
                raise ArgumentError(f"affinity({mode!r}): give 'host' or 'gpu'")
            return _held(self, mode, self.unified_on)

        def __getitem__(self, index: Any) -> Any:
            if self.gpu_affinity or _is_on_gpu(index):
                found = picked_rows(_torch(), _plain(self), index, self.unified_on)
                if found is not None:
                    return found
            return super().__getitem__(index)

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return _called(func, args, kwargs or {})

    return UnifiedTensor


def _is_on_gpu(index: Any) -> bool:
    return getattr(getattr(index, "device", None), "type", None) == "cuda" or hasattr(index, "__cuda_array_interface__")


def _plain(tensor: Any) -> Any:
    torch = _torch()
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def kind_of(tensor: Any) -> TensorKind:
    """The kind of an operand."""
    if isinstance(tensor, tensor_class()):
        return TensorKind.GPU_UNIFIED if tensor.gpu_affinity else TensorKind.HOST_UNIFIED
    if tensor.device.type == "cuda":
        return TensorKind.CUDA
    return TensorKind.SCALAR if tensor.dim() == 0 else TensorKind.CPU


class _Mapped:
    """The memory of a unified tensor, for a GPU that addresses it."""

    def __init__(self, plain: Any) -> None:
        self.held = plain
        bits = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8"}[plain.element_size()]
        strides = tuple(step * plain.element_size() for step in plain.stride())
        self.__cuda_array_interface__ = {
            "shape": tuple(plain.shape), "typestr": bits, "data": (plain.data_ptr(), False), "version": 3,
            "strides": strides, "stream": None,
        }  # fmt: skip


def _on_gpu(torch: Any, plain: Any) -> Any:
    """A unified tensor as a tensor of the GPU, in the same memory."""
    if not torch.cuda.is_available():
        raise ArgumentError(
            "a unified tensor has the affinity of a GPU, and PyTorch sees none here: give .affinity('host') to compute "
            "on the CPU"
        )
    return torch.as_tensor(_Mapped(plain), device="cuda").view(plain.dtype)


def _called(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A function of PyTorch on operands of which some are unified."""
    torch = _torch()
    tree = torch.utils._pytree
    operands = [each for each in tree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    first = next(each for each in operands if isinstance(each, tensor_class()))
    mode = "gpu" if first.__dict__.get("gpu_affinity", False) else "host"
    device = first.__dict__.get("unified_on", "gpu")
    as_it_is = getattr(func, "__name__", "") in _AS_IT_IS
    place = None if as_it_is else placement(kind_of(each) for each in operands)
    originals: dict[int, Any] = {}

    def given(each: Any) -> Any:
        if not isinstance(each, tensor_class()):
            return each
        plain = _plain(each)
        plain = _on_gpu(torch, plain) if place is not None and place.computed == "cuda" else plain
        originals[id(plain)] = (each, plain)
        return plain

    def made(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        if id(each) in originals:
            return originals[id(each)][0]  # changed in place
        if place is None:
            shares = each.device.type == "cpu" and each.layout == torch.strided and _is_in_unified_memory(each)
            return _held(each, mode, device) if shares else each
        return _held(each, "host", device) if place.result == "unified" else each

    with torch._C.DisableTorchFunctionSubclass():
        found = func(*tree.tree_map(given, args), **tree.tree_map(given, kwargs))
        return tree.tree_map(made, found)
