"""What the benchmarks measure is right: their schedules are legal, and their programs compute the blur."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "scripts" / "benchmarks"


@pytest.fixture
def blur(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark of the blur, as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("blur")


@pytest.mark.parametrize("schedule", ["tiled", "rows_of_eight"])
@pytest.mark.parametrize("size", [(1, 1), (7, 16), (8, 33), (41, 259)])
def test_a_schedule_of_the_blur_computes_the_blur(blur: ModuleType, schedule: str, size: tuple[int, int]) -> None:
    image = blur.picture(*size)
    across = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) * blur.THIRD
    expected = (across[:-2] + across[1:-1] + across[2:]) * blur.THIRD
    function = getattr(blur, schedule)()
    assert function.check().bits == "bits preserved"
    np.testing.assert_array_equal(function.compile()(image), expected)


def test_the_rows_of_the_blur_are_in_registers(blur: ModuleType) -> None:
    assert "allocate" not in blur.rows_of_eight().source()["blur.c"]


def test_the_cost_of_compiling_is_printed_as_a_table() -> None:
    command = [sys.executable, str(BENCHMARKS / "compile.py"), "--rounds", "1", "--stages", "3", "6"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("|")]
    assert rows[0] == "program"
    assert rows[2:] == ["blur", "3 stages", "6 stages"]


def test_threads_and_memory_on_nodes_are_measured_or_say_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    numa = importlib.import_module("numa")
    monkeypatch.setattr(numa, "SECONDS", 0.0)
    found = dict(numa.rows(small=True))
    assert list(found) == ["matching", "mismatched", "left alone"]
    assert found["matching"] > 0 and found["left alone"] > 0
    farther = found["mismatched"]
    assert farther > 0 if isinstance(farther, float) else "one memory node" in farther
    assert [row[0] for row in numa.lines(list(found.items()))] == list(found)
