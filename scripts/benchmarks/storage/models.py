"""Blocks of PyTorch shaped like those of BERT, GPT and T5, and plain ones, one step of each in one of several ways."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.storage.processes import Peak, seconds_of, written
from benchmarks.storage.shapes import FEW_TURNS, LEAST, SHAPES, SLOW, TURNS
from tiramisu_py.torch import offload
from tiramisu_py.torch.offloading import AHEAD


def model_and_batch(name: str, items: int) -> tuple[Any, Any]:
    """A model, a list of blocks, and its input; attention of T5's decoder also reads what its encoder gives."""
    torch.manual_seed(0)
    width, layers, tokens, _ = SHAPES[name]
    if name == "MLP":
        made = [
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(layers)
        ]
        return nn.Sequential(*made), torch.randn(items, width)

    class Block(nn.Module):  # type: ignore[misc, unused-ignore]
        """Attention and a feed-forward part, as in each of the three."""

        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if name == "T5" else 2))
            self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
            self.cross = nn.MultiheadAttention(width, 4, batch_first=True) if name == "T5" else None
            act = nn.ReLU() if name == "T5" else nn.GELU()
            self.feed = nn.Sequential(nn.Linear(width, 4 * width), act, nn.Linear(4 * width, width))
            self.mask = nn.Transformer.generate_square_subsequent_mask(tokens) if name != "BERT" else None

        def forward(self, x: Any) -> Any:
            n = self.norms[0](x)
            x = x + self.attend(n, n, n, attn_mask=self.mask, need_weights=False)[0]
            if self.cross is not None:
                n = self.norms[2](x)
                x = x + self.cross(n, memory, memory, need_weights=False)[0]
            return x + self.feed(self.norms[1](x))

    memory = torch.randn(items, tokens, width)
    return nn.Sequential(*(Block() for _ in range(layers))), torch.randn(items, tokens, width)


def predicted(step: Callable[[], None], model: Any) -> int:
    """The bytes of the storages that one step saves, each once, without parameters, small ones and the first ones.

    The backward pass asks for those at once, so that they are not worth storing.
    """
    own = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())}
    held: dict[tuple[int, int], tuple[Any, int]] = {}
    asked: dict[tuple[int, int], None] = {}

    def pack(tensor: Any) -> Any:
        storage, name = tensor.untyped_storage(), None
        if storage.data_ptr() not in own and tensor.nbytes >= LEAST:
            name = storage.data_ptr(), tensor._version
            held[name] = tensor.detach(), storage.nbytes()
        return name, tensor.detach()

    def unpack(packed: Any) -> Any:
        if packed[0] is not None:
            asked.setdefault(packed[0])
        return packed[1]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        step()
    return sum(size for _, size in held.values()) - sum(held[name][1] for name in [*asked][:AHEAD])


@contextmanager
def slowly() -> Iterator[None]:
    """Files are written at a low rate, by all threads together."""
    real, turn = os.pwrite, Lock()

    def slow(to: int, data: Any, at: int) -> int:
        with turn:
            time.sleep(len(memoryview(data).cast("B")) / SLOW)
        return real(to, data, at)

    os.pwrite = slow
    try:
        yield
    finally:
        os.pwrite = real


def measured(name: str, way: str, folder: str) -> dict[str, Any]:
    """One model in one way: the most memory that a step adds, times by turns with plain steps, bytes, and the bits."""
    torch.set_num_threads(1)
    items = SHAPES[name][3] * (2 if "twice" in way else 1)
    model, x = model_and_batch(name, items)

    def step(how: str = way) -> None:
        model.zero_grad(set_to_none=False)
        y = x
        for block in model:
            y = checkpoint(block, y, use_reentrant=False) if "checkpoint" in how else block(y)
        y.square().mean().backward()

    def plainly() -> None:
        with torch.autograd.graph.saved_tensors_hooks(lambda each: each.detach(), lambda each: each):
            step("keep")

    step("keep")  # gradients exist from here on
    files = "file" in way
    found: dict[str, Any] = {"predicted": predicted(step, model)} if files else {}
    cache: Any = offload(model, folder, least=LEAST) if files else nullcontext()
    saved = torch.autograd.graph.save_on_cpu() if way == "save_on_cpu" else nullcontext()
    times, plain = list[float](), list[float]()
    with slowly() if "slow" in way else nullcontext(), cache as held, saved:
        step()
        time.sleep(0.5)  # stores that are under way end
        before = _counts(held)
        with Peak() as peak:
            step()
        time.sleep(0.5)
        after = _counts(held)
        for _ in range(TURNS.get(way, FEW_TURNS)):
            plain.append(seconds_of(plainly))
            times.append(seconds_of(step))
    bits = hashlib.sha256(b"".join(each.grad.numpy().tobytes() for each in model.parameters())).hexdigest()
    found |= {"peak": peak.bytes, "seconds": min(times), "plain": min(plain), "bits": bits}
    return found | ({key: after[key] - before[key] for key in after} if files else {})


def _counts(cache: Any) -> dict[str, int]:
    """The bytes that a cache has moved, and those that the process has handed to disks."""
    if cache is None:
        return dict.fromkeys(("stored", "cancelled", "loaded"), 0) | {"io": written()}
    return {"stored": cache.stored, "cancelled": cache.cancelled, "loaded": cache.loaded, "io": written()}
