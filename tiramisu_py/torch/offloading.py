"""`offload`: the activations of a model in a file, or in memory of the host, while a `with` is open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tiramisu_py.errors import ArgumentError, CallError
from tiramisu_py.program.storage import Memory
from tiramisu_py.torch.functions import _torch
from tiramisu_py.torch.tensor_cache import StepRecord, TensorCache
from tiramisu_py.torch.tensor_files import TensorFiles
from tiramisu_py.torch.tensor_pool import TensorPool
from tiramisu_py.torch.tensor_stores import TensorStore
from tiramisu_py.torch.tensor_weights import FileWeights

#: Bytes below which a tensor stays in memory, unless `least` says otherwise.
LEAST = 1 << 20
#: So many tensors are read before they are asked for.
AHEAD = 4

#: The cache that is open in this process.
_OPEN: list[TensorCache] = []


@contextmanager
def offload(
    model: Any,
    folder: str | os.PathLike[str] | Memory,
    *,
    least: int = LEAST,
    ahead: int = AHEAD,
    adapt: bool = False,
    keep: int = 0,
    record: StepRecord | None = None,
    weights: bool = False,
    device: str = "gpu",
) -> Iterator[TensorCache]:
    """Keep the activations of a model in a file of `folder` from the forward pass to the backward pass.

    ::

        with tiramisu_py.torch.offload(model, "/scratch"):
            train(model)

    Tensors of at least `least` bytes are stored while the forward pass goes on, and read before the backward pass asks
    for them, `ahead` of it, in the order of the last step. Parameters, small tensors, and what a checkpoint computes
    again stay in memory. A slow disk costs memory, no time: what is not yet written is not read either. With `adapt`
    the first step is measured, and later parts of the model keep theirs, if the disk is too slow for all; the last
    `keep` parts keep theirs in any case. `record` is that of an earlier cache for the same model. Values are the same
    bits. With `weights`, parameters of at least `least` bytes are mapped from the file, too: they leave memory after a
    module's forward pass, and are read again before its backward pass; whoever reads them in between finds them.
    With ``tm.HOST_MAPPED`` in place of a folder, what is on a GPU goes to a pool of page-locked memory of the
    host, whose size the first step says; with ``device="simulator"`` the model is on the CPU instead. Raises
    `ArgumentError` for a folder that is missing, read-only, full or in memory, for a record of another model, and for
    parameters on several kinds of devices; `CallError` for a second cache; `KernelError` without a driver.
    """
    cache = _checked(model, folder, least, ahead, adapt, device, weights)
    try:
        handles = cache.watch(_count("keep", keep, 0), record)
    except BaseException:
        cache.close()
        raise
    _OPEN.append(cache)
    try:
        with cache._torch.autograd.graph.saved_tensors_hooks(cache.pack, cache.unpack):
            yield cache
    finally:
        _OPEN.remove(cache)
        for each in handles:
            each.remove()
        cache.close()


def _checked(model: Any, folder: Any, least: int, ahead: int, adapt: bool, device: str, weights: bool) -> TensorCache:
    torch = _torch()
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(f"offload takes a torch.nn.Module and a folder, not {type(model).__name__}")
    if _OPEN:
        raise CallError(f"this is a second cache: one is open for {type(_OPEN[0].model).__name__}: leave that first")
    _count("least", least, 1), _count("ahead", ahead, 1)
    kinds = {each.device.type: name for name, each in model.named_parameters()}
    for kind, name in kinds.items():
        if kind not in ("cpu", "cuda"):
            raise ArgumentError(f"{name} is on {kind}, and offload keeps activations of a CPU or of CUDA devices")
    if len(kinds) > 1:
        raise ArgumentError(f"{kinds['cpu']} is on the CPU and {kinds['cuda']} on a GPU: give a model of one of them")
    if weights and isinstance(folder, Memory):
        raise ArgumentError(f"weights=True of offload maps parameters from a file: give a folder, not {folder}")
    store = _store(folder, "cuda" in kinds, device)
    try:
        return TensorCache(model, store, least, ahead, adapt, FileWeights(model, folder, least) if weights else None)
    except BaseException:
        store.close()
        raise


def _store(folder: Any, is_on_gpu: bool, device: str) -> TensorStore:
    if not isinstance(folder, Memory):
        return TensorFiles(folder)
    if folder is not Memory.HOST_MAPPED:
        raise ArgumentError(f"offload: {folder} is no store: give a folder, or tm.HOST_MAPPED")
    if not is_on_gpu and device != "simulator":
        raise ArgumentError(
            "the model is on the CPU: tm.HOST_MAPPED would copy from memory of the host to memory of the host; "
            'give a folder (or device="simulator", to try what a GPU would do)'
        )
    return TensorPool(device)


def _count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name}={value!r} of offload is to be a whole number from {least}")
    return value
