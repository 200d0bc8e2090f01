"""Occupancy, against the numbers of NVIDIA's occupancy calculator, which is a spreadsheet of the same limits."""

from __future__ import annotations

import pytest

from tiramisu_py.errors import ArgumentError
from tiramisu_py.view.occupancy import COUNTS, GPUS, MULTIPROCESSORS, multiprocessor, multiprocessors, occupancy

KIB = 1024

#: GPU, threads and registers and shared bytes of a block; blocks, warps and share of a multiprocessor, and the limit.
CASES = [
    ("H100", 256, 32, 0, 8, 64, 1.0, None),
    ("H100", 1024, 32, 0, 2, 64, 1.0, None),
    ("H100", 1024, 40, 0, 1, 32, 0.5, "registers"),
    ("H100", 1024, 64, 0, 1, 32, 0.5, "registers"),
    ("H100", 256, 64, 0, 4, 32, 0.5, "registers"),
    ("H100", 256, 33, 0, 6, 48, 0.75, "registers"),
    ("H100", 128, 128, 0, 4, 16, 0.25, "registers"),
    ("H100", 256, 255, 0, 1, 8, 0.125, "registers"),
    ("H100", 32, 32, 0, 32, 32, 0.5, "blocks"),
    ("H100", 768, 32, 0, 2, 48, 0.75, "threads"),
    ("H100", 256, 32, 48 * KIB, 4, 32, 0.5, "shared memory"),
    ("H100", 256, 32, 227 * KIB, 1, 8, 0.125, "shared memory"),
    ("H100", 256, 32, 1, 8, 64, 1.0, None),
    ("A100", 256, 32, 0, 8, 64, 1.0, None),
    ("A100", 256, 32, 48 * KIB, 3, 24, 0.375, "shared memory"),
    ("A100", 256, 32, 163 * KIB, 1, 8, 0.125, "shared memory"),
    ("T4", 256, 32, 0, 4, 32, 1.0, None),
    ("T4", 32, 32, 0, 16, 16, 0.5, "blocks"),
    ("T4", 256, 32, 32 * KIB, 2, 16, 0.5, "shared memory"),
    ("T4", 256, 32, 48 * KIB, 1, 8, 0.25, "shared memory"),
    ("RTX 3090", 1024, 32, 0, 1, 32, 32 / 48, "threads"),
    ("RTX 3090", 256, 32, 0, 6, 48, 1.0, None),
    ("RTX 4090", 32, 32, 0, 24, 24, 0.5, "blocks"),
]


@pytest.mark.parametrize(("gpu", "threads", "registers", "shared", "blocks", "warps", "share", "limit"), CASES)
def test_occupancy_is_that_of_the_calculator(gpu, threads, registers, shared, blocks, warps, share, limit):
    found = occupancy(gpu, threads, registers, shared)
    assert (found.blocks, found.warps) == (blocks, warps)
    assert found.share == pytest.approx(share)
    assert limit is None or found.limit == limit


def test_warps_that_are_not_whole_count_as_whole():
    assert occupancy(90, 33, 32, 0).warps == 64
    assert occupancy(90, 33, 32, 0).blocks == occupancy(90, 64, 32, 0).blocks == 32


def test_more_of_anything_never_means_a_higher_occupancy():
    for of in MULTIPROCESSORS:
        for threads in (32, 96, 256, 1024):
            by_registers = [occupancy(of, threads, registers, 0).warps for registers in range(1, 256)]
            assert by_registers == sorted(by_registers, reverse=True)
            by_shared = [occupancy(of, threads, 32, shared).warps for shared in range(0, 48 * KIB, 512)]
            assert by_shared == sorted(by_shared, reverse=True)


def test_a_kernel_that_does_not_fit_has_no_block():
    assert occupancy(90, 1024, 128, 0).blocks == 0 and occupancy(90, 1024, 128, 0).share == 0


def test_gpus_are_known_by_name_and_by_architecture():
    assert multiprocessor("H200") is multiprocessor(90)
    assert set(GPUS.values()) <= set(MULTIPROCESSORS)
    assert (
        set(COUNTS) == set(GPUS) and multiprocessors("H200") == 132 and multiprocessors(80) == multiprocessors("A100")
    )
    with pytest.raises(ArgumentError, match="'Voodoo' is not a known GPU: choose one of T4"):
        multiprocessor("Voodoo")


def test_the_words_say_what_limits():
    assert str(occupancy("H100", 1024, 40, 0)) == "50% (1 blocks, 32 warps; limited by registers)"
