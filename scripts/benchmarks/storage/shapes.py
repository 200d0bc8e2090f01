"""The sizes of the models, and the ways in which their activations are held."""

from __future__ import annotations

#: Bytes below which a tensor stays in memory.
LEAST = 1 << 18
#: name: width, layers, tokens of an item, items. Widths are those of BERT base, GPT-2 and T5 base.
SHAPES = {"BERT": (768, 6, 128, 4), "GPT": (768, 6, 192, 3), "T5": (768, 5, 128, 4), "MLP": (512, 8, 1, 2048)}
WAYS = ("keep", "file", "file, slow disk", "checkpoint", "checkpoint, file", "file, twice the batch", "save_on_cpu")
#: Steps that are measured in a way, by turns with as many that keep all.
TURNS = {"keep": 4, "file": 4}
FEW_TURNS = 2
#: Bytes a second that the slow disk writes.
SLOW = 20e6
