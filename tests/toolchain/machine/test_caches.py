"""Caches as the system describes them."""

from pathlib import Path

import pytest

from tiramisu_py.toolchain.machine.processor_caches import USUAL, Caches, caches


def described(folder: Path, *found: tuple[str, str, str]) -> Path:
    """A description of a processor: level, kind and size of each cache."""
    for number, (level, kind, size) in enumerate(found):
        index = folder / "cpu" / "cpu0" / "cache" / f"index{number}"
        index.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (index / name).write_text(text + "\n")
    return folder


def test_sizes_are_read_by_level(tmp_path: Path) -> None:
    system = described(
        tmp_path,
        ("1", "Data", "48K"),
        ("1", "Instruction", "64K"),
        ("2", "Unified", "1024K"),
        ("3", "Unified", "32M"),
    )
    assert caches(system) == Caches(48 << 10, 1 << 20, 32 << 20)


def test_without_a_third_level_the_second_is_the_last(tmp_path: Path) -> None:
    assert caches(described(tmp_path, ("1", "Data", "32K"), ("2", "Unified", "4M"))).last == 4 << 20


@pytest.mark.parametrize(("cpus", "last"), [(1, 48 << 20), (2, 96 << 20), (128, 480 << 20)])
def test_a_part_of_a_machine_has_no_more_of_the_last_level_than_its_cores_can_have(
    tmp_path: Path, cpus: int, last: int
) -> None:
    system = described(tmp_path, ("2", "Unified", "2048K"), ("3", "Unified", "491520K"))
    assert caches(system, cpus).last == last


def test_what_the_system_does_not_know_is_usual(tmp_path: Path) -> None:
    found = caches(tmp_path)
    assert (found.first, found.second) == (USUAL[1], USUAL[2])
    assert found.last > 0


def test_this_machine_has_caches() -> None:
    found = caches()
    assert 0 < found.first <= found.second
    assert found.last >= found.second
