"""The stories of examples/cpu by name, with what they take at awkward sizes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tiramisu_py as tm

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "cpu"
SIZES = ((1, 1), (2, 15), (8, 16), (9, 65), (23, 130))
OPTIONS: dict[str, list[tuple[Any, ...]]] = {"warp": [(tm.float32,), (tm.uint8,)]}


def stories() -> list[tuple[str, tuple[Any, ...]]]:
    """Names of stories, and what their `scheduled` and `sample` take."""
    names = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "story")
    return [(name, options) for name in names for options in OPTIONS.get(name, [()])]


def module(name: str, folder: Path = FOLDER) -> ModuleType:
    """A story; other folders have modules of the same names."""
    before = dict(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        for each in (name, "story"):
            sys.modules.pop(each, None)
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        for each in (name, "story"):
            sys.modules.pop(each, None)
        sys.modules |= before


def schedules(name: str, options: tuple[Any, ...]) -> Iterator[tm.Function]:
    """The schedule of a story, and others that it tells of."""
    told = module(name)
    for build in [told.scheduled, *getattr(told, "VARIANTS", {}).values()]:
        yield build(*options)


def same(name: str, options: tuple[Any, ...], kernel: tm.Kernel, f: tm.Function) -> None:
    """Whether a compiled story computes what its algorithm says, at all sizes."""
    for rows, columns in SIZES:
        given = module(name).sample(rows, columns, *options)
        found, expected = kernel(**given), f.evaluate(**given)
        for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, expected)), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{name}, {rows} x {columns}")
