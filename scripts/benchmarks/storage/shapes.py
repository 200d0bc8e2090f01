"""The sizes of the models, and the ways in which their activations are held."""

from __future__ import annotations

#: Bytes below which a tensor stays in memory.
LEAST = 1 << 18
#: name: width, layers, tokens of an item, items.
SHAPES = {"BERT": (256, 4, 128, 16), "GPT": (256, 4, 192, 10), "T5": (256, 4, 96, 14), "MLP": (512, 8, 1, 1024)}
WAYS = ("keep", "file", "file, slow disk", "checkpoint", "checkpoint, file", "save_on_cpu", "file, twice the batch")
#: Bytes a second that the slow disk writes.
SLOW = 20e6
