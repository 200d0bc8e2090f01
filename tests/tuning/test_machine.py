"""Machines: numbers that are checked, a host that is measured, GPUs that are known by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import tiramisu_py as tm
from tiramisu_py.toolchain.machine.processor_caches import caches
from tiramisu_py.tuning.machine_model import GPUS
from tiramisu_py.view.occupancy import GPUS as NAMED


def test_the_host_is_measured() -> None:
    here = tm.Machine.here(threads=1)
    assert here.cores == 1
    assert 1e8 < here.core_flops < 1e13
    assert 1e8 < here.host_bandwidth < 1e13


def test_a_gpu_is_taken_from_the_table_and_what_is_known_better_as_given() -> None:
    known = {"core_flops": 1e9, "host_bandwidth": 1e10}
    machine = tm.Machine.here(gpu="A100", link_bandwidth=20e9, **known)
    assert (machine.gpu_flops, machine.gpu_bandwidth, machine.link_bandwidth) == (19.5e12, 2039e9, 20e9)
    assert (machine.core_flops, machine.host_bandwidth) == (1e9, 1e10)
    assert machine.has_gpu
    assert not tm.Machine(1e9, 1, 1e9).has_gpu


def test_gpus_are_named_as_elsewhere() -> None:
    assert set(GPUS) <= set(NAMED)
    assert all(link < memory < flops for flops, memory, link in GPUS.values())


def test_numbers_that_are_no_rates_are_refused() -> None:
    with pytest.raises(tm.ArgumentError, match="core_flops is -1"):
        tm.Machine(-1, 4, 1e9)
    with pytest.raises(tm.ArgumentError, match="cores is 0: give a number above 0"):
        tm.Machine(1e9, 0, 1e9)
    with pytest.raises(tm.ArgumentError, match="host_bandwidth is 'fast'"):
        tm.Machine(1e9, 4, "fast")  # type: ignore[arg-type]
    with pytest.raises(tm.ArgumentError, match="the rates of 'Voodoo' are not known: choose one of"):
        tm.Machine.here(gpu="Voodoo")
    with pytest.raises(tm.ArgumentError, match="has no speed: it has core_flops"):
        tm.Machine.here(speed=3.0)


LEVELS = (tm.MemoryLevel("L1", 2**15, read=4e11, copy=5e11), tm.MemoryLevel("L3", 2**25, shared=True))


def test_a_machine_is_written_and_read_again(tmp_path: Path) -> None:
    machine = tm.Machine(1e9, 4, 1e10, core_flops64=5e8, levels=LEVELS, gpu_flops=1e13)
    assert tm.Machine.load(machine.save(tmp_path / "machine.json")) == machine
    assert [level.bandwidth for level in machine.levels] == [5e11, 0.0]


def test_the_caches_of_the_host_are_known_by_their_sizes() -> None:
    known = tm.Machine.here(core_flops=1e9, host_bandwidth=1e10).levels
    found = caches()
    assert [level.bytes for level in known][:2] == [found.first, found.second]
    assert not any(level.bandwidth for level in known)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read as a machine"),
        ("[1, 2]", "holds no machine: it has no numbers by name"),
        ('{"cores": 1}', "core_flops, cores or host_bandwidth is missing"),
        ('{"core_flops": 1e9, "cores": 1, "host_bandwidth": 1e9, "speed": 2}', "it has speed"),
        ('{"core_flops": 1e9, "cores": 1, "host_bandwidth": 1e9, "levels": 2}', "levels is 2, and no list"),
        ('{"core_flops": 1e9, "cores": 1, "host_bandwidth": 1e9, "levels": [{}]}', "no level of memory"),
        ('{"core_flops": "x", "cores": 1, "host_bandwidth": 1e9}', "core_flops is 'x': give a number"),
    ],
)
def test_files_that_hold_no_machine_are_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(tm.ArgumentError, match=words):
        tm.Machine.load(path)
    with pytest.raises(tm.ArgumentError, match="cannot be read as a machine"):
        tm.Machine.load(tmp_path / "none.json")
    with pytest.raises(tm.ArgumentError, match="cannot be written"):
        tm.Machine(1e9, 1, 1e9).save(tmp_path / "none" / "machine.json")


def test_levels_that_are_none_are_refused() -> None:
    with pytest.raises(
        tm.ArgumentError, match=r"levels have the sizes \[33554432, 32768\]: give them from the nearest"
    ):
        tm.Machine(1e9, 1, 1e9, levels=LEVELS[::-1])
    with pytest.raises(tm.ArgumentError, match=r"give a tuple of tm\.MemoryLevel"):
        tm.Machine(1e9, 1, 1e9, levels=[32768])  # type: ignore[arg-type]
    for level in ({"name": ""}, {"bytes": 0}, {"bytes": 1.5}, {"read": -1.0}, {"copy": True}):
        with pytest.raises(tm.ArgumentError, match=r"tm\.MemoryLevel"):
            tm.MemoryLevel(**{"name": "L1", "bytes": 1, **level})  # type: ignore[arg-type]
