"""The apps of `examples/apps`, and the programs that `scripts/bench apps` compares: ours, Halide's and OpenCV's."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apps import opencv
from benchmarks.common.stories import EXAMPLES, imported

HERE = Path(__file__).resolve().parent
APPS, IN_HALIDE = EXAMPLES / "apps", HERE / "halide"
OURS, HALIDE, OPENCV = "tiramisu_py", "Halide", "OpenCV"
PACKAGES = {HALIDE: "halide", OPENCV: "cv2"}
Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[], object]


@dataclass(frozen=True)
class App:
    """An app by the name of its file."""

    name: str

    @cached_property
    def story(self) -> Any:
        """The app itself."""
        return imported(APPS, self.name)

    @property
    def title(self) -> str:
        """The first sentence of the app about itself."""
        return str(self.story.__doc__).split("\n\n")[0].replace("\n", " ").rstrip(".")

    @property
    def size(self) -> tuple[int, ...]:
        """The size at which it is measured: its own, or that of most apps."""
        found: tuple[int, ...] = getattr(self.story, "LARGE", None) or imported(APPS, "story").LARGE
        return found

    @property
    def contenders(self) -> list[str]:
        """The programs that take part, ours first; those whose packages are missing are left out."""
        peers = [HALIDE] if (IN_HALIDE / f"{self.name}.py").exists() else []
        peers += [OPENCV] if self.name in opencv.PROGRAMS else []
        absent = missing()
        return [OURS, *(peer for peer in peers if peer not in absent)]

    def close(self, contender: str) -> float:
        """How far a program's values may be from exact ones."""
        own: float = self.story.CLOSE
        if contender == HALIDE:
            return float(getattr(self.in_halide, "CLOSE", own))
        return opencv.CLOSE.get(self.name, own) if contender == OPENCV else own

    @cached_property
    def in_halide(self) -> Any:
        """The module with the app in Halide."""
        return imported(IN_HALIDE, self.name, "halide_")

    def differs(self, found: Array, exact: Array, contender: str) -> str:
        """How a result is further from exact values than stated, or an empty text.

        An app that chooses by rounded values says which share of its values may differ (`APART`).
        """
        if found.shape != exact.shape:
            return f"its shape, {found.shape} rather than {exact.shape}"
        apart = np.abs(found.astype(np.float64) - exact.astype(np.float64))
        wrong = int(np.count_nonzero(~(apart <= self.close(contender))))
        if wrong <= getattr(self.story, "APART", 0.0) * apart.size:
            return ""
        return f"{wrong} of {apart.size} values, by up to {float(np.nanmax(apart, initial=0)):g}"


def all_apps() -> dict[str, App]:
    """The apps by name."""
    return {file.stem: App(file.stem) for file in sorted(APPS.glob("*.py")) if file.stem != "story"}


def missing() -> list[str]:
    """The peers that are not installed."""
    return [peer for peer, package in PACKAGES.items() if importlib.util.find_spec(package) is None]


def peer(app: App, contender: str, given: Mapping[str, Any], out: Array, threads: int) -> Run:
    """A call of the app in Halide or in OpenCV."""
    library = importlib.import_module(PACKAGES[contender])
    if contender == HALIDE:
        run: Run = app.in_halide.program(library, given, out)
        return run
    library.setNumThreads(threads)
    return opencv.PROGRAMS[app.name](library, given, out)
