"""The identity of this machine's processor, by which probes and measurements are kept."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tiramisu_py.toolchain.compilers.processor import this_machine

DESCRIBED = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model name\t: Some Processor
cpu MHz\t\t: {clock}
cpu cores\t: 2
flags\t\t: fpu {features}

processor\t: 1
"""


def described(monkeypatch: pytest.MonkeyPatch, clock: str, features: str = "avx2") -> str:
    text = DESCRIBED.format(clock=clock, features=features)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_, **__: io.StringIO(text))
        return this_machine()


def test_the_clock_of_the_moment_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert described(monkeypatch, "800.021") == described(monkeypatch, "3400.000")


def test_the_model_and_its_instruction_sets_are(monkeypatch: pytest.MonkeyPatch) -> None:
    found = described(monkeypatch, "800.021")
    assert "model name : Some Processor" in found
    assert "cpu cores : 2" in found
    assert found != described(monkeypatch, "800.021", "avx2 avx512f")
