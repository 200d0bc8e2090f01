"""Sums of four products of bytes: every target's instructions, beside a loop over the terms."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.targets.machines import TARGETS, Target

HEADERS = Path(__file__).resolve().parents[2] / "tiramisu_py" / "backends" / "c"
_BY_NAME = {target.name: target for target in TARGETS}


def variant(of: str, march: str) -> Target:
    """A target with another instruction set."""
    target = _BY_NAME[of]
    flags = tuple(f"-march={march}" if flag.startswith("-march") else flag for flag in target.flags)
    return replace(target, name=f"{of} {march}", flags=flags)


#: Further processors, which have instructions of their own for this.
ALL = [
    *TARGETS,
    variant("gcc-avx512", "icelake-server"),
    variant("clang-avx512", "icelake-server"),
    variant("gcc-avx2", "alderlake"),
    variant("gcc-neon", "armv8.2-a+dotprod"),
    variant("clang-neon", "armv8.2-a+dotprod"),
    variant("gcc-neon", "armv8.2-a+dotprod+i8mm"),
]

PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "tm_idioms.h"

TM_VECTOR(int32_t, int32x4, 4)
TM_VECTOR(int32_t, int32x8, 8)
TM_VECTOR(int32_t, int32x16, 16)

/* Bytes of which every other one is an end of one of the types. */
static uint32_t state = 1;
static uint8_t drawn(void) {
  static const uint8_t ends[] = {0, 1, 127, 128, 129, 255};
  state = state * 1664525u + 1013904223u;
  return state >> 31 ? ends[state >> 8 & 0xffff ? (state >> 8) % 6 : 0] : (uint8_t)(state >> 16);
}

#define TRY(R, T, U, lanes, even)                                                                   \
  for (int round = 0; round < ROUNDS; round++) {                                                    \
    uint8_t bytes[4 + 4 * lanes + 2];                                                               \
    const uint8_t *const shared = bytes + 1, *const spread = bytes + 6; /* no alignment */          \
    int32_t first[lanes], found[lanes];                                                             \
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = even < 0 ? drawn() : (uint8_t)even;        \
    for (int k = 0; k < lanes; k++) first[k] = round % 2 ? INT32_MAX - k : k * 1000003;             \
    R sum;                                                                                          \
    memcpy(&sum, first, sizeof sum);                                                                \
    sum = quads_##R##_from_##T##_##U(sum, shared, spread);                                          \
    memcpy(found, &sum, sizeof sum);                                                                \
    for (int k = 0; k < lanes; k++) {                                                               \
      uint32_t wanted = (uint32_t)first[k];                                                         \
      for (int q = 0; q < 4; q++) wanted += (uint32_t)((int32_t)(T)shared[q] * (int32_t)(U)spread[4 * k + q]); \
      if ((uint32_t)found[k] != wanted) return printf(#R " " #T " " #U ", lane %d: %d\n", k, found[k]), 1; \
    }                                                                                               \
  }
#define ALL(R, lanes)                              \
  TRY(R, uint8_t, int8_t, lanes, -1) TRY(R, int8_t, uint8_t, lanes, -1) TRY(R, int8_t, int8_t, lanes, -1) \
  TRY(R, uint8_t, uint8_t, lanes, -1)              \
  TRY(R, uint8_t, uint8_t, lanes, 255) TRY(R, int8_t, int8_t, lanes, 128) TRY(R, uint8_t, int8_t, lanes, 128) \
  TRY(R, int8_t, uint8_t, lanes, 128)
#define DEFINE(R, lanes)                           \
  TM_QUADS(R, uint8_t, int8_t, lanes) TM_QUADS(R, int8_t, uint8_t, lanes) TM_QUADS(R, int8_t, int8_t, lanes) \
  TM_QUADS(R, uint8_t, uint8_t, lanes)
DEFINE(int32x4, 4)
#if WIDEST >= 8
DEFINE(int32x8, 8)
#endif
#if WIDEST >= 16
DEFINE(int32x16, 16)
#endif

int main(void) {
  ALL(int32x4, 4)
#if WIDEST >= 8
  ALL(int32x8, 8)
#endif
#if WIDEST >= 16
  ALL(int32x16, 16)
#endif
  puts("right");
  return 0;
}
"""


@pytest.mark.parametrize("target", ALL, ids=str)
def test_four_products_are_added_as_one_by_one(target: Target, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    program = tmp_path / "quads"
    defined = [f"-DWIDEST={target.register // 4}", "-DROUNDS=2000"]
    command = [*target.compiler, *target.options, "-std=gnu11", "-fwrapv", "-w", *defined, f"-I{HEADERS}"]
    subprocess.run([*command, "-x", "c", "-", "-o", str(program)], input=PROGRAM, text=True, check=True)
    done = subprocess.run([*target.runner, str(program)], capture_output=True, text=True, check=False)
    assert done.stdout == "right\n", done.stdout + done.stderr
