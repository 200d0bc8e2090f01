"""The filters of section 4.2.1 of Tillet's thesis, by its own numbers."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tiramisu_py.tuning import filters


def test_an_unrolled_loop_of_640_instructions_fits_and_one_of_1152_does_not() -> None:
    fits = filters.instruction_cache("MS", "NS", "U").allows
    assert fits({"MS": 8, "NS": 8, "U": 8}, {})  # 640 instructions, 10,240 bytes
    assert not fits({"MS": 8, "NS": 16, "U": 8}, {})  # 1,216 instructions
    assert filters.instruction_cache("MS", "NS", "U", bytes=10_239).allows({"MS": 8, "NS": 8, "U": 8}, {}) is False


def test_wide_loads_are_fewer_instructions() -> None:
    assert filters.loop_bytes(8, 8, 8) == 16 * (64 + 64 + 512) and filters.loop_bytes(8, 8, 8, wide=4) == 16 * 544
    assert filters.loop_bytes(1, 3, 2, wide=4) == 16 * (1 + 2 + 6)  # a load of two, and two for six elements
    assert not filters.instruction_cache("MS", "NS", "U", bytes=9_000).allows({"MS": 8, "NS": 8, "U": 8}, {})
    assert filters.instruction_cache("MS", "NS", "U", bytes=9_000, wide=4).allows({"MS": 8, "NS": 8, "U": 8}, {})


def test_copies_and_the_loop_around_them_are_instructions_too() -> None:
    counted = {(8, 8, 16, 10): 1543, (2, 4, 8, 2): 265, (4, 8, 8, 3): 543, (4, 8, 4, 2): 331}  # of sm_80, by nvdisasm
    for (rows, columns, depth, copies), instructions in counted.items():
        estimated = filters.loop_bytes(rows, columns, depth, wide=4, copies=copies)
        assert 0.75 <= 16 * instructions / estimated <= 1.25
    filter = filters.instruction_cache("MS", "NS", "U", wide=4, bytes=9_000, copies=lambda U, **_: U // 4)
    assert filter.allows({"MS": 8, "NS": 8, "U": 4}, {})  # 406 instructions
    assert not filter.allows({"MS": 8, "NS": 8, "U": 8}, {})  # 726


def test_powers_of_two_and_the_elements_of_a_block() -> None:
    powers = filters.only_powers_of_two("rows", "lanes").allows
    assert [n for n in range(1, 20) if powers({"rows": n, "lanes": 4}, {})] == [1, 2, 4, 8, 16]
    block = filters.elements("rows", "lanes").allows
    assert block({"rows": 4, "lanes": 8}, {}) and not block({"rows": 4, "lanes": 4}, {})


def test_there_are_more_programs_than_half_the_cores() -> None:
    enough = filters.programs({"M": "rows", "N": "lanes"}, splits="KG", cores=80).allows
    sizes = {"M": 64, "N": 64}
    assert enough({"rows": 16, "lanes": 16, "KG": 4}, sizes)  # 64 programs
    assert not enough({"rows": 32, "lanes": 32, "KG": 4}, sizes)  # 16
    assert not enough({"rows": 16, "lanes": 32, "KG": 5}, sizes)  # 40 are half of them


def test_limits_are_functions_of_the_point() -> None:
    threads = filters.limit("threads", lambda rows, lanes, **_: rows * lanes, most=1024)
    assert threads.allows({"rows": 32, "lanes": 32, "other": 1}, {})
    assert not threads.allows({"rows": 64, "lanes": 32, "other": 1}, {})
    with pytest.raises(tm.ArgumentError, match="limit threads: amount is 3: give a function"):
        filters.limit("threads", 3, most=1)  # type: ignore[arg-type]
