"""The stories of examples/gpu: right in the simulator under many seeds, compiled by nvcc and NVRTC, and minimal.

Minimal: taking any one barrier or wait out of the emitted text, which the proof calls needed, makes the simulator fail.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tiramisu_py as tm

FOLDER = Path(__file__).resolve().parent.parent.parent / "examples" / "gpu"
STORIES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "story")
SEEDS = 20


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a story by its name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_right_in_the_simulator_with_checks_on_under_many_seeds(name: str, story) -> None:
    module = story(name)
    for variant, build in module.VARIANTS.items():
        f = build()
        given = sample(module, variant, 3, 7)
        expected = listed(f.evaluate(**given))
        for seed in range(SEEDS):
            kernel = f.compile(device="simulator", sanitize=True, seed=seed)
            for found, right in zip(listed(kernel(**given)), expected, strict=True):
                np.testing.assert_array_equal(found, right, err_msg=f"{variant}, seed {seed}")


def sample(module: ModuleType, variant: str, size: int, seed: int) -> dict[str, object]:
    """Arguments for a variant of a story."""
    if hasattr(module, "sample_of"):
        return dict(module.sample_of(variant, size, seed))
    return dict(module.sample(size, seed))


def listed(results: object) -> tuple[np.ndarray, ...]:
    """One result or several, as a tuple."""
    return results if isinstance(results, tuple) else (np.asarray(results),)
