"""An instruction: sums of bytes that stay within a byte, as C has it, and what it means in NumPy."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

SOURCE = """
static inline uint8_t add_within_a_byte(uint8_t a, uint8_t b) {
  uint8_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT8_MAX : sum;
}
"""

add_within_a_byte = tm.extern(
    "add_within_a_byte",
    [tm.uint8, tm.uint8],
    tm.uint8,
    python=lambda a, b: np.minimum(a.astype(np.int32) + b, 255).astype(np.uint8),
    source=SOURCE,
)
