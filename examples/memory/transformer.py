"""A small transformer, trained with its activations in a file: the same weights, bit for bit, in less memory.

Each token of a line is followed by the one that a permutation says, which the model learns. It is trained twice from
the same start, once with all activations in memory. Needs PyTorch.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

# what is freed goes back to the system, so that the memory of the process is what it uses; told before it begins
if __name__ == "__main__" and os.environ.get("MALLOC_MMAP_THRESHOLD_") is None:
    os.environ |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    os.execv(sys.executable, [sys.executable, *sys.argv])

import torch
from torch import nn

from tiramisu_py.torch import offload

TOKENS, WIDTH, LAYERS, LENGTH, LINES, STEPS = 50, 128, 4, 64, 16, 8


class Transformer(nn.Module):  # type: ignore[misc, unused-ignore]
    """Tokens, layers that look back, and the next token of each."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.out = nn.Linear(WIDTH, TOKENS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, lines: torch.Tensor) -> torch.Tensor:
        x = self.tokens(lines) + self.places
        for layer in self.layers:
            x = layer(x, src_mask=self.mask)
        return self.out(x)


def lines_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Lines, and what follows each of their tokens."""
    draw = torch.Generator().manual_seed(step)
    follows = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(7))
    lines = torch.empty(LINES, LENGTH + 1, dtype=torch.long)
    lines[:, 0] = torch.randint(TOKENS, (LINES,), generator=draw)
    for k in range(LENGTH):
        lines[:, k + 1] = follows[lines[:, k]]
    return lines[:, :-1], lines[:, 1:]


def kilobytes(what: str) -> int:
    """A number of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{what}:")).split()[1])


def trained(folder: str | None) -> tuple[list[torch.Tensor], list[float], int]:
    """The weights, the losses, and the most bytes that a step has added to the process."""
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses, most = list[float](), 0
    with nullcontext() if folder is None else offload(model, folder, least=1 << 18) as cache:
        for step in range(STEPS):
            given, wanted = lines_of(step)
            optimizer.zero_grad(set_to_none=False)
            Path("/proc/self/clear_refs").write_text("5")  # the most memory is counted from here
            before = kilobytes("VmRSS")
            loss = nn.functional.cross_entropy(model(given).flatten(0, 1), wanted.flatten())
            loss.backward()
            most = max(most, (kilobytes("VmHWM") - before) << 10) if step > 1 else 0
            optimizer.step()
            losses.append(loss.item())
        if cache is not None:
            cache.wait()
            print(f"{cache.stored / 1e6:.0f} MB stored, {cache.loaded / 1e6:.0f} MB loaded in {STEPS} steps")
            assert cache.live == 0 and cache.stored > 0
    return [each.detach().clone() for each in model.parameters()], losses, most


def main(folder: str) -> None:
    """Train twice."""
    torch.set_num_threads(1)
    in_memory, losses, whole = trained(None)
    in_file, again, part = trained(folder)
    print(f"a step adds {whole / 1e6:.0f} MB, with activations in a file {part / 1e6:.0f} MB")
    print(f"the loss falls from {losses[0]:.2f} to {losses[-1]:.2f}")
    assert losses == again and losses[-1] < 0.5 * losses[0]
    assert all(map(torch.equal, in_memory, in_file))
    assert part < whole
    print("right: the weights have the same bits")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else ".") as scratch:
        main(scratch)
