"""Machines: numbers that are checked, a host that is measured, GPUs that are known by name."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
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
