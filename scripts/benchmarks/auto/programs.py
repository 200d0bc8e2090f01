"""The stories of `examples/cpu` and `examples/apps`, in three forms: unscheduled, automatic and by hand."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.stories import EXAMPLES, imported

UNSCHEDULED, AUTO, HAND = FORMS = ("unscheduled", "auto", "by hand")
FAST = ("contract",)
ROOMS = ("cpu", "apps")
#: The sizes at which stories are measured that have none of their own.
LARGE = {"cpu": (4000, 4000), "apps": (1600, 2560)}
#: The steps of the story over time are many; a smaller plate.
SIZES = {"heat": (2000, 2000)}
SMALL = {"cpu": ((1, 1), (37, 259)), "apps": ((1, 1), (37, 41))}
#: How far values may be from others: of floating-point numbers, and of integers that are rounded from these.
CLOSE, BESIDE = 1e-5, 1.0
#: The share of values that may be further away at the size measured, where a comparison of rounded numbers decides.
APART = 1e-3
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Program:
    """A story by its room and the name of its file."""

    room: str
    name: str

    @cached_property
    def story(self) -> Any:
        """The module of the story."""
        return imported(EXAMPLES / self.room, self.name, f"{self.room}_")

    @property
    def size(self) -> tuple[int, ...]:
        """The size at which it is measured."""
        found: tuple[int, ...] = getattr(self.story, "LARGE", None) or SIZES.get(self.name, LARGE[self.room])
        return found

    @property
    def small(self) -> tuple[tuple[int, ...], ...]:
        """The sizes at which it is compared with its reference."""
        found: tuple[tuple[int, ...], ...] = getattr(self.story, "SIZES", None) or SMALL[self.room]
        return found

    def algorithm(self) -> tm.Function:
        """The story without commands."""
        made = self.story.algorithm()
        found: tm.Function = made[0] if isinstance(made, tuple) else made
        return found

    def function(self, form: str, threads: int) -> tuple[tm.Function, float]:
        """The story in one of its forms, and the seconds of processor time that its schedule took."""
        f = self.algorithm()
        start = time.process_time()
        if form == AUTO:
            f.auto_schedule(threads=threads)
        elif form == HAND:
            f = self.story.scheduled()
        return f, time.process_time() - start

    def expected(self, given: Mapping[str, Any]) -> list[Array]:
        """The values by NumPy, or by the interpreter of algorithms for a story that has no values of its own."""
        exact = getattr(self.story, "exact", None)
        return several(exact(given) if exact is not None else self.algorithm().evaluate(**given))

    def differs(self, found: Array, right: Array, share: float = 0.0) -> str:
        """How a result is further from others than stated, or an empty text; a share of the values may be."""
        if found.shape != right.shape:
            return f"its shape, {found.shape} rather than {right.shape}"
        close = getattr(self.story, "CLOSE", CLOSE if found.dtype.kind == "f" else BESIDE)
        apart = np.abs(found.astype(np.float64) - right)
        wrong = int(np.count_nonzero(~(apart <= close)))
        if wrong <= max(getattr(self.story, "APART", 0.0), share) * apart.size:
            return ""
        return f"{wrong} of {apart.size} values, by up to {float(np.nanmax(apart, initial=0)):g}"


def several(results: Any) -> list[Array]:
    """The results of a call, whether one or several."""
    return list(results) if isinstance(results, tuple) else [results]


def all_programs() -> dict[str, Program]:
    """The stories by name."""
    files = [(room, file.stem) for room in ROOMS for file in sorted((EXAMPLES / room).glob("*.py"))]
    return {name: Program(room, name) for room, name in files if name != "story"}


def threads_here() -> int:
    """The threads of this process."""
    return int(os.environ["OMP_NUM_THREADS"])
