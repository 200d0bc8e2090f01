"""Rows of a unified tensor, picked by an index on a GPU: gathered by its threads from where they lie."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from tiramisu_py.algorithm.expressions import Iter, Param
from tiramisu_py.algorithm.types import as_dtype, int64
from tiramisu_py.errors import ArgumentError
from tiramisu_py.function.function import Function
from tiramisu_py.program.storage import Memory
from tiramisu_py.toolchain import DeviceArray, Kernel

#: Bytes of a cache line of a GPU, and the most threads of a block.
LINE, BLOCK = 128, 1024


def gather(width: int, size: int) -> Function:
    """The function ``g[i, j] = rows[index[i], j]`` for rows of `width` elements of `size` bytes, as bits.

    Rows that are whole lines, or that no block has threads for, are numbered through, turned around where they begin in
    the middle of a line; others have a block each, whose threads begin at a line.
    """
    N, M, i, j = Param("N"), Param("M"), Iter("i"), Iter("j")
    f = Function("unified_rows", params=[N, M])
    rows = f.input("rows", as_dtype(f"uint{8 * size}"), [M, width], memory=Memory.HOST_MAPPED)
    index = f.input("index", int64, [N], values=(0, M), memory=Memory.GPU)
    g = f.computation("g", {i: N, j: width}, rows[index[i], j])
    f.outputs(g)
    g.store_in(Memory.GPU)
    lanes = LINE // size
    if width % lanes and width + 2 * lanes <= BLOCK:
        g.align(j, rows, LINE, by="line")
        g.tag_gpu(blocks=[i], threads=[j])
    else:
        if width % lanes:
            g.align(j, rows, LINE, by="shift")
        q, q0, q1 = Iter("q"), Iter("q0"), Iter("q1")
        g.coalesce(i, j, into=q).split(q, 4 * LINE, q0, q1).tag_gpu(blocks=[q0], threads=[q1])
    f.derive_transfers()
    return f


@cache
def _kernel(width: int, size: int, device: str) -> Kernel:
    return gather(width, size).compile(device=device, verify_values=False)


def picked_rows(torch: Any, plain: Any, index: Any, device: str) -> Any:
    """The rows of a tensor in unified memory, on the GPU that its index is on; None for another kind of index."""
    numbers = _numbers(torch, index)
    if numbers is None or plain.dim() == 0 or not plain.is_contiguous():
        return None
    width, size = math.prod(plain.shape[1:]), plain.element_size()
    if size not in (1, 2, 4, 8) or width == 0:
        return None
    _check_range(numbers, plain.shape[0])
    bits = torch.uint8 if size == 1 else getattr(torch, f"uint{8 * size}")
    rows = plain.reshape(plain.shape[0], width).view(bits).numpy()
    found = _kernel(width, size, device)(rows, numbers)
    shape = (len(numbers), *plain.shape[1:])
    if isinstance(index, DeviceArray):
        return DeviceArray(shape, plain.numpy().dtype, found._device, found.address, found)  # type: ignore[union-attr]
    return torch.from_dlpack(found).view(plain.dtype).reshape(shape)


def _numbers(torch: Any, index: Any) -> Any:
    """A list of row numbers on a GPU, at least 0 where the tensor can be changed; None for another kind of index."""
    if isinstance(index, DeviceArray):
        return index if len(index.shape) == 1 and index.dtype == np.int64 else None
    if not isinstance(index, torch.Tensor) or index.device.type != "cuda" or index.dim() != 1:
        return None
    return None if index.dtype not in (torch.int32, torch.int64) else index.to(torch.int64).contiguous()


def _check_range(numbers: Any, rows: int) -> None:
    """Refuse rows that there are not: the kernel does not look at its index."""
    if len(numbers) == 0:
        return
    held = numbers.get() if isinstance(numbers, DeviceArray) else numbers
    least, most = int(held.min()), int(held.max())
    if least < 0 or most >= rows:
        wrong = least if least < 0 else most
        raise ArgumentError(f"the index has row {wrong}, and there are {rows}, counted from 0")
