"""A machine that is pretended: a law of times, and the kernel of the searches' laboratory with three legal points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tiramisu_py as tm
from tests.tuning.search.laboratory import LEGAL, SPACE, make

RANGES = {"N": (4, 64), "M": (4, 256), "K": (4, 64)}
#: A small network for tests.
SMALL = {"hidden": (12,), "epochs": 6}


def law(point: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
    """Wide vectors are faster, but whole vectors are paid for."""
    padded = point["lanes"] * math.ceil(sizes["M"] / point["lanes"])
    return 1e-6 + 2 * sizes["N"] * padded * sizes["K"] / (1e9 * point["lanes"])


def product(folder: Path, **options: Any) -> tm.InputAware:
    """The kernel of the laboratory, with a database in a folder."""
    given = {"database": folder / "samples.sqlite", "timer": law}
    return tm.input_aware(options.pop("make", make), options.pop("space", SPACE), **{**given, **options})


__all__ = ["LEGAL", "RANGES", "SMALL", "SPACE", "law", "make", "product"]
