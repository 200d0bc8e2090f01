"""The stories of examples/mpi, imported as they are when they are run; tests that need them are skipped without MPI."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mpi.launching import implementations

if not implementations():
    pytest.skip("no MPI on this machine", allow_module_level=True)

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "mpi"
APART = ("story", "photograph", "partitioned")
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in APART)
RANKS = (1, 2, 3, 4, 7)


@functools.cache
def module(name: str) -> ModuleType:
    """A story, under a name that nothing else has."""
    spec = importlib.util.spec_from_file_location(f"rank_story_of_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    before, others = list(sys.path), sys.modules.pop("story", None)
    sys.path.insert(0, str(FOLDER))
    try:
        spec.loader.exec_module(found)
    finally:
        sys.path[:] = before
        sys.modules.pop("story", None)
        if others is not None:
            sys.modules["story"] = others
    return found


def variants() -> Iterator[tuple[str, str]]:
    """Every story with every one of its schedules."""
    for name in NAMES:
        for variant in module(name).VARIANTS:
            yield name, variant
