"""The stories of examples/linear: their other types and schedules, compared with NumPy at awkward sizes."""

from __future__ import annotations

from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from tests.programs import cpu_stories

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "linear"
Options = dict[str, Any]


def others() -> list[tuple[str, Options]]:
    """Names of stories, and what their `scheduled` and `sample` take besides the sizes, other than by default."""
    names = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "story")
    return [(name, options) for name in names for options in getattr(cpu_stories.module(name, FOLDER), "OTHERS", [])]


def same(name: str, options: Options) -> None:
    """Compare a compiled story with NumPy at all its sizes, on two threads."""
    told, story = cpu_stories.module(name, FOLDER), cpu_stories.module("story", FOLDER)
    kernel = told.scheduled(**options).compile(fast=story.FAST, threads=2)
    of_exact = {name: value for name, value in options.items() if name in signature(told.exact).parameters}
    for size in told.SIZES:
        story.compare(kernel, told.sample(*size, **options), partial(told.exact, **of_exact))
