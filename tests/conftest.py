"""What all tests share: golden texts, and markers that need something of the machine."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).resolve().parent / "golden"
GIB = 2**30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests whose marker asks for what this machine has not are reported as skipped, with the reason."""
    for item in items:
        for reason in _missing(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def _missing(item: pytest.Item) -> list[str]:
    reasons = []
    if item.get_closest_marker("gpu") and not _has_gpu():
        reasons.append("no NVIDIA GPU on this machine")
    memory = item.get_closest_marker("memory")
    if memory and _free_memory() < memory.args[0] * GIB:
        reasons.append(f"needs {memory.args[0]} GiB of free memory")
    return reasons


def _has_gpu() -> bool:
    try:
        return int(ctypes.CDLL("libcuda.so.1").cuInit(0)) == 0
    except OSError:
        return False


def _free_memory() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(text, name)`` compares with ``tests/golden/name``; ``pytest --update-golden`` writes it."""

    def compare(text: str, name: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} does not exist; pytest --update-golden writes it"
        assert text == path.read_text()

    return compare


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT
