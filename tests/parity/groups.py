"""The groups of TIRAMISU's tests, as they are registered by the modules of this folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Group:
    """Tests of TIRAMISU by their numbers, what they are about, our words for it, and our test."""

    numbers: str
    feature: str
    words: str
    run: Callable[[], None]

    @property
    def first(self) -> tuple[int, str]:
        """What groups are sorted by: the first number."""
        found = re.match(r"\d+", self.numbers)
        return (int(found.group()), self.numbers) if found else (1000, self.numbers)


GROUPS: list[Group] = []


def group(numbers: str, feature: str, words: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function as the test of a group."""

    def registered(run: Callable[[], None]) -> Callable[[], None]:
        GROUPS.append(Group(numbers, feature, words, run))
        return run

    return registered


def right(f: tm.Function, wanted: Any, *given: Any, close: float = 0.0, **options: Any) -> None:
    """The compiled function returns what is wanted; `options` are sizes, and those of `compile`."""
    sizes = {name: options.pop(name) for name in list(options) if name in f.algorithm.params}
    found = f.compile(**options)(*given, **sizes)
    results = found if isinstance(found, tuple) else (found,)
    for result, value in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        if close:
            np.testing.assert_allclose(result, value, rtol=close)
        else:
            np.testing.assert_array_equal(result, value)


def refused(f: tm.Function, kind: str) -> None:
    """The proof refuses the function for a reason of this kind."""
    report = f.check()
    assert not report.ok
    assert kind in {violation.kind for violation in report.violations}, str(report)


def unaccepted(command: Callable[[], object], said: str) -> None:
    """A command is refused at once, with these words."""
    with pytest.raises(tm.CommandError, match=said):
        command()


def numbers(*shape: int, dtype: str = "int32", seed: int = 0) -> Array:
    """Small random numbers."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def grid(rows: int, columns: int) -> tuple[Array, Array]:
    """The indices i and j of each point."""
    i, j = np.mgrid[:rows, :columns]
    return i, j


def ordered(groups: Sequence[Group]) -> list[Group]:
    """The groups by their first numbers."""
    return sorted(groups, key=lambda each: each.first)
